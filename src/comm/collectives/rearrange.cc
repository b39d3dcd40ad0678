// Along a dimension that the group splits, the device's part of what runs of elements of the operands make. `extents`
// are the whole extents of the operands there and `size` that of the result. If it `fills`, there is one more operand,
// a scalar, whose element the rest holds. With `windows` in the place of runs, parts are what windows meet, and
// overlap.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "comm/collectives/collective_parts.h"
#include "comm/collectives/table.h"
#include "ir/rearrangement.h"

namespace shoal::collectives {
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

// The bytes from one element of a run to the next.
struct Stride {
  std::ptrdiff_t in;
  std::ptrdiff_t out;
};

// With a size that the compiler knows, an element is a load and a store and no call.
template <std::size_t kUnit>
void copy_elements(std::byte* to, const std::byte* from, std::ptrdiff_t count, Stride stride) {
  for (std::ptrdiff_t j = 0; j < count; ++j) std::memcpy(to + j * stride.out, from + j * stride.in, kUnit);
}

void copy_elements(std::byte* to, const std::byte* from, std::ptrdiff_t count, Stride stride, std::size_t unit) {
  switch (unit) {
    case 1:
      return copy_elements<1>(to, from, count, stride);
    case 2:
      return copy_elements<2>(to, from, count, stride);
    case 4:
      return copy_elements<4>(to, from, count, stride);
    case 8:
      return copy_elements<8>(to, from, count, stride);
    case 16:
      return copy_elements<16>(to, from, count, stride);
    default:
      for (std::ptrdiff_t j = 0; j < count; ++j) std::memcpy(to + j * stride.out, from + j * stride.in, unit);
  }
}

class Rearranging final : public Collective {
 public:
  // The runs of a device, given its position and what it holds of the result.
  using RunsOf = FunctionRef<std::span<const Run>(std::int64_t position, const Extent& target)>;

  Rearranging(std::vector<ShardShapes> operands, ShardShapes result, bool fills, const Atoms& atoms, std::size_t dim,
              const Dims& extents, std::int64_t size, RunsOf runs_of_device)
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
      gap_begins_.push_back(gaps_.size());
      const std::int64_t position = grid.with_index_along(0, atoms, rank);
      const Extent target = grid.extent(size, atoms, position);
      add_segments(target, atoms, extents, runs_of_device(position, target));
      if (fills_) add_gaps(target.size);
    }
    begins_.push_back(segments_.size());
    gap_begins_.push_back(gaps_.size());
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
    const auto rank = static_cast<std::size_t>(rank_of_[static_cast<std::size_t>(shard)]);
    for (std::size_t i = gap_begins_[rank]; i < gap_begins_[rank + 1]; ++i) {
      const Extent& gap = gaps_[i];
      const std::byte* element = operands[in_.size()][fill_in_.shard_at(result_.position_of(shard))];
      std::byte* to = result[shard] + static_cast<std::size_t>(gap.start) * unit;
      for (std::int64_t o = first; o < last; ++o) {
        fill(to + static_cast<std::size_t>(o) * row, static_cast<std::size_t>(gap.size) * unit, element,
             size_of(result_.dtype));
      }
    }
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
      const Stride stride{segment.run.in_step * static_cast<std::ptrdiff_t>(unit),
                          segment.run.out_step * static_cast<std::ptrdiff_t>(unit)};
      for (std::int64_t o = first; o < last; ++o) {
        const std::byte* from_row = from + static_cast<std::size_t>(o) * source_row;
        std::byte* to_row = to + static_cast<std::size_t>(o) * row;
        if (segment.run.in_step == 1 && segment.run.out_step == 1) {
          std::memcpy(to_row + out_at(begin) * unit, from_row + in_at(begin) * unit,
                      static_cast<std::size_t>(end - begin) * unit);
          continue;
        }
        copy_elements(to_row + out_at(begin) * unit, from_row + in_at(begin) * unit, end - begin, stride, unit);
      }
    }
  }

 private:
  // What the segments of the last device, whose part is of `size`, leave of it; all of it if there are gaps in them.
  void add_gaps(std::int64_t size) {
    std::vector<Extent> covered;
    for (std::size_t i = begins_.back(); i < segments_.size(); ++i) {
      if (segments_[i].run.out_step != 1) {
        covered.clear();
        break;
      }
      covered.push_back({segments_[i].out, segments_[i].run.count});
    }
    std::ranges::sort(covered, {}, &Extent::start);
    std::int64_t end = 0;
    for (const Extent& one : covered) {
      if (one.start > end) gaps_.push_back({end, one.start - end});
      end = std::max(end, one.start + one.size);
    }
    if (end < size) gaps_.push_back({end, size - end});
  }

  // What the device that holds `target` of the result gets.
  void add_segments(const Extent& target, const Atoms& atoms, const Dims& extents, std::span<const Run> runs) {
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
  std::vector<Extent> gaps_;         // What is filled.
  std::vector<std::size_t> gap_begins_;
  std::vector<std::int64_t> rank_of_;
  std::int64_t parts_ = 1;
};

}  // namespace

CollectivePtr rearrange(const Context& context) {
  const std::size_t dim = context.dim("dim");
  const auto size = context.attrs.get<std::int64_t>("size");
  AtomSet varying(context.atoms());
  for (const ShardShapes& operand : context.operands) varying = varying | operand.varying;
  const ShardShapes& first = context.in();
  ShardShapes result = shapes_of(first.grid, varying & context.wanted, first.dtype, false, [&](std::int64_t position) {
    Shape shape = first.shape_at(position);
    shape[dim] = first.grid->extent(size, context.atoms(), position).size;
    return shape;
  });
  const auto made = [&](Rearranging::RunsOf runs_of_device) {
    return std::make_unique<Rearranging>(context.operands, std::move(result), context.attrs.get<bool>("fills"),
                                         context.atoms(), dim, context.attrs.get<Dims>("extents"), size,
                                         runs_of_device);
  };
  if (const Dims* numbers = context.attrs.find_as<Dims>("windows")) {
    const Windows windows = windows_of(*numbers);
    const std::int64_t extent = context.attrs.get<Dims>("extents")[0];
    Run run;
    return made([&](std::int64_t position, const Extent& target) {
      run = halo_run(*first.grid, context.atoms(), windows, extent, position);
      run.out_start += target.start;
      return std::span<const Run>(&run, 1);
    });
  }
  const std::vector<Run> runs = runs_of(context.attrs.get<Dims>("runs"));
  return made([&](std::int64_t, const Extent&) { return std::span<const Run>(runs); });
}

}  // namespace shoal::collectives
