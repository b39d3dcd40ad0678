// Meshes.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings/core/convert.h"
#include "sharding/default_place.h"
#include "shoal/mesh_context.h"

namespace shoal::python {
namespace {

// The types of axes: one for all, or one for each.
std::vector<AxisType> axis_types(nb::handle x, std::size_t count) {
  if (x.is_none()) return {};
  if (nb::isinstance<AxisType>(x)) return std::vector<AxisType>(count, nb::cast<AxisType>(x));
  std::vector<AxisType> types;
  for (nb::handle item : x) {
    if (!nb::isinstance<AxisType>(item))
      type_error(fmt::format("axis_types must be AxisType, got {}", type_text(item)));
    types.push_back(nb::cast<AxisType>(item));
  }
  return types;
}

// The speeds that are given, and else the usual ones.
MeshSpeeds speeds(nb::handle of_axes, nb::handle of_device, const char* function) {
  MeshSpeeds speeds;
  const auto number = [&](nb::handle x, const char* name) {
    double value = 0;
    if (!nb::try_cast(x, value))
      type_error(fmt::format("{}: {} must be numbers, got {}", function, name, type_text(x)));
    return value;
  };
  if (!of_axes.is_none()) {
    if (PySequence_Check(of_axes.ptr()) == 0) {
      type_error(fmt::format("{}: axis_speeds must be a sequence with a number for each axis, got {}", function,
                             type_text(of_axes)));
    }
    for (nb::handle item : of_axes) speeds.axes.push_back(number(item, "axis_speeds"));
  }
  if (!of_device.is_none()) speeds.device = number(of_device, "device_speed");
  return speeds;
}

// The array of devices of a mesh, as one of NumPy.
nb::object devices_array(const Mesh& mesh) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const nb::object flat = numpy.attr("empty")(mesh.size(), numpy.attr("object_"));
  std::int64_t i = 0;
  for (const Device& device : mesh.devices()) flat[i++] = nb::cast(device);
  return flat.attr("reshape")(to_tuple(mesh.axis_sizes()));
}

// Sizes of nested sequences of devices.
Shape shape_of_devices(nb::handle x) {
  if (nb::hasattr(x, "shape")) return dims(x.attr("shape"), "Mesh: the shape of devices");
  Shape shape;
  nb::object level = nb::borrow(x);
  while (!nb::isinstance<Device>(level) && PySequence_Check(level.ptr()) != 0 && nb::len(level) > 0) {
    shape.push_back(static_cast<std::int64_t>(nb::len(level)));
    level = level[0];
  }
  return shape;
}

nb::object shape_of(const Mesh& mesh) {
  const nb::object ordered = nb::module_::import_("collections").attr("OrderedDict")();
  for (const auto& [name, size] : mesh.shape()) ordered[name.c_str()] = nb::cast(size);
  return ordered;
}

// How pickle makes a mesh again, whose first argument has this name.
nb::tuple reduced(const nb::object& self, const char* first) {
  const nb::object make = nb::module_::import_("functools")
                              .attr("partial")(self.type(), "axis_speeds"_a = self.attr("axis_speeds"),
                                               "device_speed"_a = self.attr("device_speed"));
  return nb::make_tuple(make, nb::make_tuple(self.attr(first), self.attr("axis_names"), self.attr("axis_types")));
}

// What is given, or what the mesh has.
nb::object given_or(nb::handle value, const nb::object& mesh, const char* name) {
  return value.is_none() ? nb::object(mesh.attr(name)) : nb::borrow(value);
}

std::string text_of(const nb::object& x) { return nb::cast<std::string>(nb::repr(x)); }

nb::tuple axes_of_type(const Mesh& mesh, AxisType wanted) {
  nb::list axes;
  for (std::size_t a = 0; a < mesh.axis_names().size(); ++a) {
    if (mesh.axis_types()[a] == wanted) axes.append(mesh.axis_names()[a]);
  }
  return nb::tuple(axes);
}

template <AxisType kWanted>
bool all_axes_are(const Mesh& mesh) {
  return !mesh.axis_types().empty() && std::ranges::count(mesh.axis_types(), kWanted) == std::ssize(mesh.axis_types());
}

// The types of axes with some changed by name.
std::vector<AxisType> changed_types(const Mesh& mesh, nb::handle changes) {
  std::vector<AxisType> types = mesh.axis_types();
  for (const auto& [name, type] : nb::cast<nb::dict>(changes)) {
    const auto text = nb::cast<std::string>(name);
    const std::optional<std::size_t> axis = mesh.find_axis(text);
    if (!axis) value_error(fmt::format("update_axis_types: axis '{}' is not in {}", text, to_string(mesh)));
    types[*axis] = nb::cast<AxisType>(type);
  }
  return types;
}

// What holds outside a `with` block.
struct Surroundings {
  Mesh mesh = get_mesh();
  Mesh place = default_place().mesh;

  void restore() const {
    set_mesh(mesh);
    default_place().mesh = place;
  }
};

std::vector<Surroundings>& entered() {
  thread_local std::vector<Surroundings> before;
  return before;
}
// What `with mesh` does: bare specs mean it, but nothing lies on it that nobody placed.
void enter(const Mesh& mesh) {
  const Surroundings before;
  set_mesh(mesh, user_line());
  default_place().mesh = before.place;
  entered().push_back(before);
}
void leave() {
  entered().back().restore();
  entered().pop_back();
}

// A `with` block in which the axes of a mesh hold, also in functions that are traced.
struct UseAbstractMesh {
  Mesh mesh;
  std::vector<std::shared_ptr<use_abstract_mesh>> entered;
};

// What set_mesh returns: the mesh is set, and leaving a `with` puts back the one before.
struct SetMesh {
  Mesh mesh;
  Surroundings before;
};

}  // namespace

void bind_meshes(nb::module_& m) {
  nb::enum_<AxisType> axis_type(m, "AxisType", "What chooses how arrays are split over an axis.");
  axis_type.value("Auto", AxisType::kAuto, "The compiler.")
      .value("Explicit", AxisType::kExplicit, "The types of arrays.")
      .value("Manual", AxisType::kManual, "The body of a shard_map.");
  axis_type.attr("__repr__") = nb::cpp_function([](nb::handle self) { return self.attr("name"); }, nb::is_method(),
                                                nb::scope(axis_type), nb::name("__repr__"));

  nb::class_<Mesh>(m, "Mesh", "A grid of devices whose axes have names.")
      .def(
          "__init__",
          [](Mesh* self, nb::handle devices, nb::handle axis_names, nb::handle types, nb::handle axis_speeds,
             nb::handle device_speed) {
            const std::vector<std::string> list = names(axis_names, "Mesh: axis_names");
            Shape shape = shape_of_devices(devices);
            if (nb::isinstance<Device>(devices)) shape = Shape(list.size(), 1);
            const Mesh mesh(device_list(devices, "Mesh: devices"), shape, list, axis_types(types, list.size()),
                            user_line());
            new (self) Mesh(mesh.with_speeds(speeds(axis_speeds, device_speed, "Mesh"), user_line()));
          },
          "devices"_a, "axis_names"_a, "axis_types"_a = nb::none(), nb::kw_only(), "axis_speeds"_a = nb::none(),
          "device_speed"_a = nb::none())
      .def_prop_ro("axis_names", [](const Mesh& mesh) { return tuple_of(mesh.axis_names()); })
      .def_prop_ro("axis_sizes", [](const Mesh& mesh) { return to_tuple(mesh.axis_sizes()); })
      .def_prop_ro("axis_types", [](const Mesh& mesh) { return tuple_of(mesh.axis_types()); })
      .def_prop_ro(
          "axis_speeds", [](const Mesh& mesh) { return tuple_of(mesh.speeds().axes); },
          "The bytes per second that the compiler takes a device to receive along each axis.")
      .def_prop_ro(
          "device_speed", [](const Mesh& mesh) { return mesh.speeds().device; },
          "The operations per second that the compiler takes a device to do.")
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("shape_tuple", [](const Mesh& mesh) { return tuple_of(mesh.shape()); })
      .def_prop_ro("devices", &devices_array)
      .def_prop_ro(
          "device_ids",
          [](const Mesh& mesh) {
            nb::list ids;
            for (const Device& device : mesh.devices()) ids.append(device.id);
            return nb::module_::import_("numpy").attr("array")(ids).attr("reshape")(to_tuple(mesh.axis_sizes()));
          })
      .def_prop_ro("size", &Mesh::size)
      .def_prop_ro("empty", &Mesh::empty)
      .def_prop_ro("is_multi_process",
                   [](const Mesh& mesh) {
                     return std::ranges::any_of(
                         mesh.devices(), [](const Device& device) { return device.process_index != process_index(); });
                   })
      .def_prop_ro("local_devices",
                   [](const Mesh& mesh) {
                     std::vector<Device> local;
                     for (const Device& device : mesh.devices()) {
                       if (device.process_index == process_index()) local.push_back(device);
                     }
                     return local;
                   })
      .def_prop_ro("abstract_mesh", &Mesh::abstract_mesh)
      .def_prop_ro("local_mesh", [](const Mesh& mesh) { return mesh.local_mesh(user_line()); })
      .def_prop_ro("auto_axes", [](const Mesh& mesh) { return axes_of_type(mesh, AxisType::kAuto); })
      .def_prop_ro("explicit_axes", [](const Mesh& mesh) { return axes_of_type(mesh, AxisType::kExplicit); })
      .def_prop_ro("manual_axes", [](const Mesh& mesh) { return axes_of_type(mesh, AxisType::kManual); })
      .def_prop_ro("are_all_axes_auto", &all_axes_are<AxisType::kAuto>)
      .def_prop_ro("are_all_axes_explicit", &all_axes_are<AxisType::kExplicit>)
      .def_prop_ro("are_all_axes_manual", &all_axes_are<AxisType::kManual>)
      .def(
          "update",
          [](nb::object self, nb::handle devices, nb::handle axis_names, nb::handle types, nb::handle axis_speeds,
             nb::handle device_speed) {
            return self.type()(given_or(devices, self, "devices"), given_or(axis_names, self, "axis_names"),
                               given_or(types, self, "axis_types"),
                               "axis_speeds"_a = given_or(axis_speeds, self, "axis_speeds"),
                               "device_speed"_a = given_or(device_speed, self, "device_speed"));
          },
          "devices"_a = nb::none(), "axis_names"_a = nb::none(), "axis_types"_a = nb::none(), nb::kw_only(),
          "axis_speeds"_a = nb::none(), "device_speed"_a = nb::none(),
          "The same mesh with other devices, names, types or speeds.")
      .def("__enter__",
           [](nb::object self) {
             enter(nb::cast<Mesh>(self));
             return self;
           })
      .def("__exit__", [](const Mesh&, nb::args) { leave(); })
      .def(
          "__eq__", [](const Mesh& a, nb::handle b) { return nb::isinstance<Mesh>(b) && a == nb::cast<Mesh>(b); },
          nb::is_operator())
      .def("__hash__", &Mesh::hash)
      .def("__reduce__", [](nb::object self) { return reduced(self, "devices"); })
      .def("__str__", [](const Mesh& mesh) { return to_string(mesh); })
      .def("__repr__", [](nb::object self) {
        if (nb::cast<bool>(self.attr("empty"))) return std::string("Mesh(axis_sizes=(), axis_names=())");
        std::string speeds;
        if (!nb::cast<const Mesh&>(self).has_usual_speeds()) {
          speeds = fmt::format(", axis_speeds={}, device_speed={}", text_of(self.attr("axis_speeds")),
                               text_of(self.attr("device_speed")));
        }
        return fmt::format("Mesh(axis_sizes={}, axis_names={}, axis_types={}{})", text_of(self.attr("axis_sizes")),
                           text_of(self.attr("axis_names")), text_of(self.attr("axis_types")), speeds);
      });

  nb::class_<AbstractMesh, Mesh>(m, "AbstractMesh", "The axes of a mesh whose devices are not known yet.")
      .def(
          "__init__",
          [](AbstractMesh* self, nb::handle sizes, nb::handle axis_names, nb::handle types, nb::handle axis_speeds,
             nb::handle device_speed) {
            const std::vector<std::string> list = names(axis_names, "AbstractMesh: axis_names");
            const AbstractMesh mesh(dims(sizes, "AbstractMesh: axis_sizes"), list, axis_types(types, list.size()),
                                    user_line());
            new (self) AbstractMesh(
                mesh.with_speeds(speeds(axis_speeds, device_speed, "AbstractMesh"), user_line()).abstract_mesh());
          },
          "axis_sizes"_a, "axis_names"_a, "axis_types"_a = nb::none(), nb::kw_only(), "axis_speeds"_a = nb::none(),
          "device_speed"_a = nb::none())
      .def("__repr__", [](const AbstractMesh& mesh) { return to_string(mesh); })
      .def_prop_ro("empty", [](const AbstractMesh& mesh) { return mesh.axis_names().empty(); })
      .def(
          "update",
          [](nb::object self, nb::handle sizes, nb::handle axis_names, nb::handle types, nb::handle axis_speeds,
             nb::handle device_speed) {
            return self.type()(given_or(sizes, self, "axis_sizes"), given_or(axis_names, self, "axis_names"),
                               given_or(types, self, "axis_types"),
                               "axis_speeds"_a = given_or(axis_speeds, self, "axis_speeds"),
                               "device_speed"_a = given_or(device_speed, self, "device_speed"));
          },
          "axis_sizes"_a = nb::none(), "axis_names"_a = nb::none(), "axis_types"_a = nb::none(), nb::kw_only(),
          "axis_speeds"_a = nb::none(), "device_speed"_a = nb::none(),
          "The same axes with other sizes, names, types or speeds.")
      .def(
          "update_axis_types",
          [](const AbstractMesh& mesh, nb::handle changes) {
            return AbstractMesh(mesh.axis_sizes(), mesh.axis_names(), changed_types(mesh, changes))
                .with_speeds(mesh.speeds())
                .abstract_mesh();
          },
          "name_to_type"_a, "The same axes, those named with other types.")
      .def("__reduce__", [](nb::object self) { return reduced(self, "axis_sizes"); });

  m.def(
      "make_mesh",
      [](nb::handle shape, nb::handle axis_names, nb::handle types, nb::handle devices, nb::handle axis_speeds,
         nb::handle device_speed) {
        const std::vector<std::string> list = names(axis_names, "make_mesh: axis_names");
        MakeMeshOptions options{.axis_types = axis_types(types, list.size()),
                                .speeds = speeds(axis_speeds, device_speed, "make_mesh")};
        if (!devices.is_none()) options.devices = device_list(devices, "make_mesh: devices");
        return make_mesh(dims(shape, "make_mesh: axis_sizes"), list, options, user_line());
      },
      "axis_sizes"_a, "axis_names"_a, "axis_types"_a = nb::none(), nb::kw_only(), "devices"_a = nb::none(),
      "axis_speeds"_a = nb::none(), "device_speed"_a = nb::none(),
      "A mesh over the first devices of the job, in order of id. The compiler takes a device to receive `axis_speeds` "
      "bytes per second along each axis (4e9 if none are given), and to do `device_speed` operations per second "
      "(1e11), "
      "and chooses how values are split by the time that programs would take at these speeds.");

  nb::class_<SetMesh>(
      m, "set_mesh",
      "Makes a mesh the one that bare partition specs mean, and over which arrays lie that nobody placed, from "
      "here on or for a `with` block.")
      .def(
          "__init__",
          [](SetMesh* self, nb::handle mesh_object) {
            const Mesh wanted = mesh(mesh_object, "set_mesh: mesh");
            new (self) SetMesh{wanted, {}};
            set_mesh(wanted, user_line());
          },
          "mesh"_x)
      .def("__enter__", [](const SetMesh& self) { return self.mesh; })
      .def("__exit__", [](const SetMesh& self, nb::args) { self.before.restore(); });
  m.def(
      "get_mesh", [] { return get_mesh(); }, "The mesh of set_mesh; empty if there is none.");
  m.def(
      "get_abstract_mesh", [] { return get_abstract_mesh(); },
      "The axes of the mesh that holds here, with the types that they have here.");
  nb::class_<UseAbstractMesh>(m, "use_abstract_mesh", "A `with` block in which these axes hold.")
      .def(
          "__init__",
          [](UseAbstractMesh* self, nb::handle mesh_object) {
            new (self) UseAbstractMesh{mesh(mesh_object, "use_abstract_mesh: mesh"), {}};
          },
          "mesh"_a)
      .def("__enter__",
           [](nb::object self) {
             auto& block = nb::cast<UseAbstractMesh&>(self);
             block.entered.push_back(std::make_shared<use_abstract_mesh>(block.mesh));
             return self;
           })
      .def("__exit__", [](UseAbstractMesh& self, nb::args) { self.entered.pop_back(); });
}

}  // namespace shoal::python
