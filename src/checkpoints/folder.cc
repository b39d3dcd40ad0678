#include "checkpoints/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/misuse.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kUnfinished = ".tmp-";
constexpr std::string_view kRemoved = ".removed-";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0 || name != name_of_step(step)) {
    return std::nullopt;
  }
  return step;
}

// Calls f with the name of each entry; with none if there is no such folder.
template <class F>
void for_each_name(const Path& directory, const F& f) {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return;
  const std::filesystem::directory_iterator end;
  while (!error && entries != end) {
    f(entries->path().filename().string());
    entries.increment(error);
  }
  if (error) throw misuse<CheckpointError>("cannot list \"{}\": {}", directory.string(), error.message());
}

}  // namespace

Path folder_of(const Path& directory, std::int64_t step) { return directory / name_of_step(step); }
Path unfinished_folder_of(const Path& directory, std::int64_t step, const std::string& run) {
  return directory / fmt::format("{}{}{}", name_of_step(step), kUnfinished, run);
}
Path removed_folder_of(const Path& directory, std::int64_t step, const std::string& run) {
  return directory / fmt::format("{}{}{}", name_of_step(step), kRemoved, run);
}

std::vector<std::int64_t> steps_in(const Path& directory) {
  std::vector<std::int64_t> found;
  for_each_name(directory, [&](const std::string& name) {
    if (const std::optional<std::int64_t> step = step_of_name(name)) found.push_back(*step);
  });
  std::ranges::sort(found);
  return found;
}

std::int64_t step_or_latest(const Path& directory, std::optional<std::int64_t> step) {
  const std::vector<std::int64_t> found = steps_in(directory);
  if (found.empty()) throw misuse<CheckpointError>("there is no checkpoint in \"{}\"", directory.string());
  if (!step) return found.back();
  if (std::ranges::binary_search(found, *step)) return *step;
  throw misuse<CheckpointError>("there is no checkpoint of step {} in \"{}\", which has those of {}", *step,
                                directory.string(), fmt::join(found, ", "));
}

void remove_leftovers(const Path& directory) {
  std::vector<Path> leftovers;
  for_each_name(directory, [&](const std::string& name) {
    const bool is_left = name.find(kUnfinished) != std::string::npos || name.find(kRemoved) != std::string::npos;
    if (is_left && name.starts_with(kPrefix)) leftovers.push_back(directory / name);
  });
  for (const Path& leftover : leftovers) {
    std::error_code none;  // A process that is about to end may still write there.
    std::filesystem::remove_all(leftover, none);
  }
}

void remove_old(const Path& directory, std::int64_t step, std::int64_t keep, const std::string& run) {
  std::vector<std::int64_t> others = steps_in(directory);
  std::erase(others, step);
  std::vector<Path> removed;
  while (static_cast<std::int64_t>(others.size()) >= keep && !others.empty()) {
    removed.push_back(removed_folder_of(directory, others.front(), run));
    rename_synced(folder_of(directory, others.front()), removed.back());
    others.erase(others.begin());
  }
  for (const Path& folder : removed) remove_folder(folder);
}

}  // namespace shoal::checkpoints
