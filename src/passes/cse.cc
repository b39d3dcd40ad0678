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

Graph cse(const Graph& graph) {
  Graph result;
  result.name = graph.name;
  result.axes = graph.axes;
  result.grid = graph.grid;
  result.values = graph.values;
  result.inputs = graph.inputs;
  result.outputs = graph.outputs;
  std::unordered_map<Key, const Eqn*, HashKey> known;
  known.reserve(graph.eqns.size());
  std::vector<ValueId> first(graph.values.size());  // The first value that equals another.
  std::iota(first.begin(), first.end(), 0);
  std::vector<ValueId> kept = first;  // What stands for a value whose equation goes.
  const auto in = [](const std::vector<ValueId>& map, ValueId id) { return map[slot(id)]; };
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    for (ValueId& id : copy.inputs) id = in(kept, id);
    map_bodies(copy, [](const Graph& body) { return dce(cse(body)); });
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
        first[slot(eqn.outputs[i])] = in(first, same);
        if (!stays) kept[slot(eqn.outputs[i])] = same;
      }
      if (!stays) continue;
    }
    result.eqns.push_back(std::move(copy));
  }
  for (ValueId& id : result.outputs) id = in(kept, id);
  return result;
}

}  // namespace shoal
