#include "base/caller.h"

namespace shoal {

constinit thread_local const Caller* Caller::outermost_ = nullptr;
constinit thread_local int Caller::depth_ = 0;

}  // namespace shoal
