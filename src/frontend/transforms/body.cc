#include "frontend/transforms/body.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "frontend/array/promotion.h"

namespace shoal::detail {

std::vector<Array> as_types(std::vector<Array> arrays, const std::vector<Type>& types) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Type& is = impl_of(arrays[i]).type;
    const bool differs = is.dtype != types[i].dtype || is.weak != types[i].weak;
    if (differs) arrays[i] = convert(arrays[i], types[i].dtype, types[i].weak);
    arrays[i] = varying_over(arrays[i], types[i].varying);
  }
  return arrays;
}

std::vector<Array> share_captures(std::span<Body* const> bodies) {
  const auto position = [](const std::vector<Array>& arrays, const Array& array) {
    const auto found = std::ranges::find(arrays, &impl_of(array), [](const Array& one) { return &impl_of(one); });
    return static_cast<std::size_t>(found - arrays.begin());
  };
  std::vector<Array> all;
  std::vector<Type> types;  // What the first body that reads a capture takes it as.
  for (const Body* body : bodies) {
    const std::size_t arguments = body->graph.inputs.size() - body->captures.size();
    for (std::size_t i = 0; i < body->captures.size(); ++i) {
      if (position(all, body->captures[i]) < all.size()) continue;
      all.push_back(body->captures[i]);
      types.push_back(body->graph.type(body->graph.inputs[arguments + i]));
    }
  }
  for (Body* body : bodies) {
    const auto first = body->graph.inputs.end() - static_cast<std::ptrdiff_t>(body->captures.size());
    const std::vector<ValueId> own(first, body->graph.inputs.end());
    body->graph.inputs.erase(first, body->graph.inputs.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t its = position(body->captures, all[i]);
      body->graph.inputs.push_back(its < own.size() ? own[its] : body->graph.add_value(types[i]));
    }
  }
  return all;
}

std::vector<GraphAttr> graphs_of(std::span<Body* const> bodies) {
  std::vector<GraphAttr> graphs;
  for (Body* body : bodies) graphs.push_back({std::make_shared<const Graph>(std::move(body->graph))});
  return graphs;
}

}  // namespace shoal::detail
