// How an array lies on devices.
//
// @param index The index.
// @param sharding The sharding.
// @param device The device.
// @param memory_kind The memory.
// @param mesh The mesh.
// @param spec Which axes split which dimension.
// @param kind The memory.
// @param global The extents of the whole array.
// @param single The sharding.
// @param named The sharding.
// @param rank The number of dimensions.
// @param what The beginning of the error's message.
// @param other The other sharding.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/device.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"
#include "shoal/shape.h"

namespace shoal {

/// A range of one dimension. Without bounds it is the whole dimension and prints as "slice(None, None, None)".
struct IndexRange {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// The part of a global array that a shard holds, one range per dimension.
using ShardIndex = std::vector<IndexRange>;

/// "(slice(0, 2, None), slice(None, None, None))"
std::string to_string(const ShardIndex& index);

/// The whole array on one device.
class SingleDeviceSharding {
 public:
  explicit SingleDeviceSharding(Device device, MemoryKind memory_kind = {})
      : device_(device), memory_kind_(memory_kind) {}
  const Device& device() const { return device_; }
  MemoryKind memory_kind() const { return memory_kind_; }
  friend bool operator==(const SingleDeviceSharding&, const SingleDeviceSharding&) = default;

 private:
  Device device_;
  MemoryKind memory_kind_;
};

struct NamedShardingOptions {
  MemoryKind memory_kind = {};
};

/// The array split over the axes of a mesh as a partition spec says; replicated over the axes it does not name.
class NamedSharding {
 public:
  /// Throws InvalidArgument for an empty mesh, for an axis that the mesh lacks, for an Explicit axis after one of
  /// another kind in one dimension, and for an unreduced axis that is not Explicit or also splits a dimension;
  /// DuplicateSpecError if the dimensions name one axis twice.
  NamedSharding(Mesh mesh, PartitionSpec spec, NamedShardingOptions options = {},
                std::source_location where = std::source_location::current());
  /// Over the mesh of set_mesh. Throws InvalidState if there is none.
  NamedSharding(PartitionSpec spec, std::source_location where = std::source_location::current());
  const Mesh& mesh() const { return mesh_; }
  const PartitionSpec& spec() const { return spec_; }
  MemoryKind memory_kind() const { return memory_kind_; }
  /// Whether this is over an AbstractMesh without axes. The type of an array that no Explicit axes split has such a
  /// sharding; to request it is to request nothing.
  bool says_nothing() const;
  NamedSharding with_memory_kind(MemoryKind kind) const;
  NamedSharding with_spec(PartitionSpec spec, std::source_location where = std::source_location::current()) const;
  friend bool operator==(const NamedSharding&, const NamedSharding&) = default;

  // Members that every sharding has; see Sharding.
  std::set<Device> device_set() const;
  Shape shard_shape(const Shape& global, std::source_location where = std::source_location::current()) const;
  std::vector<std::pair<Device, ShardIndex>> devices_indices_map(
      const Shape& global, std::source_location where = std::source_location::current()) const;
  bool is_fully_replicated() const;

 private:
  Mesh mesh_;
  PartitionSpec spec_;
  MemoryKind memory_kind_;
};

/// The sharding that is requested for the result of a function along Explicit axes, if there is a request: see matmul.
struct OutSharding : std::optional<NamedSharding> {
  OutSharding() = default;
  /// Empty if the sharding says nothing: see NamedSharding::says_nothing.
  OutSharding(NamedSharding sharding) {
    if (!sharding.says_nothing()) emplace(std::move(sharding));
  }
  /// Over the mesh of set_mesh. Throws InvalidState if there is none.
  OutSharding(PartitionSpec spec, std::source_location where = std::source_location::current())
      : optional(NamedSharding(std::move(spec), where)) {}
};

/// Either kind of sharding. Both convert to it.
class Sharding {
 public:
  Sharding(SingleDeviceSharding single) : rep_(single) {}
  Sharding(NamedSharding named) : rep_(std::move(named)) {}
  Sharding(PartitionSpec spec, std::source_location where = std::source_location::current())
      : rep_(NamedSharding(std::move(spec), where)) {}

  /// The named sharding or the single device inside, or nullptr.
  const NamedSharding* named() const { return std::get_if<NamedSharding>(&rep_); }
  const SingleDeviceSharding* single_device() const { return std::get_if<SingleDeviceSharding>(&rep_); }

  /// The devices in the order of the mesh. Throw InvalidState for a sharding over an abstract mesh, as
  /// devices_indices_map does.
  std::vector<Device> device_list() const;
  std::set<Device> device_set() const;
  /// Whether this is over an abstract mesh.
  bool is_abstract() const { return named() != nullptr && named()->mesh().is_abstract(); }
  MemoryKind memory_kind() const;
  Sharding with_memory_kind(MemoryKind kind) const;

  /// Number of pieces along each dimension of an array of the given rank.
  /// Throws InvalidArgument if the spec is longer than the rank.
  Dims num_pieces(std::size_t rank, std::source_location where = std::source_location::current()) const;
  /// Throws unless the sharding can hold `global`: the spec is no longer than the rank and every split dimension is
  /// divisible (IndivisibleError). `what` begins the message, as in "device_put: argument 0".
  void check_compatible(const Shape& global, std::string_view what,
                        std::source_location where = std::source_location::current()) const;
  /// Shape of one shard. Throws as check_compatible.
  Shape shard_shape(const Shape& global, std::source_location where = std::source_location::current()) const;
  /// The index of every device's shard, in the order of device_list(). Devices of an unreduced array hold summands of
  /// the elements at that index. Throws as check_compatible.
  std::vector<std::pair<Device, ShardIndex>> devices_indices_map(
      const Shape& global, std::source_location where = std::source_location::current()) const;
  /// Every device holds the whole array, and not just a summand of it.
  bool is_fully_replicated() const;
  /// Whether both place every array of this rank in the same way: in the same memory kind, with the same index on each
  /// device, in the same order, and unreduced over the same axes. Abstract meshes with equal axes count as having the
  /// same devices.
  bool is_equivalent_to(const Sharding& other, std::size_t rank) const;

  std::size_t hash() const;
  friend bool operator==(const Sharding&, const Sharding&) = default;

 private:
  std::variant<SingleDeviceSharding, NamedSharding> rep_;
};

/// "NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=P('x', 'y'), memory_kind=device)",
/// "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)".
std::string to_string(const Sharding& sharding);
std::ostream& operator<<(std::ostream& out, const Sharding& sharding);

}  // namespace shoal
