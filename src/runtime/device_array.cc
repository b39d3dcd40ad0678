#include "runtime/device_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "backend/backend.h"
#include "base/check.h"
#include "base/interned.h"
#include "comm/collectives/exchange.h"
#include "comm/record/communicator.h"
#include "comm/transport/box_copy.h"
#include "comm/transport/region_copy.h"
#include "core/this_process.h"
#include "ir/explicit_axes.h"
#include "runtime/lane.h"
#include "runtime/process_data.h"
#include "runtime/transfer_guard.h"
#include "sharding/box.h"
#include "sharding/shared_grid.h"

namespace shoal {
namespace {

// Gives `shards` memory of their own wherever it is that of `others`.
void unshare(ShardSet& shards, const ShardSet& others) {
  for (Buffer& buffer : shards.shards) {
    if (!buffer) continue;
    const auto same = [&](const Buffer& other) { return same_memory(buffer, other); };
    if (std::none_of(others.shards.begin(), others.shards.end(), same)) continue;
    Buffer own(buffer.space(), buffer.dtype(), buffer.shape());
    copy_bytes(own.mutable_data(), buffer.data(), own.size_bytes());
    buffer = std::move(own);
  }
}

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

Layout layout_of(const Sharding& sharding, std::size_t rank) {
  if (const NamedSharding* named = sharding.named()) {
    GridPtr grid = shared_grid(named->mesh());
    Placement placement = grid->placement_of(named->mesh(), named->spec(), rank);
    return {std::move(grid), std::move(placement)};
  }
  return {shared_grid(sharding.single_device()->device()), Placement::replicated(rank)};
}

KindPtr kind_of(const Type& type, const Sharding& sharding, bool committed) {
  // Never destroyed: arrays in static storage may outlive any order of destruction.
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

namespace {

std::vector<int> processes_of(const Grid& a, const Grid& b) {
  std::vector<int> all;
  std::ranges::set_union(a.processes(), b.processes(), std::back_inserter(all));
  return all;
}

// A whole array as its shards' boxes.
std::vector<Box> boxes_of(const Grid& grid, const Shape& global, const Placement& placement) {
  std::vector<Box> boxes;
  const AtomSet varying = placement.varying();
  for (std::int64_t shard = 0; shard < grid.size_of(varying); ++shard) {
    boxes.push_back(Box::of(grid, global, placement, grid.representative(varying, shard)));
  }
  return boxes;
}

// Where the shards are that this process has.
std::vector<const std::byte*> pointers_to(const ShardSet& set) {
  std::vector<const std::byte*> pointers;
  for (const Buffer& shard : set.shards) pointers.push_back(static_cast<const std::byte*>(shard.data()));
  return pointers;
}

// The shards that this process has of the new layout. `sources` holds those that are here, or have come.
ShardSet gather_shards(const ShardSet& from, const std::vector<Box>& boxes,
                       const std::vector<const std::byte*>& sources, const Type& type, const GridPtr& grid,
                       const Placement& to, AddressSpace& space) {
  ShardSet out = ShardSet::make(grid, to.varying());
  const HeldShards& held = grid->held(out.varying);
  std::vector<std::vector<PlacedCopy>> copies(held.shards.size());
  for_each_shard(static_cast<std::int64_t>(held.shards.size()), num_elements(type.shape), [&](std::int64_t index) {
    const auto shard = static_cast<std::size_t>(held.shards[static_cast<std::size_t>(index)]);
    const Box box = Box::of(*grid, type.shape, to, out.position_of(shard));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (from.shards[i] && boxes[i] == box && &from.shards[i].space() == &space) {
        out.shards[shard] = from.shards[i];
        return;
      }
    }
    Buffer buffer(space, type.dtype, box.extents);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const std::optional<Box> part = overlap(boxes[i], box);
      if (!part) continue;
      const TensorView source{type.dtype, boxes[i].extents, const_cast<std::byte*>(sources[i])};  // It is only read.
      copies[static_cast<std::size_t>(index)].push_back(
          place_copy(source, start_in(boxes[i], *part), buffer.view(), start_in(box, *part), part->extents));
    }
    out.shards[shard] = std::move(buffer);
  });
  std::vector<PlacedCopy> all;
  for (std::vector<PlacedCopy>& of_shard : copies) std::ranges::move(of_shard, std::back_inserter(all));
  copy_boxes(all);
  return out;
}

// The same value under another layout. All processes that have devices of either grid do this together.
ShardSet exchange_shards(const ShardSet& from, const Type& type, const Placement& from_placement, const GridPtr& grid,
                         const Placement& to, AddressSpace& space, const Digest& lineage, SourceLocation where) {
  const std::vector<Box> boxes = boxes_of(*from.grid, type.shape, from_placement);
  std::vector<const std::byte*> sources = pointers_to(from);
  const std::vector<int> processes = processes_of(*from.grid, *grid);
  if (!std::ranges::binary_search(processes, this_process())) return ShardSet::make(grid, to.varying());
  const std::vector<Box> targets = boxes_of(*grid, type.shape, to);
  const auto add_needs = [&](int process, std::vector<Need>& needs) {
    for (std::int32_t target : grid->held_by(process, to.varying()).shards) {
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        const std::optional<Box> part = overlap(boxes[i], targets[static_cast<std::size_t>(target)]);
        if (!part) continue;
        needs.push_back({0,
                         static_cast<std::int32_t>(i),
                         {boxes[i].extents, start_in(boxes[i], *part), part->extents, size_of(type.dtype)}});
      }
    }
  };
  const Exchange exchange(processes, add_needs, [&](std::int32_t, std::int32_t shard) {
    return holders_of(*from.grid, from.varying, shard);
  });
  std::string text =
      fmt::format("reshard {} {} {}", to_string(type), to_string(*from.grid, from_placement), to_string(*grid, to));
  for (const Grid* one : {from.grid.get(), grid.get()}) {
    for (const Device& device : one->devices()) text += fmt::format(" {}", device.id);
  }
  const Digest program = digest_of(text);
  Communicator& communicator = Communicator::of(processes);
  ShardSet out;
  const auto move = [&] {
    communicator.launch({"reshard", where}, program, lineage, [&](const MessageTag& tag) {
      Exchange::Run run(exchange, {communicator, tag, "reshard", where}, [&](std::int32_t, std::int32_t shard) {
        const auto i = static_cast<std::size_t>(shard);
        return Exchange::Held{sources[i], &from.shards[i]};
      });
      run.receive([&](std::int32_t, std::int32_t shard, const std::byte* data) {
        sources[static_cast<std::size_t>(shard)] = data;
      });
      out = gather_shards(from, boxes, sources, type, grid, to, space);
      run.finish();
    });
  };
  try {
    run_on_lane(move);
  } catch (...) {
    new ShardSet(from);  // For good: other processes may still be reading it.
    throw;
  }
  return out;
}

}  // namespace

ShardSet redistribute(const ShardSet& from, const Type& type, const Placement& from_placement, const GridPtr& grid,
                      const Placement& to, AddressSpace& space, const Digest& lineage, SourceLocation where) {
  SHOAL_CHECK(from.varying == from_placement.varying(), "an array has a shard for each part of its placement");
  const bool same_grid =
      from.grid == grid || (from.grid->devices() == grid->devices() && from.grid->atom_sizes() == grid->atom_sizes());
  const Buffer* any = from.any();
  if (same_grid && from_placement == to && (any == nullptr || &any->space() == &space)) {
    return {grid, from.varying, from.shards};
  }
  SHOAL_CHECK(from_placement.partial.empty() && to.partial.empty(), "a partial value is not redistributed");
  if (from.grid->is_local()) {
    return gather_shards(from, boxes_of(*from.grid, type.shape, from_placement), pointers_to(from), type, grid, to,
                         space);
  }
  return exchange_shards(from, type, from_placement, grid, to, space, lineage, where);
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

namespace {

// Of type, sharding and devices: equal in all processes.
Digest digest_of_kind(const ArrayKind& kind) {
  std::string text = to_string(kind.type) + to_string(kind.sharding);
  for (const Device& device : kind.layout.grid->devices()) text += fmt::format(" {}", device.id);
  return digest_of(text);
}

// The address space of the devices; of those here, if others are not.
AddressSpace& space_of(const Grid& grid, MemoryKind kind) {
  return current_backend().address_space(grid.devices().front(), kind);
}

// How an array that lies in one process comes to devices of others.
struct Given {
  bool is_one = false;  // One process holds it, and all know it to be there; else each has its own, all alike.
  Digest lineage{};
};

// An array on devices of this process can be the one that others know to be here, or one that each of them has like it.
// Hence all tell where it lies, and what it is where it is here. One that is not committed is never what others mean.
// Throws InvalidArgument in all processes if they name different devices and do not have the same.
Given agree_on(const DeviceArray& array, const ArrayKind& wanted, SourceLocation where) {
  const bool is_here = array.grid()->is_local();
  const Grid& to = *wanted.layout.grid;
  const std::vector<int> processes = is_here && !array.committed() ? to.processes() : processes_of(*array.grid(), to);
  const Digest kind = digest_of_kind(wanted);
  // All that those know of it who are none of them.
  const Digest place = digest_of(digest_of_kind(*array.kind).data(), sizeof place, kind);
  const int me = this_process();
  Digest contents = digest_of(&me, sizeof me, place);  // Unlike all others.
  if (is_here) {
    const Buffer whole = to_host(array, "device_put", where);
    contents = digest_of(whole.data(), whole.size_bytes(), kind);
  }
  if (!std::ranges::binary_search(processes, me)) return {.is_one = false, .lineage = is_here ? contents : place};
  const auto told = gather_digests(processes, {place, contents}, "device_put", where);
  if (std::ranges::all_of(told, [&](const auto& one) { return one[0] == place; })) {
    return {.is_one = true, .lineage = place};
  }
  std::vector<Digest> all;
  for (const auto& one : told) all.push_back(one[1]);
  check_same(processes, all, "device_put", where);
  return {.is_one = false, .lineage = contents};
}

}  // namespace

DeviceArray put(const DeviceArray& array, const Sharding& sharding, bool committed, SourceLocation where,
                bool may_alias) {
  sharding.check_compatible(array.type().shape, "device_put: argument 0", where);
  KindPtr kind = kind_of(array.type(), sharding, committed);
  check_whole(*array.kind, *kind, where);
  if (is_guarded(TransferKind::kDeviceToDevice) &&
      !std::ranges::is_permutation(array.grid()->devices(), kind->layout.grid->devices())) {
    check_transfer(TransferKind::kDeviceToDevice, fmt::format("{} to {}", to_string(array.type()), to_string(sharding)),
                   where);
  }
  const Grid& grid = *kind->layout.grid;
  Digest from_lineage = array.lineage();
  Digest lineage{};
  bool is_one = false;
  if (array.grid()->processes().size() == 1 && processes_of(*array.grid(), grid).size() > 1) {
    const Given given = agree_on(array, *kind, where);
    is_one = given.is_one;
    from_lineage = lineage = given.lineage;
  } else if (!array.grid()->is_local()) {
    lineage = digest_of(digest_of_kind(*kind).data(), sizeof lineage, array.lineage());
  }
  DeviceArray result{std::move(kind), ShardFuture::pending(lineage)};
  AddressSpace& space = space_of(grid, sharding.memory_kind());
  const bool alone = array.grid()->is_local() && grid.is_local();
  Lane::shared().submit(Lane::length_of(num_elements(array.type().shape), alone),
                        [array, result, &space, may_alias, is_one, from_lineage, where] {
                          try {
                            const Layout& to = result.kind->layout;
                            const auto move = is_one ? exchange_shards : redistribute;
                            ShardSet moved = move(array.wait(), array.type(), array.placement(), to.grid, to.placement,
                                                  space, from_lineage, where);
                            if (!may_alias) unshare(moved, array.wait());
                            result.shards.set(std::move(moved));
                          } catch (...) {
                            result.shards.fail(std::current_exception());
                          }
                        });
  return result;
}

namespace {

// The shards of a layout as runs of the elements themselves. Else null, and why they must be copied.
struct Runs {
  std::optional<ShardSet> shards;
  std::string obstacle;
};
Runs runs_of(const HostElements& elements, const Type& type, const Layout& layout, AddressSpace& space) {
  if (elements.owner == nullptr) return {{}, "nobody keeps them"};
  if (!space.takes_foreign()) return {{}, fmt::format("memory '{}' is the library's own", space.name())};
  const std::size_t element = size_of(type.dtype);
  const std::size_t alignment = std::max(elements.alignment, element);
  ShardSet out = ShardSet::make(layout.grid, layout.placement.varying());
  for (std::int32_t shard : layout.grid->held(out.varying).shards) {
    const auto number = static_cast<std::size_t>(shard);
    const Box box = Box::of(*layout.grid, type.shape, layout.placement, out.position_of(number));
    const Region region{type.shape, box.start, box.extents, element};
    const ByteRange range = range_of(region);
    if (range.size != region.bytes()) return {{}, "those of a shard are not next to each other"};
    const std::byte* data = static_cast<const std::byte*>(elements.data) + range.begin;
    if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
      return {{}, fmt::format("those of a shard are not aligned to {} bytes", alignment)};
    }
    out.shards[number] = Buffer::foreign(space, data, type.dtype, box.extents, elements.owner);
  }
  return {std::move(out), {}};
}

}  // namespace

DeviceArray put_host(const Type& type, const HostElements& elements, const Sharding& sharding, bool committed,
                     SourceLocation where) {
  sharding.check_compatible(type.shape, "device_put: argument 0", where);
  KindPtr kind = kind_of(type, sharding, committed);
  const Layout& layout = kind->layout;
  AddressSpace& space = space_of(*layout.grid, sharding.memory_kind());
  const KindPtr whole = kind_of(type, SingleDeviceSharding(local_devices().front()), false);
  check_whole(*whole, *kind, where);
  const ShardSet host{whole->layout.grid, {}, {Buffer::borrowed(elements.data, type.dtype, type.shape)}};
  Runs runs = runs_of(elements, type, layout, space);
  if (!runs.shards && !elements.may_copy) {
    throw InvalidArgument(fmt::format("{} cannot hold these elements without a copy: {}; leave out copy=false",
                                      to_string(type), runs.obstacle),
                          where);
  }
  Digest lineage{};
  if (!layout.grid->is_local()) {
    lineage = digest_of(elements.data, host.shards[0].size_bytes(), digest_of_kind(*kind));
    const std::vector<int>& processes = layout.grid->processes();
    if (std::ranges::binary_search(processes, this_process())) check_agreed(processes, lineage, "device_put", where);
  }
  ShardSet shards = runs.shards
                        ? std::move(*runs.shards)
                        : redistribute(host, type, whole->layout.placement, layout.grid, layout.placement, space);
  return ready_array(std::move(kind), std::move(shards), lineage);
}

bool is_readable(const DeviceArray& array) {
  const Grid& grid = *array.grid();
  return grid.is_local() || static_cast<std::int64_t>(grid.held(array.placement().varying()).shards.size()) ==
                                grid.size_of(array.placement().varying());
}

Buffer to_host(const DeviceArray& array, std::string_view what, SourceLocation where) {
  if (!is_readable(array)) {
    throw InvalidState(fmt::format("{}: {} lies as {}, part of it on devices of other processes; gather it with "
                                   "multihost::process_allgather, or look at its addressable_shards",
                                   what, to_string(array.type()), to_string(array.sharding())),
                       where);
  }
  const ShardSet& shards = array.wait();
  if (shards.shards.size() == 1) return shards.shards[0];
  // All is here, whoever holds it besides.
  const GridPtr one = shared_grid(local_devices().front());
  const Placement whole = Placement::replicated(array.type().rank());
  return gather_shards(shards, boxes_of(*array.grid(), array.type().shape, array.placement()), pointers_to(shards),
                       array.type(), one, whole, shards.shards[0].space())
      .shards[0];
}

}  // namespace shoal
