// What a run of a program takes of memory, told to its author.
#pragma once

#include <string>

#include "runtime/executable.h"

namespace shoal {

/// The first line has the sum, which is launch_bytes() and the arguments. Then comes each value that is held at the
/// step where most is, with what is next done with it, and what it costs to compute it again before that, or why that
/// cannot be; what else the arena has; and the outputs. Of a loop or branch the same is told of the inside, indented:
/// those bytes are part of its scratch memory.
std::string explain_memory(const Executable& executable);

}  // namespace shoal
