#include "ir/bodies.h"

#include <algorithm>
#include <memory>

namespace shoal {

const Graph* body_of(const Eqn& eqn) {
  for (const auto& [name, value] : eqn.attrs.entries()) {
    if (const auto* body = std::get_if<GraphAttr>(&value)) return body->graph.get();
  }
  return nullptr;
}

void for_each_eqn(const Graph& graph, FunctionRef<void(const Eqn&)> visit) {
  for (const Eqn& eqn : graph.eqns) {
    visit(eqn);
    if (const Graph* body = body_of(eqn)) for_each_eqn(*body, visit);
  }
}

bool any_eqn(const Graph& graph, FunctionRef<bool(const Eqn&)> holds) {
  return std::ranges::any_of(graph.eqns, [&](const Eqn& eqn) {
    if (holds(eqn)) return true;
    const Graph* body = body_of(eqn);
    return body != nullptr && any_eqn(*body, holds);
  });
}

void map_body(Eqn& eqn, FunctionRef<Graph(const Graph&)> rewrite) {
  for (const auto& [name, value] : eqn.attrs.entries()) {
    if (const auto* body = std::get_if<GraphAttr>(&value)) {
      eqn.attrs.set(name, GraphAttr{std::make_shared<const Graph>(rewrite(*body->graph))});
      return;
    }
  }
}

}  // namespace shoal
