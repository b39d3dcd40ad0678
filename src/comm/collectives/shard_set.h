// The data of one value: a buffer for each distinct shard.
#pragma once

#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "core/buffer.h"
#include "sharding/placement.h"

namespace shoal {

/// One buffer for each combination of coordinates along the atoms over which the value varies, in row-major order of
/// the sorted atoms. Devices that differ only along other atoms share a buffer. Those that no device of this process
/// holds are empty.
struct ShardSet {
  GridPtr grid;
  AtomSet varying;
  std::vector<Buffer> shards;

  static ShardSet make(GridPtr grid, AtomSet varying) {
    const std::int64_t count = grid->size_of(varying);
    return {std::move(grid), varying, std::vector<Buffer>(static_cast<std::size_t>(count))};
  }
  /// The same data with a shard for each combination along `atoms` too; equal ones share their buffer.
  ShardSet widened_to(AtomSet atoms) const {
    if (atoms == varying) return *this;
    ShardSet wide = make(grid, varying | atoms);
    for (std::size_t i = 0; i < wide.shards.size(); ++i) wide.shards[i] = at(wide.position_of(i));
    return wide;
  }
  /// The data of the devices at coordinate 0 along every atom but `atoms`, for all: what remains when the others are
  /// known to hold the same.
  ShardSet narrowed_to(AtomSet atoms) const {
    ShardSet narrow = make(grid, atoms);
    for (std::size_t i = 0; i < narrow.shards.size(); ++i) narrow.shards[i] = at(narrow.position_of(i));
    if (grid->is_local()) return narrow;
    // Of devices of other processes nothing is here; but these hold the same.
    for (std::size_t i = 0; i < shards.size(); ++i) {
      Buffer& held = narrow.shards[static_cast<std::size_t>(grid->distinct_index(position_of(i), atoms))];
      if (!held) held = shards[i];
    }
    return narrow;
  }
  /// The shard of the device at a position of the grid.
  const Buffer& at(std::int64_t position) const {
    return shards[static_cast<std::size_t>(grid->distinct_index(position, varying))];
  }
  /// A position that holds the given shard.
  std::int64_t position_of(std::size_t shard) const {
    return grid->representative(varying, static_cast<std::int64_t>(shard));
  }
  /// One that this process holds, if there is any.
  const Buffer* any() const {
    if (grid->is_local()) return &shards[0];
    const HeldShards& held = grid->held(varying);
    return held.shards.empty() ? nullptr : &shards[static_cast<std::size_t>(held.shards[0])];
  }
};

/// What is known of a value's distinct shards before there is data. Numbered like those of a ShardSet.
struct ShardShapes {
  GridPtr grid;
  AtomSet varying;
  Dtype dtype = Dtype::kF32;
  std::vector<Shape> shapes;  ///< One for all, or one for each.

  std::int64_t count() const { return grid->size_of(varying); }
  bool even() const { return shapes.size() == 1; }
  const Shape& shape(std::int64_t shard) const { return shapes[even() ? 0 : static_cast<std::size_t>(shard)]; }
  const Shape& shape_at(std::int64_t position) const { return shape(shard_at(position)); }
  std::size_t bytes(std::int64_t shard) const {
    return static_cast<std::size_t>(num_elements(shape(shard))) * size_of(dtype);
  }
  /// Whether a device of this process holds it.
  bool is_held(std::int64_t shard) const { return grid->is_local() || grid->held(varying).has(shard); }
  /// How many are.
  std::int64_t count_held() const {
    return grid->is_local() ? count() : static_cast<std::int64_t>(grid->held(varying).shards.size());
  }
  std::int64_t shard_at(std::int64_t position) const { return grid->distinct_index(position, varying); }
  std::int64_t position_of(std::int64_t shard) const { return grid->representative(varying, shard); }
};

/// Calls body(i) for each shard of a step, on the thread pool unless all of them together have so few elements that
/// waking threads would take longer than the work.
void for_each_shard(std::int64_t shards, std::int64_t elements, FunctionRef<void(std::int64_t)> body);

}  // namespace shoal
