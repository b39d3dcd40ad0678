#include "shoal/tree.h"

#include <fmt/format.h>

namespace shoal {
namespace {

void collect_paths(const TreeDef& tree, const std::string& path, std::vector<std::string>& paths) {
  if (tree.is_leaf()) paths.push_back(path);
  for (const auto& [key, child] : tree.children) collect_paths(child, path + key, paths);
}

}  // namespace

std::size_t TreeDef::num_leaves() const { return leaf_paths().size(); }

std::vector<std::string> TreeDef::leaf_paths() const {
  std::vector<std::string> paths;
  collect_paths(*this, "", paths);
  return paths;
}

std::string to_string(const TreeDef& tree) {
  if (tree.is_leaf()) return "leaf";
  std::vector<std::string> children;
  for (const auto& [key, child] : tree.children) children.push_back(key + ": " + to_string(child));
  return fmt::format("{}({})", tree.kind, fmt::join(children, ", "));
}

namespace detail {

void check_same_structure(const TreeDef& first, const TreeDef& other, std::size_t position, SourceLocation where) {
  if (other == first) return;
  throw TypeMismatch(fmt::format("tree::map: tree {} is {}, and the first is {}; they must have the same structure",
                                 position, to_string(other), to_string(first)),
                     where);
}

}  // namespace detail
}  // namespace shoal
