#include "spmd/overlap.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "ops/collective.h"

namespace shoal {
namespace {

// Whether its processes give each other what they have made of what they were given.
bool comes_in_rounds(const Eqn& eqn) { return eqn.op->name == "all_reduce" || eqn.op->name == "reduce_scatter"; }

bool uses(const Eqn& eqn, const Eqn& maker) {
  return std::ranges::any_of(eqn.inputs, [&](ValueId id) { return std::ranges::count(maker.outputs, id) != 0; });
}

}  // namespace

Graph overlap(Graph graph) {
  if (graph.grid == nullptr || graph.grid->is_local()) return graph;
  std::vector<Eqn> order;
  order.reserve(graph.eqns.size());
  std::deque<Eqn> pending;  // Collectives that have not ended.
  const auto end = [&](std::size_t count) {
    for (; count > 0; --count) {
      order.push_back(std::move(pending.front()));
      pending.pop_front();
    }
  };
  for (Eqn& eqn : graph.eqns) {
    std::size_t needed = pending.size();
    while (needed > 0 && !uses(eqn, pending[needed - 1])) --needed;
    end(needed);
    const bool exchanges = eqn.op->op_class == OpClass::kCollective && !exchanges_nothing(graph, eqn);
    if (eqn.op->op_class == OpClass::kEffect || (exchanges && std::ranges::any_of(pending, comes_in_rounds))) {
      end(pending.size());
    }
    if (exchanges) {
      pending.push_back(std::move(eqn));
    } else {
      order.push_back(std::move(eqn));
    }
  }
  end(pending.size());
  graph.eqns = std::move(order);
  return graph;
}

}  // namespace shoal
