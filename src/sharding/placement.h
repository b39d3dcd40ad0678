// Placements: how a value lies on the devices of a mesh, in the form that propagation, partitioning and execution use.
//
// Every mesh axis is divided into *atoms* of prime size. A placement names, for each dimension, the atoms that split it
// (major to minor), and the atoms over which the value is still a partial result. Atoms make sub-axes ordinary: a
// reshape that splits a dimension hands the first atoms of an axis to one part and the rest to the other; two meshes
// over the same devices with different axes share their atoms.
#pragma once

#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/dtype.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"
#include "shoal/shape.h"
#include "shoal/sharding.h"

namespace shoal {

/// How partial results over some axes become the whole: also the kind of a reduction collective.
enum class ReduceKind : std::uint8_t { kSum, kProd, kMax, kMin, kAnd, kOr };

std::string_view name_of(ReduceKind kind);
ReduceKind parse_reduce_kind(std::string_view name);

/// Position of an atom in its grid; atoms are numbered from the most major device coordinate to the most minor.
using Atom = std::uint8_t;
using Atoms = boost::container::small_vector<Atom, 8>;

/// A set of atoms as bits.
class AtomSet {
 public:
  constexpr AtomSet() = default;
  AtomSet(const Atoms& atoms) {
    for (Atom atom : atoms) insert(atom);
  }
  void insert(Atom atom) { bits_ |= std::uint64_t{1} << atom; }
  bool contains(Atom atom) const { return ((bits_ >> atom) & 1U) != 0; }
  bool empty() const { return bits_ == 0; }
  int size() const { return std::popcount(bits_); }
  std::uint64_t bits() const { return bits_; }
  /// Ascending, which is from major to minor in device order.
  Atoms sorted() const;
  friend AtomSet operator|(AtomSet a, AtomSet b) { return AtomSet(a.bits_ | b.bits_); }
  friend AtomSet operator&(AtomSet a, AtomSet b) { return AtomSet(a.bits_ & b.bits_); }
  friend AtomSet operator-(AtomSet a, AtomSet b) { return AtomSet(a.bits_ & ~b.bits_); }
  friend bool operator==(AtomSet, AtomSet) = default;

 private:
  explicit constexpr AtomSet(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_ = 0;
};

/// The range [start, start + size) of one dimension that a shard holds.
struct Extent {
  std::int64_t start = 0;
  std::int64_t size = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct Placement;

/// Which of the distinct shards of a value the devices of a process hold.
struct HeldShards {
  std::vector<std::int32_t> shards;   ///< Ascending.
  std::vector<std::int32_t> slot_of;  ///< For each distinct shard, its place in that list, or -1.

  bool has(std::int64_t shard) const { return slot_of[static_cast<std::size_t>(shard)] >= 0; }
};

/// A mesh divided into atoms. Immutable; shared by pointer.
class Grid {
 public:
  explicit Grid(Mesh mesh);
  /// The grid of one device, without axes.
  explicit Grid(Device device);
  Grid(Grid&&) noexcept;
  ~Grid();

  /// The mesh that names the axes; empty for a single device.
  const Mesh& mesh() const { return mesh_; }
  const std::vector<Device>& devices() const { return devices_; }
  std::int64_t num_devices() const { return static_cast<std::int64_t>(devices_.size()); }
  /// The processes that have devices here, ascending.
  const std::vector<int>& processes() const { return processes_; }
  int process_of(std::int64_t position) const { return devices_[static_cast<std::size_t>(position)].process_index; }
  /// Whether all devices are of this process.
  bool is_local() const { return is_local_; }
  /// What the devices of a process hold of a value that varies over `set`. Stays valid as long as the grid does.
  const HeldShards& held_by(int process, AtomSet set) const;
  /// What this process holds of it.
  const HeldShards& held(AtomSet set) const;
  int num_atoms() const { return static_cast<int>(sizes_.size()); }
  int atom_size(Atom atom) const { return sizes_[atom]; }
  const std::vector<int>& atom_sizes() const { return sizes_; }
  /// Position in the mesh of the axis that an atom is part of.
  std::size_t axis_of(Atom atom) const;
  /// Product of the atoms' sizes.
  std::int64_t size_of(const Atoms& atoms) const;
  std::int64_t size_of(AtomSet atoms) const;

  /// How many times as long a byte takes along the slowest axis of these atoms as along the fastest of the mesh. 1 for
  /// no atoms, and everywhere if all axes are equally fast.
  double slowness(AtomSet atoms) const;
  /// The seconds that a device takes to receive so many bytes along the fastest axis and to do so many operations, at
  /// the speeds that the mesh declares.
  double seconds(double bytes, double operations) const;

  /// The atoms of a named axis of this grid's mesh, or of a sub-axis written "x:(pre)size": that of `size` positions
  /// after the first `pre`. Throws UnboundAxisError for unknown text.
  Atoms atoms_of(std::string_view axis_ref) const;
  Atoms atoms_of(const std::vector<std::string>& axis_refs) const;
  /// The shortest list of axes and sub-axes whose atoms these are, in order.
  std::vector<std::string> axis_refs(const Atoms& atoms) const;
  /// The same as they stand in the text of graphs, where names that are no words are quoted.
  std::vector<std::string> axis_texts(const Atoms& atoms) const;

  /// Whether shardings over `other` can be expressed here: the same devices in the same order and the same atoms.
  bool covers(const Mesh& other) const;
  /// The placement of a sharding whose mesh this grid covers. Unconstrained entries count as not split.
  std::vector<Atoms> dims_of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank) const;
  /// The same with the atoms over which the spec leaves sums unreduced.
  Placement placement_of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank) const;
  /// The spec over `mesh` that splits dimensions like this, if whole axes of it express it.
  std::optional<PartitionSpec> spec_of(const Mesh& mesh, const std::vector<Atoms>& dims) const;

  /// The coordinate along `atom` of the device at `position` in devices().
  int coordinate(std::int64_t position, Atom atom) const {
    return static_cast<int>(position / strides_[atom] % sizes_[atom]);
  }
  /// The position among the distinct combinations of the coordinates of `atoms`, in the order of the list.
  std::int64_t index_along(std::int64_t position, const Atoms& atoms) const;
  /// A device position with the given index along the sorted atoms of `set`, and coordinate 0 elsewhere.
  std::int64_t representative(AtomSet set, std::int64_t distinct) const;
  /// The index of a device's shard among the distinct shards of a value that varies over `set`.
  std::int64_t distinct_index(std::int64_t position, AtomSet set) const;
  /// The same device position with the coordinates along `atoms` replaced by those of `index`.
  std::int64_t with_index_along(std::int64_t position, const Atoms& atoms, std::int64_t index) const;

  /// The part of a dimension of `size` that the device at `position` holds when `atoms` split it. Each atom in turn
  /// divides what the ones before it left; where it does not divide evenly, later pieces are shorter, possibly empty.
  Extent extent(std::int64_t size, const Atoms& atoms, std::int64_t position) const;

 private:
  void find_processes();
  std::vector<std::string> refs_of(const Atoms& atoms, bool quoted) const;

  Mesh mesh_;
  std::vector<Device> devices_;
  std::vector<int> sizes_;
  std::vector<std::int64_t> strides_;
  std::vector<Atoms> axis_atoms_;                          // Per axis of mesh_.
  std::vector<double> slowness_;                           // Per atom.
  double bytes_per_second_ = MeshSpeeds::kBytesPerSecond;  // Along the fastest axis.
  std::vector<int> processes_;
  bool is_local_ = true;
  struct HeldTable;
  std::unique_ptr<HeldTable> held_;
};

using GridPtr = std::shared_ptr<const Grid>;

/// How one value lies on a grid.
struct Placement {
  std::vector<Atoms> dims;  ///< Per dimension: the atoms that split it, major to minor.
  Atoms partial;            ///< Sorted: the value is the reduction over these of what the devices hold.
  ReduceKind kind = ReduceKind::kSum;

  static Placement replicated(std::size_t rank) { return {.dims = std::vector<Atoms>(rank), .partial = {}}; }
  /// The atoms that split some dimension.
  AtomSet sharded() const;
  /// The atoms over which devices hold different data.
  AtomSet varying() const { return sharded() | AtomSet(partial); }
  bool is_replicated() const { return varying().empty(); }
  friend bool operator==(const Placement& a, const Placement& b) {
    return a.dims == b.dims && a.partial == b.partial && (a.partial.empty() || a.kind == b.kind);
  }
};

/// "[x, _, (y, z:(1)2)] partial(sum: w)", as in the text form of graphs.
std::string to_string(const Grid& grid, const Placement& placement);

/// The shape of the shard that the device at `position` holds of a value of shape `global`.
Shape local_shape(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position);
/// The shape of the largest shard, which is that of the first device.
Shape local_shape(const Grid& grid, const Shape& global, const Placement& placement);
/// Where that shard begins in each dimension.
Dims shard_start(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position);
/// Whether all shards have equal shapes.
bool is_even(const Grid& grid, const Shape& global, const std::vector<Atoms>& dims);

}  // namespace shoal
