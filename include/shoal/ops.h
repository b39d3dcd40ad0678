// The functions of jax.ops: reductions over segments.
//
// @param data The items, along the first dimensions.
// @param segment_ids Integers: which segment each item is in.
// @param num_segments How many segments there are.
// @param out_sharding How Explicit axes split the result.
// @return An array whose first dimension is that of the segments, of the dtype of `data`.
#pragma once

#include <cstdint>
#include <optional>

#include "shoal/array.h"

namespace shoal::ops {

/// Item i of the result is the reduction of those items data[j] whose segment_ids[j] is i; ids outside count nowhere.
/// An empty segment gives what changes nothing: 0, 1, or the least or greatest number.
///
/// The dimensions of segment_ids are the first ones of data. Without num_segments there are as many as the greatest id
/// needs, which a traced one does not tell: it throws InvalidState. Where Explicit axes split the items, `out_sharding`
/// says how they split the result. Throws TypeMismatch for ids that are not integers,
/// and InvalidArgument for shapes that do not fit.
/// @example ops::segment_sum(array({1, 2, 3}), array({0, 0, 1}), 2)
///   [3 3]
Array segment_sum(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});
/// The product of the items of each segment; 1 of none. As segment_sum.
Array segment_prod(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                   const OutSharding& out_sharding = {});
/// The greatest of the items of each segment. As segment_sum.
Array segment_max(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});
/// The least of the items of each segment. As segment_sum.
Array segment_min(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});

}  // namespace shoal::ops
