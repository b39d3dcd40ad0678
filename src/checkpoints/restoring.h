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
#include "runtime/device_array.h"
#include "shoal/array.h"
#include "shoal/checkpoints.h"
#include "shoal/tree.h"

namespace shoal::checkpoints {

/// The paths of a tree's leaves; that of a tree that is one array is "array".
std::vector<std::string> paths_of(const TreeDef& tree);

/// What threads of a program do together with the other processes, in the order of their calls.
Meetings& calls();

/// Memory for what this process holds of an array that lies as another one does.
struct Place {
  KindPtr kind;
  ShardSet shards;
  bool is_unplaced = false;  ///< Nobody says where it is to lie.
};

/// That of an array like this one, and what is to be filled of it. Throws as restore does, naming the path.
Place place_like(const Array& like, const std::string& path, std::vector<Target>& targets);
/// The array, once all of it is filled.
Array array_at(Place place);

/// The arrays of a checkpoint, which lie as those of `like` do. All processes call it.
std::vector<Array> restore_leaves_from(const Path& directory, const std::vector<Array>& like, const TreeDef& tree,
                                       const RestoreOptions& options, std::chrono::milliseconds timeout);

}  // namespace shoal::checkpoints
