// The limits of the control groups (version 1, version 2, or both) that this process belongs to.
//
// Groups nest, and a limit holds for all processes of its group and of those inside it together: a process may use no
// more than the tightest limit from its own group up to the root.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

/// A limit that the processes of a control group have together.
struct GroupLimit {
  std::string group;  ///< The same for all processes of one running kernel that are in the group, however they see it.
  double amount = 0;

  static void fields(auto& self, auto& archive) { archive(self.group, self.amount); }
  friend bool operator==(const GroupLimit&, const GroupLimit&) = default;
};

class ControlGroups {
 public:
  /// Those of this process. Without control groups there are no limits.
  static ControlGroups of_this_process();

  /// From the texts of /proc/self/cgroup and /proc/self/mountinfo.
  ControlGroups(std::string_view membership, std::string_view mounts);

  /// Quotas of processor time, in cores, from the innermost group that has one outwards.
  std::vector<GroupLimit> cpu_limits() const;
  /// Of memory, in bytes, in the same order.
  std::vector<GroupLimit> memory_limits() const;

 private:
  /// A folder in which the system shows one group.
  struct Folder {
    std::string path;
    bool is_v2 = false;
    std::string controllers;  ///< Of version 1, with commas around each.
  };

  /// What is limited in a folder of this version, if anything.
  using Limit = std::optional<double> (*)(const std::filesystem::path& folder);
  std::vector<GroupLimit> limits_of(std::string_view controller, Limit v1, Limit v2) const;

  std::vector<Folder> folders_;
};

}  // namespace shoal
