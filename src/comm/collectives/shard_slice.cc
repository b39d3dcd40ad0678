// The device's own piece of its operand, along a dimension that its group splits.
#include <cstddef>
#include <utility>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/concatenation.h"
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr shard_slice(const Context& context) {
  const ShardShapes& in = context.in();
  const Groups& receivers = context.groups;
  const std::size_t dim = context.dim("dim");
  if (context.atoms().empty()) return unchanged(in, context.wanted);
  ShardShapes result = shapes_of_pieces(in, context.wanted, receivers, dim);
  return concatenation(in, std::move(result), Groups(in.grid, {}), receivers, dim, dim, Pieces::kSplit);
}

}  // namespace shoal::collectives
