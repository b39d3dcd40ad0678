// Arrays as the runtime holds them: a type, a sharding, and the future of their shards.
#pragma once

#include <future>
#include <string>

#include "comm/shard_set.h"
#include "ir/type.h"
#include "shoal/error.h"
#include "shoal/sharding.h"

namespace shoal {

struct DeviceArray {
  Type type;  ///< Global; its memory is that of the sharding.
  Sharding sharding;
  bool committed = false;
  GridPtr grid;
  Placement placement;
  std::shared_future<ShardSet> shards;

  /// Waits for the shards. Rethrows the error of the computation that should have made them.
  const ShardSet& wait() const { return shards.get(); }
};

/// The grid and placement of a sharding for arrays of a rank.
struct Layout {
  GridPtr grid;
  Placement placement;
};
Layout layout_of(const Sharding& sharding, std::size_t rank);

/// The shards of the same value under another layout. Shares buffers wherever a shard is unchanged and lives in
/// `space`; otherwise copies each part of each distinct new shard once.
ShardSet redistribute(const ShardSet& from, const Shape& global, const Placement& from_placement, const GridPtr& grid,
                      const Placement& to, AddressSpace& space);

/// An array that exists already.
DeviceArray ready_array(Type type, Sharding sharding, bool committed, ShardSet shards, Layout layout);

/// `array` moved to `sharding`: other devices, placement or memory. Throws InvalidArgument or IndivisibleError if the
/// sharding cannot hold it. The move joins the launch lane. The result may share memory with `array` where nothing has
/// to move, unless `may_alias` is false.
DeviceArray put(const DeviceArray& array, const Sharding& sharding, bool committed, SourceLocation where,
                bool may_alias = true);

/// The whole array as one host buffer. Waits for the array.
Buffer to_host(const DeviceArray& array);

/// "[CpuDevice(id=0), …]" shortened for messages: "devices 0..7", "device 3".
std::string describe_devices(const std::vector<Device>& devices);
/// Throws InvalidArgument, beginning with `what`, if this job does not have one of the devices.
void check_devices(const std::vector<Device>& devices, std::string_view what, SourceLocation where);

}  // namespace shoal
