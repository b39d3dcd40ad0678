#include "passes/open_keys.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/bodies.h"

namespace shoal {
namespace {

void open_attrs(Attrs& attrs) {
  std::vector<std::pair<std::string, Attr>> changed;
  for (const auto& [name, value] : attrs.entries()) {
    if (const auto* dtype = std::get_if<Dtype>(&value); dtype != nullptr && is_key(*dtype)) {
      changed.emplace_back(name, stored_as(*dtype));
    }
    if (const auto* scalar = std::get_if<Scalar>(&value); scalar != nullptr && is_key(scalar->dtype)) {
      changed.emplace_back(name, Scalar{.dtype = stored_as(scalar->dtype), .bytes = scalar->bytes});
    }
  }
  for (auto& [name, value] : changed) attrs.set(std::move(name), std::move(value));
}

}  // namespace

Dtype stored_as(Dtype dtype) { return is_key(dtype) ? uint64 : dtype; }

Graph open_keys(Graph graph) {
  for (Value& value : graph.values) value.type.dtype = stored_as(value.type.dtype);
  for (Eqn& eqn : graph.eqns) {
    open_attrs(eqn.attrs);
    map_bodies(eqn, [](const Graph& body) { return open_keys(body); });
  }
  return graph;
}

}  // namespace shoal
