#include "passes/cse.h"

#include <boost/container_hash/hash.hpp>
#include <memory>
#include <unordered_map>
#include <utility>

#include "passes/dce.h"

namespace shoal {
namespace {

// What an equation computes. Operands are named by the first value that equals them.
struct Key {
  const OpDef* op;
  Attrs attrs;
  std::vector<ValueId> operands;
  friend bool operator==(const Key&, const Key&) = default;
};

struct HashKey {
  std::size_t operator()(const Key& key) const {
    std::size_t seed = key.attrs.hash();
    boost::hash_combine(seed, key.op);
    boost::hash_range(seed, key.operands.begin(), key.operands.end());
    return seed;
  }
};

bool is_free(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->op_class != OpClass::kCompute) return false;
  if (eqn.inputs.empty()) return true;
  return eqn.op->name == "broadcast_in_dim" && graph.type(eqn.inputs[0]).rank() == 0;
}

}  // namespace

Graph cse(const Graph& graph) {
  Graph result = graph;
  result.eqns.clear();
  std::unordered_map<Key, const Eqn*, HashKey> known;
  std::unordered_map<ValueId, ValueId> first;  // The first value that equals another, where that is not itself.
  std::unordered_map<ValueId, ValueId> kept;   // What stands for a value whose equation goes.
  const auto in = [](const std::unordered_map<ValueId, ValueId>& map, ValueId id) {
    const auto found = map.find(id);
    return found == map.end() ? id : found->second;
  };
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) id = in(kept, id);
    if (copy.op->op_class == OpClass::kCall) {
      copy.attrs.set("body", GraphAttr{std::make_shared<const Graph>(dce(cse(copy.attrs.graph())))});
    }
    if (has_effect(copy)) {
      result.eqns.push_back(std::move(copy));
      continue;
    }
    Key key{.op = copy.op, .attrs = copy.attrs, .operands = copy.inputs};
    for (ValueId& id : key.operands) id = in(first, id);
    const auto [found, is_new] = known.try_emplace(std::move(key), &eqn);
    if (!is_new) {
      const bool stays = is_free(graph, eqn);
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        const ValueId same = found->second->outputs[i];
        first[eqn.outputs[i]] = in(first, same);
        if (!stays) kept[eqn.outputs[i]] = same;
      }
      if (!stays) continue;
    }
    result.eqns.push_back(std::move(copy));
  }
  for (ValueId& id : result.outputs) id = in(kept, id);
  return result;
}

}  // namespace shoal
