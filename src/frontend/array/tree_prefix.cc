#include "frontend/array/tree_prefix.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/misuse.h"

namespace shoal {
namespace {

std::string place_text(const std::string& path) { return path.empty() ? "at the top" : "at " + path; }

std::string kind_text(const TreeDef& tree) {
  return tree.is_leaf() ? "an array" : fmt::format("a {} of {}", tree.kind, tree.children.size());
}

void collect_mismatches(const TreeDef& a, const TreeDef& b, const std::string& path, std::vector<std::string>& found) {
  if (a.kind != b.kind || a.children.size() != b.children.size()) {
    found.push_back(fmt::format("{} one is {}, the other {}", place_text(path), kind_text(a), kind_text(b)));
    return;
  }
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    const auto& [a_key, a_child] = a.children[i];
    const auto& [b_key, b_child] = b.children[i];
    if (a_key == b_key) {
      collect_mismatches(a_child, b_child, path + a_key, found);
    } else {
      found.push_back(fmt::format("{} one has {}, the other {}", place_text(path), a_key, b_key));
    }
  }
}

}  // namespace

std::string prefix_mismatch(const std::string& path, std::size_t given, const TreeDef& tree) {
  return fmt::format("{} it has {} entries where the tree has {}", place_text(path), given, kind_text(tree));
}

bool is_like(const std::string& kind, const std::vector<std::string>& keys, const TreeDef& tree) {
  return kind == tree.kind &&
         std::equal(keys.begin(), keys.end(), tree.children.begin(), tree.children.end(),
                    [](const std::string& key, const auto& child) { return key.empty() || key == child.key; });
}

std::string prefix_mismatch(const std::string& path, const std::string& kind, const std::vector<std::string>& keys,
                            const TreeDef& tree) {
  const bool are_numbers = std::ranges::any_of(keys, [](const std::string& key) { return key.empty(); });
  if (kind != tree.kind || are_numbers) {
    return fmt::format("{} it has a {} of {} where the tree has {}", place_text(path), kind, keys.size(),
                       kind_text(tree));
  }
  std::vector<std::string> own;
  for (const auto& [key, child] : tree.children) own.push_back(key);
  return fmt::format("{} it has a {} with {} where the tree has one with {}", place_text(path), kind,
                     fmt::join(keys, ", "), fmt::join(own, ", "));
}

void prefix_error(std::string_view what, const std::vector<std::string>& mismatches, const TreeDef& tree) {
  throw misuse<InvalidArgument>("{} must be a prefix of the tree it applies to, but {}: {}", what,
                                fmt::join(mismatches, "; "), to_string(tree));
}

std::vector<std::string> tree_mismatches(const TreeDef& a, const TreeDef& b) {
  std::vector<std::string> found;
  collect_mismatches(a, b, "", found);
  return found;
}

}  // namespace shoal
