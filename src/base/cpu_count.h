// How many threads this process may usefully run.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace shoal {

/// The cores this process may use: those of its affinity mask, and no more than the CPU quota of its control group
/// (version 1 or 2) pays for. At least 1.
int usable_cpu_count();

/// The tightest CPU quota, in whole cores and rounded up, of a control group and of the groups around it; nullopt
/// without a quota. `membership` is the text of /proc/self/cgroup, `mount` is where control groups are mounted.
std::optional<int> cgroup_cpu_quota(std::string_view membership, const std::filesystem::path& mount);

}  // namespace shoal
