#include "passes/cse.h"

#include <boost/container_hash/hash.hpp>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "passes/dce.h"

namespace shoal {
namespace {

// What an equation computes. Operands are named by the first value that equals them.
struct Key {
  const OpDef* op;
  Attrs attrs;
  ValueIds operands;
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

// Whether an equation makes its results of nothing, or of one element that it only repeats.
bool is_free(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->op_class != OpClass::kCompute) return false;
  if (eqn.inputs.empty()) return true;
  return eqn.inputs.size() == 1 && moves_elements(*eqn.op) && graph.type(eqn.inputs[0]).rank() == 0;
}

}  // namespace

Graph cse(Graph graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  result.values = std::move(graph.values);
  result.inputs = std::move(graph.inputs);
  result.outputs = std::move(graph.outputs);
  result.eqns.reserve(graph.eqns.size());
  std::unordered_map<Key, std::size_t, HashKey> known;  // With the place of the first such equation in the result.
  known.reserve(graph.eqns.size());
  std::vector<ValueId> first(result.values.size());  // The first value that equals another.
  std::iota(first.begin(), first.end(), 0);
  std::vector<ValueId> kept = first;  // What stands for a value whose equation goes.
  const auto in = [](const std::vector<ValueId>& map, ValueId id) { return map[slot(id)]; };
  for (Eqn& eqn : graph.eqns) {
    for (ValueId& id : eqn.inputs) id = in(kept, id);
    map_bodies(eqn, [](const Graph& body) { return dce(cse(body)); });
    if (has_effect(eqn)) {
      result.eqns.push_back(std::move(eqn));
      continue;
    }
    Key key{.op = eqn.op, .attrs = eqn.attrs, .operands = eqn.inputs};
    for (ValueId& id : key.operands) id = in(first, id);
    const auto [found, is_new] = known.try_emplace(std::move(key), result.eqns.size());
    if (!is_new) {
      const bool stays = is_free(result, eqn);
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        const ValueId same = result.eqns[found->second].outputs[i];
        first[slot(eqn.outputs[i])] = in(first, same);
        if (!stays) kept[slot(eqn.outputs[i])] = same;
      }
      if (!stays) continue;
    }
    result.eqns.push_back(std::move(eqn));
  }
  for (ValueId& id : result.outputs) id = in(kept, id);
  return result;
}

}  // namespace shoal
