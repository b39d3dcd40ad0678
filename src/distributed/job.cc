#include "distributed/job.h"

#include <fmt/format.h>

namespace shoal::distributed {

std::string process_name(const Member& member) { return fmt::format("process {} on {}", member.process, member.host); }

std::string describe(const Fault& fault) {
  if (fault.last_done.empty()) return fault.text;
  return fmt::format("{}; what it did last: {}", fault.text, fault.last_done);
}

}  // namespace shoal::distributed
