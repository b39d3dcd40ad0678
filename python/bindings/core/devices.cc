// Devices and their memories.
#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <sstream>

#include "bindings/core/convert.h"
#include "runtime/transfer_guard.h"

namespace shoal::python {
namespace {

std::vector<Device> of_process(nb::handle process) {
  std::vector<Device> all = process.is_none() ? local_devices() : devices();
  if (process.is_none()) return all;
  const std::int64_t wanted = integer(process, "process_index");
  std::erase_if(all, [&](const Device& device) { return device.process_index != wanted; });
  if (all.empty()) value_error(fmt::format("Unknown process_index {}", wanted));
  return all;
}

}  // namespace

void bind_devices(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", "One memory of one device.")
      .def_prop_ro("kind", [](const Memory& memory) { return std::string(memory.kind.name()); })
      .def_prop_ro("platform", [](const Memory&) { return "cpu"; })
      .def(
          "__eq__", [](const Memory& a, nb::handle b) { return nb::isinstance<Memory>(b) && a == nb::cast<Memory>(b); },
          nb::is_operator())
      .def("__hash__",
           [](const Memory& memory) { return memory.device_id * 4 + static_cast<std::int64_t>(memory.kind.kind()); })
      .def("__repr__", [](const Memory& memory) {
        std::ostringstream text;
        text << memory;
        return text.str();
      });

  nb::class_<Device>(m, "Device", "A device of any process of the job.")
      .def_ro("id", &Device::id)
      .def_ro("process_index", &Device::process_index)
      .def_prop_ro("host_id", [](const Device& d) { return d.process_index; })
      .def_prop_ro("local_hardware_id", [](const Device& d) { return d.id & ((std::int64_t{1} << kLocalIdBits) - 1); })
      .def_prop_ro("platform", [](const Device&) { return "cpu"; })
      .def_prop_ro("device_kind", [](const Device&) { return "cpu"; })
      .def_prop_ro("task_id", [](const Device& d) { return d.process_index; })
      .def(
          "memory_stats", [](const Device&) { return nb::none(); }, "What JAX tells of accelerators; None of CPUs.")
      .def("addressable_memories", &Device::addressable_memories)
      .def("default_memory", &Device::default_memory)
      .def(
          "memory",
          [](const Device& device, const std::string& kind) {
            const MemoryKind wanted(kind, user_line());
            for (const Memory& memory : device.addressable_memories()) {
              if (memory.kind == wanted) return memory;
            }
            value_error(fmt::format("Could not find memory addressable by device cpu. Got memory kind: {}", kind));
          },
          "kind"_a)
      .def(
          "__eq__", [](const Device& a, nb::handle b) { return nb::isinstance<Device>(b) && a == nb::cast<Device>(b); },
          nb::is_operator())
      .def("__lt__", [](const Device& a, const Device& b) { return a < b; })
      .def("__hash__", [](const Device& d) { return d.id; })
      .def("__reduce__",
           [](const Device& d) {
             return nb::make_tuple(nb::module_::import_("shoal._pickling").attr("device"), nb::make_tuple(d.id));
           })
      .def("__str__", [](const Device& d) { return fmt::format("cpu:{}", d.id); })
      .def("__repr__", [](const Device& d) { return to_string(d); });
  m.def("_device", [](std::int64_t id) {
    for (const Device& device : devices()) {
      if (device.id == id) return device;
    }
    value_error(fmt::format("this job has no device with id {}", id));
  });

  m.def("_check_backend", &check_backend, "backend"_a.none());
  m.def(
      "devices",
      [](nb::handle backend) {
        check_backend(backend);
        return devices();
      },
      "backend"_a = nb::none(), "All devices of the job, in order of id.");
  m.def(
      "local_devices",
      [](nb::handle process, nb::handle backend, nb::handle) {
        check_backend(backend);
        return of_process(process);
      },
      "process_index"_a = nb::none(), "backend"_a = nb::none(), "host_id"_a = nb::none(),
      "The devices of this process, or of another.");
  const auto count = [&](const char* name, int (*f)(), const char* doc) {
    m.def(
        name,
        [f](nb::handle backend) {
          check_backend(backend);
          return f();
        },
        "backend"_a = nb::none(), doc);
  };
  count("device_count", &device_count, "The number of devices of the job.");
  count("local_device_count", &local_device_count, "The number of devices of this process.");
  count("process_index", &process_index, "The number of this process in the job.");
  count("process_count", &process_count, "The number of processes of the job.");
  m.def(
      "_set_default_device",
      [](nb::handle device) {
        if (device.is_none()) return set_default_device(std::nullopt);
        set_default_device(nb::cast<Device>(device), user_line());
      },
      "device"_a.none());
  m.def("_set_transfer_guard", [](int transfer, int guard) {
    transfer_guards().at(static_cast<std::size_t>(transfer)) = static_cast<TransferGuard>(guard);
  });
  m.def("_set_num_cpu_devices", [](int n) { set_num_cpu_devices(n, user_line()); });
}

}  // namespace shoal::python
