#include "sharding/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/sort_unique.h"
#include "core/this_process.h"
#include "sharding/python_text.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr std::array<std::string_view, 6> kReduceNames = {"sum", "prod", "max", "min", "and", "or"};

std::vector<int> prime_factors(std::int64_t n) {
  std::vector<int> factors;
  for (std::int64_t p = 2; n > 1; ++p) {
    if (p * p > n) p = n;
    for (; n % p == 0; n /= p) factors.push_back(static_cast<int>(p));
  }
  return factors;
}

// The atoms of each axis, numbered through the axes in order.
std::vector<Atoms> divide_axes(const Mesh& mesh, std::vector<int>& sizes) {
  std::vector<Atoms> per_axis;
  for (std::int64_t size : mesh.axis_sizes()) {
    Atoms atoms;
    for (int p : prime_factors(size)) {
      atoms.push_back(static_cast<Atom>(sizes.size()));
      sizes.push_back(p);
    }
    per_axis.push_back(std::move(atoms));
  }
  return per_axis;
}

bool starts_with(const Atoms& list, std::size_t offset, const Atoms& prefix) {
  return list.size() - offset >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), list.begin() + static_cast<std::ptrdiff_t>(offset));
}

std::string join(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

}  // namespace

std::string_view name_of(ReduceKind kind) { return kReduceNames[static_cast<std::size_t>(kind)]; }

ReduceKind parse_reduce_kind(std::string_view name) {
  const auto* found = std::find(kReduceNames.begin(), kReduceNames.end(), name);
  if (found == kReduceNames.end()) {
    throw InvalidArgument(
        fmt::format("reduction kind '{}' is unknown; the kinds are {}", name, fmt::join(kReduceNames, ", ")));
  }
  return static_cast<ReduceKind>(found - kReduceNames.begin());
}

Atoms AtomSet::sorted() const {
  Atoms atoms;
  for (std::uint64_t rest = bits_; rest != 0; rest &= rest - 1) {
    atoms.push_back(static_cast<Atom>(std::countr_zero(rest)));
  }
  return atoms;
}

Grid::Grid(Mesh mesh) : mesh_(std::move(mesh)), devices_(mesh_.devices()) {
  axis_atoms_ = divide_axes(mesh_, sizes_);
  SHOAL_CHECK(sizes_.size() <= 64, "a mesh has at most 64 prime factors");
  strides_.resize(sizes_.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= sizes_[i];
  }
  // Nothing is sent along axes of one position.
  const std::vector<double>& speeds = mesh_.speeds().axes;
  std::vector<double> used;
  for (std::size_t atom = 0; atom < sizes_.size(); ++atom) used.push_back(speeds[axis_of(static_cast<Atom>(atom))]);
  if (!used.empty()) bytes_per_second_ = std::ranges::max(used);
  for (double speed : used) slowness_.push_back(bytes_per_second_ / speed);
  find_processes();
}

Grid::Grid(Device device) : devices_{device} { find_processes(); }

// What was asked for so far.
struct Grid::HeldTable {
  std::mutex mutex;
  std::map<std::pair<int, std::uint64_t>, HeldShards> known;
};

Grid::Grid(Grid&&) noexcept = default;
Grid::~Grid() = default;

void Grid::find_processes() {
  for (const Device& device : devices_) processes_.push_back(device.process_index);
  sort_unique(processes_);
  is_local_ = processes_.empty() || (processes_.size() == 1 && processes_[0] == this_process());
  held_ = std::make_unique<HeldTable>();
}

const HeldShards& Grid::held_by(int process, AtomSet set) const {
  const std::lock_guard lock(held_->mutex);
  const auto [found, is_new] = held_->known.try_emplace({process, set.bits()});
  HeldShards& held = found->second;
  if (!is_new) return held;
  held.slot_of.assign(static_cast<std::size_t>(size_of(set)), -1);
  for (std::int64_t position = 0; position < num_devices(); ++position) {
    if (process_of(position) == process) held.slot_of[static_cast<std::size_t>(distinct_index(position, set))] = 0;
  }
  for (std::size_t shard = 0; shard < held.slot_of.size(); ++shard) {
    if (held.slot_of[shard] < 0) continue;
    held.slot_of[shard] = static_cast<std::int32_t>(held.shards.size());
    held.shards.push_back(static_cast<std::int32_t>(shard));
  }
  return held;
}

const HeldShards& Grid::held(AtomSet set) const { return held_by(this_process(), set); }

std::int64_t Grid::size_of(const Atoms& atoms) const {
  std::int64_t size = 1;
  for (Atom atom : atoms) size *= sizes_[atom];
  return size;
}

std::size_t Grid::axis_of(Atom atom) const {
  std::size_t axis = 0;
  while (axis_atoms_[axis].empty() || axis_atoms_[axis].back() < atom) ++axis;
  return axis;
}

double Grid::slowness(AtomSet atoms) const {
  double slowest = 1;
  for (std::size_t atom = 0; atom < slowness_.size(); ++atom) {
    if (atoms.contains(static_cast<Atom>(atom))) slowest = std::max(slowest, slowness_[atom]);
  }
  return slowest;
}

double Grid::seconds(double bytes, double operations) const {
  return bytes / bytes_per_second_ + operations / mesh_.speeds().device;
}

std::int64_t Grid::size_of(AtomSet atoms) const { return size_of(atoms.sorted()); }

Atoms Grid::atoms_of(std::string_view axis_ref) const {
  // The name itself may have a colon.
  const std::size_t colon = mesh_.find_axis(axis_ref) ? std::string_view::npos : axis_ref.rfind(":(");
  const auto axis = mesh_.find_axis(axis_ref.substr(0, colon));
  if (!axis) {
    throw UnboundAxisError(
        fmt::format("axis '{}' is not an axis of the mesh; its axes are ({})", axis_ref, join(mesh_.axis_names())));
  }
  const Atoms& all = axis_atoms_[*axis];
  if (colon == std::string_view::npos) return all;
  std::int64_t pre = 0;
  std::int64_t size = 0;
  const char* end = axis_ref.data() + axis_ref.size();
  const auto [after_pre, pre_error] = std::from_chars(axis_ref.data() + colon + 2, end, pre);
  const bool closed = pre_error == std::errc() && after_pre != end && *after_pre == ')';
  if (!closed || std::from_chars(after_pre + 1, end, size).ptr != end || after_pre + 1 == end) {
    throw InvalidArgument(fmt::format("sub-axis '{}' is not written as name:(pre)size", axis_ref));
  }
  auto next = all.begin();
  std::int64_t before = 1;
  while (next != all.end() && before < pre) before *= sizes_[*next++];
  Atoms atoms;
  while (next != all.end() && size_of(atoms) < size) atoms.push_back(*next++);
  if (before != pre || size_of(atoms) != size) {
    throw InvalidArgument(fmt::format("sub-axis '{}' does not divide axis '{}'", axis_ref, axis_ref.substr(0, colon)));
  }
  return atoms;
}

Atoms Grid::atoms_of(const std::vector<std::string>& axis_refs) const {
  Atoms atoms;
  for (const std::string& ref : axis_refs) {
    const Atoms some = atoms_of(ref);
    atoms.insert(atoms.end(), some.begin(), some.end());
  }
  return atoms;
}

std::vector<std::string> Grid::axis_refs(const Atoms& atoms) const { return refs_of(atoms, false); }

std::vector<std::string> Grid::axis_texts(const Atoms& atoms) const { return refs_of(atoms, true); }

std::vector<std::string> Grid::refs_of(const Atoms& atoms, bool quoted) const {
  std::vector<std::string> refs;
  for (std::size_t i = 0; i < atoms.size();) {
    const std::size_t axis = axis_of(atoms[i]);
    const Atoms& whole = axis_atoms_[axis];
    // The longest run of consecutive atoms of this axis.
    std::size_t length = 1;
    while (i + length < atoms.size() && atoms[i + length] == atoms[i] + length && atoms[i + length] <= whole.back()) {
      ++length;
    }
    std::string name = mesh_.axis_names()[axis];
    if (quoted) name = text::axis_name(name);
    if (length == whole.size()) {
      refs.push_back(std::move(name));
    } else {
      std::int64_t pre = 1;
      for (Atom atom = whole.front(); atom < atoms[i]; ++atom) pre *= sizes_[atom];
      std::int64_t size = 1;
      for (std::size_t k = 0; k < length; ++k) size *= sizes_[atoms[i + k]];
      refs.push_back(fmt::format("{}:({}){}", name, pre, size));
    }
    i += length;
  }
  return refs;
}

bool Grid::covers(const Mesh& other) const {
  if (other.devices() != devices_) return false;
  std::vector<int> sizes;
  divide_axes(other, sizes);
  return sizes == sizes_;
}

std::vector<Atoms> Grid::dims_of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank) const {
  SHOAL_CHECK(covers(mesh), "the grid does not cover the mesh of the sharding");
  std::vector<int> sizes;
  const std::vector<Atoms> per_axis = divide_axes(mesh, sizes);
  std::vector<Atoms> dims(rank);
  for (std::size_t d = 0; d < spec.size(); ++d) {
    for (const std::string& name : spec[d].axes()) {
      const Atoms& atoms = per_axis[mesh.find_axis(name).value()];
      dims[d].insert(dims[d].end(), atoms.begin(), atoms.end());
    }
  }
  return dims;
}

Placement Grid::placement_of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank) const {
  Placement placement{.dims = dims_of(mesh, spec, rank), .partial = {}};
  if (!spec.unreduced().empty()) {
    placement.partial = AtomSet(dims_of(mesh, PartitionSpec({spec.unreduced()}), 1)[0]).sorted();
  }
  return placement;
}

std::optional<PartitionSpec> Grid::spec_of(const Mesh& mesh, const std::vector<Atoms>& dims) const {
  std::vector<int> sizes;
  const std::vector<Atoms> per_axis = divide_axes(mesh, sizes);
  std::vector<PartitionEntry> entries;
  for (const Atoms& atoms : dims) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < atoms.size();) {
      std::size_t axis = 0;
      while (axis < per_axis.size() && (per_axis[axis].empty() || !starts_with(atoms, i, per_axis[axis]))) ++axis;
      if (axis == per_axis.size()) return std::nullopt;
      names.push_back(mesh.axis_names()[axis]);
      i += per_axis[axis].size();
    }
    if (names.empty()) {
      entries.emplace_back();
    } else if (names.size() == 1) {
      entries.emplace_back(std::move(names.front()));
    } else {
      entries.emplace_back(std::move(names));
    }
  }
  while (!entries.empty() && entries.back().is_none()) entries.pop_back();
  return PartitionSpec(std::move(entries));
}

std::int64_t Grid::index_along(std::int64_t position, const Atoms& atoms) const {
  std::int64_t index = 0;
  for (Atom atom : atoms) index = index * sizes_[atom] + coordinate(position, atom);
  return index;
}

std::int64_t Grid::with_index_along(std::int64_t position, const Atoms& atoms, std::int64_t index) const {
  for (std::size_t i = atoms.size(); i-- > 0;) {
    const Atom atom = atoms[i];
    position += (index % sizes_[atom] - coordinate(position, atom)) * strides_[atom];
    index /= sizes_[atom];
  }
  return position;
}

std::int64_t Grid::representative(AtomSet set, std::int64_t distinct) const {
  std::int64_t position = 0;
  for (std::uint64_t rest = set.bits(); rest != 0;) {
    const auto atom = static_cast<std::size_t>(std::bit_width(rest) - 1);  // The most minor that is left.
    position += distinct % sizes_[atom] * strides_[atom];
    distinct /= sizes_[atom];
    rest ^= std::uint64_t{1} << atom;
  }
  return position;
}

std::int64_t Grid::distinct_index(std::int64_t position, AtomSet set) const {
  std::int64_t index = 0;
  for (std::uint64_t rest = set.bits(); rest != 0; rest &= rest - 1) {
    const auto atom = static_cast<Atom>(std::countr_zero(rest));
    index = index * sizes_[atom] + coordinate(position, atom);
  }
  return index;
}

Extent Grid::extent(std::int64_t size, const Atoms& atoms, std::int64_t position) const {
  Extent extent{.start = 0, .size = size};
  for (Atom atom : atoms) {
    const std::int64_t piece = (extent.size + sizes_[atom] - 1) / sizes_[atom];
    const std::int64_t begin = std::min(coordinate(position, atom) * piece, extent.size);
    extent.start += begin;
    extent.size = std::min(piece, extent.size - begin);
  }
  return extent;
}

AtomSet Placement::sharded() const {
  AtomSet set;
  for (const Atoms& atoms : dims) set = set | AtomSet(atoms);
  return set;
}

std::string to_string(const Grid& grid, const Placement& placement) {
  std::vector<std::string> dims;
  for (const Atoms& atoms : placement.dims) {
    const std::vector<std::string> refs = grid.axis_texts(atoms);
    if (refs.empty()) {
      dims.emplace_back("_");
    } else if (refs.size() == 1) {
      dims.push_back(refs.front());
    } else {
      dims.push_back("(" + join(refs) + ")");
    }
  }
  std::string text = "[" + join(dims) + "]";
  if (!placement.partial.empty()) {
    text += fmt::format(" partial({}: {})", name_of(placement.kind), join(grid.axis_texts(placement.partial)));
  }
  return text;
}

Shape local_shape(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position) {
  Shape local(global.size());
  for (std::size_t d = 0; d < global.size(); ++d) {
    local[d] = grid.extent(global[d], placement.dims[d], position).size;
  }
  return local;
}

Shape local_shape(const Grid& grid, const Shape& global, const Placement& placement) {
  return local_shape(grid, global, placement, 0);
}

Dims shard_start(const Grid& grid, const Shape& global, const Placement& placement, std::int64_t position) {
  Dims start(global.size());
  for (std::size_t d = 0; d < global.size(); ++d) {
    start[d] = grid.extent(global[d], placement.dims[d], position).start;
  }
  return start;
}

bool is_even(const Grid& grid, const Shape& global, const std::vector<Atoms>& dims) {
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (global[d] % grid.size_of(dims[d]) != 0) return false;
  }
  return true;
}

}  // namespace shoal
