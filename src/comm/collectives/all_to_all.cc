// Pieces along `split_dim` from all devices of the group, concatenated along `concat_dim`.
#include <cstddef>
#include <utility>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/concatenation.h"
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr all_to_all(const Context& context) {
  const ShardShapes& in = context.in();
  const Groups& groups = context.groups;
  const std::size_t split_dim = context.dim("split_dim");
  const std::size_t concat_dim = context.dim("concat_dim");
  if (context.atoms().empty()) return unchanged(in, context.wanted);
  ShardShapes result =
      shapes_of(in.grid, groups.split(in.varying) & context.wanted, in.dtype, false, [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        std::int64_t joined = 0;
        for (std::int64_t member : groups.members(position)) {
          Shape piece = in.shape_at(member);
          piece[split_dim] = groups.extent(piece[split_dim], position).size;
          joined += piece[concat_dim];
        }
        shape[split_dim] = groups.extent(shape[split_dim], position).size;
        shape[concat_dim] = joined;
        return shape;
      });
  return concatenation(in, std::move(result), groups, groups, concat_dim, split_dim, Pieces::kSplit);
}

}  // namespace shoal::collectives
