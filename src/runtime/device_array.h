// Arrays as the runtime holds them: a type, a sharding, and the future of their shards.
#pragma once

#include <boost/container/small_vector.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/digest.h"
#include "comm/collectives/shard_set.h"
#include "ir/type.h"
#include "runtime/shard_future.h"
#include "shoal/error.h"
#include "shoal/sharding.h"

namespace shoal {

/// The grid and placement of a sharding for arrays of a rank.
struct Layout {
  GridPtr grid;
  Placement placement;
};
Layout layout_of(const Sharding& sharding, std::size_t rank);

/// All there is to say of an array but its elements. Immutable. Equal kinds are one object for as long as somebody has
/// it, so that comparing pointers compares kinds.
struct ArrayKind {
  Type type;  ///< Global; its memory is that of the sharding, and its Explicit axes are those of the sharding's mesh.
  Sharding sharding;
  bool committed = false;
  Layout layout;
};
using KindPtr = std::shared_ptr<const ArrayKind>;

/// The kind of an array of this dtype, shape and weakness. Its memory and Explicit axes are taken from the sharding,
/// which must fit the shape and have devices.
KindPtr kind_of(const Type& type, const Sharding& sharding, bool committed);

struct DeviceArray {
  KindPtr kind;
  ShardFuture shards;

  const Type& type() const { return kind->type; }
  const Sharding& sharding() const { return kind->sharding; }
  bool committed() const { return kind->committed; }
  const GridPtr& grid() const { return kind->layout.grid; }
  const Placement& placement() const { return kind->layout.placement; }

  /// Waits for the shards. Rethrows the error of the computation that should have made them.
  const ShardSet& wait() const { return shards.wait(); }
  const Digest& lineage() const { return shards.lineage(); }
};
using DeviceArrays = boost::container::small_vector<DeviceArray, 4>;

/// The shards of the same value under another layout. Shares buffers wherever a shard is unchanged and lives in
/// `space`; otherwise copies each part of each distinct new shard once.
///
/// What lies on devices of this process alone is taken to be the same in all processes, of which each has its own. What
/// spans processes is exchanged by all of them that have devices of either grid: they call this in one order, with the
/// same `lineage`.
ShardSet redistribute(const ShardSet& from, const Type& type, const Placement& from_placement, const GridPtr& grid,
                      const Placement& to, AddressSpace& space, const Digest& lineage = {}, SourceLocation where = {});

/// An array that exists already. The shards lie as kind_of(…) says.
DeviceArray ready_array(const Type& type, const Sharding& sharding, bool committed, ShardSet shards);
inline DeviceArray ready_array(KindPtr kind, ShardSet shards, const Digest& lineage = {}) {
  return {std::move(kind), ShardFuture::ready(std::move(shards), lineage)};
}

/// `array` moved to `sharding`: other devices, placement or memory. Throws InvalidArgument or IndivisibleError if the
/// sharding cannot hold it, or processes give different arrays. The move joins the launch lane. The result may share
/// memory with `array` where nothing has to move, unless `may_alias` is false.
DeviceArray put(const DeviceArray& array, const Sharding& sharding, bool committed, SourceLocation where,
                bool may_alias = true);

/// Elements of the host, in row-major order.
struct HostElements {
  const void* data = nullptr;
  /// Keeps them, and dropped when nothing refers to them any more, on any thread; until then they do not change.
  /// Without an owner they are there until the call returns that they are given to.
  std::shared_ptr<const void> owner = {};
  std::size_t alignment = 1;  ///< Of shards that are not copied. They are aligned to their elements in any case.
  bool may_copy = true;
};

/// An array of elements of the host, which lie as those of a whole array of this type. If they have an owner, and each
/// distinct shard is a run of them that is aligned and in a memory that takes foreign elements, it is these that the
/// array has. Otherwise each part of each distinct shard is copied once, before this returns. Throws as put(), and
/// InvalidArgument if there must be a copy and may not.
DeviceArray put_host(const Type& type, const HostElements& elements, const Sharding& sharding, bool committed,
                     SourceLocation where);

/// The whole array as one host buffer. Waits for the array. Throws InvalidState, beginning with `what`, if no devices
/// of this process hold all of it.
Buffer to_host(const DeviceArray& array, std::string_view what = "to_host", SourceLocation where = {});
/// Whether devices of this process hold all of it.
bool is_readable(const DeviceArray& array);

}  // namespace shoal
