#include "shoal/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <map>
#include <ostream>

#include "sharding/python_text.h"
#include "shoal/error.h"
#include "shoal/mesh_context.h"

namespace shoal {
namespace {

// One mesh axis in the row-major position of a device: its coordinate is position / stride % size.
struct MeshDigit {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

// How one dimension is cut: digits of a device's position, the most significant first, count its pieces.
class Cut {
 public:
  Cut(const Mesh& mesh, const PartitionEntry& entry) {
    const Dims strides = row_major_strides(mesh.axis_sizes());
    for (const std::string& name : entry.axes()) {
      const std::size_t axis = *mesh.find_axis(name);
      digits_.push_back({mesh.axis_sizes()[axis], strides[axis]});
      pieces_ *= mesh.axis_sizes()[axis];
    }
  }

  std::int64_t pieces() const { return pieces_; }

  /// The piece that the device at a position of the mesh holds.
  std::int64_t piece_at(std::int64_t position) const {
    std::int64_t piece = 0;
    for (const MeshDigit& digit : digits_) piece = piece * digit.size + position / digit.stride % digit.size;
    return piece;
  }

 private:
  std::vector<MeshDigit> digits_;
  std::int64_t pieces_ = 1;
};

// One cut for each entry of the spec; later dimensions are whole.
std::vector<Cut> cuts_of(const NamedSharding& sharding) {
  std::vector<Cut> cuts;
  cuts.reserve(sharding.spec().size());
  for (const PartitionEntry& entry : sharding.spec()) cuts.emplace_back(sharding.mesh(), entry);
  return cuts;
}

// "('x': 2, 'y': 4)"
std::string axes_with_sizes(const Mesh& mesh, const PartitionEntry& entry) {
  std::vector<std::string> parts;
  for (const std::string& name : entry.axes()) parts.push_back(fmt::format("'{}': {}", name, mesh.axis_size(name)));
  return fmt::format("({})", fmt::join(parts, ", "));
}

// A type names the Explicit axes of a dimension alone, and the compiler splits what they leave. So they come first.
void check_explicit_first(const Mesh& mesh, const PartitionSpec& spec, std::size_t dim, const SourceLocation& where) {
  const std::string* before = nullptr;
  for (const std::string& axis : spec[dim].axes()) {
    if (mesh.axis_types()[*mesh.find_axis(axis)] != AxisType::kExplicit) {
      before = &axis;
    } else if (before != nullptr) {
      throw InvalidArgument(fmt::format("NamedSharding: spec {} splits dimension {} over '{}', which is not Explicit, "
                                        "before '{}', which is; the Explicit axes of a dimension come first",
                                        to_string(spec), dim, *before, axis),
                            where);
    }
  }
}

void check_axes(const Mesh& mesh, const PartitionSpec& spec, const SourceLocation& where) {
  std::map<std::string_view, std::size_t> dimension_of;
  for (std::size_t dim = 0; dim < spec.size(); ++dim) {
    for (const std::string& axis : spec[dim].axes()) {
      if (!mesh.find_axis(axis)) {
        throw InvalidArgument(fmt::format("NamedSharding: axis '{}' of spec {} is not in the mesh, whose axes are {}",
                                          axis, to_string(spec), text::tuple(text::quoted(mesh.axis_names()))),
                              where);
      }
      const auto [first, is_new] = dimension_of.emplace(axis, dim);
      if (!is_new) {
        throw DuplicateSpecError(
            fmt::format("NamedSharding: spec {} names axis '{}' for dimension {} and again for dimension {}; an axis "
                        "may be named once in a spec",
                        to_string(spec), axis, first->second, dim),
            where);
      }
    }
    check_explicit_first(mesh, spec, dim, where);
  }
  const auto check_summed = [&](const char* what, const std::vector<std::string>& axes) {
    for (const std::string& axis : axes) {
      const auto refuse = [&](const std::string& why) {
        throw InvalidArgument(
            fmt::format("NamedSharding: spec {} is {} over '{}', which {}", to_string(spec), what, axis, why), where);
      };
      if (!mesh.find_axis(axis)) {
        refuse(fmt::format("is not in the mesh, whose axes are {}", text::tuple(text::quoted(mesh.axis_names()))));
      }
      if (dimension_of.contains(axis)) refuse(fmt::format("splits dimension {}", dimension_of.at(axis)));
      if (mesh.axis_types()[*mesh.find_axis(axis)] != AxisType::kExplicit) {
        refuse(fmt::format("is not Explicit in {}; along other axes the compiler finishes sums where it sees fit",
                           to_string(mesh)));
      }
    }
  };
  check_summed("unreduced", spec.unreduced());
  check_summed("reduced", spec.reduced());
  for (const std::string& axis : spec.reduced()) {
    if (std::ranges::find(spec.unreduced(), axis) == spec.unreduced().end()) continue;
    throw InvalidArgument(
        fmt::format("NamedSharding: spec {} is unreduced and reduced over '{}'; an array is one of both",
                    to_string(spec), axis),
        where);
  }
}

void check_rank(const NamedSharding& sharding, std::size_t rank, std::string_view what, const SourceLocation& where) {
  const PartitionSpec& spec = sharding.spec();
  if (spec.size() <= rank) return;
  throw InvalidArgument(
      fmt::format(
          "{}: spec {} of length {} does not fit an array of rank {}; {}", what, to_string(spec), spec.size(), rank,
          rank == 0 ? "for a scalar the spec must be P()" : "a spec may have at most one entry for each dimension"),
      where);
}

bool has_unconstrained(const PartitionSpec& spec) {
  return std::ranges::any_of(spec, &PartitionEntry::is_unconstrained);
}

void check_constrained(const NamedSharding& sharding, std::string_view what, const SourceLocation& where) {
  if (!has_unconstrained(sharding.spec())) return;
  throw InvalidArgument(fmt::format("{}: spec {} leaves a dimension unconstrained, so its pieces are unknown; every "
                                    "entry must be none or axes (unconstrained is for sharding constraints)",
                                    what, to_string(sharding.spec())),
                        where);
}

void check_concrete(const NamedSharding& sharding, std::string_view what, const SourceLocation& where) {
  if (!sharding.mesh().is_abstract()) return;
  throw InvalidState(
      fmt::format(
          "{}: {} has no devices, so that nothing lies on it; use a mesh made by make_mesh, or its with_devices", what,
          to_string(sharding.mesh())),
      where);
}

void check_divisible(const NamedSharding& sharding, const Shape& global, std::string_view what,
                     const SourceLocation& where) {
  const std::vector<Cut> cuts = cuts_of(sharding);
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    if (global[dim] % cuts[dim].pieces() == 0) continue;
    throw IndivisibleError(
        fmt::format("{}: dimension {} of shape {} has size {}, which is not a multiple of {}, the number of pieces "
                    "that spec {} asks for over mesh axes {}",
                    what, dim, to_string(global), global[dim], cuts[dim].pieces(), to_string(sharding.spec()),
                    axes_with_sizes(sharding.mesh(), sharding.spec()[dim])),
        where);
  }
}

void check_fits(const NamedSharding& sharding, const Shape& global, std::string_view what,
                const SourceLocation& where) {
  check_rank(sharding, global.size(), what, where);
  check_divisible(sharding, global, what, where);
}

// A dimension in one piece has no bounds, also when it is split over axes of size 1.
IndexRange range_of(std::int64_t piece, std::int64_t pieces, std::int64_t extent) {
  if (pieces == 1) return {};
  const std::int64_t length = extent / pieces;
  return {.start = piece * length, .stop = (piece + 1) * length};
}

std::string to_string(const IndexRange& range) {
  const auto bound = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::to_string(*value) : std::string("None");
  };
  return fmt::format("slice({}, {}, None)", bound(range.start), bound(range.stop));
}

}  // namespace

std::string to_string(const ShardIndex& index) {
  std::vector<std::string> parts;
  parts.reserve(index.size());
  for (const IndexRange& range : index) parts.push_back(to_string(range));
  return text::tuple(parts);
}

// ---- NamedSharding

NamedSharding::NamedSharding(Mesh mesh, PartitionSpec spec, NamedShardingOptions options, std::source_location where)
    : mesh_(std::move(mesh)), spec_(std::move(spec)), memory_kind_(options.memory_kind) {
  if (mesh_.empty()) {
    throw InvalidArgument(fmt::format("NamedSharding: the mesh given for spec {} is empty; a mesh of at least one "
                                      "device is needed",
                                      to_string(spec_)),
                          where);
  }
  check_axes(mesh_, spec_, where);
}

NamedSharding::NamedSharding(PartitionSpec spec, std::source_location where)
    : mesh_(get_mesh()), spec_(std::move(spec)), memory_kind_() {
  if (mesh_.empty()) {
    throw InvalidState(fmt::format("a PartitionSpec alone, {}, stands for a sharding only while a mesh is set: call "
                                   "set_mesh, or pass NamedSharding(mesh, spec)",
                                   to_string(spec_)),
                       where);
  }
  check_axes(mesh_, spec_, where);
}

bool NamedSharding::says_nothing() const { return mesh_.is_abstract() && mesh_.axis_names().empty(); }

NamedSharding NamedSharding::with_memory_kind(MemoryKind kind) const {
  NamedSharding out = *this;
  out.memory_kind_ = kind;
  return out;
}

NamedSharding NamedSharding::with_spec(PartitionSpec spec, std::source_location where) const {
  return NamedSharding(mesh_, std::move(spec), {.memory_kind = memory_kind_}, where);
}

std::set<Device> NamedSharding::device_set() const { return {mesh_.devices().begin(), mesh_.devices().end()}; }

Shape NamedSharding::shard_shape(const Shape& global, std::source_location where) const {
  check_constrained(*this, "shard_shape", where);
  check_fits(*this, global, "shard_shape", where);
  Shape shard = global;
  const std::vector<Cut> cuts = cuts_of(*this);
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) shard[dim] /= cuts[dim].pieces();
  return shard;
}

std::vector<std::pair<Device, ShardIndex>> NamedSharding::devices_indices_map(const Shape& global,
                                                                              std::source_location where) const {
  check_concrete(*this, "devices_indices_map", where);
  check_constrained(*this, "devices_indices_map", where);
  check_fits(*this, global, "devices_indices_map", where);
  const std::vector<Cut> cuts = cuts_of(*this);
  std::vector<std::pair<Device, ShardIndex>> out;
  out.reserve(mesh_.devices().size());
  for (const Device& device : mesh_.devices()) {
    const auto position = static_cast<std::int64_t>(out.size());
    ShardIndex index(global.size());
    for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
      index[dim] = range_of(cuts[dim].piece_at(position), cuts[dim].pieces(), global[dim]);
    }
    out.emplace_back(device, std::move(index));
  }
  return out;
}

bool NamedSharding::is_fully_replicated() const {
  const bool is_summand =
      std::ranges::any_of(spec_.unreduced(), [&](const std::string& axis) { return mesh_.axis_size(axis) > 1; });
  return !has_unconstrained(spec_) && !is_summand &&
         std::ranges::all_of(cuts_of(*this), [](const Cut& cut) { return cut.pieces() == 1; });
}

// ---- Sharding

std::vector<Device> Sharding::device_list() const {
  if (const NamedSharding* sharding = named()) return sharding->mesh().devices();
  return {single_device()->device()};
}

std::set<Device> Sharding::device_set() const {
  if (const NamedSharding* sharding = named()) return sharding->device_set();
  return {single_device()->device()};
}

MemoryKind Sharding::memory_kind() const {
  return std::visit([](const auto& sharding) { return sharding.memory_kind(); }, rep_);
}

Sharding Sharding::with_memory_kind(MemoryKind kind) const {
  if (const NamedSharding* sharding = named()) return sharding->with_memory_kind(kind);
  return SingleDeviceSharding(single_device()->device(), kind);
}

Dims Sharding::num_pieces(std::size_t rank, std::source_location where) const {
  Dims pieces(rank, 1);
  if (const NamedSharding* sharding = named()) {
    check_constrained(*sharding, "num_pieces", where);
    check_rank(*sharding, rank, "num_pieces", where);
    std::ranges::transform(cuts_of(*sharding), pieces.begin(), &Cut::pieces);
  }
  return pieces;
}

void Sharding::check_compatible(const Shape& global, std::string_view what, std::source_location where) const {
  if (const NamedSharding* sharding = named()) check_fits(*sharding, global, what, where);
}

Shape Sharding::shard_shape(const Shape& global, std::source_location where) const {
  if (const NamedSharding* sharding = named()) return sharding->shard_shape(global, where);
  return global;
}

std::vector<std::pair<Device, ShardIndex>> Sharding::devices_indices_map(const Shape& global,
                                                                         std::source_location where) const {
  if (const NamedSharding* sharding = named()) return sharding->devices_indices_map(global, where);
  return {{single_device()->device(), ShardIndex(global.size())}};
}

bool Sharding::is_fully_replicated() const {
  const NamedSharding* sharding = named();
  return sharding == nullptr || sharding->is_fully_replicated();
}

namespace {

// The sharding over devices: any will do in place of those that an abstract mesh lacks.
Sharding with_some_devices(const Sharding& sharding) {
  if (!sharding.is_abstract()) return sharding;
  const NamedSharding& named = *sharding.named();
  std::vector<Device> devices(static_cast<std::size_t>(named.mesh().size()));
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i].id = static_cast<std::int64_t>(i);
  return NamedSharding(named.mesh().with_devices(std::move(devices)), named.spec(),
                       {.memory_kind = named.memory_kind()});
}

// Whether arrays are still to be summed over the same devices, or over none.
bool sum_alike(const Sharding& a, const Sharding& b) {
  const auto none = [](const Sharding& s) { return s.named() == nullptr || s.named()->spec().unreduced().empty(); };
  if (none(a) || none(b)) return none(a) && none(b);
  return a.named()->mesh() == b.named()->mesh() && a.named()->spec().unreduced() == b.named()->spec().unreduced();
}

}  // namespace

// Where a sharding places nothing that can be compared (an unconstrained dimension, a spec longer than the rank), it is
// equivalent to its equals only.
bool Sharding::is_equivalent_to(const Sharding& other, std::size_t rank) const {
  if (*this == other) return true;
  const auto places = [rank](const Sharding& sharding) {
    const NamedSharding* s = sharding.named();
    return s == nullptr || (s->spec().size() <= rank && !has_unconstrained(s->spec()));
  };
  if (memory_kind() != other.memory_kind() || !places(*this) || !places(other)) return false;
  if (is_abstract() != other.is_abstract() || !sum_alike(*this, other)) return false;
  // An array with one element for each piece stands for all arrays of this rank.
  const Dims pieces = num_pieces(rank);
  return pieces == other.num_pieces(rank) &&
         with_some_devices(*this).devices_indices_map(pieces) == with_some_devices(other).devices_indices_map(pieces);
}

std::size_t Sharding::hash() const {
  std::size_t hash = rep_.index();
  boost::hash_combine(hash, static_cast<int>(memory_kind().kind()));
  if (const NamedSharding* sharding = named()) {
    boost::hash_combine(hash, sharding->mesh().hash());
    boost::hash_combine(hash, sharding->spec().hash());
  } else {
    boost::hash_combine(hash, static_cast<int>(single_device()->device().platform));
    boost::hash_combine(hash, single_device()->device().id);
  }
  return hash;
}

std::string to_string(const Sharding& sharding) {
  if (const NamedSharding* named = sharding.named()) {
    // Where there are no devices their own memory is not worth a word.
    const bool is_plain = named->mesh().is_abstract() && named->memory_kind() == kDeviceMemory;
    return fmt::format("NamedSharding(mesh={}, spec={}{})", to_string(named->mesh()), to_string(named->spec()),
                       is_plain ? "" : fmt::format(", memory_kind={}", named->memory_kind().name()));
  }
  const SingleDeviceSharding& single = *sharding.single_device();
  return fmt::format("SingleDeviceSharding(device={}, memory_kind={})", to_string(single.device()),
                     single.memory_kind().name());
}

std::ostream& operator<<(std::ostream& out, const Sharding& sharding) { return out << to_string(sharding); }

}  // namespace shoal
