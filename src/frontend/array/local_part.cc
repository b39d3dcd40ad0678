#include "frontend/array/local_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/misuse.h"
#include "base/sort_unique.h"
#include "core/this_process.h"
#include "frontend/array/array_impl.h"
#include "runtime/lane.h"

namespace shoal::detail {

DeviceArray relabelled(const DeviceArray& array, KindPtr kind, const Digest& lineage) {
  DeviceArray result{std::move(kind), ShardFuture::pending(lineage)};
  Lane::shared().submit(Lane::Length::kSmall, [array, result] {
    try {
      const ShardSet& from = array.wait();
      const Grid& grid = *result.grid();
      const std::vector<Device>& before = from.grid->devices();
      ShardSet shards = ShardSet::make(result.grid(), result.placement().varying());
      for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
        if (grid.process_of(position) != this_process()) continue;
        Buffer& shard = shards.shards[static_cast<std::size_t>(grid.distinct_index(position, shards.varying))];
        if (shard) continue;
        const auto found = std::ranges::find(before, grid.devices()[static_cast<std::size_t>(position)]);
        shard = from.at(found - before.begin());
      }
      result.shards.set(std::move(shards));
    } catch (...) {
      result.shards.fail(std::current_exception());
    }
  });
  return result;
}

Mesh local_mesh(const Mesh& mesh) {
  const Shape& sizes = mesh.axis_sizes();
  std::vector<std::vector<std::int64_t>> coordinates(sizes.size());  // Of devices here, along each axis.
  std::vector<Device> here;
  for (std::size_t position = 0; position < mesh.devices().size(); ++position) {
    if (mesh.devices()[position].process_index != process_index()) continue;
    here.push_back(mesh.devices()[position]);
    auto rest = static_cast<std::int64_t>(position);
    for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) coordinates[d].push_back(rest % sizes[d]);
  }
  Shape local;
  std::int64_t count = 1;
  for (std::vector<std::int64_t>& along : coordinates) {
    sort_unique(along);
    local.push_back(static_cast<std::int64_t>(along.size()));
    count *= local.back();
  }
  if (here.empty() || count != static_cast<std::int64_t>(here.size())) {
    throw misuse<InvalidArgument>("the {} devices that process {} has in {} are not a grid of their own", here.size(),
                                  process_index(), to_string(mesh));
  }
  return Mesh(std::move(here), local, mesh.axis_names(), mesh.axis_types(), Caller::line()).with_speeds(mesh.speeds());
}

Array local_part(const Array& array) {
  const DeviceArray whole = concrete(array);
  if (whole.grid()->is_local()) return array;
  const NamedSharding& sharding = *whole.sharding().named();
  const Mesh mesh = local_mesh(sharding.mesh());
  Type type = whole.type();
  // As many shards of the same shape, along each dimension, as this process has.
  type.shape = whole.sharding().shard_shape(type.shape, Caller::line());
  const std::vector<PartitionEntry>& entries = sharding.spec().entries();
  for (std::size_t d = 0; d < entries.size(); ++d) {
    for (const std::string& axis : entries[d].axes()) type.shape[d] *= mesh.axis_size(axis, Caller::line());
  }
  const NamedSharding here(mesh, sharding.spec(), {.memory_kind = type.memory});
  return Access::make(relabelled(whole, kind_of(type, here, true)));
}

Array joined_part(const DeviceArray& part, const Shape& shape, const NamedSharding& sharding, const Digest& lineage) {
  const NamedSharding here(local_mesh(sharding.mesh()), sharding.spec(), {.memory_kind = sharding.memory_kind()});
  Type type = part.type();
  type.shape = shape;
  return Access::make(relabelled(put(part, here, true, Caller::line()), kind_of(type, sharding, true), lineage));
}

}  // namespace shoal::detail
