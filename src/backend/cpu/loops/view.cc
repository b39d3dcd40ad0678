#include "backend/cpu/loops/view.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace shoal::cpu {

View View::of(ValueId value, std::size_t rank) {
  View view{.source = value, .dims = std::vector<int>(rank), .starts = Dims(rank, 0), .steps = Dims(rank, 1)};
  std::iota(view.dims.begin(), view.dims.end(), 0);
  return view;
}

std::optional<std::vector<int>> pair_dims(const Shape& shape, const Shape& other) {
  std::vector<int> pairs(shape.size(), -1);
  std::size_t next = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    while (next < other.size() && other[next] == 1) ++next;
    if (next == other.size() || other[next] != shape[d]) return std::nullopt;
    pairs[d] = static_cast<int>(next++);
  }
  while (next < other.size() && other[next] == 1) ++next;
  if (next != other.size()) return std::nullopt;
  return pairs;
}

bool is_view(const Graph& graph, const Eqn& eqn) {
  const std::string_view name = eqn.op->name;
  if (name == "broadcast_in_dim" || name == "slice") return true;
  if (name == "transpose") {
    // Columns that do not lie side by side are better copied first, block by block.
    const Dims& perm = eqn.attrs.get<Dims>("perm");
    return perm.empty() || perm.back() == static_cast<std::int64_t>(perm.size()) - 1;
  }
  return name == "reshape" && pair_dims(graph.type(eqn.outputs[0]).shape, graph.type(eqn.inputs[0]).shape).has_value();
}

View view_through(const Graph& graph, const Eqn& eqn, const View& operand) {
  const Shape& in = graph.type(eqn.inputs[0]).shape;
  const Shape& out = graph.type(eqn.outputs[0]).shape;
  const std::string_view name = eqn.op->name;
  View view = operand;
  view.dims.assign(out.size(), -1);
  if (name == "broadcast_in_dim") {
    const Dims& dims = eqn.attrs.get<Dims>("dims");
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (in[i] != 1) view.dims[static_cast<std::size_t>(dims[i])] = operand.dims[i];
    }
  } else if (name == "transpose") {
    const Dims& perm = eqn.attrs.get<Dims>("perm");
    for (std::size_t d = 0; d < out.size(); ++d) view.dims[d] = operand.dims[static_cast<std::size_t>(perm[d])];
  } else if (name == "slice") {
    const Dims& starts = eqn.attrs.get<Dims>("starts");
    const Dims& strides = eqn.attrs.get<Dims>("strides");
    view.dims = operand.dims;
    for (std::size_t d = 0; d < out.size(); ++d) {
      if (operand.dims[d] < 0) continue;
      const auto s = static_cast<std::size_t>(operand.dims[d]);
      view.starts[s] += operand.steps[s] * starts[d];
      view.steps[s] *= strides[d];
    }
  } else {
    const std::optional<std::vector<int>> pairs = pair_dims(out, in);
    SHOAL_CHECK(pairs.has_value(), "only reshapes that add or drop extents of 1 are views");
    for (std::size_t d = 0; d < out.size(); ++d) {
      if ((*pairs)[d] >= 0) view.dims[d] = operand.dims[static_cast<std::size_t>((*pairs)[d])];
    }
  }
  return view;
}

}  // namespace shoal::cpu
