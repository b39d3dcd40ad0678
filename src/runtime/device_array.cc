#include "runtime/device_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/backend.h"
#include "base/check.h"
#include "comm/box_copy.h"
#include "runtime/lane.h"

namespace shoal {
namespace {

// The box of the global array that a device holds.
struct Box {
  Dims start;
  Shape extents;
  friend bool operator==(const Box&, const Box&) = default;
};

Box box_of(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position) {
  Box box;
  for (std::size_t d = 0; d < global.size(); ++d) {
    const Extent extent = grid.extent(global[d], placement.dims[d], position);
    box.start.push_back(extent.start);
    box.extents.push_back(extent.size);
  }
  return box;
}

// Copies the part of `to` that `from` holds.
void copy_overlap(const Box& from, const Buffer& source, const Box& to, const Buffer& target) {
  Dims from_start;
  Dims to_start;
  Shape extents;
  for (std::size_t d = 0; d < from.start.size(); ++d) {
    const std::int64_t begin = std::max(from.start[d], to.start[d]);
    const std::int64_t end = std::min(from.start[d] + from.extents[d], to.start[d] + to.extents[d]);
    if (end <= begin) return;
    from_start.push_back(begin - from.start[d]);
    to_start.push_back(begin - to.start[d]);
    extents.push_back(end - begin);
  }
  copy_box(source.view(), from_start, target.view(), to_start, extents);
}

// Gives `shards` memory of their own wherever it is that of `others`.
void unshare(ShardSet& shards, const ShardSet& others) {
  for (Buffer& buffer : shards.shards) {
    const auto same = [&](const Buffer& other) { return same_memory(buffer, other); };
    if (std::none_of(others.shards.begin(), others.shards.end(), same)) continue;
    Buffer own(buffer.space(), buffer.dtype(), buffer.shape());
    if (own.size_bytes() != 0) std::memcpy(own.mutable_data(), buffer.data(), own.size_bytes());
    buffer = std::move(own);
  }
}

bool is_small(const Type& type) { return num_elements(type.shape) <= (1 << 14); }

}  // namespace

Layout layout_of(const Sharding& sharding, std::size_t rank) {
  if (const NamedSharding* named = sharding.named()) {
    auto grid = std::make_shared<const Grid>(named->mesh());
    Placement placement = grid->placement_of(named->mesh(), named->spec(), rank);
    return {std::move(grid), std::move(placement)};
  }
  return {std::make_shared<const Grid>(sharding.single_device()->device()), Placement::replicated(rank)};
}

ShardSet redistribute(const ShardSet& from, const Shape& global, const Placement& from_placement, const GridPtr& grid,
                      const Placement& to, AddressSpace& space) {
  SHOAL_CHECK(from.varying == from_placement.varying(), "an array has a shard for each part of its placement");
  const bool same_grid = from.grid->devices() == grid->devices() && from.grid->atom_sizes() == grid->atom_sizes();
  if (same_grid && from_placement == to && &from.shards[0].space() == &space) {
    return {grid, from.varying, from.shards};
  }
  SHOAL_CHECK(from_placement.partial.empty() && to.partial.empty(), "a partial value is not redistributed");
  std::vector<Box> source_boxes;
  for (std::size_t i = 0; i < from.shards.size(); ++i) {
    source_boxes.push_back(box_of(*from.grid, global, from_placement, from.position_of(i)));
  }
  ShardSet out = ShardSet::make(grid, to.varying());
  for_each_shard(static_cast<std::int64_t>(out.shards.size()), num_elements(global), [&](std::int64_t index) {
    const auto shard = static_cast<std::size_t>(index);
    const Box box = box_of(*grid, global, to, out.position_of(shard));
    for (std::size_t i = 0; i < source_boxes.size(); ++i) {
      if (source_boxes[i] == box && &from.shards[i].space() == &space) {
        out.shards[shard] = from.shards[i];
        return;
      }
    }
    Buffer buffer(space, from.shards[0].dtype(), box.extents);
    for (std::size_t i = 0; i < source_boxes.size(); ++i) copy_overlap(source_boxes[i], from.shards[i], box, buffer);
    out.shards[shard] = std::move(buffer);
  });
  return out;
}

DeviceArray ready_array(Type type, Sharding sharding, bool committed, ShardSet shards, Layout layout) {
  std::promise<ShardSet> promise;
  promise.set_value(std::move(shards));
  return {.type = std::move(type),
          .sharding = std::move(sharding),
          .committed = committed,
          .grid = std::move(layout.grid),
          .placement = std::move(layout.placement),
          .shards = promise.get_future().share()};
}

namespace {

// Moving copies what devices hold; it adds nothing up.
void check_whole(const DeviceArray& array, const Sharding& sharding, const Layout& layout, SourceLocation where) {
  if (array.placement.partial.empty() && layout.placement.partial.empty()) return;
  if (array.sharding.is_equivalent_to(sharding, array.type.rank())) return;
  throw InvalidArgument(
      fmt::format("device_put: {} lies as {}, and cannot be put as {}: summands are added up, or made, "
                  "by reshard",
                  to_string(array.type), to_string(array.sharding), to_string(sharding)),
      where);
}

}  // namespace

DeviceArray put(const DeviceArray& array, const Sharding& sharding, bool committed, SourceLocation where,
                bool may_alias) {
  sharding.check_compatible(array.type.shape, "device_put: argument 0", where);
  Layout layout = layout_of(sharding, array.type.rank());
  check_whole(array, sharding, layout, where);
  Type type = array.type;
  type.memory = sharding.memory_kind();
  AddressSpace& space = current_backend().address_space(layout.grid->devices().front(), type.memory);
  auto promise = std::make_shared<std::promise<ShardSet>>();
  DeviceArray result{.type = type,
                     .sharding = sharding,
                     .committed = committed,
                     .grid = layout.grid,
                     .placement = layout.placement,
                     .shards = promise->get_future().share()};
  Lane::shared().submit(is_small(type), [array, layout, promise, &space, may_alias] {
    try {
      ShardSet moved =
          redistribute(array.wait(), array.type.shape, array.placement, layout.grid, layout.placement, space);
      if (!may_alias) unshare(moved, array.wait());
      promise->set_value(std::move(moved));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return result;
}

Buffer to_host(const DeviceArray& array) {
  const ShardSet& shards = array.wait();
  AddressSpace& space = shards.shards[0].space();
  if (shards.shards.size() == 1) return shards.shards[0];
  const auto one = std::make_shared<const Grid>(array.grid->devices().front());
  return redistribute(shards, array.type.shape, array.placement, one, Placement::replicated(array.type.rank()), space)
      .shards[0];
}

void check_devices(const std::vector<Device>& devices, std::string_view what, SourceLocation where) {
  const std::vector<Device> all = shoal::devices();
  for (const Device& device : devices) {
    if (std::find(all.begin(), all.end(), device) != all.end()) continue;
    throw InvalidArgument(
        fmt::format("{}: there is no {}; this job has {}", what, to_string(device), describe_devices(all)), where);
  }
}

std::string describe_devices(const std::vector<Device>& devices) {
  if (devices.size() == 1) return fmt::format("device {}", devices[0].id);
  bool consecutive = true;
  std::vector<std::int64_t> ids;
  for (const Device& device : devices) {
    consecutive = consecutive && (ids.empty() || device.id == ids.back() + 1);
    ids.push_back(device.id);
  }
  if (consecutive) return fmt::format("devices {}..{}", ids.front(), ids.back());
  return fmt::format("devices [{}]", fmt::join(ids, ", "));
}

}  // namespace shoal
