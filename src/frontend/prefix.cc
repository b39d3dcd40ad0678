#include "frontend/prefix.h"

#include <fmt/format.h>

namespace shoal {

void prefix_error(std::string_view what, const std::string& path, std::size_t given, const TreeDef& tree,
                  SourceLocation where) {
  const std::string at = path.empty() ? "at the top" : "at " + path;
  const std::string has = tree.is_leaf() ? "an array" : fmt::format("a {} of {}", tree.kind, tree.children.size());
  throw InvalidArgument(
      fmt::format("{} must be a prefix of the tree it applies to, but {} it has {} entries where the tree has {}: {}",
                  what, at, given, has, to_string(tree)),
      where);
}

}  // namespace shoal
