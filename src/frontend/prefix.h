// Applies tree prefixes to trees.
#pragma once

#include <string>
#include <vector>

#include "shoal/error.h"
#include "shoal/tree.h"

namespace shoal {

/// The error for a prefix with the wrong number of children at `path`.
[[noreturn]] void prefix_error(std::string_view what, const std::string& path, std::size_t given, const TreeDef& tree,
                               SourceLocation where);

template <class Leaf>
void apply_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, std::string_view what, const std::string& path,
                  SourceLocation where, std::vector<Leaf>& leaves) {
  if (prefix.leaf() != nullptr) {
    leaves.insert(leaves.end(), tree.num_leaves(), *prefix.leaf());
    return;
  }
  const std::vector<Prefix<Leaf>>& children = *prefix.children();
  if (tree.is_leaf() || children.size() != tree.children.size()) prefix_error(what, path, children.size(), tree, where);
  for (std::size_t i = 0; i < children.size(); ++i) {
    apply_prefix(children[i], tree.children[i].second, what, path + tree.children[i].first, where, leaves);
  }
}

/// The leaf of the prefix for each leaf of the tree. Throws InvalidArgument, naming `what` and the path where the
/// structures part, if it is no prefix.
template <class Leaf>
std::vector<Leaf> apply_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, std::string_view what,
                               SourceLocation where) {
  std::vector<Leaf> leaves;
  apply_prefix(prefix, tree, what, "", where, leaves);
  return leaves;
}

/// The same for results: a single result may be given without the braces of a tuple, and a list of one stands for it.
template <class Leaf>
std::vector<Leaf> apply_result_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, std::string_view what,
                                      SourceLocation where) {
  const bool one = tree.is_leaf() && prefix.children() != nullptr && prefix.children()->size() == 1;
  return apply_prefix(one ? prefix.children()->front() : prefix, tree, what, where);
}

}  // namespace shoal
