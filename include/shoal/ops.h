// The functions of jax.ops: reductions over segments.
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
Array segment_sum(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});
Array segment_prod(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                   const OutSharding& out_sharding = {});
Array segment_max(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});
Array segment_min(const Operand& data, const Operand& segment_ids, std::optional<std::int64_t> num_segments = {},
                  const OutSharding& out_sharding = {});

}  // namespace shoal::ops
