// The shard of the device at `source` along the axes, for all of them.
#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr pbroadcast(const Context& context) {
  const ShardShapes& in = context.in();
  const auto source = context.attrs.get<std::int64_t>("source");
  return renaming(in, (in.varying - AtomSet(context.atoms())) & context.wanted,
                  [&](std::int64_t position) { return in.grid->with_index_along(position, context.atoms(), source); });
}

}  // namespace shoal::collectives
