// The hosts of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal::tool {

struct HostEntry {
  std::string name;  ///< As ssh takes it: host or user@host.
  int slots = 1;     ///< How many processes it takes.
  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

/// The hosts of a file of lines "host" or "host slots=K"; what follows a '#' is a comment. The slots of a host that
/// comes twice are added. Throws std::runtime_error, naming `file` and the line, for anything else, as for names that
/// begin with
/// '-', which ssh would take for options.
std::vector<HostEntry> parse_hosts(std::string_view text, const std::string& file);

}  // namespace shoal::tool
