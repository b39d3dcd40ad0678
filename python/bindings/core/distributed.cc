// Many processes: joining and leaving the job, and the small texts that processes exchange.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>

#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "bindings/core/interruptible.h"

namespace shoal::python {
namespace {

using std::chrono::milliseconds;

std::optional<milliseconds> seconds(nb::handle x, const char* what) {
  const std::optional<double> number = maybe_number(x, what);
  if (!number) return std::nullopt;
  return milliseconds(static_cast<std::int64_t>(std::llround(*number * 1000)));
}

std::optional<std::string> text(nb::handle x, const char* what) {
  if (x.is_none()) return std::nullopt;
  if (!PyUnicode_Check(x.ptr())) type_error(std::string(what) + " must be a str, got " + type_text(x));
  return nb::cast<std::string>(x);
}

std::optional<int> number(nb::handle x, const char* what) {
  const std::optional<std::int64_t> value = maybe_integer(x, what);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

struct ClientHandle {};

}  // namespace

void bind_distributed(nb::module_& m) {
  m.def(
      "_initialize",
      [](nb::handle address, nb::handle count, nb::handle id, nb::handle local_ids, nb::handle method,
         nb::handle initialization, nb::handle heartbeat, nb::handle shutdown, nb::handle bind_address,
         std::optional<bool> insecure) {
        distributed::InitializeOptions options{
            .coordinator_address = text(address, "initialize: coordinator_address"),
            .num_processes = number(count, "initialize: num_processes"),
            .process_id = number(id, "initialize: process_id"),
            .coordinator_bind_address = text(bind_address, "initialize: coordinator_bind_address"),
            .cluster_detection_method = text(method, "initialize: cluster_detection_method"),
            .initialization_timeout = seconds(initialization, "initialize: initialization_timeout"),
            .heartbeat_timeout = seconds(heartbeat, "initialize: heartbeat_timeout_seconds"),
            .shutdown_timeout = seconds(shutdown, "initialize: shutdown_timeout_seconds"),
            .insecure = insecure};
        if (!local_ids.is_none()) {
          options.local_device_ids.emplace();
          for (std::int64_t local : dims(local_ids, "initialize: local_device_ids")) {
            options.local_device_ids->push_back(static_cast<int>(local));
          }
        }
        interruptible([options, where = user_line()] { distributed::initialize(options, where); });
      },
      "coordinator_address"_a.none(), "num_processes"_a.none(), "process_id"_a.none(), "local_device_ids"_a.none(),
      "cluster_detection_method"_a.none(), "initialization_timeout"_a.none(), "heartbeat_timeout"_a.none(),
      "shutdown_timeout"_a.none(), "coordinator_bind_address"_a.none(), "insecure"_a.none());
  m.def("_shutdown", [] { interruptible([where = user_line()] { distributed::shutdown(where); }); });
  m.def("_is_initialized", &distributed::is_initialized);

  nb::class_<ClientHandle>(m, "DistributedRuntimeClient",
                           "Small texts for all processes of the job, and meeting points.")
      .def(
          "key_value_set",
          [](ClientHandle, const std::string& key, const std::string& value, Flag allow_overwrite) {
            unlocked([&] { distributed::client().key_value_set(key, value, allow_overwrite); });
          },
          "key"_a, "value"_a, "allow_overwrite"_a = false, "Sets the value of a key.")
      .def(
          "key_value_set_bytes",
          [](ClientHandle, const std::string& key, nb::bytes value, Flag allow_overwrite) {
            const std::string bytes(value.c_str(), value.size());
            unlocked([&] { distributed::client().key_value_set(key, bytes, allow_overwrite); });
          },
          "key"_a, "value"_a, "allow_overwrite"_a = false, "Sets the value of a key.")
      .def(
          "blocking_key_value_get",
          [](ClientHandle, const std::string& key, std::int64_t timeout_in_ms) {
            const auto value = std::make_shared<std::string>();
            interruptible(
                [=] { *value = distributed::client().blocking_key_value_get(key, milliseconds(timeout_in_ms)); });
            return *value;
          },
          "key"_a, "timeout_in_ms"_a, "The value of a key, as soon as it has one.")
      .def(
          "key_value_try_get",
          [](ClientHandle, const std::string& key) {
            const auto value = unlocked([&] { return distributed::client().key_value_try_get(key); });
            if (!value) {
              PyErr_SetString(PyExc_KeyError, ("the key '" + key + "' has no value").c_str());
              throw nb::python_error();
            }
            return *value;
          },
          "key"_a, "The value of a key. Raises KeyError if it has none.")
      .def(
          "key_value_increment",
          [](ClientHandle, const std::string& key, std::int64_t increment) {
            return unlocked([&] { return distributed::client().key_value_increment(key, increment); });
          },
          "key"_a, "increment"_a = 1, "Adds to the value of a key, a decimal integer, and returns the sum.")
      .def(
          "key_value_dir_get",
          [](ClientHandle, const std::string& directory) {
            return unlocked([&] { return distributed::client().key_value_dir_get(directory); });
          },
          "directory"_a, "What lies in a directory, at any depth, sorted by key.")
      .def(
          "key_value_delete",
          [](ClientHandle, const std::string& key) { unlocked([&] { distributed::client().key_value_delete(key); }); },
          "key"_a, "Removes a key, and what lies in the directory of that name.")
      .def(
          "wait_at_barrier",
          [](ClientHandle, const std::string& id, std::int64_t timeout_in_ms, std::optional<std::vector<int>> ids) {
            interruptible([=] {
              distributed::client().wait_at_barrier(id, milliseconds(timeout_in_ms), ids.value_or(std::vector<int>{}));
            });
          },
          "barrier_id"_a, "timeout_in_ms"_a, "process_ids"_a = nb::none(),
          "Returns when all of these processes have called it with this id.")
      .def(
          "get_live_nodes",
          [](ClientHandle, const std::vector<int>& ids) {
            return unlocked([&] { return distributed::client().get_live_nodes(ids); });
          },
          "process_ids"_a, "Those of these processes that live.");
  m.def("_client", [] {
    static_cast<void>(distributed::client());
    return ClientHandle{};
  });
}

}  // namespace shoal::python
