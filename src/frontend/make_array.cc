#include "shoal/make_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "comm/box_copy.h"
#include "frontend/array_impl.h"
#include "frontend/prefix.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

using Indices = std::vector<std::pair<Device, ShardIndex>>;

// An array under construction: where its shards lie, and the checks of what is to become one.
class Assembly {
 public:
  Assembly(std::string_view function, const Shape& shape, const Sharding& sharding, const MakeArrayOptions& options,
           SourceLocation where)
      : function_(function), sharding_(sharding), where_(where), layout_(layout_of_checked(shape)) {
    type_.shape = shape;
    type_.memory = sharding.memory_kind();
    dtype_ = options.dtype;
    indices_ = sharding.devices_indices_map(shape, where);
    shard_shape_ = sharding.shard_shape(shape, where);
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

  [[noreturn]] void fail(const std::string& text) const {
    throw InvalidArgument(fmt::format("{}: {}", function_, text), where_);
  }

  // A part fits if it has the shard's shape and the dtype of all.
  void check_part(const Type& part, const std::string& what, const ShardIndex& index) {
    if (part.shape != shard_shape_) {
      fail(fmt::format("{} has shape {}, but the shard at {} of an array {} lying as {} has shape {}", what,
                       to_string(part.shape), to_string(index), to_string(type_.shape), to_string(sharding_),
                       to_string(shard_shape_)));
    }
    if (!dtype_) dtype_ = part.dtype;
    if (part.dtype == *dtype_) return;
    throw TypeMismatch(fmt::format("{}: {} has dtype {}, but {} is needed, as for the others; convert it with astype",
                                   function_, what, name_of(part.dtype), name_of(*dtype_)),
                       where_);
  }

  Array finish() {
    type_.dtype = *dtype_;
    return detail::Access::make(ready_array(type_, sharding_, true, std::move(shards_)));
  }

 private:
  Layout layout_of_checked(const Shape& shape) const {
    if (Trace::current() != nullptr) {
      throw InvalidState(
          fmt::format("{}: cannot be used inside '{}', which is being traced: make the array outside and "
                      "pass it",
                      function_, Trace::current()->name()),
          where_);
    }
    if (sharding_.is_abstract()) {
      fail(fmt::format("{} is over an AbstractMesh, which has no devices", to_string(sharding_)));
    }
    if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) {
      fail(fmt::format("shape {} has a negative extent", to_string(shape)));
    }
    check_devices(sharding_.device_list(), function_, where_);
    sharding_.check_compatible(shape, function_, where_);
    return layout_of(sharding_, shape.size());
  }

  std::string_view function_;
  const Sharding& sharding_;
  SourceLocation where_;
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

}  // namespace

Array make_array_from_callback(const Shape& shape, const Sharding& sharding,
                               const std::function<Array(const ShardIndex& index)>& data,
                               const MakeArrayOptions& options, SourceLocation where) {
  Assembly assembly("make_array_from_callback", shape, sharding, options, where);
  if (!assembly.is_whole()) {
    assembly.fail(
        fmt::format("{} leaves sums unreduced, and the index does not say which summand is asked for; use "
                    "make_array_from_single_device_arrays",
                    to_string(sharding)));
  }
  // Shards of no elements may have one index in several places.
  std::vector<std::pair<ShardIndex, Buffer>> known;
  for (std::size_t i = 0; i < assembly.num_shards(); ++i) {
    const ShardIndex& index = assembly.indices()[assembly.position_of(i)].second;
    auto found = std::ranges::find(known, index, &std::pair<ShardIndex, Buffer>::first);
    if (found == known.end()) {
      const std::string what = fmt::format("the array for {}", to_string(index));
      const DeviceArray part = detail::concrete(data(index), "make_array_from_callback: " + what, where);
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
  constexpr std::string_view kName = "make_array_from_single_device_arrays";
  Assembly assembly(kName, shape, sharding, options, where);
  if (arrays.size() != assembly.indices().size()) {
    assembly.fail(fmt::format("the sharding has {} devices, and needs an array on each, but {} arrays are given",
                              assembly.indices().size(), arrays.size()));
  }
  std::vector<DeviceArray> parts;
  std::set<Device> devices;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string what = fmt::format("arrays[{}]", i);
    const DeviceArray& part =
        parts.emplace_back(detail::concrete(arrays[i], fmt::format("{}: {}", kName, what), where));
    if (part.grid()->num_devices() != 1) {
      assembly.fail(
          fmt::format("{} has {} shards; each array must lie on one device", what, part.grid()->num_devices()));
    }
    if (part.type().memory != sharding.memory_kind()) {
      assembly.fail(fmt::format("{} lies in memory '{}', but the sharding is of '{}'", what, part.type().memory.name(),
                                sharding.memory_kind().name()));
    }
    if (!devices.insert(part.grid()->devices()[0]).second) {
      assembly.fail(fmt::format("{} lies on {}, as another one does; the arrays must lie on distinct devices", what,
                                to_string(part.grid()->devices()[0])));
    }
  }
  if (const std::set<Device> wanted = sharding.device_set(); devices != wanted) {
    assembly.fail(fmt::format("the sharding has {}, where no array lies; there are arrays on {} instead",
                              ids_text(difference(wanted, devices)), ids_text(difference(devices, wanted))));
  }
  std::vector<std::size_t> first(assembly.num_shards(), arrays.size());
  for (std::size_t position = 0; position < assembly.indices().size(); ++position) {
    const auto& [device, index] = assembly.indices()[position];
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
      assembly.fail(fmt::format("arrays[{}] and {} both hold {}, so they must be equal, but they differ", first[shard],
                                what, to_string(index)));
    }
  }
  return assembly.finish();
}

Array make_array_from_process_local_data(const Sharding& sharding, const Operand& local_data,
                                         const std::optional<Shape>& global_shape) {
  const Array data = to_array(local_data);
  if (global_shape && *global_shape != data.shape()) {
    throw InvalidArgument(
        fmt::format(
            "make_array_from_process_local_data: with one process the data is the whole array, but it has shape "
            "{}, and global_shape is {}",
            to_string(data.shape()), to_string(*global_shape)),
        local_data.where());
  }
  return device_put({data, local_data.where()}, sharding);
}

namespace detail {

std::vector<Array> put_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const ShardingTree& shardings,
                              const DevicePutOptions& options, SourceLocation where) {
  const std::vector<std::optional<Sharding>> wanted = apply_prefix(shardings, tree, "device_put: the sharding", where);
  const std::vector<std::string> paths = tree.leaf_paths();
  // All are checked before the first is moved, and perhaps given away.
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string what = "device_put: argument 0" + paths[i];
    const Type& type = impl_of(leaves[i], what, where).type;
    if (wanted[i]) wanted[i]->check_compatible(type.shape, what, where);
  }
  std::vector<Array> moved;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    moved.push_back(wanted[i] ? device_put(Operand(leaves[i], where), *wanted[i], options) : leaves[i]);
  }
  return moved;
}

std::vector<Array> get_leaves(const std::vector<Array>& leaves, SourceLocation where) {
  const SingleDeviceSharding here(local_devices().front());
  std::vector<Array> fetched;
  for (const Array& leaf : leaves) {
    DeviceArray whole = put(concrete(leaf, "device_get", where), here, false, where);
    whole.wait();
    fetched.push_back(Access::make(std::move(whole)));
  }
  return fetched;
}

}  // namespace detail
}  // namespace shoal
