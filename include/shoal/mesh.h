// A mesh: a grid of devices whose axes have names.
//
// @param devices The devices, in row-major order.
// @param sizes How many devices along each axis.
// @param axis_names The name of each axis.
// @param axis_types The type of each axis; all Auto when empty.
// @param name The name of an axis.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/device.h"
#include "shoal/shape.h"

namespace shoal {

/// Auto: the compiler chooses shardings over the axis. Explicit: shardings are part of types. Manual: inside shard_map.
enum class AxisType : std::uint8_t { kAuto, kExplicit, kManual };

std::ostream& operator<<(std::ostream& out, AxisType type);                       ///< "Auto"
std::ostream& operator<<(std::ostream& out, const std::vector<AxisType>& types);  ///< "(Auto, Auto)"

/// How fast the compiler takes the devices of a mesh to be. It compares ways to run a program by what they would take
/// at these speeds, so their ratios decide how values are split. They are declared and not measured: the choices, and
/// by them the bits of results, are the same in every process and on every machine.
struct MeshSpeeds {
  static constexpr double kBytesPerSecond = 4e9;        ///< Of axes of which nothing is said.
  static constexpr double kOperationsPerSecond = 1e11;  ///< Of devices of which nothing is said.

  /// Along each axis: the bytes that a device receives per second. All kBytesPerSecond when empty.
  std::vector<double> axes = {};
  /// Of each device: operations on elements per second.
  double device = kOperationsPerSecond;

  friend bool operator==(const MeshSpeeds&, const MeshSpeeds&) = default;
};

class AbstractMesh;

/// An immutable grid of distinct devices with one name per dimension. Copying copies a pointer.
class Mesh {
 public:
  /// The empty mesh, of size 0 and without axes.
  Mesh();
  /// `devices` in row-major order of `sizes`. Axis types default to Auto.
  /// Throws InvalidArgument if the numbers of devices, names and types do not fit, a name is empty or repeated, or a
  /// device is repeated.
  Mesh(std::vector<Device> devices, Shape sizes, std::vector<std::string> axis_names,
       std::vector<AxisType> axis_types = {}, std::source_location where = std::source_location::current());

  const std::vector<std::string>& axis_names() const;
  const Shape& axis_sizes() const;
  const std::vector<AxisType>& axis_types() const;
  /// One speed per axis, and that of a device.
  const MeshSpeeds& speeds() const;
  /// Whether these are those of a mesh of which none are declared.
  bool has_usual_speeds() const;
  /// Name and size of each axis, in order.
  std::vector<std::pair<std::string, std::int64_t>> shape() const;
  /// All devices in row-major order of their mesh coordinates. Throws InvalidState for an abstract mesh.
  const std::vector<Device>& devices() const;
  /// Number of devices: the product of the axis sizes.
  std::int64_t size() const;
  bool empty() const;
  /// Whether this is an AbstractMesh, which has no devices.
  bool is_abstract() const;
  /// The same axes and speeds without devices.
  AbstractMesh abstract_mesh() const;
  /// The part of the mesh whose devices are of this process. Throws InvalidState if they are no grid of it, or if it is
  /// abstract.
  Mesh local_mesh(std::source_location where = std::source_location::current()) const;
  /// The same axes over these devices, in row-major order. Throws InvalidArgument if their number is not size().
  Mesh with_devices(std::vector<Device> devices, std::source_location where = std::source_location::current()) const;

  /// The same mesh with these speeds. Throws InvalidArgument if they are not one per axis, or if one is not positive
  /// and finite.
  /// @param speeds The bytes per second of each axis, and the operations per second of a device.
  Mesh with_speeds(MeshSpeeds speeds, std::source_location where = std::source_location::current()) const;

  /// Position of a named axis, or nullopt.
  std::optional<std::size_t> find_axis(std::string_view name) const;
  /// Size of a named axis. Throws UnboundAxisError for an unknown name.
  std::int64_t axis_size(std::string_view name, std::source_location where = std::source_location::current()) const;

  /// A hash of names, sizes, types, speeds and devices, equal for equal meshes.
  std::size_t hash() const;
  /// Equal names, sizes, types, speeds and devices in the same order.
  friend bool operator==(const Mesh& a, const Mesh& b);

 private:
  friend class AbstractMesh;
  struct Rep;
  void set_speeds(MeshSpeeds speeds);

  std::shared_ptr<const Rep> rep_;
};

/// A mesh whose devices are not known yet. Shardings over it say how arrays are cut, so that functions can be lowered
/// for them; the devices are those of other arguments, or are named when it is compiled. Nothing can lie on it.
class AbstractMesh : public Mesh {
 public:
  /// Throws InvalidArgument as Mesh does.
  AbstractMesh(Shape sizes, std::vector<std::string> axis_names, std::vector<AxisType> axis_types = {},
               std::source_location where = std::source_location::current());
};

/// "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))", or AbstractMesh(…); the empty mesh is "Mesh()". Declared speeds
/// follow: ", axis_speeds=(4e+09, 1e+09), device_speed=1e+11".
/// @param mesh The mesh.
std::string to_string(const Mesh& mesh);
std::ostream& operator<<(std::ostream& out, const Mesh& mesh);

struct MakeMeshOptions {
  std::vector<AxisType> axis_types = {};  ///< One per axis; all Auto when empty.
  std::vector<Device> devices = {};       ///< The first of these are used; all devices of the job when empty.
  MeshSpeeds speeds = {};                 ///< What the compiler takes for granted of axes and devices.
};

/// A mesh over the first product(axis_sizes) devices in order of id.
/// Throws InvalidArgument if there are too few devices, the lists do not fit each other, or a speed is not positive.
/// @param axis_sizes How many devices along each axis.
/// @param axis_names The name of each axis.
/// @return A mesh; devices are in row-major order.
/// @example make_mesh({1, 1}, {"x", "y"})
/// @python jax.make_mesh((1, 1), ("x", "y"))
///   Mesh('x': 1, 'y': 1, axis_types=(Auto, Auto))
Mesh make_mesh(const Shape& axis_sizes, const std::vector<std::string>& axis_names, const MakeMeshOptions& options = {},
               std::source_location where = std::source_location::current());

}  // namespace shoal
