#include "ir/bodies.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace shoal {

boost::container::small_vector<const Graph*, 2> bodies_of(const Attrs& attrs) {
  boost::container::small_vector<const Graph*, 2> bodies;
  for (const auto& [name, value] : attrs.entries()) {
    if (const auto* body = std::get_if<GraphAttr>(&value)) bodies.push_back(body->graph.get());
    if (const auto* several = std::get_if<std::vector<GraphAttr>>(&value)) {
      for (const GraphAttr& body : *several) bodies.push_back(body.graph.get());
    }
  }
  return bodies;
}

void for_each_eqn(const Graph& graph, FunctionRef<void(const Eqn&)> visit) {
  for (const Eqn& eqn : graph.eqns) {
    visit(eqn);
    for (const Graph* body : bodies_of(eqn)) for_each_eqn(*body, visit);
  }
}

bool any_eqn(const Graph& graph, FunctionRef<bool(const Eqn&)> holds) {
  return std::ranges::any_of(graph.eqns, [&](const Eqn& eqn) {
    return holds(eqn) || std::ranges::any_of(bodies_of(eqn), [&](const Graph* body) { return any_eqn(*body, holds); });
  });
}

void map_bodies(Attrs& attrs, FunctionRef<Graph(const Graph&)> rewrite) {
  const auto rewritten = [&](const GraphAttr& body) {
    return GraphAttr{std::make_shared<const Graph>(rewrite(*body.graph))};
  };
  std::vector<std::pair<std::string, Attr>> changed;
  for (const auto& [name, value] : attrs.entries()) {
    if (const auto* body = std::get_if<GraphAttr>(&value)) changed.emplace_back(name, rewritten(*body));
    if (const auto* several = std::get_if<std::vector<GraphAttr>>(&value)) {
      std::vector<GraphAttr> bodies;
      for (const GraphAttr& body : *several) bodies.push_back(rewritten(body));
      changed.emplace_back(name, std::move(bodies));
    }
  }
  for (auto& [name, value] : changed) attrs.set(std::move(name), std::move(value));
}

}  // namespace shoal
