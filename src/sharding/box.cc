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

std::vector<Box> chunks_of(const Shape& shape, std::int64_t elements) {
  if (num_elements(shape) == 0) return {};
  // The first dimension of which a chunk has several positions; it has one of those before, and all after it.
  std::size_t cut = 0;
  std::int64_t below = num_elements(shape);
  while (cut < shape.size()) {
    below /= shape[cut];
    if (below <= elements) break;
    ++cut;
  }
  std::vector<Box> chunks;
  if (cut == shape.size()) return {{Dims(), Shape()}};  // A scalar.
  const std::int64_t step = elements / below;
  Dims start(shape.size(), 0);
  while (true) {
    Box& chunk = chunks.emplace_back(Box{start, shape});
    for (std::size_t d = 0; d < cut; ++d) chunk.extents[d] = 1;
    chunk.extents[cut] = std::min(step, shape[cut] - start[cut]);
    start[cut] += step;
    for (std::size_t d = cut; start[d] >= shape[d];) {
      if (d == 0) return chunks;
      start[d] = 0;
      ++start[--d];
    }
  }
}

}  // namespace shoal
