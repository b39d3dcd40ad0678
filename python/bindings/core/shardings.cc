// Partition specs and shardings.
#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/convert.h"

namespace shoal::python {
namespace {

PyObject* unconstrained_object = nullptr;  // PartitionSpec.UNCONSTRAINED, which is never given up.

PartitionEntry entry_of(nb::handle x) {
  if (x.is_none()) return {};
  if (PyUnicode_Check(x.ptr())) return {nb::cast<std::string>(x)};
  if (x.is(unconstrained_object)) return {unconstrained};
  if (PyTuple_Check(x.ptr()) || PyList_Check(x.ptr())) return {names(x, "PartitionSpec")};
  type_error(
      fmt::format("PartitionSpec: an entry must be None, the name of a mesh axis, a tuple of names or "
                  "PartitionSpec.UNCONSTRAINED; got {}",
                  nb::cast<std::string>(nb::repr(x))));
}

nb::object entry_object(const PartitionEntry& entry) {
  if (entry.is_unconstrained()) return nb::borrow(unconstrained_object);
  if (entry.is_none()) return nb::none();
  if (entry.axes().size() == 1) return nb::str(entry.axes()[0].c_str());
  return tuple_of(entry.axes());
}

nb::tuple spec_entries(const PartitionSpec& spec) {
  nb::list list;
  for (const PartitionEntry& entry : spec) list.append(entry_object(entry));
  return nb::tuple(list);
}

nb::object frozen_set(const std::vector<std::string>& axes) {
  nb::object set = nb::steal(PyFrozenSet_New(nullptr));
  for (const std::string& axis : axes) PySet_Add(set.ptr(), nb::str(axis.c_str()).ptr());
  return set;
}
nb::object unreduced_of(const PartitionSpec& spec) { return frozen_set(spec.unreduced()); }
nb::object reduced_of(const PartitionSpec& spec) { return frozen_set(spec.reduced()); }
bool is_of_sums(const PartitionSpec& spec) { return !spec.unreduced().empty() || !spec.reduced().empty(); }

// The axes of unreduced or reduced.
std::vector<std::string> set_of_names(nb::handle x, const char* name) {
  if (PyAnySet_Check(x.ptr()) == 0) {
    type_error(
        fmt::format("PartitionSpec: {} must be a set of mesh axes, got {}", name, nb::cast<std::string>(nb::repr(x))));
  }
  for (nb::handle axis : x) {
    if (axis.is_none()) value_error(fmt::format("PartitionSpec: {} has None, and should name axes of the mesh", name));
  }
  return names(nb::list(x), fmt::format("PartitionSpec: {}", name));
}

// The entries of a spec that says nothing beside them.
nb::tuple entries_alone(const PartitionSpec& spec) {
  if (is_of_sums(spec)) {
    value_error(fmt::format("PartitionSpec: the entries of {} are not all that it says; take those of .partitions",
                            to_string(spec)));
  }
  return spec_entries(spec);
}
// A tuple as a spec, to be added to one of entries alone.
PartitionSpec spec_of_tuple(nb::handle tuple, const PartitionSpec& other) {
  if (is_of_sums(other)) {
    type_error(fmt::format("PartitionSpec: {} cannot be added to a tuple; add a PartitionSpec", to_string(other)));
  }
  std::vector<PartitionEntry> list;
  for (nb::handle entry : tuple) list.push_back(entry_of(entry));
  return PartitionSpec(std::move(list));
}

bool has(const std::vector<std::string>& axes, const std::string& axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

// A spec as a program writes it, of which an axis says one thing.
PartitionSpec checked_spec(std::vector<PartitionEntry> entries, nb::handle unreduced, nb::handle reduced) {
  PartitionSpec spec(std::move(entries), set_of_names(unreduced, "unreduced"), set_of_names(reduced, "reduced"));
  const auto refuse = [&](const std::string& axis, const char* what) {
    throw InvalidArgument(fmt::format("PartitionSpec: {} names axis '{}' {}; an axis may be named once in a spec",
                                      to_string(spec), axis, what),
                          user_line());
  };
  for (const std::string& axis : spec.reduced()) {
    if (has(spec.unreduced(), axis)) refuse(axis, "as unreduced and as reduced");
  }
  for (const PartitionEntry& entry : spec) {
    for (const std::string& axis : entry.axes()) {
      if (has(spec.unreduced(), axis)) refuse(axis, "for a dimension and as unreduced");
      if (has(spec.reduced(), axis)) refuse(axis, "for a dimension and as reduced");
    }
  }
  return spec;
}

}  // namespace

nb::tuple to_object(const ShardIndex& index) {
  nb::list list;
  for (const IndexRange& range : index) {
    const nb::object start = range.start ? nb::cast(*range.start) : nb::none();
    const nb::object stop = range.stop ? nb::cast(*range.stop) : nb::none();
    list.append(nb::steal(PySlice_New(start.ptr(), stop.ptr(), nullptr)));
  }
  return nb::tuple(list);
}

namespace {

nb::dict indices_map(const Sharding& sharding, nb::handle shape) {
  nb::dict map;
  for (const auto& [device, index] :
       sharding.devices_indices_map(dims(shape, "devices_indices_map: global_shape"), user_line())) {
    map[nb::cast(device)] = to_object(index);
  }
  return map;
}

nb::object device_set(const Sharding& sharding) {
  nb::object set = nb::steal(PySet_New(nullptr));
  for (const Device& device : sharding.device_set()) PySet_Add(set.ptr(), nb::cast(device).ptr());
  return set;
}

bool is_local(const Device& device) { return device.process_index == process_index(); }

// What every sharding answers.
template <class T>
void bind_common(nb::class_<T>& c) {
  c.def_prop_ro("memory_kind", [](const T& s) { return std::string(s.memory_kind().name()); })
      .def(
          "with_memory_kind",
          [](const T& s, nb::handle kind) { return to_object(Sharding(s).with_memory_kind(memory_kind(kind))); },
          "kind"_a, "The same sharding in another memory.")
      .def_prop_ro("device_set", [](const T& s) { return device_set(s); })
      .def_prop_ro("_device_assignment", [](const T& s) { return tuple_of(Sharding(s).device_list()); })
      .def_prop_ro("num_devices", [](const T& s) { return Sharding(s).device_list().size(); })
      .def_prop_ro("addressable_devices",
                   [](const T& s) {
                     nb::object set = nb::steal(PySet_New(nullptr));
                     for (const Device& device : Sharding(s).device_set()) {
                       if (is_local(device)) PySet_Add(set.ptr(), nb::cast(device).ptr());
                     }
                     return set;
                   })
      .def_prop_ro("has_addressable_devices",
                   [](const T& s) { return std::ranges::any_of(Sharding(s).device_set(), is_local); })
      .def_prop_ro("is_fully_addressable",
                   [](const T& s) { return std::ranges::all_of(Sharding(s).device_set(), is_local); })
      .def_prop_ro("is_fully_replicated", [](const T& s) { return Sharding(s).is_fully_replicated(); })
      .def_prop_ro("has_addressable_devices",
                   [](const T& s) { return std::ranges::any_of(Sharding(s).device_set(), is_local); })
      .def(
          "shard_shape",
          [](const T& s, nb::handle shape) {
            return to_tuple(Sharding(s).shard_shape(dims(shape, "shard_shape: global_shape"), user_line()));
          },
          "global_shape"_a, "The shape of each shard of an array of this shape.")
      .def(
          "devices_indices_map", [](const T& s, nb::handle shape) { return indices_map(s, shape); }, "global_shape"_a,
          "For each device the part of an array of this shape that it holds.")
      .def(
          "addressable_devices_indices_map",
          [](const T& s, nb::handle shape) {
            nb::dict local;
            for (const auto& [device, index] : indices_map(s, shape)) {
              if (is_local(nb::cast<Device>(device))) local[device] = index;
            }
            return local;
          },
          "global_shape"_a)
      .def(
          "check_compatible_aval",
          [](const T& s, nb::handle shape) {
            Sharding(s).check_compatible(dims(shape, "check_compatible_aval: aval_shape"), "check_compatible_aval",
                                         user_line());
          },
          "aval_shape"_a, "Raises ValueError unless an array of this shape can lie so.")
      .def(
          "is_equivalent_to",
          [](const T& s, nb::handle other, std::size_t ndim) {
            return Sharding(s).is_equivalent_to(sharding(other, "is_equivalent_to: other"), ndim);
          },
          "other"_a, "ndim"_a, "Whether both place every array of this rank alike.")
      .def(
          "__eq__", [](const T& a, nb::handle b) { return nb::isinstance<T>(b) && a == nb::cast<T>(b); },
          nb::is_operator())
      .def("__hash__", [](const T& s) { return Sharding(s).hash(); })
      .def("__repr__", [](const T& s) { return to_string(Sharding(s)); });
}

}  // namespace

void bind_shardings(nb::module_& m) {
  struct UnconstrainedEntry {};
  nb::class_<UnconstrainedEntry>(m, "UnconstrainedEntry").def("__repr__", [](const UnconstrainedEntry&) {
    return "UNCONSTRAINED";
  });
  unconstrained_object = nb::cast(UnconstrainedEntry{}).release().ptr();

  auto spec = nb::class_<PartitionSpec>(m, "PartitionSpec", "Which mesh axes split which dimension of an array.");
  spec.def(
          "__init__",
          [](PartitionSpec* self, nb::args entries, nb::handle unreduced, nb::handle reduced, nb::handle kind) {
            std::vector<PartitionEntry> list;
            for (nb::handle entry : entries) list.push_back(entry_of(entry));
            if (!kind.is_none() && nb::cast<std::string>(nb::str(kind)) != "sum") {
              PyErr_SetString(PyExc_NotImplementedError,
                              "PartitionSpec: what is unreduced is to be summed, no other "
                              "unreduced_kind is there yet");
              throw nb::python_error();
            }
            PartitionSpec spec = checked_spec(std::move(list), unreduced, reduced);
            if (!kind.is_none() && spec.unreduced().empty()) {
              throw InvalidArgument(
                  "PartitionSpec: unreduced_kind is for specs with unreduced axes; leave it out without any",
                  user_line());
            }
            new (self) PartitionSpec(std::move(spec));
          },
          "partitions"_a, nb::kw_only(), "unreduced"_a = frozen_set({}), "reduced"_a = frozen_set({}),
          "unreduced_kind"_a = nb::none())
      .def("__len__", &PartitionSpec::size)
      .def("__iter__", [](const PartitionSpec& s) { return nb::iter(entries_alone(s)); })
      .def("__getitem__", [](const PartitionSpec& s, nb::handle i) { return entries_alone(s).attr("__getitem__")(i); })
      .def("index", [](const PartitionSpec& s, nb::handle x) { return spec_entries(s).attr("index")(x); })
      .def("count", [](const PartitionSpec& s, nb::handle x) { return spec_entries(s).attr("count")(x); })
      .def_prop_ro("_partitions", &spec_entries)
      .def_prop_ro("partitions", &spec_entries)
      .def_prop_ro("unreduced_kind",
                   [](const PartitionSpec& s) -> nb::object {
                     return s.unreduced().empty() ? nb::object(nb::none()) : nb::str("sum");
                   })
      .def_prop_ro("unreduced", &unreduced_of)
      .def_prop_ro("reduced", &reduced_of)
      .def("update",
           [](nb::object self, nb::kwargs changes) {
             const nb::object entries =
                 changes.contains("partitions") ? nb::object(changes["partitions"]) : self.attr("_partitions");
             const nb::object left =
                 changes.contains("unreduced") ? nb::object(changes["unreduced"]) : self.attr("unreduced");
             const nb::object whole =
                 changes.contains("reduced") ? nb::object(changes["reduced"]) : self.attr("reduced");
             return self.type()(*nb::tuple(entries), "unreduced"_a = left, "reduced"_a = whole);
           })
      .def("__add__",
           [](const PartitionSpec& a, nb::handle b) {
             const auto other = nb::isinstance<PartitionSpec>(b) ? nb::cast<PartitionSpec>(b) : spec_of_tuple(b, a);
             if (a.unreduced().empty() != other.unreduced().empty()) {
               type_error(fmt::format("PartitionSpec: {} and {} cannot be added, as one alone is unreduced",
                                      to_string(a), to_string(other)));
             }
             return a + other;
           })
      .def("__radd__", [](const PartitionSpec& a, nb::handle b) { return spec_of_tuple(b, a) + a; })
      .def(
          "__eq__",
          [](const PartitionSpec& a, nb::handle b) {
            if (nb::isinstance<PartitionSpec>(b)) return a == nb::cast<PartitionSpec>(b);
            return PyTuple_Check(b.ptr()) && !is_of_sums(a) && spec_entries(a).equal(b);
          },
          nb::is_operator())
      .def("__hash__", &PartitionSpec::hash)
      .def("__reduce__",
           [](nb::object self) {
             return nb::make_tuple(
                 nb::module_::import_("shoal._pickling").attr("spec"),
                 nb::make_tuple(self.attr("_partitions"), self.attr("unreduced"), self.attr("reduced")));
           })
      .def("__repr__", [](const PartitionSpec& s) { return to_string(s); });
  spec.attr("UNCONSTRAINED") = nb::borrow(unconstrained_object);
  m.def("_spec", [](nb::handle entries, nb::handle unreduced, nb::handle reduced) {
    std::vector<PartitionEntry> list;
    for (nb::handle entry : entries) list.push_back(entry_of(entry));
    return PartitionSpec(std::move(list), set_of_names(unreduced, "unreduced"), set_of_names(reduced, "reduced"));
  });

  auto named = nb::class_<NamedSharding>(
      m, "NamedSharding", "An array split over the axes of a mesh, as a partition spec says; whole over the others.");
  named
      .def(
          "__init__",
          [](NamedSharding* self, nb::handle mesh_object, nb::handle spec_object, nb::handle kind) {
            new (self) NamedSharding(mesh(mesh_object, "NamedSharding: mesh"),
                                     partition_spec(spec_object, "NamedSharding: spec"),
                                     {.memory_kind = memory_kind(kind)}, user_line());
          },
          "mesh"_a, "spec"_a, nb::kw_only(), "memory_kind"_a = nb::none())
      .def_prop_ro("mesh",
                   [](const NamedSharding& s) -> nb::object {
                     return s.mesh().is_abstract() ? nb::cast(s.mesh().abstract_mesh()) : nb::cast(s.mesh());
                   })
      .def_prop_ro("replicated_axes",
                   [](const NamedSharding& s) {
                     nb::object axes = nb::steal(PyFrozenSet_New(nullptr));
                     for (const std::string& axis : s.mesh().axis_names()) {
                       const auto names_axis = [&](const PartitionEntry& entry) {
                         return std::ranges::find(entry.axes(), axis) != entry.axes().end();
                       };
                       const bool is_summed = has(s.spec().unreduced(), axis) || has(s.spec().reduced(), axis);
                       if (is_summed || std::any_of(s.spec().begin(), s.spec().end(), names_axis)) continue;
                       PySet_Add(axes.ptr(), nb::str(axis.c_str()).ptr());
                     }
                     return axes;
                   })
      .def_prop_ro("spec", &NamedSharding::spec)
      .def(
          "update",
          [](const NamedSharding& s, nb::handle spec_object, nb::handle kind) {
            NamedSharding changed = s;
            if (!spec_object.is_none()) {
              changed = changed.with_spec(partition_spec(spec_object, "NamedSharding.update: spec"), user_line());
            }
            return kind.is_none() ? changed : changed.with_memory_kind(memory_kind(kind));
          },
          nb::kw_only(), "spec"_a = nb::none(), "memory_kind"_a = nb::none())
      .def("__reduce__", [](nb::object self) {
        return nb::make_tuple(nb::module_::import_("shoal._pickling").attr("named_sharding"),
                              nb::make_tuple(self.attr("mesh"), self.attr("spec"), self.attr("memory_kind")));
      });
  bind_common(named);
  m.def("_named_sharding", [](const Mesh& mesh, const PartitionSpec& spec, nb::handle kind) {
    return NamedSharding(mesh, spec, {.memory_kind = memory_kind(kind)}, user_line());
  });

  auto single = nb::class_<SingleDeviceSharding>(m, "SingleDeviceSharding", "The whole array on one device.");
  single
      .def(
          "__init__",
          [](SingleDeviceSharding* self, const Device& device, nb::handle kind) {
            new (self) SingleDeviceSharding(device, memory_kind(kind));
          },
          "device"_a, nb::kw_only(), "memory_kind"_a = nb::none())
      .def("__reduce__", [](nb::object self) {
        return nb::make_tuple(nb::module_::import_("shoal._pickling").attr("single_device_sharding"),
                              nb::make_tuple(self.attr("_device_assignment")[0], self.attr("memory_kind")));
      });
  bind_common(single);
  m.def("_single_device_sharding",
        [](const Device& device, nb::handle kind) { return SingleDeviceSharding(device, memory_kind(kind)); });
}

}  // namespace shoal::python
