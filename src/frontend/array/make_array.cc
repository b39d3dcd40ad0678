#include "shoal/make_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/misuse.h"
#include "base/sort_unique.h"
#include "comm/record/communicator.h"
#include "comm/transport/box_copy.h"
#include "core/device_list.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

using Indices = std::vector<std::pair<Device, ShardIndex>>;

// An array under construction: where its shards lie, and the checks of what is to become one.
class Assembly {
 public:
  Assembly(const Shape& shape, const Sharding& sharding, const MakeArrayOptions& options)
      : sharding_(sharding), layout_(layout_of_checked(shape)) {
    type_.shape = shape;
    type_.memory = sharding.memory_kind();
    dtype_ = options.dtype;
    indices_ = sharding.devices_indices_map(shape, Caller::line());
    shard_shape_ = sharding.shard_shape(shape, Caller::line());
    shards_ = ShardSet::make(layout_.grid, layout_.placement.varying());
  }

  const Indices& indices() const { return indices_; }
  /// Whether devices hold elements of the array, and not summands of them.
  bool is_whole() const { return layout_.placement.partial.empty(); }
  std::size_t num_shards() const { return shards_.shards.size(); }
  Buffer& shard(std::size_t i) { return shards_.shards[i]; }
  std::size_t position_of(std::size_t shard) const { return static_cast<std::size_t>(shards_.position_of(shard)); }
  std::size_t shard_at(std::size_t position) const {
    return static_cast<std::size_t>(layout_.grid->distinct_index(static_cast<std::int64_t>(position), shards_.varying));
  }

  // A part fits if it has the shard's shape and the dtype of all.
  void check_part(const Type& part, const std::string& what, const ShardIndex& index) {
    if (part.shape != shard_shape_) {
      throw misuse<InvalidArgument>("{} has shape {}, but the shard at {} of an array {} lying as {} has shape {}",
                                    what, to_string(part.shape), to_string(index), to_string(type_.shape),
                                    to_string(sharding_), to_string(shard_shape_));
    }
    if (!dtype_) dtype_ = part.dtype;
    if (part.dtype == *dtype_) return;
    throw misuse<InvalidArgument>("{} has dtype {}, but {} is needed, as for the others; convert it with astype", what,
                                  name_of(part.dtype), name_of(*dtype_));
  }

  /// Whether a device is of this process: the others make their own shards.
  static bool is_here(const Device& device) { return device.process_index == process_index(); }
  bool is_held(std::size_t shard) const {
    return layout_.grid->is_local() || layout_.grid->held(shards_.varying).has(static_cast<std::int64_t>(shard));
  }

  Array finish() {
    if (!dtype_) {
      throw misuse<InvalidArgument>(
          "no device of {} is of this process, so nothing says what the dtype is; give it as an option",
          to_string(sharding_));
    }
    type_.dtype = *dtype_;
    Digest lineage{};
    if (const Grid& grid = *layout_.grid; !grid.is_local()) {
      lineage = Communicator::of(grid.processes()).new_origin(Caller::function_or("array"));
    }
    return detail::Access::make(ready_array(kind_of(type_, sharding_, true), std::move(shards_), lineage));
  }

 private:
  Layout layout_of_checked(const Shape& shape) const {
    if (Trace::current() != nullptr) {
      throw misuse<InvalidState>(
          "cannot be used inside '{}', which is being traced: make the array outside and pass it",
          Trace::current()->name());
    }
    if (sharding_.is_abstract()) {
      throw misuse<InvalidArgument>("{} is over an AbstractMesh, which has no devices", to_string(sharding_));
    }
    if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) {
      throw misuse<InvalidArgument>("shape {} has a negative extent", to_string(shape));
    }
    check_devices(sharding_.device_list(), Caller::function_or("array"), Caller::line());
    sharding_.check_compatible(shape, Caller::function_or("array"), Caller::line());
    return layout_of(sharding_, shape.size());
  }

  const Sharding& sharding_;
  Layout layout_;
  Type type_;
  std::optional<Dtype> dtype_;
  Indices indices_;
  Shape shard_shape_;
  ShardSet shards_;
};

// The bytes in the memory of a kind: those given, if they are there.
Buffer in_memory(const Buffer& buffer, MemoryKind kind) {
  AddressSpace& space = host_space(kind);
  if (&buffer.space() == &space) return buffer;
  Buffer moved(space, buffer.dtype(), buffer.shape());
  copy_bytes(moved.mutable_data(), buffer.data(), moved.size_bytes());
  return moved;
}

bool same_bytes(const Buffer& a, const Buffer& b) {
  return same_memory(a, b) || a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::string ids_text(const std::set<Device>& devices) { return describe_devices({devices.begin(), devices.end()}); }

std::set<Device> difference(const std::set<Device>& a, const std::set<Device>& b) {
  std::set<Device> result;
  std::ranges::set_difference(a, b, std::inserter(result, result.end()));
  return result;
}

// What the user's function gives for a part.
Array called(const std::function<Array(const ShardIndex& index)>& data, const ShardIndex& index) {
  const Caller::Pause pause;
  return data(index);
}

}  // namespace

Array make_array_from_callback(const Shape& shape, const Sharding& sharding,
                               const std::function<Array(const ShardIndex& index)>& data,
                               const MakeArrayOptions& options, SourceLocation where) {
  const Caller caller("make_array_from_callback", where);
  Assembly assembly(shape, sharding, options);
  if (!assembly.is_whole()) {
    throw misuse<InvalidArgument>(
        "{} leaves sums unreduced, and the index does not say which summand is asked for; use "
        "make_array_from_single_device_arrays",
        to_string(sharding));
  }
  // Shards of no elements may have one index in several places.
  std::vector<std::pair<ShardIndex, Buffer>> known;
  for (std::size_t i = 0; i < assembly.num_shards(); ++i) {
    if (!assembly.is_held(i)) continue;
    const ShardIndex& index = assembly.indices()[assembly.position_of(i)].second;
    auto found = std::ranges::find(known, index, &std::pair<ShardIndex, Buffer>::first);
    if (found == known.end()) {
      const std::string what = fmt::format("the array for {}", to_string(index));
      const DeviceArray part = detail::concrete(called(data, index), what);
      assembly.check_part(part.type(), what, index);
      known.emplace_back(index, in_memory(to_host(part), sharding.memory_kind()));
      found = std::prev(known.end());
    }
    assembly.shard(i) = found->second;
  }
  return assembly.finish();
}

Array make_array_from_single_device_arrays(const Shape& shape, const Sharding& sharding,
                                           const std::vector<Array>& arrays, const MakeArrayOptions& options,
                                           SourceLocation where) {
  const Caller caller("make_array_from_single_device_arrays", where);
  Assembly assembly(shape, sharding, options);
  std::set<Device> wanted;
  for (const auto& [device, index] : assembly.indices()) {
    if (Assembly::is_here(device)) wanted.insert(device);
  }
  if (arrays.size() != wanted.size()) {
    throw misuse<InvalidArgument>("the sharding has {} devices{}, and needs an array on each, but {} arrays are given",
                                  wanted.size(), wanted.size() == assembly.indices().size() ? "" : " of this process",
                                  arrays.size());
  }
  std::vector<DeviceArray> parts;
  std::set<Device> devices;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string what = fmt::format("arrays[{}]", i);
    const DeviceArray& part = parts.emplace_back(detail::concrete(arrays[i], what));
    if (part.grid()->num_devices() != 1) {
      throw misuse<InvalidArgument>("{} has {} shards; each array must lie on one device", what,
                                    part.grid()->num_devices());
    }
    if (part.type().memory != sharding.memory_kind()) {
      throw misuse<InvalidArgument>("{} lies in memory '{}', but the sharding is of '{}'", what,
                                    part.type().memory.name(), sharding.memory_kind().name());
    }
    if (!devices.insert(part.grid()->devices()[0]).second) {
      throw misuse<InvalidArgument>("{} lies on {}, as another one does; the arrays must lie on distinct devices", what,
                                    to_string(part.grid()->devices()[0]));
    }
  }
  if (devices != wanted) {
    throw misuse<InvalidArgument>("the sharding has {}, where no array lies; there are arrays on {} instead",
                                  ids_text(difference(wanted, devices)), ids_text(difference(devices, wanted)));
  }
  std::vector<std::size_t> first(assembly.num_shards(), arrays.size());
  for (std::size_t position = 0; position < assembly.indices().size(); ++position) {
    const auto& [device, index] = assembly.indices()[position];
    if (!Assembly::is_here(device)) continue;
    const auto on_device = [&](const DeviceArray& part) { return part.grid()->devices()[0] == device; };
    const auto i = static_cast<std::size_t>(std::ranges::find_if(parts, on_device) - parts.begin());
    const std::string what = fmt::format("arrays[{}]", i);
    assembly.check_part(parts[i].type(), what, index);
    const Buffer& buffer = parts[i].wait().shards[0];
    const std::size_t shard = assembly.shard_at(position);
    if (first[shard] == arrays.size()) {
      first[shard] = i;
      assembly.shard(shard) = buffer;
    } else if (!same_bytes(assembly.shard(shard), buffer)) {
      throw misuse<InvalidArgument>("arrays[{}] and {} both hold {}, so they must be equal, but they differ",
                                    first[shard], what, to_string(index));
    }
  }
  return assembly.finish();
}

namespace {

// A dimension of the data that a process has: where the ranges of its devices lie in it.
struct LocalDim {
  std::vector<std::int64_t> starts;  // Of the distinct ranges in the whole array, ascending,
  std::int64_t size = 0;             // and their sizes together.
  bool whole = false;                // The data is that of the whole array.

  std::int64_t offset_of(std::int64_t start, std::int64_t range) const {
    if (whole) return start;
    return (std::ranges::lower_bound(starts, start) - starts.begin()) * range;
  }
};

// The ranges along each dimension that devices of this process hold of an array.
std::vector<LocalDim> local_dims(const Shape& shape, const Sharding& sharding) {
  std::vector<LocalDim> dims(shape.size());
  for (const auto& [device, index] : sharding.devices_indices_map(shape, Caller::line())) {
    if (device.process_index != process_index()) continue;
    for (std::size_t d = 0; d < shape.size(); ++d) dims[d].starts.push_back(index[d].start.value_or(0));
  }
  const Shape shard = sharding.shard_shape(shape, Caller::line());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t>& starts = dims[d].starts;
    sort_unique(starts);
    dims[d].size = static_cast<std::int64_t>(starts.size()) * shard[d];
  }
  return dims;
}

// The shape of the whole array of which a process has data of shape `local`: as often as large along each dimension as
// there are more ranges than this process has.
Shape whole_shape(const Shape& local, const Sharding& sharding) {
  // Any shape that can be split tells how many ranges there are.
  Shape parts;
  const NamedSharding* named = sharding.named();
  for (std::size_t d = 0; d < local.size(); ++d) {
    std::int64_t count = 1;
    if (named != nullptr && d < named->spec().entries().size()) {
      for (const std::string& axis : named->spec().entries()[d].axes()) count *= named->mesh().axis_size(axis);
    }
    parts.push_back(count);
  }
  const std::vector<LocalDim> mine = local_dims(parts, sharding);
  Shape whole;
  for (std::size_t d = 0; d < local.size(); ++d) {
    if (mine[d].size > 0) continue;
    throw misuse<InvalidArgument>(
        "no device of {} is of this process, so its data does not tell the shape of the whole; give global_shape",
        to_string(sharding));
  }
  for (std::size_t d = 0; d < local.size(); ++d) whole.push_back(local[d] * parts[d] / mine[d].size);
  return whole;
}

}  // namespace

namespace {

// What a device holds of an array, and where that begins.
struct Part {
  Dims start;
  Buffer data;
};

std::map<Device, Part> parts_of(const DeviceArray& array) {
  std::map<Device, Part> parts;
  if (!array.placement().partial.empty()) return parts;  // Summands.
  const ShardSet& shards = array.wait();
  const auto indices = array.sharding().devices_indices_map(array.type().shape);
  for (std::size_t position = 0; position < indices.size(); ++position) {
    const auto& [device, index] = indices[position];
    Part part{{}, shards.at(static_cast<std::int64_t>(position))};
    for (const auto& range : index) part.start.push_back(range.start.value_or(0));
    parts.emplace(device, std::move(part));
  }
  return parts;
}

}  // namespace

Array make_array_from_process_local_data(const Sharding& sharding, const Operand& local_data,
                                         const std::optional<Shape>& global_shape) {
  const Caller caller("make_array_from_process_local_data", local_data.where());
  const Array data = to_array(local_data);
  const Shape shape = global_shape ? *global_shape : whole_shape(data.shape(), sharding);
  Assembly assembly(shape, sharding, {.dtype = data.dtype()});
  if (shape.size() != data.ndim()) {
    throw misuse<InvalidArgument>("the data of shape {} has another rank than global_shape {}", to_string(data.shape()),
                                  to_string(shape));
  }
  std::vector<LocalDim> dims = local_dims(shape, sharding);
  Shape allowed;
  bool fits = true;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    allowed.push_back(dims[d].size);
    dims[d].whole = data.shape()[d] == shape[d];
    fits = fits && (dims[d].whole || data.shape()[d] == dims[d].size);
  }
  if (!fits) {
    throw misuse<InvalidArgument>(
        "the data of this process has shape {}, but its devices hold {} of the whole {}; along each dimension it must "
        "have one of both extents",
        to_string(data.shape()), to_string(allowed), to_string(shape));
  }
  const DeviceArray given = detail::concrete(data);
  const std::map<Device, Part> parts = parts_of(given);
  AddressSpace& space = host_space(sharding.memory_kind());
  const Shape extents = sharding.shard_shape(shape, Caller::line());
  Buffer source;
  std::vector<PlacedCopy> copies;
  for (std::size_t position = 0; position < assembly.indices().size(); ++position) {
    const auto& [device, index] = assembly.indices()[position];
    Buffer& shard = assembly.shard(assembly.shard_at(position));
    if (!Assembly::is_here(device) || shard) continue;
    Dims start;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      start.push_back(dims[d].offset_of(index[d].start.value_or(0), extents[d]));
    }
    // What lies on the device already is shared.
    const auto part = parts.find(device);
    if (part != parts.end() && part->second.start == start && part->second.data.shape() == extents &&
        &part->second.data.space() == &space) {
      shard = part->second.data;
      continue;
    }
    if (!source) source = to_host(given, Caller::function_or("array"), Caller::line());
    shard = Buffer(space, data.dtype(), extents);
    copies.push_back(place_copy(source.view(), start, shard.view(), Dims(shape.size(), 0), extents));
  }
  copy_boxes(copies);
  return assembly.finish();
}

namespace detail {

std::vector<Array> put_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const ShardingTree& shardings,
                              const DevicePutOptions& options, SourceLocation where) {
  const Caller caller("device_put", where);
  return put_leaves(leaves, tree, apply_prefix(shardings, tree, "the sharding"), options, where);
}

std::vector<Array> put_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                              const std::vector<std::optional<Sharding>>& wanted, const DevicePutOptions& options,
                              SourceLocation where) {
  const Caller caller("device_put", where);
  const std::vector<std::string> paths = tree.leaf_paths();
  // All are checked before the first is moved, and perhaps given away.
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string what = "argument 0" + paths[i];
    const Type& type = impl_of(leaves[i], what).type;
    if (wanted[i]) wanted[i]->check_compatible(type.shape, "device_put: " + what, Caller::line());
  }
  std::vector<Array> moved;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    moved.push_back(wanted[i] ? device_put(leaves[i], *wanted[i], options) : leaves[i]);
  }
  return moved;
}

std::vector<Array> get_leaves(const std::vector<Array>& leaves, SourceLocation where) {
  const Caller caller("device_get", where);
  const SingleDeviceSharding here(local_devices().front());
  std::vector<Array> fetched;
  for (const Array& leaf : leaves) {
    const DeviceArray array = concrete(leaf);
    Type type = array.type();
    type.memory = kDeviceMemory;
    KindPtr kind = kind_of(type, here, false);
    ShardSet shards{kind->layout.grid, {}, {in_memory(to_host(array, "device_get", Caller::line()), kDeviceMemory)}};
    fetched.push_back(Access::make(ready_array(std::move(kind), std::move(shards))));
  }
  return fetched;
}

}  // namespace detail
}  // namespace shoal
