#include "runtime/device_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backend/backend.h"
#include "base/check.h"
#include "comm/box_copy.h"
#include "ir/explicit_axes.h"
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

// Lists the copy of the part of `to` that `from` holds.
void list_overlap(const Box& from, const Buffer& source, const Box& to, const Buffer& target,
                  std::vector<PlacedCopy>& copies) {
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
  copies.push_back(place_copy(source.view(), from_start, target.view(), to_start, extents));
}

// Gives `shards` memory of their own wherever it is that of `others`.
void unshare(ShardSet& shards, const ShardSet& others) {
  for (Buffer& buffer : shards.shards) {
    const auto same = [&](const Buffer& other) { return same_memory(buffer, other); };
    if (std::none_of(others.shards.begin(), others.shards.end(), same)) continue;
    Buffer own(buffer.space(), buffer.dtype(), buffer.shape());
    copy_bytes(own.mutable_data(), buffer.data(), own.size_bytes());
    buffer = std::move(own);
  }
}

}  // namespace

namespace {

// Objects that equal ones share, for as long as somebody has them.
template <class T, class Hash, class Equal>
class Interned {
 public:
  // The object equal to `key`, made by make() if there is none.
  template <class Key, class F>
  std::shared_ptr<const T> get(const Key& key, F&& make) {
    const std::size_t hash = Hash()(key);
    {
      const std::lock_guard lock(mutex_);
      if (auto found = find(hash, key)) return found;
    }
    const std::shared_ptr<const T> made(new T(make()), [this, hash](const T* dead) { forget(hash, dead); });
    const std::lock_guard lock(mutex_);
    if (auto found = find(hash, key)) return found;
    objects_.emplace(hash, Entry{made.get(), made});
    return made;
  }

 private:
  struct Entry {
    const T* object;
    std::weak_ptr<const T> shared;
  };

  template <class Key>
  std::shared_ptr<const T> find(std::size_t hash, const Key& key) {
    const auto [begin, end] = objects_.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry) {
      // It exists while it is listed, but may have no owner any more.
      if (!Equal()(*entry->second.object, key)) continue;
      if (auto shared = entry->second.shared.lock()) return shared;
    }
    return nullptr;
  }
  void forget(std::size_t hash, const T* dead) {
    {
      const std::lock_guard lock(mutex_);
      const auto [begin, end] = objects_.equal_range(hash);
      const auto listed = std::find_if(begin, end, [&](const auto& entry) { return entry.second.object == dead; });
      if (listed != end) objects_.erase(listed);
    }
    delete dead;
  }

  std::mutex mutex_;
  std::unordered_multimap<std::size_t, Entry> objects_;
};

struct HashMesh {
  std::size_t operator()(const Mesh& mesh) const { return mesh.hash(); }
};
struct IsGridOf {
  bool operator()(const Grid& grid, const Mesh& mesh) const { return grid.mesh() == mesh; }
};
struct HashDevice {
  std::size_t operator()(const Device& device) const { return static_cast<std::size_t>(device.id); }
};
struct IsGridOfDevice {
  bool operator()(const Grid& grid, const Device& device) const { return grid.devices().front() == device; }
};

struct KindKey {
  const Type& type;
  const Sharding& sharding;
  bool committed;
};
struct HashKind {
  std::size_t operator()(const KindKey& key) const {
    std::size_t seed = key.sharding.hash();
    boost::hash_combine(seed, static_cast<int>(key.type.dtype));
    boost::hash_combine(seed, key.type.weak);
    boost::hash_combine(seed, key.committed);
    boost::hash_range(seed, key.type.shape.begin(), key.type.shape.end());
    return seed;
  }
};
struct IsKind {
  bool operator()(const ArrayKind& kind, const KindKey& key) const {
    return kind.type.dtype == key.type.dtype && kind.type.weak == key.type.weak && kind.committed == key.committed &&
           kind.type.shape == key.type.shape && kind.sharding == key.sharding;
  }
};

}  // namespace

// The tables are never destroyed: arrays in static storage may outlive any order of destruction.

GridPtr shared_grid(const Mesh& mesh) {
  static auto* grids = new Interned<Grid, HashMesh, IsGridOf>;
  return grids->get(mesh, [&] { return Grid(mesh); });
}

GridPtr shared_grid(const Device& device) {
  static auto* grids = new Interned<Grid, HashDevice, IsGridOfDevice>;
  return grids->get(device, [&] { return Grid(device); });
}

Layout layout_of(const Sharding& sharding, std::size_t rank) {
  if (const NamedSharding* named = sharding.named()) {
    GridPtr grid = shared_grid(named->mesh());
    Placement placement = grid->placement_of(named->mesh(), named->spec(), rank);
    return {std::move(grid), std::move(placement)};
  }
  return {shared_grid(sharding.single_device()->device()), Placement::replicated(rank)};
}

KindPtr kind_of(const Type& type, const Sharding& sharding, bool committed) {
  static auto* kinds = new Interned<ArrayKind, HashKind, IsKind>;
  return kinds->get(KindKey{type, sharding, committed}, [&] {
    Type full{.dtype = type.dtype, .shape = type.shape, .weak = type.weak, .memory = sharding.memory_kind()};
    if (const NamedSharding* named = sharding.named()) full.explicit_axes = explicit_axes_of(*named, type.rank());
    return ArrayKind{std::move(full), sharding, committed, layout_of(sharding, type.rank())};
  });
}

DeviceArray ready_array(const Type& type, const Sharding& sharding, bool committed, ShardSet shards) {
  return ready_array(kind_of(type, sharding, committed), std::move(shards));
}

ShardSet redistribute(const ShardSet& from, const Shape& global, const Placement& from_placement, const GridPtr& grid,
                      const Placement& to, AddressSpace& space) {
  SHOAL_CHECK(from.varying == from_placement.varying(), "an array has a shard for each part of its placement");
  const bool same_grid =
      from.grid == grid || (from.grid->devices() == grid->devices() && from.grid->atom_sizes() == grid->atom_sizes());
  if (same_grid && from_placement == to && &from.shards[0].space() == &space) {
    return {grid, from.varying, from.shards};
  }
  SHOAL_CHECK(from_placement.partial.empty() && to.partial.empty(), "a partial value is not redistributed");
  std::vector<Box> source_boxes;
  for (std::size_t i = 0; i < from.shards.size(); ++i) {
    source_boxes.push_back(box_of(*from.grid, global, from_placement, from.position_of(i)));
  }
  ShardSet out = ShardSet::make(grid, to.varying());
  std::vector<std::vector<PlacedCopy>> copies(out.shards.size());
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
    for (std::size_t i = 0; i < source_boxes.size(); ++i) {
      list_overlap(source_boxes[i], from.shards[i], box, buffer, copies[shard]);
    }
    out.shards[shard] = std::move(buffer);
  });
  std::vector<PlacedCopy> all;
  for (std::vector<PlacedCopy>& of_shard : copies) std::ranges::move(of_shard, std::back_inserter(all));
  copy_boxes(all);
  return out;
}

namespace {

// Moving copies what devices hold; it adds nothing up.
void check_whole(const ArrayKind& given, const ArrayKind& wanted, SourceLocation where) {
  if (given.layout.placement.partial.empty() && wanted.layout.placement.partial.empty()) return;
  if (given.sharding.is_equivalent_to(wanted.sharding, given.type.rank())) return;
  throw InvalidArgument(
      fmt::format("device_put: {} lies as {}, and cannot be put as {}: summands are added up, or made, "
                  "by reshard",
                  to_string(given.type), to_string(given.sharding), to_string(wanted.sharding)),
      where);
}

}  // namespace

DeviceArray put(const DeviceArray& array, const Sharding& sharding, bool committed, SourceLocation where,
                bool may_alias) {
  sharding.check_compatible(array.type().shape, "device_put: argument 0", where);
  DeviceArray result{kind_of(array.type(), sharding, committed), ShardFuture::pending()};
  check_whole(*array.kind, *result.kind, where);
  const Layout& layout = result.kind->layout;
  AddressSpace& space = current_backend().address_space(layout.grid->devices().front(), sharding.memory_kind());
  Lane::shared().submit(num_elements(array.type().shape) <= Lane::kSmallElements, [array, result, &space, may_alias] {
    try {
      const Layout& to = result.kind->layout;
      ShardSet moved = redistribute(array.wait(), array.type().shape, array.placement(), to.grid, to.placement, space);
      if (!may_alias) unshare(moved, array.wait());
      result.shards.set(std::move(moved));
    } catch (...) {
      result.shards.fail(std::current_exception());
    }
  });
  return result;
}

DeviceArray put_host(const Type& type, const void* data, const Sharding& sharding, bool committed,
                     SourceLocation where) {
  sharding.check_compatible(type.shape, "device_put: argument 0", where);
  KindPtr kind = kind_of(type, sharding, committed);
  const Layout& layout = kind->layout;
  AddressSpace& space = current_backend().address_space(layout.grid->devices().front(), sharding.memory_kind());
  const KindPtr whole = kind_of(type, SingleDeviceSharding(layout.grid->devices().front()), false);
  check_whole(*whole, *kind, where);
  const ShardSet host{whole->layout.grid, {}, {Buffer::borrowed(data, type.dtype, type.shape)}};
  ShardSet shards = redistribute(host, type.shape, whole->layout.placement, layout.grid, layout.placement, space);
  return ready_array(std::move(kind), std::move(shards));
}

Buffer to_host(const DeviceArray& array) {
  const ShardSet& shards = array.wait();
  AddressSpace& space = shards.shards[0].space();
  if (shards.shards.size() == 1) return shards.shards[0];
  const GridPtr one = shared_grid(array.grid()->devices().front());
  const Placement whole = Placement::replicated(array.type().rank());
  return redistribute(shards, array.type().shape, array.placement(), one, whole, space).shards[0];
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
