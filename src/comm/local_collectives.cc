#include "comm/local_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "comm/box_copy.h"
#include "ops/reduction.h"

namespace shoal::local {
namespace {

std::int64_t elements_of(const ShardSet& set) {
  return num_elements(set.shards[0].shape()) * static_cast<std::int64_t>(set.shards.size());
}

// Makes every distinct shard of a result: make(position) gives the buffer of the device there. `elements` are those of
// the operand that it takes to make them.
template <class F>
ShardSet make_shards(const GridPtr& grid, AtomSet varying, std::int64_t elements, F&& make) {
  ShardSet out = ShardSet::make(grid, varying);
  for_each_shard(static_cast<std::int64_t>(out.shards.size()), elements, [&](std::int64_t i) {
    const auto shard = static_cast<std::size_t>(i);
    out.shards[shard] = make(out.position_of(shard));
  });
  return out;
}

// Reduces the operands [first, first + count) at the same offset, in the fixed tree, into `out`; `n` elements, at most
// kBlock. Deeper levels use their own part of `scratch`.
constexpr std::int64_t kBlock = 512;
constexpr std::size_t kBlockBytes = kBlock * 16;

using Scratch = std::vector<std::array<std::byte, kBlockBytes>>;

void reduce_tree(ReduceKind kind, Dtype dtype, const std::vector<const std::byte*>& operands, std::size_t first,
                 std::size_t count, std::size_t offset, std::int64_t n, std::byte* out, Scratch& scratch,
                 std::size_t depth) {
  const auto bytes = static_cast<std::size_t>(n) * size_of(dtype);
  if (count == 1) {
    std::memcpy(out, operands[first] + offset, bytes);
    return;
  }
  const std::size_t left = std::bit_ceil(count) / 2;
  if (count == 2) {
    combine(kind, dtype, operands[first] + offset, operands[first + 1] + offset, out, n);
    return;
  }
  std::byte* right = scratch[depth].data();
  reduce_tree(kind, dtype, operands, first, left, offset, n, out, scratch, depth + 1);
  reduce_tree(kind, dtype, operands, first + left, count - left, offset, n, right, scratch, depth + 1);
  combine(kind, dtype, out, right, out, n);
}

// Reduces `n` elements at byte `offset` of all operands into `out`.
void reduce_run(ReduceKind kind, Dtype dtype, const std::vector<const std::byte*>& operands, std::size_t offset,
                std::int64_t n, std::byte* out, Scratch& scratch) {
  const std::size_t element = size_of(dtype);
  for (std::int64_t done = 0; done < n; done += kBlock) {
    const auto at = static_cast<std::size_t>(done) * element;
    reduce_tree(kind, dtype, operands, 0, operands.size(), offset + at, std::min(kBlock, n - done), out + at, scratch,
                0);
  }
}

// The data of the group of the device at `position`, in device order, and scratch for a tree over it.
std::vector<const std::byte*> group_data(const ShardSet& in, std::int64_t position, const Groups& groups) {
  std::vector<std::int64_t> members = groups.members(position);
  std::sort(members.begin(), members.end());
  std::vector<const std::byte*> data;
  for (std::int64_t member : members) data.push_back(static_cast<const std::byte*>(in.at(member).data()));
  return data;
}

Scratch scratch_for(std::size_t operands) { return Scratch(static_cast<std::size_t>(std::bit_width(operands)) + 1); }

Buffer like(const Buffer& buffer, Shape shape) { return Buffer(buffer.space(), buffer.dtype(), std::move(shape)); }

// Concatenates along `dim` what piece(position, i) gives for each device of the group: a buffer and the range of it
// along `split_dim` to take.
struct Piece {
  const Buffer* buffer;
  Extent range;
};

template <class F>
Buffer concatenate(const ShardSet& in, std::int64_t position, const Groups& groups, std::size_t dim,
                   std::size_t range_dim, F&& piece_of) {
  std::vector<Piece> pieces;
  Shape shape;
  for (std::int64_t member : groups.members(position)) {
    const Buffer& buffer = in.at(member);
    pieces.push_back({&buffer, piece_of(buffer)});
    Shape part = buffer.shape();
    part[range_dim] = pieces.back().range.size;
    if (pieces.size() == 1) {
      shape = part;
    } else {
      shape[dim] += part[dim];
    }
  }
  Buffer out = like(*pieces[0].buffer, shape);
  Dims to(shape.size(), 0);
  for (const Piece& piece : pieces) {
    Dims from(shape.size(), 0);
    from[range_dim] = piece.range.start;
    Shape extents = piece.buffer->shape();
    extents[range_dim] = piece.range.size;
    copy_box(piece.buffer->view(), from, out.view(), to, extents);
    to[dim] += extents[dim];
  }
  return out;
}

// A copy of a buffer, to write to.
Buffer copy_of(const Buffer& buffer) {
  Buffer copy = like(buffer, buffer.shape());
  std::memcpy(copy.mutable_data(), buffer.data(), buffer.size_bytes());
  return copy;
}

}  // namespace

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

std::int64_t Groups::rank(std::int64_t position) const {
  const std::int64_t index = grid_->index_along(position, atoms_);
  if (lists_.empty()) return index;
  const Dims& list = list_of(position);
  return std::find(list.begin(), list.end(), index) - list.begin();
}

Extent Groups::extent(std::int64_t size, std::int64_t position) const {
  if (lists_.empty()) return grid_->extent(size, atoms_, position);
  const std::int64_t piece = size / static_cast<std::int64_t>(list_of(position).size());
  return {.start = rank(position) * piece, .size = piece};
}

AtomSet Groups::joined(AtomSet varying) const { return lists_.empty() ? varying - AtomSet(atoms_) : split(varying); }

const Dims& Groups::list_of(std::int64_t position) const {
  const std::int64_t index = grid_->index_along(position, atoms_);
  return *std::find_if(lists_.begin(), lists_.end(),
                       [&](const Dims& list) { return std::find(list.begin(), list.end(), index) != list.end(); });
}

ShardSet all_reduce(const ShardSet& in, const Groups& groups, ReduceKind kind) {
  if (groups.atoms().empty()) return in;
  return make_shards(in.grid, groups.joined(in.varying), elements_of(in), [&](std::int64_t position) {
    const std::vector<const std::byte*> operands = group_data(in, position, groups);
    const Buffer& like_this = in.at(position);
    Buffer out = like(like_this, like_this.shape());
    Scratch scratch = scratch_for(operands.size());
    reduce_run(kind, out.dtype(), operands, 0, num_elements(out.shape()), static_cast<std::byte*>(out.mutable_data()),
               scratch);
    return out;
  });
}

ShardSet all_gather(const ShardSet& in, const Groups& groups, std::size_t dim) {
  if (groups.atoms().empty()) return in;
  return make_shards(in.grid, groups.joined(in.varying), elements_of(in), [&](std::int64_t position) {
    return concatenate(in, position, groups, dim, dim,
                       [&](const Buffer& buffer) { return Extent{.start = 0, .size = buffer.shape()[dim]}; });
  });
}

ShardSet reduce_scatter(const ShardSet& in, const Groups& groups, std::size_t dim, ReduceKind kind) {
  if (groups.atoms().empty()) return in;
  return make_shards(in.grid, groups.split(in.varying), elements_of(in), [&](std::int64_t position) {
    const std::vector<const std::byte*> operands = group_data(in, position, groups);
    const Buffer& whole = in.at(position);
    const Extent mine = groups.extent(whole.shape()[dim], position);
    Shape shape = whole.shape();
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (std::size_t d = 0; d < dim; ++d) outer *= shape[d];
    for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
    const std::int64_t stride = shape[dim] * inner;
    shape[dim] = mine.size;
    Buffer out = like(whole, shape);
    Scratch scratch = scratch_for(operands.size());
    const std::size_t element = size_of(out.dtype());
    auto* data = static_cast<std::byte*>(out.mutable_data());
    for (std::int64_t o = 0; o < outer; ++o) {
      reduce_run(kind, out.dtype(), operands, static_cast<std::size_t>(o * stride + mine.start * inner) * element,
                 mine.size * inner, data + static_cast<std::size_t>(o * mine.size * inner) * element, scratch);
    }
    return out;
  });
}

ShardSet all_to_all(const ShardSet& in, const Groups& groups, std::size_t split_dim, std::size_t concat_dim) {
  if (groups.atoms().empty()) return in;
  return make_shards(in.grid, groups.split(in.varying), elements_of(in), [&](std::int64_t position) {
    return concatenate(in, position, groups, concat_dim, split_dim,
                       [&](const Buffer& buffer) { return groups.extent(buffer.shape()[split_dim], position); });
  });
}

ShardSet collective_permute(const ShardSet& in, const Atoms& atoms, const Dims& sources, const Dims& targets) {
  const std::int64_t group = in.grid->size_of(atoms);
  std::vector<std::int64_t> source_of(static_cast<std::size_t>(group), -1);
  for (std::size_t i = 0; i < targets.size(); ++i) source_of[static_cast<std::size_t>(targets[i])] = sources[i];
  return make_shards(in.grid, in.varying | AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    const std::int64_t source = source_of[static_cast<std::size_t>(in.grid->index_along(position, atoms))];
    if (source >= 0) return in.at(in.grid->with_index_along(position, atoms, source));
    const Buffer& like_this = in.at(position);
    Buffer zeros = like(like_this, like_this.shape());
    std::memset(zeros.mutable_data(), 0, zeros.size_bytes());
    return zeros;
  });
}

ShardSet broadcast(const ShardSet& in, const Atoms& atoms, std::int64_t source) {
  return make_shards(in.grid, in.varying - AtomSet(atoms), elements_of(in),
                     [&](std::int64_t position) { return in.at(in.grid->with_index_along(position, atoms, source)); });
}

ShardSet ragged_all_to_all(std::span<const ShardSet* const> in, const Groups& groups, SourceLocation where) {
  const ShardSet& operand = *in[0];
  const ShardSet& output = *in[1];
  AtomSet varying;
  for (const ShardSet* set : in) varying = varying | set->varying;
  return make_shards(operand.grid, groups.split(varying), elements_of(output), [&](std::int64_t position) {
    const auto entries = [](const ShardSet& set, std::int64_t at) {
      return static_cast<const std::int32_t*>(set.at(at).data());
    };
    const auto check = [&](std::string_view what, std::int64_t start, std::int64_t size, const Buffer& buffer) {
      if (start >= 0 && size >= 0 && start + size <= buffer.shape()[0]) return;
      throw OutOfRange(fmt::format("ragged_all_to_all: a slice of {} rows from row {} lies outside {}, which has {}",
                                   size, start, what, buffer.shape()[0]),
                       where);
    };
    Buffer out = copy_of(output.at(position));
    const std::vector<std::int64_t> members = groups.members(position);
    const std::int64_t slices = in[2]->at(position).shape()[0] / static_cast<std::int64_t>(members.size());
    const std::int64_t first = groups.rank(position) * slices;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Buffer& from = operand.at(members[m]);
      for (std::int64_t k = 0; k < slices; ++k) {
        const std::int64_t start = entries(*in[2], members[m])[first + k];
        const std::int64_t size = entries(*in[3], members[m])[first + k];
        const std::int64_t to = entries(*in[4], members[m])[first + k];
        const std::int64_t expected = entries(*in[5], position)[static_cast<std::int64_t>(m) * slices + k];
        if (size != expected) {
          throw InvalidArgument(fmt::format("ragged_all_to_all: recv_sizes says that device {} of a group gets {} rows "
                                            "from device {}, but send_sizes there says {}",
                                            groups.rank(position), expected, m, size),
                                where);
        }
        check("the operand", start, size, from);
        check("the output", to, size, out);
        Shape extents = from.shape();
        extents[0] = size;
        Dims source(extents.size(), 0);
        Dims target(extents.size(), 0);
        source[0] = start;
        target[0] = to;
        copy_box(from.view(), source, out.view(), target, extents);
      }
    }
    return out;
  });
}

ShardSet shard_slice(const ShardSet& in, const Atoms& atoms, std::size_t dim) {
  if (atoms.empty()) return in;
  return make_shards(in.grid, in.varying | AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    const Buffer& whole = in.at(position);
    const Extent mine = in.grid->extent(whole.shape()[dim], atoms, position);
    Shape shape = whole.shape();
    shape[dim] = mine.size;
    Buffer out = like(whole, shape);
    Dims from(shape.size(), 0);
    from[dim] = mine.start;
    copy_box(whole.view(), from, out.view(), Dims(shape.size(), 0), shape);
    return out;
  });
}

ShardSet exclusive_scan(const ShardSet& in, const Atoms& atoms, ReduceKind kind, bool reverse) {
  const Grid& grid = *in.grid;
  const std::int64_t group = grid.size_of(atoms);
  ShardSet out = ShardSet::make(in.grid, in.varying | AtomSet(atoms));
  // One group of devices after the other: those of the others are the positions at the start of the group.
  const AtomSet others = out.varying - AtomSet(atoms);
  for_each_shard(grid.size_of(others), elements_of(in), [&](std::int64_t i) {
    const std::int64_t start = grid.representative(others, i);
    const Buffer& like_this = in.at(start);
    const std::int64_t n = num_elements(like_this.shape());
    Buffer sum = like(like_this, like_this.shape());
    fill_neutral(kind, sum.dtype(), sum.mutable_data(), n);
    for (std::int64_t step = 0; step < group; ++step) {
      const std::int64_t position = grid.with_index_along(start, atoms, reverse ? group - 1 - step : step);
      out.shards[static_cast<std::size_t>(grid.distinct_index(position, out.varying))] = sum;
      Buffer next = like(like_this, like_this.shape());
      combine(kind, sum.dtype(), sum.data(), in.at(position).data(), next.mutable_data(), n);
      sum = std::move(next);
    }
  });
  return out;
}

namespace {

// Elements seen as rows along one dimension: `outer` times `extent` times `bytes` next to each other.
struct Rows {
  std::byte* data;
  std::int64_t outer = 1;
  std::int64_t extent;
  std::size_t bytes;

  Rows(const Buffer& buffer, std::size_t dim)
      : data(static_cast<std::byte*>(buffer.view().data)), extent(buffer.shape()[dim]), bytes(size_of(buffer.dtype())) {
    for (std::size_t d = 0; d < dim; ++d) outer *= buffer.shape()[d];
    for (std::size_t d = dim + 1; d < buffer.shape().size(); ++d) bytes *= static_cast<std::size_t>(buffer.shape()[d]);
  }
  std::byte* at(std::int64_t o, std::int64_t i) const {
    return data + static_cast<std::size_t>(o * extent + i) * bytes;
  }
};

// Copies what a run takes from one shard to another; both hold the given ranges of their whole dimensions.
void copy_run(const Run& run, const Rows& from, const Extent& source, const Rows& to, const Extent& target) {
  const auto [in_first, in_last] =
      Run::within(run.in_start, run.in_step, run.count, source.start, source.start + source.size);
  const auto [out_first, out_last] =
      Run::within(run.out_start, run.out_step, run.count, target.start, target.start + target.size);
  const std::int64_t first = std::max(in_first, out_first);
  const std::int64_t last = std::min(in_last, out_last);
  if (last <= first) return;
  const std::int64_t in = run.in_start + first * run.in_step - source.start;
  const std::int64_t out = run.out_start + first * run.out_step - target.start;
  for (std::int64_t o = 0; o < to.outer; ++o) {
    if (run.in_step == 1 && run.out_step == 1) {
      std::memcpy(to.at(o, out), from.at(o, in), static_cast<std::size_t>(last - first) * to.bytes);
      continue;
    }
    for (std::int64_t i = 0; i < last - first; ++i) {
      std::memcpy(to.at(o, out + i * run.out_step), from.at(o, in + i * run.in_step), to.bytes);
    }
  }
}

void fill_with(const Buffer& buffer, const Buffer& scalar) {
  const std::size_t bytes = size_of(buffer.dtype());
  auto* data = static_cast<std::byte*>(buffer.view().data);
  for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) {
    std::memcpy(data + static_cast<std::size_t>(i) * bytes, scalar.data(), bytes);
  }
}

}  // namespace

ShardSet rearrange(const std::vector<const ShardSet*>& operands, const ShardSet* fill, const Atoms& atoms,
                   std::size_t dim, const Dims& extents, std::int64_t size, const std::vector<Run>& runs) {
  const Grid& grid = *operands[0]->grid;
  AtomSet varying = AtomSet(atoms) | (fill != nullptr ? fill->varying : AtomSet());
  for (const ShardSet* operand : operands) varying = varying | operand->varying;
  const std::int64_t group = grid.size_of(atoms);
  return make_shards(operands[0]->grid, varying, elements_of(*operands[0]), [&](std::int64_t position) {
    const Extent target = grid.extent(size, atoms, position);
    const Buffer& like_this = operands[0]->at(position);
    Shape shape = like_this.shape();
    shape[dim] = target.size;
    Buffer out = like(like_this, std::move(shape));
    if (num_elements(out.shape()) == 0) return out;
    if (fill != nullptr) fill_with(out, fill->at(position));
    const Rows to(out, dim);
    for (const Run& run : runs) {
      const auto operand = static_cast<std::size_t>(run.operand);
      for (std::int64_t index = 0; index < group; ++index) {
        const std::int64_t source = grid.with_index_along(position, atoms, index);
        const Extent held = grid.extent(extents[operand], atoms, source);
        copy_run(run, Rows(operands[operand]->at(source), dim), held, to, target);
      }
    }
    return out;
  });
}

ShardSet axis_index(const GridPtr& grid, const Atoms& atoms, AddressSpace& space) {
  return make_shards(grid, AtomSet(atoms), grid->size_of(atoms), [&](std::int64_t position) {
    Buffer out(space, int32, {});
    *static_cast<std::int32_t*>(out.mutable_data()) = static_cast<std::int32_t>(grid->index_along(position, atoms));
    return out;
  });
}

}  // namespace shoal::local
