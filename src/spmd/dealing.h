// Dimensions of several factors of which a minor one is split and the major ones are not: the rows of a batch, say,
// that become microbatches whose rows are split. No placement of the whole says that, but its shards have the right
// sizes already; one exchange along the dimension deals each of them its part of every microbatch.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/rearrangement.h"
#include "spmd/factors.h"

namespace shoal {

/// What brings a dimension from the order of the whole into that in which shards have their parts of a minor factor,
/// one major index after the other.
struct Dealing {
  std::size_t dim;
  std::int64_t extent;
  Atoms atoms;
  std::vector<Run> runs;

  /// The way back.
  Dealing inverse() const;
};

/// The dealings that a tensor needs whose factors are split like this; none where its placement says it. Nothing if
/// factors are split in any other way: then it cannot lie so.
std::optional<std::vector<Dealing>> dealings_of(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                                                const FactorAxes& axes);

}  // namespace shoal
