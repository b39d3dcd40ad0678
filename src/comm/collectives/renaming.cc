#include "comm/collectives/renaming.h"

#include <cstring>
#include <utility>

#include "comm/collectives/collective_parts.h"
#include "comm/transport/box_copy.h"

namespace shoal::collectives {
namespace {

class Renaming final : public Collective {
 public:
  Renaming(ShardShapes in, ShardShapes result, std::vector<View> sources)
      : Collective(std::move(result)), in_(std::move(in)), sources_(std::move(sources)) {
    parts_ = parts_of(most_bytes(result_));
    tiles_ = parts_ * result_.count();
    bytes_ = 2 * total_bytes(result_);
    streams_ = bytes_ >= 2 * kStreamedBytes;
    std::vector<View> views;
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      views.push_back(place_of(shard, sources_[static_cast<std::size_t>(shard)], in_));
    }
    set_views(std::move(views));
  }

  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const View& source = sources_[static_cast<std::size_t>(shard)];
    if (source.shard != View::kZeros) needs.push_back(whole_need(in_, source.shard));
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t shard = tile / parts_;
    const std::int64_t part = tile % parts_;
    const Shape bytes = {static_cast<std::int64_t>(result_.bytes(shard))};
    const View& source = sources_[static_cast<std::size_t>(shard)];
    if (source.shard == View::kZeros) {
      if (part == 0) std::memset(result[shard], 0, result_.bytes(shard));
      return;
    }
    BoxCopy(bytes, bytes, bytes, 1).copy(operands[0][source.shard], result[shard], part, parts_, streams_);
  }

 private:
  ShardShapes in_;
  std::vector<View> sources_;
  std::int64_t parts_ = 1;
  bool streams_ = false;
};

}  // namespace

CollectivePtr renaming(const ShardShapes& in, AtomSet varying, FunctionRef<std::int64_t(std::int64_t)> source_of) {
  ShardShapes result{.grid = in.grid, .varying = varying, .dtype = in.dtype, .shapes = {}};
  std::vector<View> sources;
  const std::int64_t count = result.count();
  for (std::int64_t shard = 0; shard < count; ++shard) {
    const std::int64_t position = result.position_of(shard);
    const std::int64_t source = source_of(position);
    sources.push_back({.shard = source < 0 ? View::kZeros : in.shard_at(source)});
    if (in.even() && shard > 0) continue;
    result.shapes.push_back(in.shape_at(source < 0 ? position : source));
  }
  return std::make_unique<Renaming>(in, std::move(result), std::move(sources));
}

CollectivePtr unchanged(const ShardShapes& in, AtomSet wanted) {
  return renaming(in, in.varying & wanted, [](std::int64_t position) { return position; });
}

}  // namespace shoal::collectives
