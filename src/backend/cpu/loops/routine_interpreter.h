// The tier of routines that needs no compiler: operations on single elements, one after the other.
#pragma once

#include <memory>

#include "backend/cpu/loops/loop.h"
#include "backend/cpu/loops/routine.h"

namespace shoal::cpu {

/// A runner that is ready at once.
std::unique_ptr<LoopRunner> interpret_routine(const Routine& routine);

}  // namespace shoal::cpu
