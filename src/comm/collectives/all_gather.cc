// The shards of the group, concatenated along a dimension in the order of the group.
#include <cstddef>
#include <utility>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/concatenation.h"
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr all_gather(const Context& context) {
  const ShardShapes& in = context.in();
  const Groups& groups = context.groups;
  const std::size_t dim = context.dim("dim");
  if (context.atoms().empty()) return unchanged(in, context.wanted);
  ShardShapes result =
      shapes_of(in.grid, groups.joined(in.varying) & context.wanted, in.dtype, in.even(), [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        shape[dim] = 0;
        for (std::int64_t member : groups.members(position)) shape[dim] += in.shape_at(member)[dim];
        return shape;
      });
  return concatenation(in, std::move(result), groups, groups, dim, dim, Pieces::kWhole);
}

}  // namespace shoal::collectives
