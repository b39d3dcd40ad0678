#include "core/job_devices.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "core/this_process.h"
#include "shoal/device.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr int kMaxDevices = 1 << kLocalIdBits;

// The devices of all processes, and those of this one. Immutable: a job that goes on with other processes has others.
struct Devices {
  std::vector<Device> all;
  std::vector<Device> own;
  int processes = 1;
};

struct JobDevices {
  std::mutex mutex;
  std::optional<int> requested;
  std::shared_ptr<const Devices> devices;  // Once they have been used, or the job is known.
  bool used = false;

  int count() const {
    if (requested) return *requested;
    return static_cast<int>(env_int("SHOAL_NUM_CPU_DEVICES", 1, kMaxDevices).value_or(1));
  }
  std::shared_ptr<const Devices> use() {
    const std::lock_guard lock(mutex);
    used = true;
    if (!devices) {
      Devices alone;
      for (std::int64_t id = 0; id < count(); ++id) alone.all.push_back({.id = id});
      alone.own = alone.all;
      devices = std::make_shared<const Devices>(std::move(alone));
    }
    return devices;
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
  if (job_devices().devices && static_cast<int>(job_devices().devices->all.size()) != count) {
    throw InvalidState(
        fmt::format("set_num_cpu_devices: called with {} after devices were used, when there are {}; call "
                    "it before anything that uses a device",
                    count, job_devices().devices->all.size()),
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
  {
    const std::lock_guard lock(job_devices().mutex);
    if (job_devices().used) {
      throw InvalidState(
          "distributed::initialize: devices have been used already; call it before anything that asks for devices or "
          "makes an array",
          where);
    }
  }
  set_this_process(process);
  change_job_devices(process, local_ids);
}

void change_job_devices(int process, const std::vector<std::vector<int>>& local_ids) {
  Devices changed{.all = {}, .own = {}, .processes = 0};
  for (std::size_t p = 0; p < local_ids.size(); ++p) {
    changed.processes += local_ids[p].empty() ? 0 : 1;
    for (int local : local_ids[p]) {
      changed.all.push_back(
          {.id = static_cast<std::int64_t>(p) * kMaxDevices + local, .process_index = static_cast<int>(p)});
      if (static_cast<int>(p) == process) changed.own.push_back(changed.all.back());
    }
  }
  const std::lock_guard lock(job_devices().mutex);
  job_devices().devices = std::make_shared<const Devices>(std::move(changed));
}

std::vector<Device> devices() { return job_devices().use()->all; }
std::vector<Device> local_devices() { return job_devices().use()->own; }
int device_count() { return static_cast<int>(job_devices().use()->all.size()); }
int local_device_count() { return static_cast<int>(job_devices().use()->own.size()); }
int process_index() { return this_process(); }
int process_count() { return job_devices().use()->processes; }

}  // namespace shoal
