// The tier of fused loops that needs no compiler: precompiled primitives, run one after the other on blocks of columns
// that stay in the first-level cache. For small arrays, and until compiled code is there.
#pragma once

#include <memory>

#include "backend/cpu/loops/loop.h"

namespace shoal::cpu {

/// A runner that is ready at once. It allocates nothing when it runs, unless the loop keeps hundreds of values at a
/// time. Throws InternalError if a node applies an operation to a dtype on which it is not defined.
std::unique_ptr<LoopRunner> interpret_loop(const Loop& loop);

}  // namespace shoal::cpu
