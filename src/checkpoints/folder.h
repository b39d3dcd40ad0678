// The folder of many checkpoints: their names, and those of what is not finished or no more wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/files.h"

namespace shoal::checkpoints {

/// Where the checkpoint of a step lies.
Path folder_of(const Path& directory, std::int64_t step);
/// The same while `run` writes it, and when it is to be removed.
Path unfinished_folder_of(const Path& directory, std::int64_t step, const std::string& run);
Path removed_folder_of(const Path& directory, std::int64_t step, const std::string& run);

/// The steps that have a checkpoint, ascending.
std::vector<std::int64_t> steps_in(const Path& directory);
/// This one, or the last. Throws CheckpointError if there is none.
std::int64_t step_or_latest(const Path& directory, std::optional<std::int64_t> step);
/// Removes what jobs left that did not come to their end, as far as that goes. Only for who has the FolderLock.
void remove_leftovers(const Path& directory);
/// Removes checkpoints until `keep` are left, `step` and the last of the others. What is removed has lost its name on
/// disk before.
void remove_old(const Path& directory, std::int64_t step, std::int64_t keep, const std::string& run);

}  // namespace shoal::checkpoints
