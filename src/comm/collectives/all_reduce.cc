// The reduction over the group, for all of its devices (comm/collectives/reduction.h has the order).
#include <cstddef>
#include <utility>
#include <vector>

#include "comm/collectives/reduction.h"
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr all_reduce(const Context& context) {
  const ShardShapes& in = context.in();
  if (context.atoms().empty()) return unchanged(in, context.wanted);
  ShardShapes result = shapes_of(in.grid, context.groups.joined(in.varying) & context.wanted, in.dtype, in.even(),
                                 [&](std::int64_t position) { return in.shape_at(position); });
  std::vector<Runs> runs;
  for (const Shape& shape : result.shapes) {
    const std::int64_t elements = num_elements(shape);
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(in.dtype);
    runs.push_back({.offset = 0, .outer = 1, .run = elements, .stride = bytes});
  }
  return reduction(in, std::move(result), context.groups, context.kind(), std::move(runs));
}

}  // namespace shoal::collectives
