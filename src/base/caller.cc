#include "base/caller.h"

namespace shoal {

constinit thread_local const Caller* Caller::outermost_ = nullptr;

}  // namespace shoal
