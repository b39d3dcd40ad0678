#include "comm/collectives/local_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "comm/collectives/collective_parts.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/process_reduction.h"
#include "comm/collectives/tree_reduction.h"
#include "comm/transport/box_copy.h"
#include "ops/reduction.h"

namespace shoal::local {
namespace {

// The shards of a result, whose shape at each device's position shape_at(position) tells.
template <class F>
ShardShapes shapes_of(const GridPtr& grid, AtomSet varying, Dtype dtype, bool even, F&& shape_at) {
  ShardShapes result{.grid = grid, .varying = varying, .dtype = dtype, .shapes = {}};
  const std::int64_t count = even ? 1 : result.count();
  for (std::int64_t shard = 0; shard < count; ++shard) {
    result.shapes.push_back(shape_at(result.position_of(shard)));
  }
  const auto same = [&](const Shape& shape) { return shape == result.shapes[0]; };
  if (std::ranges::all_of(result.shapes, same)) result.shapes.resize(1);
  return result;
}

std::size_t total_bytes(const ShardShapes& shapes) {
  if (shapes.even()) return shapes.bytes(0) * static_cast<std::size_t>(shapes.count());
  std::size_t bytes = 0;
  for (std::int64_t shard = 0; shard < shapes.count(); ++shard) bytes += shapes.bytes(shard);
  return bytes;
}

std::size_t most_bytes(const ShardShapes& shapes) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < shapes.shapes.size(); ++i) {
    bytes = std::max(bytes, shapes.bytes(static_cast<std::int64_t>(i)));
  }
  return bytes;
}

std::int64_t product(const Shape& shape, std::size_t begin, std::size_t end) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                         shape.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

// Bytes of what lies next to each other at one index of a dimension.
std::size_t unit_of(const Shape& shape, std::size_t dim, Dtype dtype) {
  return static_cast<std::size_t>(product(shape, dim + 1, shape.size())) * size_of(dtype);
}

Region whole_region(const Shape& shape, Dtype dtype) {
  return {.shape = shape, .start = Dims(shape.size(), 0), .extents = shape, .element = size_of(dtype)};
}

Region range_region(const Shape& shape, Dtype dtype, std::size_t dim, const Extent& range) {
  Region region = whole_region(shape, dtype);
  region.start[dim] = range.start;
  region.extents[dim] = range.size;
  return region;
}

Need whole_need(const ShardShapes& in, std::int64_t shard, std::size_t operand = 0) {
  return {static_cast<std::int32_t>(operand), static_cast<std::int32_t>(shard),
          whole_region(in.shape(shard), in.dtype)};
}

// ---- Nothing moves.

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

// The result whose shard at each position is the operand's at source_of(position), or zeros.
template <class F>
CollectivePtr rename(const ShardShapes& in, AtomSet varying, F&& source_of) {
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

// ---- Reductions.

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

CollectivePtr reduction(const ShardShapes& in, ShardShapes result, const Groups& groups, ReduceKind kind,
                        std::vector<Runs> runs) {
  if (!in.grid->is_local()) return process_reduction(in, std::move(result), groups, kind, std::move(runs));
  return std::make_unique<Reduction>(in, std::move(result), groups, kind, std::move(runs));
}

// ---- Pieces side by side.

// Pieces of the operands of a group, ranges along one dimension, concatenated along another.
class Concatenation final : public Collective {
 public:
  // The pieces are ranges of `range_dim`: what groups.extent gives the receiver if they are split, else all.
  Concatenation(const ShardShapes& in, ShardShapes result, const Groups& senders, const Groups& receivers,
                std::size_t dim, std::size_t range_dim, bool splits)
      : Collective(std::move(result)),
        in_(in),
        receivers_(receivers),
        teams_(in, result_, senders),
        dim_(dim),
        range_dim_(range_dim),
        splits_(splits),
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

void Collective::add_needs(std::size_t, int process, std::vector<Need>& needs) const {
  for (std::int32_t shard : result_.grid->held_by(process, result_.varying).shards) add_needs_of(shard, needs);
}

View Collective::place_of(std::int64_t shard, const View& source, const ShardShapes& in) const {
  const bool comes = source.shard >= 0 && result_.is_held(shard) && !in.is_held(source.shard);
  return comes ? View{.shard = View::kMade} : source;
}

void Collective::set_views(std::vector<View> views) {
  bool makes_all = result_.count_held() > 0;
  for (std::int64_t shard = 0; makes_all && shard < result_.count(); ++shard) {
    makes_all = !result_.is_held(shard) || views[static_cast<std::size_t>(shard)].shard == View::kMade;
  }
  if (!makes_all) views_ = std::move(views);
}

// ---- Groups

Groups::Groups(GridPtr grid, Atoms atoms, std::vector<Dims> lists)
    : grid_(std::move(grid)), atoms_(std::move(atoms)), lists_(std::move(lists)) {
  if (lists_.empty()) return;
  list_at_.resize(static_cast<std::size_t>(grid_->size_of(atoms_)));
  rank_at_.resize(list_at_.size());
  for (std::size_t list = 0; list < lists_.size(); ++list) {
    for (std::size_t rank = 0; rank < lists_[list].size(); ++rank) {
      const auto index = static_cast<std::size_t>(lists_[list][rank]);
      list_at_[index] = static_cast<std::int32_t>(list);
      rank_at_[index] = static_cast<std::int64_t>(rank);
    }
  }
}

const Dims& Groups::list_of(std::int64_t position) const {
  const auto index = static_cast<std::size_t>(grid_->index_along(position, atoms_));
  return lists_[static_cast<std::size_t>(list_at_[index])];
}

std::vector<std::int64_t> Groups::members(std::int64_t position) const {
  std::vector<std::int64_t> members;
  if (lists_.empty()) {
    for (std::int64_t i = 0; i < grid_->size_of(atoms_); ++i) {
      members.push_back(grid_->with_index_along(position, atoms_, i));
    }
    return members;
  }
  for (std::int64_t i : list_of(position)) members.push_back(grid_->with_index_along(position, atoms_, i));
  return members;
}

std::int64_t Groups::first(std::int64_t position) const {
  return grid_->with_index_along(position, atoms_, lists_.empty() ? 0 : list_of(position)[0]);
}

std::int64_t Groups::rank(std::int64_t position) const {
  const std::int64_t index = grid_->index_along(position, atoms_);
  return lists_.empty() ? index : rank_at_[static_cast<std::size_t>(index)];
}

Extent Groups::extent(std::int64_t size, std::int64_t position) const {
  if (lists_.empty()) return grid_->extent(size, atoms_, position);
  const std::int64_t piece = size / static_cast<std::int64_t>(list_of(position).size());
  return {.start = rank(position) * piece, .size = piece};
}

// ---- The collectives

CollectivePtr unchanged(const ShardShapes& in, AtomSet wanted) {
  return rename(in, in.varying & wanted, [](std::int64_t position) { return position; });
}

CollectivePtr all_reduce(const ShardShapes& in, AtomSet wanted, const Groups& groups, ReduceKind kind) {
  if (groups.atoms().empty()) return unchanged(in, wanted);
  ShardShapes result = shapes_of(in.grid, groups.joined(in.varying) & wanted, in.dtype, in.even(),
                                 [&](std::int64_t position) { return in.shape_at(position); });
  std::vector<Runs> runs;
  for (const Shape& shape : result.shapes) {
    const std::int64_t elements = num_elements(shape);
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(in.dtype);
    runs.push_back({.offset = 0, .outer = 1, .run = elements, .stride = bytes});
  }
  return reduction(in, std::move(result), groups, kind, std::move(runs));
}

CollectivePtr reduce_scatter(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim,
                             ReduceKind kind) {
  if (groups.atoms().empty()) return unchanged(in, wanted);
  ShardShapes result =
      shapes_of(in.grid, groups.split(in.varying) & wanted, in.dtype, false, [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        shape[dim] = groups.extent(shape[dim], position).size;
        return shape;
      });
  std::vector<Runs> runs;
  for (std::int64_t shard = 0; shard < result.count(); ++shard) {
    const std::int64_t position = result.position_of(shard);
    const Shape& whole = in.shape_at(position);
    const Extent mine = groups.extent(whole[dim], position);
    const std::size_t unit = unit_of(whole, dim, in.dtype);
    runs.push_back({.offset = static_cast<std::size_t>(mine.start) * unit,
                    .outer = product(whole, 0, dim),
                    .run = mine.size * product(whole, dim + 1, whole.size()),
                    .stride = static_cast<std::size_t>(whole[dim]) * unit});
  }
  return reduction(in, std::move(result), groups, kind, std::move(runs));
}

CollectivePtr all_gather(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim) {
  if (groups.atoms().empty()) return unchanged(in, wanted);
  ShardShapes result =
      shapes_of(in.grid, groups.joined(in.varying) & wanted, in.dtype, in.even(), [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        shape[dim] = 0;
        for (std::int64_t member : groups.members(position)) shape[dim] += in.shape_at(member)[dim];
        return shape;
      });
  return std::make_unique<Concatenation>(in, std::move(result), groups, groups, dim, dim, false);
}

CollectivePtr all_to_all(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t split_dim,
                         std::size_t concat_dim) {
  if (groups.atoms().empty()) return unchanged(in, wanted);
  ShardShapes result =
      shapes_of(in.grid, groups.split(in.varying) & wanted, in.dtype, false, [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        std::int64_t joined = 0;
        for (std::int64_t member : groups.members(position)) {
          Shape piece = in.shape_at(member);
          piece[split_dim] = groups.extent(piece[split_dim], position).size;
          joined += piece[concat_dim];
        }
        shape[split_dim] = groups.extent(shape[split_dim], position).size;
        shape[concat_dim] = joined;
        return shape;
      });
  return std::make_unique<Concatenation>(in, std::move(result), groups, groups, concat_dim, split_dim, true);
}

CollectivePtr shard_slice(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, std::size_t dim) {
  if (atoms.empty()) return unchanged(in, wanted);
  const Groups receivers(in.grid, atoms);
  ShardShapes result =
      shapes_of(in.grid, receivers.split(in.varying) & wanted, in.dtype, false, [&](std::int64_t position) {
        Shape shape = in.shape_at(position);
        shape[dim] = receivers.extent(shape[dim], position).size;
        return shape;
      });
  return std::make_unique<Concatenation>(in, std::move(result), Groups(in.grid, {}), receivers, dim, dim, true);
}

CollectivePtr collective_permute(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, const Dims& sources,
                                 const Dims& targets) {
  std::vector<std::int64_t> source_of(static_cast<std::size_t>(in.grid->size_of(atoms)), -1);
  for (std::size_t i = 0; i < targets.size(); ++i) source_of[static_cast<std::size_t>(targets[i])] = sources[i];
  return rename(in, (in.varying | AtomSet(atoms)) & wanted, [&](std::int64_t position) {
    const std::int64_t source = source_of[static_cast<std::size_t>(in.grid->index_along(position, atoms))];
    return source < 0 ? source : in.grid->with_index_along(position, atoms, source);
  });
}

CollectivePtr broadcast(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, std::int64_t source) {
  return rename(in, (in.varying - AtomSet(atoms)) & wanted,
                [&](std::int64_t position) { return in.grid->with_index_along(position, atoms, source); });
}

// ---- ragged_all_to_all

namespace {

class RaggedExchange final : public Collective {
 public:
  RaggedExchange(std::vector<ShardShapes> in, ShardShapes result, const Groups& groups, SourceLocation where)
      : Collective(std::move(result)), in_(std::move(in)), groups_(groups), where_(where) {
    tiles_ = result_.count();
    bytes_ = 2 * total_bytes(result_);
  }

  // What the slices cover is known only from their elements.
  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const std::int64_t position = result_.position_of(shard);
    for (std::size_t operand : {1U, 5U}) {
      needs.push_back(whole_need(in_[operand], in_[operand].shard_at(position), operand));
    }
    for (std::int64_t member : groups_.members(position)) {
      for (std::size_t operand : {0U, 2U, 3U, 4U}) {
        needs.push_back(whole_need(in_[operand], in_[operand].shard_at(member), operand));
      }
    }
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t position = result_.position_of(tile);
    const auto at = [&](std::size_t operand, std::int64_t device) {
      return operands[operand][in_[operand].shard_at(device)];
    };
    const auto entries = [&](std::size_t operand, std::int64_t device) {
      return reinterpret_cast<const std::int32_t*>(at(operand, device));
    };
    const auto check = [&](std::string_view what, std::int64_t start, std::int64_t size, std::int64_t rows) {
      if (start >= 0 && size >= 0 && start + size <= rows) return;
      throw OutOfRange(fmt::format("ragged_all_to_all: a slice of {} rows from row {} lies outside {}, which has {}",
                                   size, start, what, rows),
                       where_);
    };
    const Shape& shape = result_.shape(tile);
    const std::size_t row = unit_of(shape, 0, result_.dtype);
    std::memcpy(result[tile], at(1, position), result_.bytes(tile));
    const std::vector<std::int64_t> members = groups_.members(position);
    const std::int64_t slices = in_[2].shape_at(position)[0] / static_cast<std::int64_t>(members.size());
    const std::int64_t first = groups_.rank(position) * slices;
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::int64_t k = 0; k < slices; ++k) {
        const std::int64_t start = entries(2, members[m])[first + k];
        const std::int64_t size = entries(3, members[m])[first + k];
        const std::int64_t to = entries(4, members[m])[first + k];
        const std::int64_t expected = entries(5, position)[static_cast<std::int64_t>(m) * slices + k];
        if (size != expected) {
          throw InvalidArgument(fmt::format("ragged_all_to_all: recv_sizes says that device {} of a group gets {} rows "
                                            "from device {}, but send_sizes there says {}",
                                            groups_.rank(position), expected, m, size),
                                where_);
        }
        check("the operand", start, size, in_[0].shape_at(members[m])[0]);
        check("the output", to, size, shape[0]);
        std::memcpy(result[tile] + static_cast<std::size_t>(to) * row,
                    at(0, members[m]) + static_cast<std::size_t>(start) * row, static_cast<std::size_t>(size) * row);
      }
    }
  }

 private:
  std::vector<ShardShapes> in_;
  Groups groups_;
  SourceLocation where_;
};

}  // namespace

CollectivePtr ragged_all_to_all(std::vector<ShardShapes> in, AtomSet wanted, const Groups& groups,
                                SourceLocation where) {
  AtomSet varying;
  for (const ShardShapes& operand : in) varying = varying | operand.varying;
  const ShardShapes& output = in[1];
  ShardShapes result = shapes_of(output.grid, groups.split(varying) & wanted, output.dtype, output.even(),
                                 [&](std::int64_t position) { return output.shape_at(position); });
  return std::make_unique<RaggedExchange>(std::move(in), std::move(result), groups, where);
}

// ---- exclusive_scan

namespace {

class ExclusiveScan final : public Collective {
 public:
  ExclusiveScan(const ShardShapes& in, ShardShapes result, const Atoms& atoms, ReduceKind kind, bool reverse)
      : Collective(std::move(result)), in_(in), kind_(kind), parts_(parts_of(most_bytes(result_))) {
    const Grid& grid = *in.grid;
    const std::int64_t group = grid.size_of(atoms);
    place_of_.resize(static_cast<std::size_t>(result_.count()));
    // Those that are not in a group: the positions at its start.
    const AtomSet others = result_.varying - AtomSet(atoms);
    for (std::int64_t i = 0; i < grid.size_of(others); ++i) {
      const std::int64_t start = grid.representative(others, i);
      for (std::int64_t step = 0; step < group; ++step) {
        const std::int64_t position = grid.with_index_along(start, atoms, reverse ? group - 1 - step : step);
        place_of_[static_cast<std::size_t>(result_.shard_at(position))] = order_.size();
        order_.push_back({.operand = in.shard_at(position), .result = result_.shard_at(position)});
      }
    }
    group_ = static_cast<std::size_t>(group);
    by_shard_ = !grid.is_local();
    tiles_ = (by_shard_ ? result_.count() : grid.size_of(others)) * parts_;
    bytes_ = 2 * total_bytes(result_);
  }

  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const std::size_t place = place_of_[static_cast<std::size_t>(shard)];
    for (std::size_t i = place / group_ * group_; i < place; ++i) needs.push_back(whole_need(in_, order_[i].operand));
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const auto place = by_shard_ ? place_of_[static_cast<std::size_t>(tile / parts_)]
                                 : static_cast<std::size_t>(tile / parts_) * group_;
    const Step* steps = order_.data() + place / group_ * group_;
    const std::int64_t part = tile % parts_;
    const std::int64_t elements = num_elements(result_.shape(steps[0].result));
    const std::int64_t begin = elements * part / parts_;
    const std::int64_t count = elements * (part + 1) / parts_ - begin;
    const std::size_t offset = static_cast<std::size_t>(begin) * size_of(result_.dtype);
    const auto add = [&](const std::byte* sum, std::size_t step, std::byte* out) {
      combine(kind_, result_.dtype, sum + offset, operands[0][steps[step].operand] + offset, out + offset, count);
    };
    if (by_shard_) {
      // The results of others are not here to go on from.
      std::byte* const sum = result[tile / parts_];
      fill_neutral(kind_, result_.dtype, sum + offset, count);
      for (std::size_t step = 0; step < place % group_; ++step) add(sum, step, sum);
      return;
    }
    fill_neutral(kind_, result_.dtype, result[steps[0].result] + offset, count);
    for (std::size_t step = 0; step + 1 < group_; ++step) {
      add(result[steps[step].result], step, result[steps[step + 1].result]);
    }
  }

 private:
  struct Step {
    std::int64_t operand;
    std::int64_t result;
  };
  ShardShapes in_;
  ReduceKind kind_;
  std::int64_t parts_;
  std::size_t group_ = 1;
  bool by_shard_ = false;              // A tile is a part of one shard, not of a group.
  std::vector<Step> order_;            // Group after group, each in the order of the scan.
  std::vector<std::size_t> place_of_;  // Of each shard of the result, in that list.
};

}  // namespace

CollectivePtr exclusive_scan(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, ReduceKind kind, bool reverse) {
  ShardShapes result = shapes_of(in.grid, (in.varying & wanted) | AtomSet(atoms), in.dtype, in.even(),
                                 [&](std::int64_t position) { return in.shape_at(position); });
  return std::make_unique<ExclusiveScan>(in, std::move(result), atoms, kind, reverse);
}

// ---- rearrange

namespace {

// What a device gets of one other's shard: elements along the dimension.
struct Segment {
  std::size_t operand;
  std::int64_t rank;  // Of the device that holds them.
  std::int64_t in;
  std::int64_t out;
  Run run;  // Its count and steps.
};

void fill(std::byte* data, std::size_t bytes, const std::byte* element, std::size_t size) {
  if (bytes == 0) return;
  std::memcpy(data, element, size);
  for (std::size_t done = size; done < bytes;) {
    const std::size_t some = std::min(done, bytes - done);
    std::memcpy(data + done, data, some);
    done += some;
  }
}

class Rearranging final : public Collective {
 public:
  Rearranging(std::vector<ShardShapes> operands, ShardShapes result, bool fills, const Atoms& atoms, std::size_t dim,
              const Dims& extents, std::int64_t size, const std::vector<Run>& runs)
      : Collective(std::move(result)), in_(std::move(operands)), fills_(fills), dim_(dim) {
    const Grid& grid = *result_.grid;
    const Groups groups(result_.grid, atoms);
    if (fills_) {
      fill_in_ = in_.back();
      in_.pop_back();
    }
    for (const ShardShapes& operand : in_) teams_.emplace_back(operand, result_, groups);
    const std::int64_t group = grid.size_of(atoms);
    for (std::int64_t rank = 0; rank < group; ++rank) {
      begins_.push_back(segments_.size());
      add_segments(grid.extent(size, atoms, grid.with_index_along(0, atoms, rank)), atoms, extents, runs);
    }
    begins_.push_back(segments_.size());
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      rank_of_.push_back(groups.rank(result_.position_of(shard)));
    }
    // What is filled first is one part with what is copied there.
    parts_ = parts_of(most_bytes(result_));
    if (fills_) parts_ = std::min(parts_, std::max<std::int64_t>(1, product(result_.shape(0), 0, dim)));
    tiles_ = parts_ * result_.count();
    bytes_ = 2 * total_bytes(result_);
  }

  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const auto rank = static_cast<std::size_t>(rank_of_[static_cast<std::size_t>(shard)]);
    for (std::size_t i = begins_[rank]; i < begins_[rank + 1]; ++i) {
      const Segment& segment = segments_[i];
      const std::int32_t source = teams_[segment.operand].of(shard)[static_cast<std::size_t>(segment.rank)];
      const std::int64_t last = segment.in + (segment.run.count - 1) * segment.run.in_step;
      const Extent range{std::min(segment.in, last), std::abs(last - segment.in) + 1};
      const ShardShapes& in = in_[segment.operand];
      needs.push_back(
          {static_cast<std::int32_t>(segment.operand), source, range_region(in.shape(source), in.dtype, dim_, range)});
    }
    if (fills_) needs.push_back(whole_need(fill_in_, fill_in_.shard_at(result_.position_of(shard)), in_.size()));
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t shard = tile / parts_;
    const std::int64_t part = tile % parts_;
    const Shape& shape = result_.shape(shard);
    const std::int64_t outer = product(shape, 0, dim_);
    const std::size_t unit = unit_of(shape, dim_, result_.dtype);
    const std::size_t row = static_cast<std::size_t>(shape[dim_]) * unit;
    // Either the rows are shared out, or the elements of each.
    const bool by_rows = outer >= parts_;
    const std::int64_t first = by_rows ? outer * part / parts_ : 0;
    const std::int64_t last = by_rows ? outer * (part + 1) / parts_ : outer;
    if (fills_) {
      fill(result[shard] + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(last - first) * row,
           operands[in_.size()][fill_in_.shard_at(result_.position_of(shard))], size_of(result_.dtype));
    }
    const auto rank = static_cast<std::size_t>(rank_of_[static_cast<std::size_t>(shard)]);
    for (std::size_t i = begins_[rank]; i < begins_[rank + 1]; ++i) {
      const Segment& segment = segments_[i];
      const std::int64_t begin = by_rows ? 0 : segment.run.count * part / parts_;
      const std::int64_t end = by_rows ? segment.run.count : segment.run.count * (part + 1) / parts_;
      if (begin >= end) continue;
      const std::int32_t source = teams_[segment.operand].of(shard)[static_cast<std::size_t>(segment.rank)];
      const std::size_t source_row = static_cast<std::size_t>(in_[segment.operand].shape(source)[dim_]) * unit;
      const std::byte* from = operands[segment.operand][source];
      std::byte* to = result[shard];
      const auto in_at = [&](std::int64_t j) { return static_cast<std::size_t>(segment.in + j * segment.run.in_step); };
      const auto out_at = [&](std::int64_t j) {
        return static_cast<std::size_t>(segment.out + j * segment.run.out_step);
      };
      for (std::int64_t o = first; o < last; ++o) {
        const std::byte* from_row = from + static_cast<std::size_t>(o) * source_row;
        std::byte* to_row = to + static_cast<std::size_t>(o) * row;
        if (segment.run.in_step == 1 && segment.run.out_step == 1) {
          std::memcpy(to_row + out_at(begin) * unit, from_row + in_at(begin) * unit,
                      static_cast<std::size_t>(end - begin) * unit);
          continue;
        }
        for (std::int64_t j = begin; j < end; ++j) {
          std::memcpy(to_row + out_at(j) * unit, from_row + in_at(j) * unit, unit);
        }
      }
    }
  }

 private:
  // What the device that holds `target` of the result gets.
  void add_segments(const Extent& target, const Atoms& atoms, const Dims& extents, const std::vector<Run>& runs) {
    const Grid& grid = *result_.grid;
    for (const Run& run : runs) {
      const auto [first, last] =
          Run::within(run.out_start, run.out_step, run.count, target.start, target.start + target.size);
      if (first >= last) continue;
      const auto operand = static_cast<std::size_t>(run.operand);
      const auto held_by = [&](std::int64_t rank) {
        return grid.extent(extents[operand], atoms, grid.with_index_along(0, atoms, rank));
      };
      const std::int64_t a = run.in_start + first * run.in_step;
      const std::int64_t b = run.in_start + (last - 1) * run.in_step;
      // Those that hold them follow each other, as extents do.
      std::int64_t low = 0;
      for (std::int64_t high = grid.size_of(atoms); low < high;) {
        const std::int64_t middle = (low + high) / 2;
        const Extent held = held_by(middle);
        if (held.start + held.size <= std::min(a, b)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      for (std::int64_t rank = low; rank < grid.size_of(atoms); ++rank) {
        const Extent held = held_by(rank);
        if (held.start > std::max(a, b)) break;
        const auto [in_first, in_last] =
            Run::within(run.in_start, run.in_step, run.count, held.start, held.start + held.size);
        const std::int64_t from = std::max(first, in_first);
        const std::int64_t to = std::min(last, in_last);
        if (from >= to) continue;
        Run piece = run;
        piece.count = to - from;
        segments_.push_back({.operand = operand,
                             .rank = rank,
                             .in = run.in_start + from * run.in_step - held.start,
                             .out = run.out_start + from * run.out_step - target.start,
                             .run = piece});
      }
    }
  }

  std::vector<ShardShapes> in_;  // Those that move.
  ShardShapes fill_in_;
  bool fills_;
  std::size_t dim_;
  std::vector<Teams> teams_;  // Of each operand that moves.
  std::vector<Segment> segments_;
  std::vector<std::size_t> begins_;  // Where those of each rank begin.
  std::vector<std::int64_t> rank_of_;
  std::int64_t parts_ = 1;
};

}  // namespace

CollectivePtr rearrange(std::vector<ShardShapes> operands, AtomSet wanted, bool fills, const Atoms& atoms,
                        std::size_t dim, const Dims& extents, std::int64_t size, const std::vector<Run>& runs) {
  AtomSet varying(atoms);
  for (const ShardShapes& operand : operands) varying = varying | operand.varying;
  const ShardShapes& first = operands[0];
  ShardShapes result = shapes_of(first.grid, varying & wanted, first.dtype, false, [&](std::int64_t position) {
    Shape shape = first.shape_at(position);
    shape[dim] = first.grid->extent(size, atoms, position).size;
    return shape;
  });
  return std::make_unique<Rearranging>(std::move(operands), std::move(result), fills, atoms, dim, extents, size, runs);
}

// ---- axis_index

namespace {

class AxisIndex final : public Collective {
 public:
  AxisIndex(ShardShapes result, const Atoms& atoms) : Collective(std::move(result)) {
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) {
      index_of_.push_back(static_cast<std::int32_t>(result_.grid->index_along(result_.position_of(shard), atoms)));
    }
    tiles_ = result_.count();
    bytes_ = total_bytes(result_);
  }

  void run(std::span<std::byte* const* const>, std::byte* const* result, std::int64_t tile) const override {
    const std::int32_t index = index_of_[static_cast<std::size_t>(tile)];
    std::memcpy(result[tile], &index, sizeof index);
  }

 private:
  std::vector<std::int32_t> index_of_;
};

}  // namespace

CollectivePtr axis_index(const GridPtr& grid, AtomSet wanted, const Atoms& atoms) {
  return std::make_unique<AxisIndex>(
      ShardShapes{.grid = grid, .varying = AtomSet(atoms) & wanted, .dtype = int32, .shapes = {Shape{}}}, atoms);
}

}  // namespace shoal::local
