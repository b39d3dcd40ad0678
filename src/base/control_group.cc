#include "base/control_group.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace shoal {

namespace {

using std::filesystem::path;

/// A file system of control groups: which part of the tree of groups can be seen in which folder.
struct Mount {
  std::string root;
  std::string folder;
  bool is_v2 = false;
  std::string controllers;
};

// Streams would take longer than all else that a program's first array takes.
std::string read_file(const path& name) {
  std::string text;
  if (const auto close = [](std::FILE* file) { std::fclose(file); };
      const std::unique_ptr<std::FILE, decltype(close)> file{std::fopen(name.c_str(), "re"), close}) {
    std::array<char, 4096> part;
    while (const std::size_t size = std::fread(part.data(), 1, part.size(), file.get())) text.append(part.data(), size);
  }
  return text;
}

/// The parts of a text between these characters; empty ones are left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) return parts;
    const std::size_t size = std::min(text.find_first_of(separators), text.size());
    parts.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
}

std::string between_commas(std::string_view list) { return "," + std::string(list) + ","; }

/// The kernel writes blanks in names as \040, and so on.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Lines "id parent device root folder options [tags] - type source options".
std::vector<Mount> parse_mounts(std::string_view text) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(text, "\n")) {
    if (line.find(" cgroup") == std::string_view::npos) continue;
    const std::vector<std::string_view> words = split(line, " ");
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    mounts.push_back({unescaped(words[3]), unescaped(words[4]), dash[1] == "cgroup2", between_commas(dash[3])});
  }
  return mounts;
}

bool lies_below(const path& inner, const path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// A number of a file's text; nullopt where anything else stands up to there, as with "max".
std::optional<double> number_in(std::string_view text, std::size_t position = 0) {
  const std::vector<std::string_view> words = split(text, " \n");
  double number = 0;
  for (std::size_t i = 0; i <= position; ++i) {
    if (i >= words.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(words[i].data(), words[i].data() + words[i].size(), number);
    if (error != std::errc() || end == words[i].data()) return std::nullopt;
  }
  return number;
}

std::optional<double> cores(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

/// Version 2: "max 100000" or "150000 100000".
std::optional<double> cpu_v2(const path& group) {
  const std::string text = read_file(group / "cpu.max");
  return cores(number_in(text), number_in(text, 1));
}

/// Version 1: two files, the quota being -1 where there is no limit.
std::optional<double> cpu_v1(const path& group) {
  return cores(number_in(read_file(group / "cpu.cfs_quota_us")), number_in(read_file(group / "cpu.cfs_period_us")));
}

std::optional<double> memory_v2(const path& group) { return number_in(read_file(group / "memory.max")); }

/// Version 1 has no word for "no limit", but a number that no machine has.
std::optional<double> memory_v1(const path& group) {
  constexpr double kMost = 1ULL << 62U;
  const auto bytes = number_in(read_file(group / "memory.limit_in_bytes"));
  return bytes && *bytes < kMost ? bytes : std::nullopt;
}

/// What tells a group from all others of the kernel, from inside and outside of containers.
std::string identity_of(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return folder;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

}  // namespace

ControlGroups ControlGroups::of_this_process() {
  return {read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo")};
}

ControlGroups::ControlGroups(std::string_view membership, std::string_view mounts) {
  const std::vector<Mount> all = parse_mounts(mounts);
  for (const std::string_view line : split(membership, "\n")) {  // "hierarchy:controllers:/group"
    const std::size_t first_colon = line.find(':');
    const std::size_t second_colon = line.find(':', first_colon + 1);
    if (second_colon == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first_colon + 1, second_colon - first_colon - 1);
    const path group(line.substr(second_colon + 1));
    for (const Mount& mount : all) {
      const bool is_v2 = controllers.empty();
      const std::string first = between_commas(controllers.substr(0, controllers.find(',')));
      if (mount.is_v2 != is_v2 || (!is_v2 && mount.controllers.find(first) == std::string::npos)) continue;
      // A container may see its own group as the root, and the group's name as it is outside: folders of that name are
      // missing then, and have no limits.
      const path relative = lies_below(group, mount.root) ? group.lexically_relative(mount.root) : path();
      path below = relative == "." ? path() : relative;
      while (!below.empty()) {
        folders_.push_back({path(mount.folder) / below, is_v2, between_commas(controllers)});
        below = below.parent_path();
      }
      folders_.push_back({mount.folder, is_v2, between_commas(controllers)});
    }
  }
}

std::vector<GroupLimit> ControlGroups::limits_of(std::string_view controller, Limit v1, Limit v2) const {
  std::vector<GroupLimit> limits;
  for (const Folder& folder : folders_) {
    if (!folder.is_v2 && folder.controllers.find(controller) == std::string::npos) continue;
    const auto amount = (folder.is_v2 ? v2 : v1)(folder.path);
    if (amount) limits.push_back({identity_of(folder.path), *amount});
  }
  return limits;
}

std::vector<GroupLimit> ControlGroups::cpu_limits() const { return limits_of(",cpu,", cpu_v1, cpu_v2); }
std::vector<GroupLimit> ControlGroups::memory_limits() const { return limits_of(",memory,", memory_v1, memory_v2); }

}  // namespace shoal
