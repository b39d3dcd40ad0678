// Results whose shards are shards of the operand, as they are: nothing moves, unless between processes.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "comm/collectives/collective.h"

namespace shoal::collectives {

/// The result, varying over `varying`, whose shard at each position is the operand's at source_of(position), or zeros
/// where that is negative.
CollectivePtr renaming(const ShardShapes& in, AtomSet varying,
                       FunctionRef<std::int64_t(std::int64_t position)> source_of);

/// The operand as it is.
CollectivePtr unchanged(const ShardShapes& in, AtomSet wanted);

}  // namespace shoal::collectives
