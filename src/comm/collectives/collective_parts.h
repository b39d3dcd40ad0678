// What collectives are made of: tiles, groups of shards, runs of elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/collectives/local_collectives.h"

namespace shoal::local {

/// What a tile writes, about: much more than it takes to begin one, and less than a core's own cache holds.
inline constexpr std::size_t kTileBytes = std::size_t{128} << 10;

/// The tiles of so many bytes.
inline std::int64_t parts_of(std::size_t bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>((bytes + kTileBytes - 1) / kTileBytes));
}

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
  Teams() = default;
  Teams(const ShardShapes& in, const ShardShapes& result, const Groups& groups, bool in_device_order = false) {
    std::vector<std::int32_t> team_at(static_cast<std::size_t>(result.grid->num_devices()), -1);
    for (std::int64_t shard = 0; shard < result.count(); ++shard) {
      const std::int64_t position = result.position_of(shard);
      std::int32_t& team = team_at[static_cast<std::size_t>(groups.first(position))];
      if (team < 0) {
        team = static_cast<std::int32_t>(begins_.size());
        begins_.push_back(shards_.size());
        std::vector<std::int64_t> members = groups.members(position);
        if (in_device_order) std::ranges::sort(members);
        for (std::int64_t member : members) shards_.push_back(static_cast<std::int32_t>(in.shard_at(member)));
      }
      team_of_.push_back(team);
    }
    begins_.push_back(shards_.size());
  }

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

}  // namespace shoal::local
