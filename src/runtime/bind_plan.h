// What a memory plan means for the launches of a schedule.
#pragma once

#include "runtime/schedule.h"

namespace shoal {

/// Finds which pointers a launch sets, when it makes buffers and lets go of inputs, and where its outputs are found.
/// Leaves the steps that have something to do. `schedule` has its plan, and a step for each equation.
void bind_plan(Schedule& schedule);

}  // namespace shoal
