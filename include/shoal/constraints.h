// Constraints on the shardings of values in a program, for whole trees and for values that belong together.
//
// @param tree A tree of arrays.
// @param shardings One sharding for all, or a prefix of the tree.
// @param x A tree of arrays.
// @param y A tree like it.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/tree.h"

namespace shoal {

namespace detail {
std::vector<Array> constrain_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                                    const ShardingTree& shardings, SourceLocation where);
/// The lists, with their first arrays constrained to one sharding, and so their second, and so on. All have the tree
/// `trees[0]`.
std::vector<std::vector<Array>> alike_leaves(const std::vector<std::vector<Array>>& lists,
                                             const std::vector<TreeDef>& trees, SourceLocation where);
}  // namespace detail

/// The tree with all arrays constrained, as with_sharding_constraint constrains one: to one sharding for all, or to
/// those of a prefix of the tree. nullopt leaves an array to the compiler. Throws as with_sharding_constraint, and
/// InvalidArgument if the shardings are not a prefix, or if one names a single device.
template <class Tree>
requires(!std::convertible_to<const Tree&, Operand>) Tree
    with_sharding_constraint(const Tree& tree, const ShardingTree& shardings,
                             SourceLocation where = SourceLocation::current()) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  Tree constrained = tree;
  tree::assign(constrained, detail::constrain_leaves(leaves, def, shardings, where));
  return constrained;
}

/// x and y, with the constraint that each array of x has the sharding of its partner in y: if one sharding is known,
/// the other follows, whether the array is an argument, a result or an intermediate value, before or after this in the
/// program. Dtypes may differ. Throws TypeMismatch for trees of different structure and InvalidArgument for partners of
/// different shapes.
template <class Tree>
std::pair<Tree, Tree> shard_alike(const Tree& x, const Tree& y, SourceLocation where = SourceLocation::current()) {
  std::vector<TreeDef> defs(2);
  const std::vector<std::vector<Array>> lists = {tree::flatten(x, &defs[0]), tree::flatten(y, &defs[1])};
  const std::vector<std::vector<Array>> alike = detail::alike_leaves(lists, defs, where);
  std::pair<Tree, Tree> result(x, y);
  tree::assign(result.first, alike[0]);
  tree::assign(result.second, alike[1]);
  return result;
}

/// The tree, with the constraint that all its arrays have one sharding. Throws InvalidArgument unless their shapes are
/// equal.
template <class Tree>
Tree shard_alike(const Tree& tree, SourceLocation where = SourceLocation::current()) {
  std::vector<std::vector<Array>> lists;
  for (const Array& leaf : tree::flatten(tree)) lists.push_back({leaf});
  const TreeDef leaf{.kind = "leaf", .children = {}};
  std::vector<Array> alike;
  for (const auto& one : detail::alike_leaves(lists, std::vector<TreeDef>(lists.size(), leaf), where)) {
    alike.push_back(one[0]);
  }
  Tree result = tree;
  tree::assign(result, alike);
  return result;
}

}  // namespace shoal
