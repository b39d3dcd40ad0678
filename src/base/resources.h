// What this process may use of its machine: cores and memory.
//
// Processes of one job on one machine divide what they may use together, under every launcher alike: each tells the
// others what it may use (own_resources), all compute the same shares (share_of), and each keeps to its own
// (keep_to_share). Cores that only one of them is bound to, and limits of control groups that hold for one of them, are
// not divided.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/control_group.h"

namespace shoal {

/// The same for all processes of one running kernel, another after it started anew, and another on each machine.
std::string machine_identity();

/// What a process may use, and with whom it may have to share that.
struct Resources {
  std::string machine = {};  ///< See machine_identity().
  std::string cpus = {};     ///< The affinity mask: core i is bit i % 8 of byte i / 8. No byte at the end is zero.
  std::vector<GroupLimit> cpu_limits = {};     ///< See ControlGroups.
  std::vector<GroupLimit> memory_limits = {};  ///< Those of control groups, and the machine's memory.

  static void fields(auto& self, auto& archive) {
    archive(self.machine, self.cpus, self.cpu_limits, self.memory_limits);
  }
};

/// Those of the calling thread.
Resources own_resources();

struct Share {
  int cpus = 1;            ///< At least 1.
  std::size_t memory = 0;  ///< In bytes.
  friend bool operator==(const Share&, const Share&) = default;
};

/// What process `index` may use if all of these run at the same time. Shares of cores do not overlap, unless there are
/// fewer cores than processes. A quota is rounded up to whole cores, and divided among the processes that it holds for;
/// so is memory.
Share share_of(const std::vector<Resources>& all, std::size_t index);

/// From now on this process may use no more than that.
void keep_to_share(const Share& share);

/// The cores this process may use: those of its affinity mask, no more than the quotas of its control groups pay for,
/// and no more than its share. At least 1.
int usable_cpu_count();

/// The memory this process may use, in bytes: the tightest of what the machine has, the limits of its control groups,
/// and its share.
std::size_t usable_memory();

}  // namespace shoal
