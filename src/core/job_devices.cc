#include "core/job_devices.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "base/env.h"
#include "core/this_process.h"
#include "shoal/device.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr int kMaxDevices = 1 << kLocalIdBits;

struct JobDevices {
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

JobDevices& job_devices() {
  static auto* devices = new JobDevices;
  return *devices;
}

}  // namespace

void set_num_cpu_devices(int count, std::source_location where) {
  if (count < 1 || count > kMaxDevices) {
    throw InvalidArgument(
        fmt::format("set_num_cpu_devices: count is {}; it must lie between 1 and {}", count, kMaxDevices), where);
  }
  const std::lock_guard lock(job_devices().mutex);
  if (job_devices().devices && static_cast<int>(job_devices().devices->size()) != count) {
    throw InvalidState(
        fmt::format("set_num_cpu_devices: called with {} after devices were used, when there are {}; call "
                    "it before anything that uses a device",
                    count, job_devices().devices->size()),
        where);
  }
  job_devices().requested = count;
}

int num_own_devices() {
  const std::lock_guard lock(job_devices().mutex);
  return job_devices().count();
}

bool devices_in_use() {
  const std::lock_guard lock(job_devices().mutex);
  return job_devices().used;
}

void set_job_devices(int process, const std::vector<std::vector<int>>& local_ids, SourceLocation where) {
  JobDevices& all = job_devices();
  const std::lock_guard lock(all.mutex);
  if (all.used) {
    throw InvalidState(
        "distributed::initialize: devices have been used already; call it before anything that asks for devices or "
        "makes an array",
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

std::vector<Device> devices() { return job_devices().all(); }
std::vector<Device> local_devices() { return job_devices().local(); }
int device_count() { return static_cast<int>(job_devices().all().size()); }
int local_device_count() { return static_cast<int>(job_devices().local().size()); }
int process_index() { return this_process(); }
int process_count() {
  job_devices().all();
  return job_devices().processes;
}

}  // namespace shoal
