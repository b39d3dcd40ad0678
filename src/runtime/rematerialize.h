// Where memory is short: other orders of a program's steps, and values that are computed again where they are needed,
// instead of being kept.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "runtime/executable.h"

namespace shoal {

/// An executable, and what was done so that it takes less memory.
struct LeanExecutable {
  std::unique_ptr<Executable> executable;
  bool is_reordered = false;
  std::size_t recomputed = 0;  ///< Equations that compute something a second time.
};

/// An executable with the same outputs, to the bit, whose launch_bytes() are at most `room`; if none is found, that
/// with the fewest that was. `make` makes executables of graphs.
///
/// Equations are only moved and repeated: those that change nothing but memory of their own. Collectives and effects
/// keep their order, so that processes may decide differently. The time this takes is bounded by a number of equations
/// that are planned, not by a clock: equal programs get equal plans.
LeanExecutable rematerialize(std::unique_ptr<Executable> executable, std::size_t room,
                             FunctionRef<std::unique_ptr<Executable>(Graph)> make);

/// What it takes to compute a value again before its next use.
struct Repetition {
  ValueId value;
  std::size_t eqns = 0;        ///< That run again.
  double cost = 0;             ///< The bytes that could be moved in the time that this takes.
  std::size_t kept_bytes = 0;  ///< Of what would have to be there for longer.
  std::string obstacle = {};   ///< Why it cannot be, if so.
};

/// Of each value that has a later use at the step where most is held.
std::vector<Repetition> repetitions(const Schedule& schedule);

}  // namespace shoal
