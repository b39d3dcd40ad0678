// Collectives on shards that exist, as tests want them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "comm/collectives/local_collectives.h"

namespace shoal::local {

/// Over any atoms.
inline AtomSet all_atoms(const Grid& grid) {
  AtomSet set;
  for (int atom = 0; atom < grid.num_atoms(); ++atom) set.insert(static_cast<Atom>(atom));
  return set;
}

inline ShardShapes shapes_of(const ShardSet& set) {
  ShardShapes shapes{.grid = set.grid, .varying = set.varying, .dtype = set.shards[0].dtype(), .shapes = {}};
  for (const Buffer& shard : set.shards) shapes.shapes.push_back(shard.shape());
  const auto same = [&](const Shape& shape) { return shape == shapes.shapes[0]; };
  if (std::ranges::all_of(shapes.shapes, same)) shapes.shapes.resize(1);
  return shapes;
}

/// The result of a collective. Shares the operand's buffers where a shard is a whole one of them.
inline ShardSet run(const Collective& collective, std::span<const ShardSet* const> operands, AddressSpace& space) {
  const ShardShapes& shapes = collective.result();
  ShardSet out = ShardSet::make(shapes.grid, shapes.varying);
  for (std::size_t i = 0; i < out.shards.size(); ++i) {
    const auto shard = static_cast<std::int64_t>(i);
    const View view = collective.views().empty() ? View{.shard = View::kZeros} : collective.views()[i];
    if (view.shard != View::kZeros) {
      const Buffer& source = operands[0]->shards[static_cast<std::size_t>(view.shard)];
      if (view.offset == 0 && source.shape() == shapes.shape(shard)) {
        out.shards[i] = source;
        continue;
      }
    }
    out.shards[i] = Buffer(space, shapes.dtype, shapes.shape(shard));
    if (out.shards[i].size_bytes() == 0 || collective.views().empty()) continue;
    if (view.shard == View::kZeros) {
      std::memset(out.shards[i].mutable_data(), 0, out.shards[i].size_bytes());
    } else {
      const Buffer& source = operands[0]->shards[static_cast<std::size_t>(view.shard)];
      std::memcpy(out.shards[i].mutable_data(), static_cast<const std::byte*>(source.data()) + view.offset,
                  out.shards[i].size_bytes());
    }
  }
  if (!collective.views().empty()) return out;
  const auto pointers_of = [](const ShardSet& set) {
    std::vector<std::byte*> pointers;
    for (const Buffer& shard : set.shards) pointers.push_back(static_cast<std::byte*>(shard.view().data));
    return pointers;
  };
  std::vector<std::vector<std::byte*>> pointers;
  for (const ShardSet* operand : operands) pointers.push_back(pointers_of(*operand));
  std::vector<std::byte* const*> data;
  for (const std::vector<std::byte*>& operand : pointers) data.push_back(operand.data());
  const std::vector<std::byte*> result = pointers_of(out);
  ThreadPool::shared().parallel_for(collective.tiles(),
                                    [&](std::int64_t tile) { collective.run(data, result.data(), tile); });
  return out;
}

inline ShardSet run(const CollectivePtr& collective, const ShardSet& in) {
  const ShardSet* const operands[] = {&in};
  return run(*collective, operands, in.shards[0].space());
}

inline ShardSet all_reduce(const ShardSet& in, const Groups& groups, ReduceKind kind) {
  return run(all_reduce(shapes_of(in), all_atoms(*in.grid), groups, kind), in);
}
inline ShardSet all_gather(const ShardSet& in, const Groups& groups, std::size_t dim) {
  return run(all_gather(shapes_of(in), all_atoms(*in.grid), groups, dim), in);
}
inline ShardSet reduce_scatter(const ShardSet& in, const Groups& groups, std::size_t dim, ReduceKind kind) {
  return run(reduce_scatter(shapes_of(in), all_atoms(*in.grid), groups, dim, kind), in);
}
inline ShardSet all_to_all(const ShardSet& in, const Groups& groups, std::size_t split_dim, std::size_t concat_dim) {
  return run(all_to_all(shapes_of(in), all_atoms(*in.grid), groups, split_dim, concat_dim), in);
}
inline ShardSet collective_permute(const ShardSet& in, const Atoms& atoms, const Dims& sources, const Dims& targets) {
  return run(collective_permute(shapes_of(in), all_atoms(*in.grid), atoms, sources, targets), in);
}
inline ShardSet broadcast(const ShardSet& in, const Atoms& atoms, std::int64_t source) {
  return run(broadcast(shapes_of(in), all_atoms(*in.grid), atoms, source), in);
}
inline ShardSet shard_slice(const ShardSet& in, const Atoms& atoms, std::size_t dim) {
  return run(shard_slice(shapes_of(in), all_atoms(*in.grid), atoms, dim), in);
}
inline ShardSet exclusive_scan(const ShardSet& in, const Atoms& atoms, ReduceKind kind, bool reverse) {
  return run(exclusive_scan(shapes_of(in), all_atoms(*in.grid), atoms, kind, reverse), in);
}
inline ShardSet axis_index(const GridPtr& grid, const Atoms& atoms, AddressSpace& space) {
  return run(*axis_index(grid, all_atoms(*grid), atoms), {}, space);
}

}  // namespace shoal::local
