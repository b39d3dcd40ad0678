// Applies tree prefixes to trees.
#pragma once

#include <string>
#include <vector>

#include "base/caller.h"
#include "shoal/error.h"
#include "shoal/tree.h"

namespace shoal {

/// Where a prefix and a tree part: "at [0] it has 2 entries where the tree has a vector of 3".
std::string prefix_mismatch(const std::string& path, std::size_t given, const TreeDef& tree);
/// Whether a node is of a kind and has these keys, of which empty ones fit any.
bool is_like(const std::string& kind, const std::vector<std::string>& keys, const TreeDef& tree);
/// The same where a prefix of nodes with kinds has another: "at [0] it is a dict with ['a'], but the tree has …".
std::string prefix_mismatch(const std::string& path, const std::string& kind, const std::vector<std::string>& keys,
                            const TreeDef& tree);
/// The error for a prefix that parts from the tree in some places.
[[noreturn]] void prefix_error(std::string_view what, const std::vector<std::string>& mismatches, const TreeDef& tree);

/// The places where two trees differ: "at [0].w one is a leaf, the other a vector of 2".
std::vector<std::string> tree_mismatches(const TreeDef& a, const TreeDef& b);

template <class Leaf>
void apply_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, const std::string& path, std::vector<Leaf>& leaves,
                  std::vector<std::string>& mismatches) {
  if (prefix.leaf() != nullptr) {
    leaves.insert(leaves.end(), tree.num_leaves(), *prefix.leaf());
    return;
  }
  const std::vector<Prefix<Leaf>>& children = *prefix.children();
  if (!prefix.kind().empty() && !is_like(prefix.kind(), prefix.keys(), tree)) {
    mismatches.push_back(prefix_mismatch(path, prefix.kind(), prefix.keys(), tree));
    return;
  }
  if (tree.is_leaf() || children.size() != tree.children.size()) {
    mismatches.push_back(prefix_mismatch(path, children.size(), tree));
    return;
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    apply_prefix(children[i], tree.children[i].tree, path + tree.children[i].key, leaves, mismatches);
  }
}

/// The leaf of the prefix for each leaf of the tree. Throws InvalidArgument, naming `what` and every place where the
/// structures part, if it is no prefix.
template <class Leaf>
std::vector<Leaf> apply_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, std::string_view what) {
  std::vector<Leaf> leaves;
  std::vector<std::string> mismatches;
  apply_prefix(prefix, tree, "", leaves, mismatches);
  if (!mismatches.empty()) prefix_error(what, mismatches, tree);
  return leaves;
}

/// The same for results: a single result may be given without the braces of a tuple, and a list of one stands for it.
template <class Leaf>
std::vector<Leaf> apply_result_prefix(const Prefix<Leaf>& prefix, const TreeDef& tree, std::string_view what) {
  const bool one = tree.is_leaf() && prefix.children() != nullptr && prefix.children()->size() == 1;
  return apply_prefix(one ? prefix.children()->front() : prefix, tree, what);
}

}  // namespace shoal
