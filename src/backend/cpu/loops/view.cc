#include "backend/cpu/loops/view.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

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

namespace {

// How the result of an op is seen, where `is` says that it is a view.
struct Row {
  std::string_view op;
  bool (*is)(const Graph& graph, const Eqn& eqn);
  View (*view)(const Graph& graph, const Eqn& eqn, const View& operand);
};

const Shape& shape_of_operand(const Graph& graph, const Eqn& eqn) { return graph.type(eqn.inputs[0]).shape; }
const Shape& shape_of_result(const Graph& graph, const Eqn& eqn) { return graph.type(eqn.outputs[0]).shape; }

// The operand with dimensions of its own.
View with_dims(const View& operand, std::vector<int> dims) {
  View view = operand;
  view.dims = std::move(dims);
  return view;
}

bool always(const Graph&, const Eqn&) { return true; }

View view_of_broadcast(const Graph& graph, const Eqn& eqn, const View& operand) {
  const Shape& in = shape_of_operand(graph, eqn);
  const Dims& to = eqn.attrs.get<Dims>("dims");
  std::vector<int> dims(shape_of_result(graph, eqn).size(), -1);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (in[i] != 1) dims[static_cast<std::size_t>(to[i])] = operand.dims[i];
  }
  return with_dims(operand, std::move(dims));
}

View view_of_slice(const Graph&, const Eqn& eqn, const View& operand) {
  const Dims& starts = eqn.attrs.get<Dims>("starts");
  const Dims& strides = eqn.attrs.get<Dims>("strides");
  View view = operand;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    if (operand.dims[d] < 0) continue;
    const auto s = static_cast<std::size_t>(operand.dims[d]);
    view.starts[s] += operand.steps[s] * starts[d];
    view.steps[s] *= strides[d];
  }
  return view;
}

// Columns that do not lie side by side are better copied first, block by block.
bool keeps_columns(const Graph&, const Eqn& eqn) {
  const Dims& perm = eqn.attrs.get<Dims>("perm");
  return perm.empty() || perm.back() == static_cast<std::int64_t>(perm.size()) - 1;
}

View view_of_transpose(const Graph&, const Eqn& eqn, const View& operand) {
  std::vector<int> dims;
  for (const std::int64_t d : eqn.attrs.get<Dims>("perm")) dims.push_back(operand.dims[static_cast<std::size_t>(d)]);
  return with_dims(operand, std::move(dims));
}

std::optional<std::vector<int>> pair_reshaped(const Graph& graph, const Eqn& eqn) {
  return pair_dims(shape_of_result(graph, eqn), shape_of_operand(graph, eqn));
}

bool only_adds_or_drops_ones(const Graph& graph, const Eqn& eqn) { return pair_reshaped(graph, eqn).has_value(); }

View view_of_reshape(const Graph& graph, const Eqn& eqn, const View& operand) {
  std::optional<std::vector<int>> dims = pair_reshaped(graph, eqn);
  SHOAL_CHECK(dims.has_value(), "only reshapes that add or drop extents of 1 are views");
  for (int& d : *dims) d = d < 0 ? -1 : operand.dims[static_cast<std::size_t>(d)];
  return with_dims(operand, std::move(*dims));
}

// Parts of complex numbers are no elements of a loop.
bool keeps_elements(const Graph& graph, const Eqn& eqn) {
  const Dtype from = graph.type(eqn.inputs[0]).dtype;
  const Dtype to = graph.type(eqn.outputs[0]).dtype;
  return size_of(from) == size_of(to) && !is_complex(from) && !is_complex(to);
}

View view_of_bitcast(const Graph&, const Eqn&, const View& operand) { return operand; }

constexpr Row kRows[] = {
    {"bitcast", keeps_elements, view_of_bitcast},
    {"broadcast_in_dim", always, view_of_broadcast},
    {"slice", always, view_of_slice},
    {"transpose", keeps_columns, view_of_transpose},
    {"reshape", only_adds_or_drops_ones, view_of_reshape},
};

// nullptr for ops that have none.
const Row* row_of(const Eqn& eqn) {
  const auto* row = std::ranges::find(kRows, eqn.op->name, &Row::op);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

bool is_view(const Graph& graph, const Eqn& eqn) {
  const Row* row = row_of(eqn);
  return row != nullptr && row->is(graph, eqn);
}

View view_through(const Graph& graph, const Eqn& eqn, const View& operand) {
  const Row* row = row_of(eqn);
  SHOAL_CHECK(row != nullptr, "the result of an op is no view: " + std::string(eqn.op->name));
  return row->view(graph, eqn, operand);
}

}  // namespace shoal::cpu
