#include "comm/local_collectives.h"

#include <array>
#include <bit>
#include <cstring>
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
std::vector<const std::byte*> group_data(const ShardSet& in, std::int64_t position, const Atoms& sorted) {
  std::vector<const std::byte*> data;
  const std::int64_t size = in.grid->size_of(sorted);
  for (std::int64_t g = 0; g < size; ++g) {
    data.push_back(static_cast<const std::byte*>(in.at(in.grid->with_index_along(position, sorted, g)).data()));
  }
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
Buffer concatenate(const ShardSet& in, std::int64_t position, const Atoms& atoms, std::size_t dim,
                   std::size_t range_dim, F&& piece_of) {
  const std::int64_t group = in.grid->size_of(atoms);
  std::vector<Piece> pieces;
  Shape shape;
  for (std::int64_t g = 0; g < group; ++g) {
    const Buffer& buffer = in.at(in.grid->with_index_along(position, atoms, g));
    pieces.push_back({&buffer, piece_of(buffer)});
    Shape part = buffer.shape();
    part[range_dim] = pieces.back().range.size;
    if (g == 0) {
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

}  // namespace

ShardSet all_reduce(const ShardSet& in, const Atoms& atoms, ReduceKind kind) {
  if (atoms.empty()) return in;
  const Atoms sorted = AtomSet(atoms).sorted();
  return make_shards(in.grid, in.varying - AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    const std::vector<const std::byte*> operands = group_data(in, position, sorted);
    const Buffer& like_this = in.at(position);
    Buffer out = like(like_this, like_this.shape());
    Scratch scratch = scratch_for(operands.size());
    reduce_run(kind, out.dtype(), operands, 0, num_elements(out.shape()), static_cast<std::byte*>(out.mutable_data()),
               scratch);
    return out;
  });
}

ShardSet all_gather(const ShardSet& in, const Atoms& atoms, std::size_t dim) {
  if (atoms.empty()) return in;
  return make_shards(in.grid, in.varying - AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    return concatenate(in, position, atoms, dim, dim,
                       [&](const Buffer& buffer) { return Extent{.start = 0, .size = buffer.shape()[dim]}; });
  });
}

ShardSet reduce_scatter(const ShardSet& in, const Atoms& atoms, std::size_t dim, ReduceKind kind) {
  if (atoms.empty()) return in;
  const Atoms sorted = AtomSet(atoms).sorted();
  return make_shards(in.grid, in.varying | AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    const std::vector<const std::byte*> operands = group_data(in, position, sorted);
    const Buffer& whole = in.at(position);
    const Extent mine = in.grid->extent(whole.shape()[dim], atoms, position);
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

ShardSet all_to_all(const ShardSet& in, const Atoms& atoms, std::size_t split_dim, std::size_t concat_dim) {
  if (atoms.empty()) return in;
  return make_shards(in.grid, in.varying | AtomSet(atoms), elements_of(in), [&](std::int64_t position) {
    return concatenate(in, position, atoms, concat_dim, split_dim, [&](const Buffer& buffer) {
      return in.grid->extent(buffer.shape()[split_dim], atoms, position);
    });
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

ShardSet axis_index(const GridPtr& grid, const Atoms& atoms, AddressSpace& space) {
  return make_shards(grid, AtomSet(atoms), grid->size_of(atoms), [&](std::int64_t position) {
    Buffer out(space, int32, {});
    *static_cast<std::int32_t*>(out.mutable_data()) = static_cast<std::int32_t>(grid->index_along(position, atoms));
    return out;
  });
}

}  // namespace shoal::local
