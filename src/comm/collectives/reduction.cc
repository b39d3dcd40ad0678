#include "comm/collectives/reduction.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "comm/collectives/process_reduction.h"
#include "comm/collectives/tree_reduction.h"
#include "comm/transport/box_copy.h"

namespace shoal::collectives {
namespace {

// Over the devices of one process.
class Reduction final : public Collective {
 public:
  // Of whole shards, or of runs of their elements.
  Reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind, std::vector<Runs> runs)
      : Collective(std::move(result)),
        teams_(in, result_, groups, true),
        reduce_(tree_reduction(kind, in.dtype)),
        runs_(std::move(runs)),
        parts_(parts_of(most_bytes(result_))) {
    tiles_ = parts_ * result_.count();
    const std::size_t bytes = total_bytes(result_);
    bytes_ = bytes * (teams_.of(0).size() + 1);
    streams_ = bytes >= kStreamedBytes;
    for (std::size_t team = 0; team < teams_.count(); ++team) {
      const std::size_t size = teams_.members(team).size();
      splits_.resize(std::max(splits_.size(), size + 1));
      if (size > 1 && splits_[size].empty()) splits_[size] = tree_splits(std::vector<std::int64_t>(size, 1));
    }
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t shard = tile / parts_;
    const std::int64_t part = tile % parts_;
    boost::container::small_vector<const std::byte*, 16> data;
    for (std::int32_t member : teams_.of(shard)) data.push_back(operands[0][member]);
    const Runs& runs = runs_[runs_.size() == 1 ? 0 : static_cast<std::size_t>(shard)];
    const std::int64_t elements = runs.outer * runs.run;
    const std::int64_t end = elements * (part + 1) / parts_;
    const std::size_t element = size_of(result_.dtype);
    for (std::int64_t at = elements * part / parts_; at < end;) {
      const std::int64_t row = at / runs.run;
      const std::int64_t column = at % runs.run;
      const std::int64_t some = std::min(end - at, runs.run - column);
      const std::size_t offset =
          runs.offset + static_cast<std::size_t>(row) * runs.stride + static_cast<std::size_t>(column) * element;
      reduce_(data.data(), splits_[data.size()].data(), data.size(), offset,
              result[shard] + static_cast<std::size_t>(at) * element, some, streams_);
      at += some;
    }
  }

 private:
  Teams teams_;                                    // In device order.
  std::vector<std::vector<std::int32_t>> splits_;  // By the size of a group, which may differ.
  TreeReduction reduce_;
  std::vector<Runs> runs_;  // One for all shards, or one for each.
  std::int64_t parts_;      // Tiles of a shard.
  bool streams_ = false;
};

}  // namespace

CollectivePtr reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                        std::vector<Runs> runs) {
  if (!in.grid->is_local()) return process_reduction(in, std::move(result), groups, kind, std::move(runs));
  return std::make_unique<Reduction>(in, std::move(result), groups, kind, std::move(runs));
}

}  // namespace shoal::collectives
