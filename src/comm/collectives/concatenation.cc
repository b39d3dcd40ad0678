#include "comm/collectives/concatenation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/collectives/collective_parts.h"
#include "comm/transport/box_copy.h"

namespace shoal::collectives {
namespace {

class Concatenation final : public Collective {
 public:
  Concatenation(const ShardShapes& in, ShardShapes result, const Groups& senders, const Groups& receivers,
                std::size_t dim, std::size_t range_dim, Pieces pieces)
      : Collective(std::move(result)),
        in_(in),
        receivers_(receivers),
        teams_(in, result_, senders),
        dim_(dim),
        range_dim_(range_dim),
        splits_(pieces == Pieces::kSplit),
        even_(in_.even() && result_.even()),
        geometry_(geometry(0, 0)) {
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      starts_.push_back(static_cast<std::size_t>(range(in_.shape(teams_.of(shard)[0]), shard).start) *
                        unit_of(in_.shape(teams_.of(shard)[0]), range_dim_, in_.dtype));
    }
    const auto members = static_cast<std::int64_t>(teams_.of(0).size());
    const std::size_t bytes = total_bytes(result_);
    const std::size_t piece = most_bytes(result_) / static_cast<std::size_t>(members);
    parts_ = parts_of(piece);
    if (parts_ == 1)
      members_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(kTileBytes / (piece + 1)), 1, members);
    tiles_of_shard_ = parts_ * ((members + members_ - 1) / members_);
    tiles_ = tiles_of_shard_ * result_.count();
    bytes_ = 2 * bytes;
    streams_ = bytes >= kStreamedBytes;
    find_views();
  }

  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    for (std::int32_t member : teams_.of(shard)) {
      const Shape& shape = in_.shape(member);
      needs.push_back({0, member, range_region(shape, in_.dtype, range_dim_, range(shape, shard))});
    }
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t shard = tile / tiles_of_shard_;
    const std::int64_t first = tile % tiles_of_shard_ / parts_ * members_;
    const std::int64_t part = tile % parts_;
    const auto members = teams_.of(shard);
    const std::int64_t end = std::min(first + members_, static_cast<std::int64_t>(members.size()));
    if (even_) {
      const std::byte* const* data = operands[0];
      const std::size_t start = starts_[static_cast<std::size_t>(shard)];
      std::byte* to = result[shard] + static_cast<std::size_t>(first) * geometry_.step;
      for (std::int64_t m = first; m < end; ++m, to += geometry_.step) {
        geometry_.copy.copy(data[members[static_cast<std::size_t>(m)]] + start, to, part, parts_, streams_);
      }
      return;
    }
    std::byte* to = result[shard];
    for (std::int64_t m = 0; m < end; ++m) {
      const std::int32_t member = members[static_cast<std::size_t>(m)];
      const Geometry piece = geometry(member, shard);
      if (m >= first) piece.copy.copy(operands[0][member] + start_of(member, shard), to, part, parts_, streams_);
      to += piece.step;
    }
  }

 private:
  struct Geometry {
    BoxCopy copy;
    std::size_t step;  // Bytes from a piece to the next in the result.
  };

  Extent range(const Shape& shape, std::int64_t shard) const {
    if (!splits_) return {.start = 0, .size = shape[range_dim_]};
    return receivers_.extent(shape[range_dim_], result_.position_of(shard));
  }

  std::size_t start_of(std::int32_t member, std::int64_t shard) const {
    const Shape& shape = in_.shape(member);
    return static_cast<std::size_t>(range(shape, shard).start) * unit_of(shape, range_dim_, in_.dtype);
  }

  Geometry geometry(std::int32_t member, std::int64_t shard) const {
    Shape extents = in_.shape(member);
    extents[range_dim_] = range(extents, shard).size;
    const Shape& to = result_.shape(shard);
    return {.copy = BoxCopy(in_.shape(member), to, extents, size_of(in_.dtype)),
            .step = static_cast<std::size_t>(extents[dim_]) * unit_of(to, dim_, in_.dtype)};
  }

  void find_views() {
    if (teams_.of(0).size() == 1) {
      std::vector<View> views;
      for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
        const std::int32_t member = teams_.of(shard)[0];
        const Shape& from = in_.shape(member);
        const Shape& to = result_.shape(shard);
        const bool contiguous = product(to, 0, range_dim_) <= 1 || from == to || num_elements(to) == 0;
        if (!contiguous || teams_.of(shard).size() != 1) return;
        const View source{.shard = member, .offset = num_elements(to) == 0 ? 0 : start_of(member, shard)};
        views.push_back(place_of(shard, source, in_));
      }
      return set_views(std::move(views));
    }
    if (splits_ || !result_.grid->is_local()) return;
    operand_in_result_.assign(static_cast<std::size_t>(in_.count()), {.shard = -1});
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      if (product(result_.shape(shard), 0, dim_) != 1) return operand_in_result_.clear();
      std::size_t offset = 0;
      for (std::int32_t member : teams_.of(shard)) {
        View& view = operand_in_result_[static_cast<std::size_t>(member)];
        if (view.shard >= 0) return operand_in_result_.clear();  // It is needed in several places.
        view = {.shard = shard, .offset = offset};
        offset += in_.bytes(member);
      }
    }
    const auto is_used = [](const View& view) { return view.shard >= 0; };
    if (!std::ranges::all_of(operand_in_result_, is_used)) operand_in_result_.clear();
  }

  ShardShapes in_;
  Groups receivers_;
  Teams teams_;
  std::size_t dim_;
  std::size_t range_dim_;
  bool splits_;
  bool even_;                        // All pieces have one shape:
  Geometry geometry_;                // this one.
  std::vector<std::size_t> starts_;  // Where they begin in the operands, for each shard of the result.
  std::int64_t parts_ = 1;           // Tiles of a piece.
  std::int64_t members_ = 1;         // Pieces of a tile.
  std::int64_t tiles_of_shard_ = 1;
  bool streams_ = false;
};

}  // namespace

CollectivePtr concatenation(const ShardShapes& in, ShardShapes result, const Groups& senders, const Groups& receivers,
                            std::size_t dim, std::size_t range_dim, Pieces pieces) {
  return std::make_unique<Concatenation>(in, std::move(result), senders, receivers, dim, range_dim, pieces);
}

}  // namespace shoal::collectives
