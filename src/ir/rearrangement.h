// How elements change places along a dimension: the common form of slice, reverse, pad, concatenate and roll, from
// which the exchange between shards follows when the dimension is split.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/attrs.h"
#include "sharding/placement.h"
#include "shoal/shape.h"

namespace shoal {

/// A run of elements: for i below `count`, position out_start + i * out_step of the result's dimension holds position
/// in_start + i * in_step of the operand's. Steps of operands may be negative, those of results not.
struct Run {
  std::int64_t operand = 0;
  std::int64_t count = 0;
  std::int64_t in_start = 0;
  std::int64_t in_step = 1;
  std::int64_t out_start = 0;
  std::int64_t out_step = 1;
  friend bool operator==(const Run&, const Run&) = default;

  /// The range of i, as [first, last), for which start + i * step lies in [begin, end).
  static std::pair<std::int64_t, std::int64_t> within(std::int64_t start, std::int64_t step, std::int64_t count,
                                                      std::int64_t begin, std::int64_t end);
};

/// What an op does along one dimension. Positions of the result that no run covers hold the op's fill value.
struct Rearrangement {
  std::vector<Run> runs;
  /// The operands whose elements move, in order; a run's `operand` counts in this list.
  std::vector<std::size_t> operands = {0};
  /// The operand, a scalar, that fills the rest of the result.
  std::optional<std::size_t> fill = {};
  /// The attributes under which the op leaves this dimension alone, its first operand being the rearranged one; nothing
  /// if the op does no more than this.
  std::optional<Attrs> rest = {};
};

/// Runs as an attribute: six numbers each, in the order of the struct's members.
Dims to_dims(const std::vector<Run>& runs);
std::vector<Run> runs_of(const Dims& dims);

/// The part of a result's positions along a dimension of `extent` that lie on another device than their source, when
/// `atoms` split the dimension of the result and of the operands, whose extents are `operand_extents`.
double received_share(const Grid& grid, const Atoms& atoms, std::span<const Run> runs,
                      std::span<const std::int64_t> operand_extents, std::int64_t extent);

}  // namespace shoal
