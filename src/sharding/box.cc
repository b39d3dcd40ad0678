#include "sharding/box.h"

#include <algorithm>

namespace shoal {

Box Box::of(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position) {
  return {shard_start(grid, global, placement, position), local_shape(grid, global, placement, position)};
}

std::optional<Box> overlap(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    const std::int64_t begin = std::max(a.start[d], b.start[d]);
    const std::int64_t end = std::min(a.start[d] + a.extents[d], b.start[d] + b.extents[d]);
    if (end <= begin) return std::nullopt;
    both.start.push_back(begin);
    both.extents.push_back(end - begin);
  }
  return both;
}

Dims start_in(const Box& box, const Box& part) {
  Dims start = part.start;
  for (std::size_t d = 0; d < start.size(); ++d) start[d] -= box.start[d];
  return start;
}

}  // namespace shoal
