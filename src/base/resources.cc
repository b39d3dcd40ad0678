#include "base/resources.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>

namespace shoal {

namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

std::atomic<int> cpu_share = std::numeric_limits<int>::max();
std::atomic<std::size_t> memory_share = kNoLimit;

/// The kernel refuses a set smaller than its own, so it grows until it fits.
std::string affinity() {
  constexpr std::size_t kMostSets = 1024;  // a million cores
  for (std::size_t count = 1; count <= kMostSets; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) != 0) continue;
    std::string cpus;
    for (std::size_t cpu = 0; cpu < 8 * bytes; ++cpu) {
      if (!CPU_ISSET_S(cpu, bytes, sets.data())) continue;
      cpus.resize(cpu / 8 + 1, '\0');
      cpus[cpu / 8] = static_cast<char>(static_cast<unsigned char>(cpus[cpu / 8]) | 1U << cpu % 8);
    }
    return cpus;
  }
  return {};
}

bool has_cpu(const Resources& process, std::size_t cpu) {
  return cpu / 8 < process.cpus.size() &&
         (static_cast<unsigned>(static_cast<unsigned char>(process.cpus[cpu / 8])) >> cpu % 8 & 1U) != 0;
}

double machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<double>(pages) * static_cast<double>(page) : 0;
}

/// How many cores each process gets: each core goes to one of those that may use it, to the one that has the fewest so
/// far. Cores that few may use come first, since those processes could not make up for them later.
std::vector<int> divide_cpus(const std::vector<const Resources*>& processes) {
  std::multimap<std::size_t, std::size_t> cpus;  // By how many processes may use them.
  std::size_t end = 0;
  for (const Resources* process : processes) end = std::max(end, 8 * process->cpus.size());
  for (std::size_t cpu = 0; cpu < end; ++cpu) {
    const auto users =
        std::count_if(processes.begin(), processes.end(), [&](const auto* process) { return has_cpu(*process, cpu); });
    if (users > 0) cpus.emplace(users, cpu);
  }
  std::vector<int> counts(processes.size(), 0);
  for (const auto& [users, cpu] : cpus) {
    std::size_t poorest = processes.size();
    for (std::size_t i = 0; i < processes.size(); ++i) {
      if (!has_cpu(*processes[i], cpu)) continue;
      if (poorest == processes.size() || counts[i] < counts[poorest]) poorest = i;
    }
    ++counts[poorest];
  }
  return counts;
}

/// How many of these processes a limit holds for, and how many of them come before `mine`.
struct Sharers {
  int count = 0;
  int before = 0;
};

Sharers sharers_of(const std::string& group, const std::vector<const Resources*>& processes, const Resources* mine,
                   std::vector<GroupLimit> Resources::*limits) {
  Sharers sharers;
  bool is_before = true;
  for (const Resources* process : processes) {
    is_before = is_before && process != mine;
    const auto& all = process->*limits;
    if (!std::any_of(all.begin(), all.end(), [&](const GroupLimit& one) { return one.group == group; })) continue;
    ++sharers.count;
    if (is_before) ++sharers.before;
  }
  return sharers;
}

// Beyond what the machine has the system may still promise memory, and end the process when it is used.
std::vector<GroupLimit> memory_limits(const ControlGroups& groups) {
  std::vector<GroupLimit> limits = groups.memory_limits();
  if (const double memory = machine_memory(); memory > 0) limits.push_back({"machine", memory});
  return limits;
}

}  // namespace

std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (!boot.empty()) return boot;
  std::string name(256, '\0');
  return gethostname(name.data(), name.size() - 1) == 0 ? name.substr(0, name.find('\0')) : "";
}

Resources own_resources() {
  const ControlGroups groups = ControlGroups::of_this_process();
  return {.machine = machine_identity(),
          .cpus = affinity(),
          .cpu_limits = groups.cpu_limits(),
          .memory_limits = memory_limits(groups)};
}

Share share_of(const std::vector<Resources>& all, std::size_t index) {
  const Resources& mine = all[index];
  std::vector<const Resources*> neighbours;
  for (const Resources& process : all) {
    if (process.machine == mine.machine) neighbours.push_back(&process);
  }
  const auto position =
      static_cast<std::size_t>(std::find(neighbours.begin(), neighbours.end(), &mine) - neighbours.begin());
  int cpus = divide_cpus(neighbours)[position];
  for (const GroupLimit& limit : mine.cpu_limits) {
    constexpr double kMostCores = 1 << 20;
    const auto whole = static_cast<int>(std::ceil(std::min(limit.amount, kMostCores)));
    const Sharers sharers = sharers_of(limit.group, neighbours, &mine, &Resources::cpu_limits);
    // The first ones have what is left over.
    cpus = std::min(cpus, whole / sharers.count + (sharers.before < whole % sharers.count ? 1 : 0));
  }
  std::size_t memory = kNoLimit;
  for (const GroupLimit& limit : mine.memory_limits) {
    const double part = limit.amount / sharers_of(limit.group, neighbours, &mine, &Resources::memory_limits).count;
    if (part < static_cast<double>(memory)) memory = static_cast<std::size_t>(part);
  }
  return {std::max(cpus, 1), memory};
}

void keep_to_share(const Share& share) {
  cpu_share = share.cpus;
  memory_share = share.memory;
}

// Both read what they need and no more: programs wait for them when they start.
int usable_cpu_count() {
  const Resources own{.cpus = affinity(), .cpu_limits = ControlGroups::of_this_process().cpu_limits()};
  return std::min(share_of({own}, 0).cpus, cpu_share.load());
}

std::size_t usable_memory() {
  const Resources own{.memory_limits = memory_limits(ControlGroups::of_this_process())};
  return std::min(share_of({own}, 0).memory, memory_share.load());
}

}  // namespace shoal
