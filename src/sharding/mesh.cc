#include "shoal/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container_hash/hash.hpp>
#include <cmath>
#include <ostream>
#include <set>

#include "sharding/python_text.h"
#include "shoal/error.h"

namespace shoal {
namespace {

std::string_view name_of(AxisType type) {
  static constexpr std::array<std::string_view, 3> kNames = {"Auto", "Explicit", "Manual"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::string tuple_of(const std::vector<AxisType>& types) {
  std::vector<std::string> parts;
  for (AxisType type : types) parts.emplace_back(name_of(type));
  return text::tuple(parts);
}

std::string tuple_of(const std::vector<double>& numbers) {
  std::vector<std::string> parts;
  for (double number : numbers) parts.push_back(fmt::format("{:g}", number));
  return text::tuple(parts);
}

MeshSpeeds usual_speeds(std::size_t axes) { return {.axes = std::vector<double>(axes, MeshSpeeds::kBytesPerSecond)}; }

void check_counts(const Shape& sizes, const std::vector<std::string>& names, const std::vector<AxisType>& types,
                  const SourceLocation& where) {
  if (names.size() != sizes.size()) {
    throw InvalidArgument(fmt::format("Mesh: axis_names {} of length {} does not fit axis sizes {} of length {}; give "
                                      "one name for each axis",
                                      text::tuple(text::quoted(names)), names.size(), to_string(sizes), sizes.size()),
                          where);
  }
  if (types.size() != sizes.size()) {
    throw InvalidArgument(fmt::format("Mesh: axis_types {} of length {} does not fit axis_names {} of length {}; give "
                                      "one type for each axis, or none at all",
                                      tuple_of(types), types.size(), text::tuple(text::quoted(names)), names.size()),
                          where);
  }
}

void check_names(const std::vector<std::string>& names, const SourceLocation& where) {
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      throw InvalidArgument(fmt::format("Mesh: the name of axis {} in axis_names {} is empty; every axis needs a name",
                                        i, text::tuple(text::quoted(names))),
                            where);
    }
    if (!seen.insert(names[i]).second) {
      throw InvalidArgument(fmt::format("Mesh: axis_names {} has '{}' twice; the names must be distinct",
                                        text::tuple(text::quoted(names)), names[i]),
                            where);
    }
  }
}

// Divides instead of multiplying, so that no choice of sizes overflows.
bool multiply_to(const Shape& sizes, std::int64_t count) {
  for (std::int64_t size : sizes) {
    if (count % size != 0) return false;
    count /= size;
  }
  return count == 1;
}

void check_sizes(const Shape& sizes, const std::vector<std::string>& names, const SourceLocation& where) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1) {
      throw InvalidArgument(
          fmt::format("Mesh: axis '{}' has size {}; the size of an axis must be at least 1", names[i], sizes[i]),
          where);
    }
  }
}

void check_speeds(const MeshSpeeds& speeds, const std::vector<std::string>& names, const SourceLocation& where) {
  if (speeds.axes.size() != names.size()) {
    throw InvalidArgument(
        fmt::format("Mesh: axis speeds {} of length {} do not fit axis_names {} of length {}; give "
                    "one speed for each axis, or none at all",
                    tuple_of(speeds.axes), speeds.axes.size(), text::tuple(text::quoted(names)), names.size()),
        where);
  }
  const auto check = [&](double speed, const std::string& label, std::string_view unit) {
    if (speed > 0 && std::isfinite(speed)) return;
    throw InvalidArgument(
        fmt::format("Mesh: the speed of {} is {}; it must be a positive number of {} per second", label, speed, unit),
        where);
  };
  for (std::size_t i = 0; i < names.size(); ++i) check(speeds.axes[i], fmt::format("axis '{}'", names[i]), "bytes");
  check(speeds.device, "a device", "operations");
}

void check_grid(const std::vector<Device>& devices, const Shape& sizes, const SourceLocation& where) {
  if (!multiply_to(sizes, static_cast<std::int64_t>(devices.size()))) {
    throw InvalidArgument(fmt::format("Mesh: the product of axis sizes {} is not {}, the number of devices; the mesh "
                                      "needs one device for each of its places",
                                      to_string(sizes), devices.size()),
                          where);
  }
}

void check_distinct(std::vector<Device> devices, const SourceLocation& where) {
  std::ranges::sort(devices);
  if (auto twice = std::ranges::adjacent_find(devices); twice != devices.end()) {
    throw InvalidArgument(
        fmt::format("Mesh: {} is given twice; the devices of a mesh must be distinct", to_string(*twice)), where);
  }
}

}  // namespace

struct Mesh::Rep {
  std::size_t hash = 0;   // First, so that comparing different meshes ends early.
  bool abstract = false;  // Without devices.
  std::vector<Device> devices;
  Shape sizes;
  std::vector<std::string> names;
  std::vector<AxisType> types;
  MeshSpeeds speeds;  // One for each axis.

  bool operator==(const Rep&) const = default;
  void set_hash();
};

void Mesh::Rep::set_hash() {
  hash = boost::hash_range(names.begin(), names.end());
  boost::hash_combine(hash, abstract);
  boost::hash_range(hash, sizes.begin(), sizes.end());
  for (AxisType type : types) boost::hash_combine(hash, static_cast<int>(type));
  for (const Device& device : devices) {
    boost::hash_combine(hash, static_cast<int>(device.platform));
    boost::hash_combine(hash, device.id);
  }
  boost::hash_range(hash, speeds.axes.begin(), speeds.axes.end());
  boost::hash_combine(hash, speeds.device);
}

Mesh::Mesh() {
  static const auto& empty = *new std::shared_ptr<const Rep>(std::make_shared<const Rep>());
  rep_ = empty;
}

Mesh::Mesh(std::vector<Device> devices, Shape sizes, std::vector<std::string> axis_names,
           std::vector<AxisType> axis_types, std::source_location where) {
  if (axis_types.empty()) axis_types.assign(sizes.size(), AxisType::kAuto);
  check_counts(sizes, axis_names, axis_types, where);
  check_names(axis_names, where);
  check_sizes(sizes, axis_names, where);
  check_grid(devices, sizes, where);
  check_distinct(devices, where);
  auto rep = std::make_shared<Rep>();
  rep->devices = std::move(devices);
  rep->sizes = std::move(sizes);
  rep->names = std::move(axis_names);
  rep->types = std::move(axis_types);
  rep->speeds = usual_speeds(rep->sizes.size());
  rep->set_hash();
  rep_ = std::move(rep);
}

const std::vector<std::string>& Mesh::axis_names() const { return rep_->names; }
const Shape& Mesh::axis_sizes() const { return rep_->sizes; }
const std::vector<AxisType>& Mesh::axis_types() const { return rep_->types; }
const std::vector<Device>& Mesh::devices() const {
  if (rep_->abstract) throw InvalidState(fmt::format("Mesh::devices: {} has no devices", to_string(*this)));
  return rep_->devices;
}
std::int64_t Mesh::size() const { return empty() ? 0 : num_elements(rep_->sizes); }
bool Mesh::empty() const { return rep_->devices.empty() && !rep_->abstract; }
bool Mesh::is_abstract() const { return rep_->abstract; }

const MeshSpeeds& Mesh::speeds() const { return rep_->speeds; }
bool Mesh::has_usual_speeds() const { return rep_->speeds == usual_speeds(rep_->sizes.size()); }

AbstractMesh Mesh::abstract_mesh() const {
  AbstractMesh mesh(rep_->sizes, rep_->names, rep_->types);
  mesh.set_speeds(rep_->speeds);
  return mesh;
}

Mesh Mesh::local_mesh(std::source_location where) const {
  const std::vector<Device>& all = devices();
  const std::size_t rank = rep_->sizes.size();
  Shape first = rep_->sizes;
  Shape end(rank, 0);
  const auto coordinates_of = [&](std::size_t position) {
    Shape at(rank, 0);
    for (std::size_t d = rank; d-- > 0; position /= static_cast<std::size_t>(rep_->sizes[d])) {
      at[d] = static_cast<std::int64_t>(position) % rep_->sizes[d];
    }
    return at;
  };
  std::vector<Device> local;
  for (std::size_t position = 0; position < all.size(); ++position) {
    if (all[position].process_index != process_index()) continue;
    local.push_back(all[position]);
    const Shape at = coordinates_of(position);
    for (std::size_t d = 0; d < rank; ++d) {
      first[d] = std::min(first[d], at[d]);
      end[d] = std::max(end[d], at[d] + 1);
    }
  }
  Shape sizes(rank, 0);
  for (std::size_t d = 0; d < rank; ++d) sizes[d] = end[d] - first[d];
  if (local.empty() || !multiply_to(sizes, static_cast<std::int64_t>(local.size()))) {
    throw InvalidState(fmt::format("Mesh::local_mesh: the {} devices of process {} are no grid within {}", local.size(),
                                   process_index(), to_string(*this)),
                       where);
  }
  return Mesh(std::move(local), std::move(sizes), rep_->names, rep_->types, where).with_speeds(rep_->speeds);
}

Mesh Mesh::with_devices(std::vector<Device> devices, std::source_location where) const {
  return Mesh(std::move(devices), rep_->sizes, rep_->names, rep_->types, where).with_speeds(rep_->speeds);
}

Mesh Mesh::with_speeds(MeshSpeeds speeds, std::source_location where) const {
  if (speeds.axes.empty()) speeds.axes = usual_speeds(rep_->sizes.size()).axes;
  check_speeds(speeds, rep_->names, where);
  Mesh mesh = *this;
  mesh.set_speeds(std::move(speeds));
  return mesh;
}

void Mesh::set_speeds(MeshSpeeds speeds) {
  if (speeds == rep_->speeds) return;
  auto rep = std::make_shared<Rep>(*rep_);
  rep->speeds = std::move(speeds);
  rep->set_hash();
  rep_ = std::move(rep);
}

AbstractMesh::AbstractMesh(Shape sizes, std::vector<std::string> axis_names, std::vector<AxisType> axis_types,
                           std::source_location where) {
  if (axis_types.empty()) axis_types.assign(sizes.size(), AxisType::kAuto);
  check_counts(sizes, axis_names, axis_types, where);
  check_names(axis_names, where);
  check_sizes(sizes, axis_names, where);
  static_cast<void>(num_elements(sizes));  // Throws if they are too many to count.
  auto rep = std::make_shared<Rep>();
  rep->abstract = true;
  rep->sizes = std::move(sizes);
  rep->names = std::move(axis_names);
  rep->types = std::move(axis_types);
  rep->speeds = usual_speeds(rep->sizes.size());
  rep->set_hash();
  rep_ = std::move(rep);
}

std::size_t Mesh::hash() const { return rep_->hash; }

std::vector<std::pair<std::string, std::int64_t>> Mesh::shape() const {
  std::vector<std::pair<std::string, std::int64_t>> out;
  out.reserve(rep_->names.size());
  for (std::size_t i = 0; i < rep_->names.size(); ++i) out.emplace_back(rep_->names[i], rep_->sizes[i]);
  return out;
}

std::optional<std::size_t> Mesh::find_axis(std::string_view name) const {
  auto found = std::ranges::find(rep_->names, name);
  if (found == rep_->names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rep_->names.begin());
}

std::int64_t Mesh::axis_size(std::string_view name, std::source_location where) const {
  if (auto axis = find_axis(name)) return rep_->sizes[*axis];
  throw UnboundAxisError(fmt::format("Mesh::axis_size: axis '{}' is not in the mesh, whose axes are {}", name,
                                     text::tuple(text::quoted(rep_->names))),
                         where);
}

bool operator==(const Mesh& a, const Mesh& b) { return a.rep_ == b.rep_ || *a.rep_ == *b.rep_; }

std::ostream& operator<<(std::ostream& out, AxisType type) { return out << name_of(type); }
std::ostream& operator<<(std::ostream& out, const std::vector<AxisType>& types) { return out << tuple_of(types); }

std::string to_string(const Mesh& mesh) {
  if (mesh.empty()) return "Mesh()";
  std::vector<std::string> parts;
  for (const auto& [name, size] : mesh.shape()) parts.push_back(fmt::format("'{}': {}", name, size));
  parts.push_back("axis_types=" + tuple_of(mesh.axis_types()));
  if (!mesh.has_usual_speeds()) {
    parts.push_back("axis_speeds=" + tuple_of(mesh.speeds().axes));
    parts.push_back(fmt::format("device_speed={:g}", mesh.speeds().device));
  }
  return fmt::format("{}({})", mesh.is_abstract() ? "AbstractMesh" : "Mesh", fmt::join(parts, ", "));
}

std::ostream& operator<<(std::ostream& out, const Mesh& mesh) { return out << to_string(mesh); }

}  // namespace shoal
