// The device's piece, along a dimension that its group splits, of what all_reduce gives.
#include <cstddef>
#include <utility>
#include <vector>

#include "comm/collectives/reduction.h"
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr reduce_scatter(const Context& context) {
  const ShardShapes& in = context.in();
  const Groups& groups = context.groups;
  const std::size_t dim = context.dim("dim");
  if (context.atoms().empty()) return unchanged(in, context.wanted);
  ShardShapes result = shapes_of_pieces(in, context.wanted, groups, dim);
  std::vector<Runs> runs;
  for (std::int64_t shard = 0; shard < result.count(); ++shard) {
    const std::int64_t position = result.position_of(shard);
    const Shape& whole = in.shape_at(position);
    const Extent mine = groups.extent(whole[dim], position);
    const std::size_t unit = unit_of(whole, dim, in.dtype);
    runs.push_back({.offset = static_cast<std::size_t>(mine.start) * unit,
                    .outer = product(whole, 0, dim),
                    .run = mine.size * product(whole, dim + 1, whole.size()),
                    .stride = static_cast<std::size_t>(whole[dim]) * unit});
  }
  return reduction(in, std::move(result), groups, context.kind(), std::move(runs));
}

}  // namespace shoal::collectives
