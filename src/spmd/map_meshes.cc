#include "spmd/map_meshes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/bodies.h"

namespace shoal {
namespace {

NamedSharding over_mapped(const NamedSharding& sharding, FunctionRef<Mesh(const Mesh&)> f) {
  return {f(sharding.mesh()), sharding.spec(), {.memory_kind = sharding.memory_kind()}};
}

}  // namespace

Graph map_meshes(Graph graph, FunctionRef<Mesh(const Mesh&)> f) {
  for (Value& value : graph.values) {
    Shared<ExplicitAxes>& explicit_axes = value.type.explicit_axes;
    if (explicit_axes) explicit_axes.edit([&](ExplicitAxes& axes) { axes.mesh = f(axes.mesh); });
  }
  const auto is_mapped = [](const std::pair<std::string, Attr>& entry) {
    return std::holds_alternative<Mesh>(entry.second) || std::holds_alternative<NamedSharding>(entry.second) ||
           std::holds_alternative<GraphAttr>(entry.second) ||
           std::holds_alternative<std::vector<GraphAttr>>(entry.second);
  };
  for (Eqn& eqn : graph.eqns) {
    if (std::ranges::none_of(eqn.attrs.entries(), is_mapped)) continue;
    const Attrs attrs = eqn.attrs;
    for (const auto& [name, value] : attrs.entries()) {
      if (const Mesh* mesh = std::get_if<Mesh>(&value)) {
        eqn.attrs.set(name, f(*mesh));
      } else if (const NamedSharding* sharding = std::get_if<NamedSharding>(&value)) {
        eqn.attrs.set(name, over_mapped(*sharding, f));
      }
    }
    map_bodies(eqn, [&](const Graph& body) { return map_meshes(body, f); });
  }
  return graph;
}

Sharding map_mesh(const Sharding& sharding, FunctionRef<Mesh(const Mesh&)> f) {
  const NamedSharding* named = sharding.named();
  return named == nullptr ? sharding : Sharding(over_mapped(*named, f));
}

}  // namespace shoal
