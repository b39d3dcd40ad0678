// What a program was estimated to take and what it took, told to its author.
#pragma once

#include <string>

#include "runtime/executable.h"

namespace shoal {

/// A line for each step that ran: the estimate of a launch (spmd/cost.h), what it took on average in this process, the
/// user's line, and the op with those that are fused into it. The inside of loops and branches follows, indented, each
/// step with all its runs in a launch. The first line has the number of launches that were measured, while a trace was
/// recorded, and their mean; the text is empty if there was none.
std::string explain_times(const Executable& executable);

}  // namespace shoal
