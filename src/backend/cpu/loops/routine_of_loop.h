// Which loops are routines: those whose bodies work on scalars, and on elements of arrays that lie in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backend/cpu/loops/routine.h"
#include "ir/graph.h"

namespace shoal::cpu {

struct RoutinePlan {
  Routine routine;
  /// Of each of its arrays: the number of an argument of the body, or, after these, of a yield that is no carry.
  std::vector<std::size_t> operands;
  double steps = 0;             ///< Of a trip, about.
  bool goes_on_freely = false;  ///< Whether a trip may take any time: some loop in it goes round as often as it likes.
};

/// The routine of a loop whose fused body yields its first `carries` arguments first; with a condition, that is asked
/// before each trip. Branches and loops in the body are part of it. Nothing if the body does something else than a
/// routine can.
std::optional<RoutinePlan> routine_of_loop(const Graph& body, const Graph* condition, std::size_t carries);

}  // namespace shoal::cpu
