#include "spmd/overlap.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "ops/collective.h"

namespace shoal {
Graph overlap(Graph graph) {
  if (graph.grid == nullptr || graph.grid->is_local()) return graph;
  std::vector<Eqn> order;
  order.reserve(graph.eqns.size());
  std::vector<Eqn> waiting;  // Collectives that have begun, and what needs their results.
  std::vector<bool> waits(graph.values.size(), false);
  bool has_rounds = false;  // Whether one of them comes in rounds.
  const auto end_waiting = [&] {
    std::ranges::move(waiting, std::back_inserter(order));
    waiting.clear();
    waits.assign(graph.values.size(), false);
    has_rounds = false;
  };
  for (Eqn& eqn : graph.eqns) {
    const bool exchanges = eqn.op->op_class == OpClass::kCollective && !exchanges_nothing(graph, eqn);
    const bool needs_waiting =
        std::ranges::any_of(eqn.inputs, [&](ValueId id) { return static_cast<bool>(waits[slot(id)]); });
    if (calls_user(eqn) || (exchanges && (has_rounds || needs_waiting))) end_waiting();
    if (exchanges || (needs_waiting && !waiting.empty())) {
      for (ValueId id : eqn.outputs) waits[slot(id)] = true;
      has_rounds = has_rounds || (exchanges && eqn.op->collective->in_rounds);
      waiting.push_back(std::move(eqn));
    } else {
      order.push_back(std::move(eqn));
    }
  }
  end_waiting();
  graph.eqns = std::move(order);
  return graph;
}

}  // namespace shoal
