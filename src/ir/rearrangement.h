// How elements change places along a dimension: the common form of slice, reverse, pad, concatenate and roll, and of
// windows that move along it, from which the exchange between shards follows when the dimension is split.
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

/// How windows move along a dimension of an array, of which shards then need more than their part. Numbered are the
/// places of the window or, where these are summed over, the positions in it. Number p covers `covers` steps from
/// p * stride - low on; elements of the array are `base` steps apart, and the first is at 0.
struct Windows {
  std::int64_t numbers = 0;  ///< How many there are.
  std::int64_t stride = 1;
  std::int64_t low = 0;
  std::int64_t covers = 1;
  std::int64_t base = 1;
  friend bool operator==(const Windows&, const Windows&) = default;

  /// The elements that a range of numbers covers. They may lie outside the array.
  Extent elements_of(const Extent& range) const;
  /// The most elements that n numbers cover, which must be at least one.
  std::int64_t most_elements(std::int64_t n) const { return ((n - 1) * stride + covers - 1) / base + 1; }
};

/// What the device at `position` gets of an array of `extent`, when `atoms` split both the array and the numbers:
/// in_start counts from the beginning of the array, out_start from the first element that it needs, inside of the array
/// or not.
Run halo_run(const Grid& grid, const Atoms& atoms, const Windows& windows, std::int64_t extent, std::int64_t position);

/// The elements along the dimension that a device gets from others then, on average.
double received_elements(const Grid& grid, const Atoms& atoms, const Windows& windows, std::int64_t extent);

/// The padding before what the shard of an op holds whose numbers begin with `start`, if `low` is that of the first
/// shard, which begins with an element: less than `base`, as the others begin with one, too.
inline std::int64_t low_of_shard(std::int64_t low, std::int64_t base, std::int64_t stride, std::int64_t start) {
  return start == 0 ? low : (((low - start * stride) % base) + base) % base;
}

/// As an attribute: the numbers in the order of the struct's members.
Dims to_dims(const Windows& windows);
Windows windows_of(const Dims& dims);

/// Runs as an attribute: six numbers each, in the order of the struct's members.
Dims to_dims(const std::vector<Run>& runs);
std::vector<Run> runs_of(const Dims& dims);

/// The part of a result's positions along a dimension of `extent` that lie on another device than their source, when
/// `atoms` split the dimension of the result and of the operands, whose extents are `operand_extents`.
double received_share(const Grid& grid, const Atoms& atoms, std::span<const Run> runs,
                      std::span<const std::int64_t> operand_extents, std::int64_t extent);

}  // namespace shoal
