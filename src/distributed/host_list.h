// Lists of hosts and of counts, in the short forms in which Slurm writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::distributed {

/// The hosts of a list, in its order: "rack[1-2]node[1,3],h2" names rack1node1, rack1node3, rack2node1, rack2node3, h2.
/// Numbers keep their leading zeros: "n[08-10]" names n08, n09, n10. nullopt if the text is no such list, or if it
/// names more than a million hosts.
std::optional<std::vector<std::string>> expand_host_list(std::string_view text);

/// The counts of a list, in its order: "2(x3),1" is 2, 2, 2, 1. nullopt if the text is no such list, or if it has more
/// than a million counts.
std::optional<std::vector<int>> expand_counts(std::string_view text);

}  // namespace shoal::distributed
