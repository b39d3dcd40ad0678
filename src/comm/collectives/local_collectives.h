// Collectives: data movement between the shards of a value.
//
// Nothing waits: all shards of the operand that are needed are there when a collective runs, those of other processes
// included (comm/collectives/exchange.h), and each distinct shard of the result is made once in each process that holds
// it, whatever the number of devices that share it. Which shard goes where is worked out once, from the mesh and the
// shapes; a run only moves bytes, in tiles that any threads may take. Where no byte changes, nothing runs at all: the
// result is a view of the operand, or the operand is made where the result will be.
//
// `atoms` orders the group: the first is the most major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/collectives/shard_set.h"
#include "ir/attrs.h"
#include "ir/rearrangement.h"
#include "sharding/placement.h"
#include "shoal/error.h"
#include "shoal/shape.h"

namespace shoal {
struct Need;
}

namespace shoal::local {

/// Which devices communicate with which: those that differ along `atoms` alone, in the order of `atoms`, the first
/// being the most major; or the given lists of positions in that order, of which each is a group.
class Groups {
 public:
  Groups(GridPtr grid, Atoms atoms, std::vector<Dims> lists = {});

  const Grid& grid() const { return *grid_; }
  const Atoms& atoms() const { return atoms_; }
  /// The positions in the grid of the group of the device at `position`, in the group's order.
  std::vector<std::int64_t> members(std::int64_t position) const;
  /// The position of the first of them.
  std::int64_t first(std::int64_t position) const;
  /// The device's place in its group.
  std::int64_t rank(std::int64_t position) const;
  /// The device's piece of a dimension that its group splits.
  Extent extent(std::int64_t size, std::int64_t position) const;
  /// Over what a value varies that is the same on all devices of a group, and made from one that varies over `varying`.
  AtomSet joined(AtomSet varying) const { return lists_.empty() ? varying - AtomSet(atoms_) : split(varying); }
  /// The same for a value of which every device has its own.
  AtomSet split(AtomSet varying) const { return varying | AtomSet(atoms_); }

 private:
  const Dims& list_of(std::int64_t position) const;

  GridPtr grid_;
  Atoms atoms_;
  std::vector<Dims> lists_;
  std::vector<std::int32_t> list_at_;  // For each position along the atoms, the list that has it,
  std::vector<std::int64_t> rank_at_;  // and its place there.
};

/// A place in the shards of another value.
struct View {
  std::int64_t shard;      ///< kZeros for as many zeros, kMade for what has no place yet.
  std::size_t offset = 0;  ///< Bytes.
  static constexpr std::int64_t kZeros = -1;
  static constexpr std::int64_t kMade = -2;
};

/// A collective worked out for operands of known shapes. Immutable: any number of threads may run it at once.
class Collective {
 public:
  /// A part of a run over several processes. It begins where all tiles of the one before have run.
  struct Round {
    bool exchanges = true;  ///< Whether processes first give each other what its tiles need.
    std::int64_t end = 0;   ///< One past its last tile.
  };
  /// What processes give each other that is no shard of an operand.
  struct Extra {
    std::vector<int> holders;                 ///< Those that can make it, ascending.
    std::optional<std::size_t> scratch = {};  ///< Where this process makes it, in bytes of scratch memory;
    std::int64_t result = -1;                 ///< or the shard of the result that has it in its place.
  };

  virtual ~Collective() = default;

  const ShardShapes& result() const { return result_; }
  /// For each shard of the result, the place in the operand where its bytes lie already, or kMade if its tiles are to
  /// be run; nothing if all are. Shards of other processes count as those of this one, though nothing is known of them.
  const std::vector<View>& views() const { return views_; }
  /// For each shard of the operand, the place in the result where it lies as it is. If the operand is made there, the
  /// collective need not be run. Nothing if it must.
  const std::vector<View>& operand_in_result() const { return operand_in_result_; }
  /// Pieces of the work, which may run at the same time in any order.
  std::int64_t tiles() const { return tiles_; }
  /// The rounds of a run over several processes, as many in all of them. If there are none, it is one that exchanges;
  /// the tiles of each shard of the result follow those of the one before, as many for each, and those of shards that
  /// are not held are not run.
  const std::vector<Round>& rounds() const { return rounds_; }
  /// They are numbered as the shards of one more operand, which runs get after the others.
  const std::vector<Extra>& extras() const { return extras_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  /// Adds what a process has to be given for a round, where it does not hold it.
  virtual void add_needs(std::size_t round, int process, std::vector<Need>& needs) const;
  /// The bytes that a run reads and writes.
  std::size_t bytes() const { return bytes_; }

  /// Runs one tile on the shards of each operand, and those of the result, which overlap none of them.
  virtual void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const = 0;

 protected:
  explicit Collective(ShardShapes result) : result_(std::move(result)) {}

  /// `source`, unless that is a shard that comes from another process: it has no place here yet.
  View place_of(std::int64_t shard, const View& source, const ShardShapes& in) const;
  /// Sets the views, unless this process makes all that it holds of the result.
  void set_views(std::vector<View> views);
  /// Adds what a shard of the result is made from. For those that say it by shard; others override add_needs.
  virtual void add_needs_of(std::int64_t /*shard*/, std::vector<Need>& /*needs*/) const {}

  ShardShapes result_;
  std::vector<Round> rounds_;
  std::vector<Extra> extras_;
  std::size_t scratch_bytes_ = 0;
  std::vector<View> views_;
  std::vector<View> operand_in_result_;
  std::int64_t tiles_ = 1;
  std::size_t bytes_ = 0;
};

using CollectivePtr = std::unique_ptr<const Collective>;

// The results below vary over the atoms of `wanted` at most: over the others they are known to be equal.

/// The reduction over the group, in a fixed balanced tree over its positions in device order, so that the bits depend
/// on the mesh alone: the left half has the greatest power of two below the number of positions. One pass over the
/// operands per result.
CollectivePtr all_reduce(const ShardShapes& in, AtomSet wanted, const Groups& groups, ReduceKind kind);

/// The shards of the group, concatenated along `dim` in the order of the group.
CollectivePtr all_gather(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim);

/// The device's piece along `dim` of the all_reduce.
CollectivePtr reduce_scatter(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t dim,
                             ReduceKind kind);

/// Pieces along `split_dim` from all devices of the group, concatenated along `concat_dim`.
CollectivePtr all_to_all(const ShardShapes& in, AtomSet wanted, const Groups& groups, std::size_t split_dim,
                         std::size_t concat_dim);

/// The operand as it is.
CollectivePtr unchanged(const ShardShapes& in, AtomSet wanted);

/// The shard of the device at sources[i] along `atoms` becomes that of targets[i]; the others get zeros.
CollectivePtr collective_permute(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, const Dims& sources,
                                 const Dims& targets);

/// The shard of the device at `source` along `atoms`, for all of them.
CollectivePtr broadcast(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, std::int64_t source);

/// `in` holds operand, output, input_offsets, send_sizes, output_offsets, recv_sizes. Every device sends slices of its
/// operand, as many to each of its group, to where it says in the receiver's output; what no slice covers stays.
/// A run throws OutOfRange for a slice outside an array, and InvalidArgument if a receiver expects another size than is
/// sent.
CollectivePtr ragged_all_to_all(std::vector<ShardShapes> in, AtomSet wanted, const Groups& groups,
                                SourceLocation where);

/// The device's own piece along `dim`.
CollectivePtr shard_slice(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, std::size_t dim);

/// The reduction over the devices that come before the device in the order of `atoms`, or after it if `reverse`; the
/// neutral element where there is none. One after the other, so that the bits depend on the mesh alone.
CollectivePtr exclusive_scan(const ShardShapes& in, AtomSet wanted, const Atoms& atoms, ReduceKind kind, bool reverse);

/// Along `dim`, which `atoms` split and whose whole extents are `extents` (of each operand) and `size` (of the result):
/// the device's part of what the runs make of the operands. If it `fills`, there is one more operand, a scalar, whose
/// element the rest holds.
CollectivePtr rearrange(std::vector<ShardShapes> operands, AtomSet wanted, bool fills, const Atoms& atoms,
                        std::size_t dim, const Dims& extents, std::int64_t size, const std::vector<Run>& runs);

/// The device's position along `atoms`, an i32 scalar.
CollectivePtr axis_index(const GridPtr& grid, AtomSet wanted, const Atoms& atoms);

}  // namespace shoal::local
