#include "frontend/transforms/cache_miss.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shoal::detail {
namespace {

std::string describe(const MaybeSharding& sharding) {
  return sharding ? "lies as " + to_string(*sharding) : "is not committed";
}

// The position of the i-th static argument: the keys of the tree are those of the others.
std::string static_position(const TreeDef& tree, std::size_t index) {
  std::set<std::string> taken;
  for (const auto& [key, child] : tree.children) taken.insert(key);
  std::size_t position = 0;
  for (std::size_t found = 0;; ++position) {
    if (taken.contains(index_text(position))) continue;
    if (found++ == index) break;
  }
  return index_text(position);
}

}  // namespace

std::vector<std::string> differences(const CallKind& call, const CallKind& other) {
  if (call.tree != other.tree || call.statics.size() != other.statics.size()) {
    return {fmt::format("arguments are {}, not {}", to_string(call.tree), to_string(other.tree))};
  }
  std::vector<std::string> found;
  const std::vector<std::string> paths = call.tree.leaf_paths();
  for (std::size_t i = 0; i < call.leaves.size(); ++i) {
    const LeafKey& now = call.leaves[i];
    const LeafKey& then = other.leaves[i];
    if (now.type != then.type) {
      found.push_back(fmt::format("argument {} is {}, not {}", paths[i], to_string(now.type), to_string(then.type)));
    } else if (now.sharding != then.sharding) {
      found.push_back(
          fmt::format("argument {} {}, but {} there", paths[i], describe(now.sharding), describe(then.sharding)));
    }
  }
  for (std::size_t i = 0; i < call.statics.size(); ++i) {
    if (call.statics[i] == other.statics[i]) continue;
    found.push_back(fmt::format("static argument {} has another value", static_position(call.tree, i)));
  }
  if (call.context != other.context) {
    found.push_back(fmt::format("set_mesh is {}, not {}", to_string(call.context), to_string(other.context)));
  }
  return found;
}

}  // namespace shoal::detail
