#include "distributed/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace shoal::distributed {

std::string process_name(const Member& member) { return fmt::format("process {} on {}", member.process, member.host); }

bool concerns(const Fault& fault, const std::vector<int>& processes) {
  if (!fault.processes.empty()) return fault.processes == processes;
  return std::find(processes.begin(), processes.end(), fault.process) != processes.end();
}

std::string describe(const Fault& fault) {
  if (fault.last_done.empty()) return fault.text;
  return fmt::format("{}; what it did last: {}", fault.text, fault.last_done);
}

}  // namespace shoal::distributed
