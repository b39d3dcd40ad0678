// The devices of this process, and make_mesh over them.
#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "base/env.h"
#include "core/this_process.h"
#include "shoal/device.h"
#include "shoal/error.h"
#include "shoal/mesh.h"

namespace shoal {
namespace {

constexpr int kMaxDevices = 1 << 17;  // Local ids occupy 17 bits of a global id.

struct Client {
  std::mutex mutex;
  std::optional<int> requested;
  std::optional<std::vector<Device>> devices;

  const std::vector<Device>& all() {
    const std::lock_guard lock(mutex);
    if (!devices) {
      const std::int64_t count = requested ? *requested : env_int("SHOAL_NUM_CPU_DEVICES", 1, kMaxDevices).value_or(1);
      devices.emplace();
      for (std::int64_t id = 0; id < count; ++id) devices->push_back({.id = id});
    }
    return *devices;
  }
};

Client& client() {
  static auto* client = new Client;
  return *client;
}

}  // namespace

void set_num_cpu_devices(int count, std::source_location where) {
  if (count < 1 || count > kMaxDevices) {
    throw InvalidArgument(
        fmt::format("set_num_cpu_devices: count is {}; it must lie between 1 and {}", count, kMaxDevices), where);
  }
  const std::lock_guard lock(client().mutex);
  if (client().devices && static_cast<int>(client().devices->size()) != count) {
    throw InvalidState(
        fmt::format("set_num_cpu_devices: called with {} after devices were used, when there are {}; call "
                    "it before anything that uses a device",
                    count, client().devices->size()),
        where);
  }
  client().requested = count;
}

std::vector<Device> devices() { return client().all(); }
std::vector<Device> local_devices() { return client().all(); }
int device_count() { return static_cast<int>(client().all().size()); }
int local_device_count() { return device_count(); }
int process_index() { return this_process(); }
int process_count() { return 1; }

Mesh make_mesh(const Shape& axis_sizes, const std::vector<std::string>& axis_names, const MakeMeshOptions& options,
               std::source_location where) {
  std::vector<Device> pool = options.devices.empty() ? devices() : options.devices;
  std::int64_t size = 1;
  bool countable = true;
  for (std::int64_t extent : axis_sizes) {
    if (extent < 1) {
      throw InvalidArgument(fmt::format("make_mesh: axis_sizes {} must all be at least 1", to_string(axis_sizes)),
                            where);
    }
    countable = countable && !__builtin_mul_overflow(size, extent, &size);
  }
  if (!countable || size > static_cast<std::int64_t>(pool.size())) {
    throw InvalidArgument(
        fmt::format("make_mesh: axis_sizes {} need {} devices, but there are {}{}", to_string(axis_sizes),
                    countable ? std::to_string(size) : "more than 2^63", pool.size(),
                    options.devices.empty() ? "; set SHOAL_NUM_CPU_DEVICES for more" : ""),
        where);
  }
  pool.resize(static_cast<std::size_t>(size));
  return Mesh(std::move(pool), axis_sizes, axis_names, options.axis_types, where);
}

}  // namespace shoal
