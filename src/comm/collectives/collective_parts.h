// What collectives are made of: shapes and parts of shards, tiles, the shards of a group, runs of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "comm/collectives/collective.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/groups.h"

namespace shoal::collectives {

/// The shards of a result that varies over `varying`, whose shape at each device's position shape_at(position) tells.
/// It is asked once if all shards are known to be `even`.
ShardShapes shapes_of(const GridPtr& grid, AtomSet varying, Dtype dtype, bool even,
                      FunctionRef<Shape(std::int64_t position)> shape_at);

/// Those of the pieces along `dim` that the devices of each group divide a shard into.
ShardShapes shapes_of_pieces(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim);

/// The bytes of all shards together, and of the largest one.
std::size_t total_bytes(const ShardShapes& shapes);
std::size_t most_bytes(const ShardShapes& shapes);

/// The product of the extents of the dimensions begin … end - 1.
std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end);

/// Bytes of what lies next to each other at one index of a dimension.
std::size_t unit_of(const Shape& shape, std::size_t dim, Dtype dtype);

/// The part of an array that is a range of one of its dimensions.
Region range_region(const Shape& shape, Dtype dtype, std::size_t dim, const Extent& range);

/// A whole shard of an operand.
Need whole_need(const ShardShapes& in, std::int64_t shard, std::size_t operand = 0);

/// What a tile writes, about: much more than it takes to begin one, and less than a core's own cache holds.
inline constexpr std::size_t kTileBytes = std::size_t{128} << 10;

/// The tiles of so many bytes.
std::int64_t parts_of(std::size_t bytes);

/// All of a shard, or a range of one of its dimensions: `outer` runs of elements, `stride` bytes apart in the operands,
/// the first `offset` bytes after their beginning.
struct Runs {
  std::size_t offset;
  std::int64_t outer;
  std::int64_t run;
  std::size_t stride;
};

/// For each shard of a result, the operand's shards of the group that it is made from. Each group is listed once.
class Teams {
 public:
  /// The shards are in the order of the group, or in that of the devices in the grid.
  Teams(const ShardShapes& in, const ShardShapes& result, const Groups& groups, bool in_device_order = false);

  std::span<const std::int32_t> of(std::int64_t shard) const { return members(number_of(shard)); }

  /// How many groups there are, the number of that of a shard, and what each is made from.
  std::size_t count() const { return begins_.size() - 1; }
  std::size_t number_of(std::int64_t shard) const {
    return static_cast<std::size_t>(team_of_[static_cast<std::size_t>(shard)]);
  }
  std::span<const std::int32_t> members(std::size_t team) const {
    return {shards_.data() + begins_[team], shards_.data() + begins_[team + 1]};
  }

 private:
  std::vector<std::int32_t> shards_;
  std::vector<std::size_t> begins_;
  std::vector<std::int32_t> team_of_;
};

}  // namespace shoal::collectives
