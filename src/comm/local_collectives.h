// Collectives inside a process: data movement between the shard buffers of one value.
//
// Nothing waits: all shards of the operand exist when a collective runs, and each distinct shard of the result is made
// once, whatever the number of devices that share it. Results share the operand's buffers where no byte changes.
// `atoms` orders the group: the first is the most major. A buffer of the result lies in the operand's address space.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/shard_set.h"
#include "ir/attrs.h"
#include "ir/rearrangement.h"
#include "sharding/placement.h"
#include "shoal/shape.h"

namespace shoal::local {

/// The reduction over the group, in a fixed balanced tree over its positions in device order, so that the bits depend
/// on the mesh alone: the left half has the greatest power of two below the number of positions. One pass over the
/// operands per result.
ShardSet all_reduce(const ShardSet& in, const Atoms& atoms, ReduceKind kind);

/// The shards of the group, concatenated along `dim` in the order of `atoms`.
ShardSet all_gather(const ShardSet& in, const Atoms& atoms, std::size_t dim);

/// The device's piece along `dim` of the all_reduce.
ShardSet reduce_scatter(const ShardSet& in, const Atoms& atoms, std::size_t dim, ReduceKind kind);

/// Pieces along `split_dim` from all devices of the group, concatenated along `concat_dim`.
ShardSet all_to_all(const ShardSet& in, const Atoms& atoms, std::size_t split_dim, std::size_t concat_dim);

/// The shard of the device at sources[i] along `atoms` becomes that of targets[i]; the others get zeros.
ShardSet collective_permute(const ShardSet& in, const Atoms& atoms, const Dims& sources, const Dims& targets);

/// The device's own piece along `dim`.
ShardSet shard_slice(const ShardSet& in, const Atoms& atoms, std::size_t dim);

/// The reduction over the devices that come before the device in the order of `atoms`, or after it if `reverse`; the
/// neutral element where there is none. One after the other, so that the bits depend on the mesh alone.
ShardSet exclusive_scan(const ShardSet& in, const Atoms& atoms, ReduceKind kind, bool reverse);

/// Along `dim`, which `atoms` split and whose whole extents are `extents` (of each operand) and `size` (of the result):
/// the device's part of what the runs make of the operands. The rest holds the element of `fill`, a scalar.
ShardSet rearrange(const std::vector<const ShardSet*>& operands, const ShardSet* fill, const Atoms& atoms,
                   std::size_t dim, const Dims& extents, std::int64_t size, const std::vector<Run>& runs);

/// The device's position along `atoms`, an i32 scalar in `space`.
ShardSet axis_index(const GridPtr& grid, const Atoms& atoms, AddressSpace& space);

}  // namespace shoal::local
