// Makes trees of arrays of what files have.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/meeting.h"
#include "checkpoints/reading.h"
#include "shoal/array.h"
#include "shoal/checkpoints.h"
#include "shoal/tree.h"

namespace shoal::checkpoints {

/// The paths of a tree's leaves; that of a tree that is one array is "array".
std::vector<std::string> paths_of(const TreeDef& tree);

/// What threads of a program do together with the other processes, in the order of their calls.
Meetings& calls();

/// The arrays of a checkpoint, which lie as those of `like` do. All processes call it.
std::vector<Array> restore_leaves_from(const Path& directory, const std::vector<Array>& like, const TreeDef& tree,
                                       const RestoreOptions& options, std::chrono::milliseconds timeout);

}  // namespace shoal::checkpoints
