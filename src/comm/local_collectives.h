// Collectives inside a process: data movement between the shard buffers of one value.
//
// Nothing waits: all shards of the operand exist when a collective runs, and each distinct shard of the result is made
// once, whatever the number of devices that share it. Results share the operand's buffers where no byte changes.
// `atoms` orders the group: the first is the most major. A buffer of the result lies in the operand's address space.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/shard_set.h"
#include "ir/attrs.h"
#include "ir/rearrangement.h"
#include "sharding/placement.h"
#include "shoal/error.h"
#include "shoal/shape.h"

namespace shoal::local {

/// Which devices communicate with which: those that differ along `atoms` alone, in the order of `atoms`, the first
/// being the most major; or the given lists of positions in that order, of which each is a group.
class Groups {
 public:
  Groups(GridPtr grid, Atoms atoms, std::vector<Dims> lists = {})
      : grid_(std::move(grid)), atoms_(std::move(atoms)), lists_(std::move(lists)) {}

  const Atoms& atoms() const { return atoms_; }
  /// The positions in the grid of the group of the device at `position`, in the group's order.
  std::vector<std::int64_t> members(std::int64_t position) const;
  /// The device's place in its group.
  std::int64_t rank(std::int64_t position) const;
  /// The device's piece of a dimension that its group splits.
  Extent extent(std::int64_t size, std::int64_t position) const;
  /// Over what a value varies that is the same on all devices of a group, and made from one that varies over `varying`.
  AtomSet joined(AtomSet varying) const;
  /// The same for a value of which every device has its own.
  AtomSet split(AtomSet varying) const { return varying | AtomSet(atoms_); }

 private:
  const Dims& list_of(std::int64_t position) const;

  GridPtr grid_;
  Atoms atoms_;
  std::vector<Dims> lists_;
};

/// The reduction over the group, in a fixed balanced tree over its positions in device order, so that the bits depend
/// on the mesh alone: the left half has the greatest power of two below the number of positions. One pass over the
/// operands per result.
ShardSet all_reduce(const ShardSet& in, const Groups& groups, ReduceKind kind);

/// The shards of the group, concatenated along `dim` in the order of the group.
ShardSet all_gather(const ShardSet& in, const Groups& groups, std::size_t dim);

/// The device's piece along `dim` of the all_reduce.
ShardSet reduce_scatter(const ShardSet& in, const Groups& groups, std::size_t dim, ReduceKind kind);

/// Pieces along `split_dim` from all devices of the group, concatenated along `concat_dim`.
ShardSet all_to_all(const ShardSet& in, const Groups& groups, std::size_t split_dim, std::size_t concat_dim);

/// The shard of the device at sources[i] along `atoms` becomes that of targets[i]; the others get zeros.
ShardSet collective_permute(const ShardSet& in, const Atoms& atoms, const Dims& sources, const Dims& targets);

/// The shard of the device at `source` along `atoms`, for all of them.
ShardSet broadcast(const ShardSet& in, const Atoms& atoms, std::int64_t source);

/// `in` holds operand, output, input_offsets, send_sizes, output_offsets, recv_sizes. Every device sends slices of its
/// operand, as many to each of its group, to where it says in the receiver's output; what no slice covers stays.
/// Throws OutOfRange for a slice outside an array, and InvalidArgument if a receiver expects another size than is sent.
ShardSet ragged_all_to_all(std::span<const ShardSet* const> in, const Groups& groups, SourceLocation where);

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
