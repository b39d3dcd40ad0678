// The devices of the job, and make_mesh over them.
#include "runtime/client.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "base/env.h"
#include "core/this_process.h"
#include "distributed/session.h"
#include "shoal/device.h"
#include "shoal/error.h"
#include "shoal/mesh.h"

namespace shoal {
namespace {

constexpr int kMaxDevices = 1 << kLocalIdBits;

struct Client {
  std::mutex mutex;
  std::optional<int> requested;
  std::optional<std::vector<Device>> devices;  // Once they have been used, or the job is known.
  std::vector<Device> own;                     // Those of this process.
  int processes = 1;
  bool used = false;

  int count() const {
    if (requested) return *requested;
    return static_cast<int>(env_int("SHOAL_NUM_CPU_DEVICES", 1, kMaxDevices).value_or(1));
  }
  const std::vector<Device>& all() {
    const std::lock_guard lock(mutex);
    if (!used) distributed::note_devices_in_use();
    used = true;
    if (!devices) {
      devices.emplace();
      for (std::int64_t id = 0; id < count(); ++id) devices->push_back({.id = id});
      own = *devices;
    }
    return *devices;
  }
  const std::vector<Device>& local() {
    all();
    return own;
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

int num_own_devices() {
  const std::lock_guard lock(client().mutex);
  return client().count();
}

void set_job_devices(int process, const std::vector<std::vector<int>>& local_ids, SourceLocation where) {
  Client& all = client();
  const std::lock_guard lock(all.mutex);
  if (all.used) {
    throw InvalidState(
        "distributed::initialize: devices have been used already; call it before anything that asks for devices or "
        "makes "
        "an array",
        where);
  }
  set_this_process(process);
  all.processes = static_cast<int>(local_ids.size());
  all.devices.emplace();
  all.own.clear();
  for (int p = 0; p < all.processes; ++p) {
    for (int local : local_ids[static_cast<std::size_t>(p)]) {
      all.devices->push_back({.id = std::int64_t{p} * kMaxDevices + local, .process_index = p});
      if (p == process) all.own.push_back(all.devices->back());
    }
  }
}

std::vector<Device> devices() { return client().all(); }
std::vector<Device> local_devices() { return client().local(); }
int device_count() { return static_cast<int>(client().all().size()); }
int local_device_count() { return static_cast<int>(client().local().size()); }
int process_index() { return this_process(); }
int process_count() {
  client().all();
  return client().processes;
}

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
