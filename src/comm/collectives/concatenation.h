// Pieces of a group's shards, side by side, which all_gather, all_to_all and shard_slice share.
#pragma once

#include <cstddef>

#include "comm/collectives/collective.h"

namespace shoal::collectives {

/// Which part of each operand's shard goes into a shard of the result.
enum class Pieces : bool {
  kWhole,  ///< All of it.
  kSplit,  ///< The range of a dimension that is the receiver's if its group splits the dimension.
};

/// The shards of `result`: of each operand in the group of `senders`, the piece along `range_dim` for the receiver,
/// concatenated along `dim` in the order of the group.
CollectivePtr concatenation(const ShardShapes& in, ShardShapes result, const Groups& senders, const Groups& receivers,
                            std::size_t dim, std::size_t range_dim, Pieces pieces);

}  // namespace shoal::collectives
