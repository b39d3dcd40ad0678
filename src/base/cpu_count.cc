#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace shoal {

namespace {

using std::filesystem::path;

/// Quota over period in cores, or nullopt where there is no limit.
std::optional<double> cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

/// Version 2: one file, "max 100000" or "150000 100000".
std::optional<double> read_v2(const path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period)) return std::nullopt;
  return cores(quota, period);
}

/// Version 1: two files, the quota being -1 where there is no limit.
std::optional<double> read_v1(const path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return cores(quota, period);
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// The tightest limit from `group` up to the root. A container sees its own group mounted as the root, so folders
/// named by the host's path may be missing: those are skipped.
std::optional<double> tightest_limit(const path& root, path group, std::optional<double> (*read)(const path&)) {
  std::optional<double> limit = read(root);
  for (; group.has_relative_path(); group = group.parent_path()) {
    limit = tighter(limit, read(root / group.relative_path()));
  }
  return limit;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

/// The number of cores in the affinity mask. The kernel refuses a set smaller than its own, so it grows until it fits.
int affinity_count() {
  constexpr std::size_t kMostSets = 1024;  // a million cores
  for (std::size_t count = 1; count <= kMostSets; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) return CPU_COUNT_S(bytes, sets.data());
  }
  return 1;
}

std::string read_file(const path& name) {
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::optional<int> cgroup_cpu_quota(std::string_view membership, const path& mount) {
  std::optional<double> limit;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {  // "hierarchy:controllers:/group"
    std::istringstream fields(line);
    std::string hierarchy;
    std::string controllers;
    std::string group;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, group);
    if (controllers.empty()) {
      limit = tighter(limit, tightest_limit(mount, group, read_v2));
    } else if (lists_cpu(controllers)) {
      // Either name may be a link to the folder of the other.
      limit = tighter(limit, tightest_limit(mount / "cpu", group, read_v1));
      limit = tighter(limit, tightest_limit(mount / controllers, group, read_v1));
    }
  }
  if (!limit) return std::nullopt;
  return static_cast<int>(std::ceil(*limit));
}

int usable_cpu_count() {
  const int allowed = std::max(1, affinity_count());
  const auto quota = cgroup_cpu_quota(read_file("/proc/self/cgroup"), "/sys/fs/cgroup");
  return quota ? std::min(allowed, *quota) : allowed;
}

}  // namespace shoal
