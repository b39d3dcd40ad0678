// Loops that end when their values say so, and their derivative in reverse: of the states that a loop went through some
// are kept, and the others computed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "shoal/array.h"

namespace shoal::detail {

class CheckpointedLoop {
 public:
  /// A loop of a condition and a body, whose first arguments are carries.
  CheckpointedLoop(std::vector<GraphAttr> graphs, std::size_t carries);

  /// The carries in the end.
  std::vector<Array> run(const std::vector<Array>& operands) const;
  /// The same with a derivative in reverse that keeps so many states. Throws InvalidArgument if that is less than 1,
  /// and Unsupported if devices may run the loop a different number of times.
  std::vector<Array> differentiable(const std::vector<Array>& operands, std::int64_t max_checkpoints) const;

 private:
  std::vector<GraphAttr> graphs_;
  std::size_t carries_;
};

}  // namespace shoal::detail
