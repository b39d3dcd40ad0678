// Collectives on shards that exist, as tests want them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "comm/collectives/table.h"

namespace shoal::collectives {

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

/// The result of the collective of a name, with these attributes besides the axes.
inline ShardSet run(std::string_view name, const ShardSet& in, const Groups& groups, const Attrs& attrs = {}) {
  const Context context{.attrs = attrs,
                        .where = {},
                        .groups = groups,
                        .operands = {shapes_of(in)},
                        .wanted = all_atoms(*in.grid),
                        .more_wanted = {}};
  return run(std::ranges::find(kTable, name, &Row::op)->make(context), in);
}

inline ShardSet all_reduce(const ShardSet& in, const Groups& groups, ReduceKind kind) {
  return run("all_reduce", in, groups, {{"kind", std::string(name_of(kind))}});
}
inline ShardSet all_gather(const ShardSet& in, const Groups& groups, std::size_t dim) {
  return run("all_gather", in, groups, {{"dim", static_cast<std::int64_t>(dim)}});
}
inline ShardSet reduce_scatter(const ShardSet& in, const Groups& groups, std::size_t dim, ReduceKind kind) {
  return run("reduce_scatter", in, groups,
             {{"dim", static_cast<std::int64_t>(dim)}, {"kind", std::string(name_of(kind))}});
}
inline ShardSet all_to_all(const ShardSet& in, const Groups& groups, std::size_t split_dim, std::size_t concat_dim) {
  return run(
      "all_to_all", in, groups,
      {{"split_dim", static_cast<std::int64_t>(split_dim)}, {"concat_dim", static_cast<std::int64_t>(concat_dim)}});
}
inline ShardSet collective_permute(const ShardSet& in, const Atoms& atoms, const Dims& sources, const Dims& targets) {
  return run("collective_permute", in, {in.grid, atoms}, {{"sources", sources}, {"targets", targets}});
}
inline ShardSet pbroadcast(const ShardSet& in, const Atoms& atoms, std::int64_t source) {
  return run("pbroadcast", in, {in.grid, atoms}, {{"source", source}});
}
inline ShardSet shard_slice(const ShardSet& in, const Atoms& atoms, std::size_t dim) {
  return run("shard_slice", in, {in.grid, atoms}, {{"dim", static_cast<std::int64_t>(dim)}});
}
inline ShardSet exclusive_scan(const ShardSet& in, const Atoms& atoms, ReduceKind kind, bool reverse) {
  return run("exclusive_scan", in, {in.grid, atoms}, {{"kind", std::string(name_of(kind))}, {"reverse", reverse}});
}
inline ShardSet axis_index(const GridPtr& grid, const Atoms& atoms, AddressSpace& space) {
  const Attrs attrs;
  const Context context{.attrs = attrs,
                        .where = {},
                        .groups = {grid, atoms},
                        .operands = {},
                        .wanted = all_atoms(*grid),
                        .more_wanted = {}};
  return run(*axis_index(context), {}, space);
}

}  // namespace shoal::collectives
