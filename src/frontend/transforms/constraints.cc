#include "shoal/constraints.h"

#include <fmt/format.h>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "frontend/array/tree_prefix.h"
#include "ops/table.h"

namespace shoal::detail {

std::vector<Array> constrain_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                                    const ShardingTree& shardings, SourceLocation where) {
  const Caller caller("with_sharding_constraint", where);
  const std::vector<std::optional<Sharding>> wanted = apply_prefix(shardings, tree, "the sharding");
  const std::vector<std::string> paths = tree.leaf_paths();
  check_values(leaves, tree, "argument 0");
  std::vector<Array> constrained;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (wanted[i] && wanted[i]->named() == nullptr) {
      throw misuse<InvalidArgument>(
          "argument 0{} is constrained to {}, but a constraint says how a mesh splits a value; use a NamedSharding",
          paths[i], to_string(*wanted[i]));
    }
    constrained.push_back(wanted[i] ? shoal::with_sharding_constraint(leaves[i], *wanted[i]->named()) : leaves[i]);
  }
  return constrained;
}

std::vector<std::vector<Array>> alike_leaves(const std::vector<std::vector<Array>>& lists,
                                             const std::vector<TreeDef>& trees, SourceLocation where) {
  const Caller caller("shard_alike", where);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (trees[i] != trees[0]) {
      throw misuse<TypeMismatch>("values that lie alike must be trees of one structure, but {}",
                                 fmt::join(tree_mismatches(trees[0], trees[i]), "; "));
    }
    check_values(lists[i], trees[i], fmt::format("argument {}", i));
  }
  std::vector<std::vector<Array>> alike = lists;
  for (std::size_t k = 0; !lists.empty() && k < lists[0].size(); ++k) {
    std::vector<Array> partners;
    for (const std::vector<Array>& list : lists) partners.push_back(list[k]);
    partners = bind(op_named("shard_alike"), {}, partners);
    for (std::size_t i = 0; i < lists.size(); ++i) alike[i][k] = partners[i];
  }
  return alike;
}

}  // namespace shoal::detail
