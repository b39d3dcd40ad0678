// The shard of the device at sources[i] along the axes becomes that of targets[i]; the others get zeros.
#include <cstddef>
#include <vector>

#include "comm/collectives/renaming.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

CollectivePtr collective_permute(const Context& context) {
  const ShardShapes& in = context.in();
  const Grid& grid = *in.grid;
  const Dims& sources = context.attrs.get<Dims>("sources");
  const Dims& targets = context.attrs.get<Dims>("targets");
  std::vector<std::int64_t> source_of(static_cast<std::size_t>(grid.size_of(context.atoms())), -1);
  for (std::size_t i = 0; i < targets.size(); ++i) source_of[static_cast<std::size_t>(targets[i])] = sources[i];
  return renaming(in, (in.varying | AtomSet(context.atoms())) & context.wanted, [&](std::int64_t position) {
    const std::int64_t source = source_of[static_cast<std::size_t>(grid.index_along(position, context.atoms()))];
    return source < 0 ? source : grid.with_index_along(position, context.atoms(), source);
  });
}

}  // namespace shoal::collectives
