#include "backend/cpu/loops/loop_shape.h"

#include <algorithm>
#include <numeric>

#include "backend/cpu/loops/loop.h"

namespace shoal::cpu {
namespace {

// What an operand is in a loop that is being put together.
bool fits_operand(const Graph& graph, const std::vector<const Eqn*>& producers, const LoopShape& loop, ValueId value,
                  Role role) {
  const Shape& shape = graph.type(value).shape;
  const View view = seen_through(graph, producers, value);
  const Eqn* producer = producers[static_cast<std::size_t>(view.source)];
  if (producer != nullptr && is_constant(*producer)) return true;
  const auto made = loop.roles.find(view.source);
  const std::optional<std::vector<int>> dims = read_dims(loop, view, shape, role);
  if (!dims) return false;
  if (made == loop.roles.end()) return true;  // Read from memory.
  if (made->second == Role::kTotal) return false;
  if (made->second == Role::kFull) return role == Role::kFull && view.is_whole() && shape == loop.domain;
  // A row value is the same element for all columns, and must stand where it was made.
  const std::optional<std::vector<int>> own = loop.row_dims(graph.type(view.source).shape);
  if (!own) return false;
  for (std::size_t d = 0; d < dims->size(); ++d) {
    if (loop.domain[d] != 1 && (*dims)[d] != (*own)[d]) return false;
  }
  return true;
}

bool fits_operands(const Graph& graph, const std::vector<const Eqn*>& producers, const LoopShape& loop, const Eqn& eqn,
                   Role role) {
  return std::ranges::all_of(eqn.inputs, [&](ValueId id) { return fits_operand(graph, producers, loop, id, role); });
}

bool add_elementwise(const Graph& graph, const std::vector<const Eqn*>& producers, LoopShape& loop, const Eqn& eqn) {
  const Shape& shape = graph.type(eqn.outputs[0]).shape;
  // What needs one element per row only is computed once per row.
  if (loop.columns >= 0 && loop.row_dims(shape) && fits_operands(graph, producers, loop, eqn, Role::kRow)) {
    loop.roles[eqn.outputs[0]] = Role::kRow;
    return true;
  }
  if (shape != loop.domain || !fits_operands(graph, producers, loop, eqn, Role::kFull)) return false;
  loop.roles[eqn.outputs[0]] = Role::kFull;
  return true;
}

// Whether every shard has the extents that the type says, so that they need not be read off an operand.
bool is_even(const Graph& graph, ValueId id, const Dims& axes) {
  const Value& value = graph.value(id);
  if (!value.global || graph.grid == nullptr) return true;
  return std::ranges::all_of(axes, [&](std::int64_t axis) {
    const auto d = static_cast<std::size_t>(axis);
    return value.global->shape[d] % std::max<std::int64_t>(1, graph.grid->size_of(value.global->placement.dims[d])) ==
           0;
  });
}

bool add_reduction(const Graph& graph, const std::vector<const Eqn*>& producers, LoopShape& loop, const Eqn& eqn) {
  const ValueId operand = eqn.inputs[0];
  const Shape& shape = graph.type(operand).shape;
  if (shape != loop.domain || !fits_operands(graph, producers, loop, eqn, Role::kFull)) return false;
  const View view = seen_through(graph, producers, operand);
  const Eqn* producer = producers[slot(view.source)];
  const bool is_plain = view.is_whole() && !loop.roles.contains(view.source) &&
                        (producer == nullptr || !is_known(*producer));  // What is known is no operand.
  Dims axes = eqn.attrs.get<Dims>("axes");
  std::ranges::sort(axes);
  // Extents of shards are read off operands and results. Nobody tells those that are reduced but a plain operand, and
  // of totals, which no loop stores, none.
  if (!is_plain && !is_even(graph, operand, axes)) return false;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto count = static_cast<std::int64_t>(axes.size());
  bool is_trailing = count > 0;
  std::int64_t elements = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    is_trailing = is_trailing && axes[static_cast<std::size_t>(i)] == rank - count + i;
    elements *= shape[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])];
  }
  if (is_trailing && elements <= kMostReduced && loop.total_axes.empty()) {
    if (loop.columns >= 0 && loop.columns != count) return false;
    loop.columns = static_cast<int>(count);
    loop.roles[eqn.outputs[0]] = Role::kRow;
    return true;
  }
  if (loop.columns >= 0 || count == 0) return false;
  if (!is_plain && !has_even_shards(graph, operand)) return false;
  if (!loop.total_axes.empty() && loop.total_axes != axes) return false;
  loop.total_axes = std::move(axes);
  loop.roles[eqn.outputs[0]] = Role::kTotal;
  return true;
}

// The first operand of a reduction has the shape of the domain; else the largest result has.
Shape domain_of(const Graph& graph, std::span<const Eqn* const> eqns) {
  const Shape* largest = nullptr;
  for (const Eqn* eqn : eqns) {
    if (eqn->op->reduces) return graph.type(eqn->inputs[0]).shape;
    const Shape& shape = graph.type(eqn->outputs[0]).shape;
    if (largest == nullptr || num_elements(shape) > num_elements(*largest)) largest = &shape;
  }
  return *largest;
}

}  // namespace

bool has_even_shards(const Graph& graph, ValueId id) {
  Dims all(graph.type(id).rank());
  std::iota(all.begin(), all.end(), 0);
  return is_even(graph, id, all);
}

std::vector<const Eqn*> producers_of(const Graph& graph) {
  std::vector<const Eqn*> producers(graph.values.size(), nullptr);
  for (const Eqn& eqn : graph.eqns) {
    for (ValueId id : eqn.outputs) producers[slot(id)] = &eqn;
  }
  return producers;
}

View seen_through(const Graph& graph, const std::vector<const Eqn*>& producers, ValueId value) {
  const Eqn* eqn = producers[slot(value)];
  if (eqn == nullptr || !is_view(graph, *eqn)) return View::of(value, graph.type(value).rank());
  return view_through(graph, *eqn, seen_through(graph, producers, eqn->inputs[0]));
}

bool is_constant(const Eqn& eqn) { return eqn.op->name == "full" && !is_complex(eqn.attrs.get<Scalar>("value").dtype); }

bool is_known(const Eqn& eqn) {
  return is_constant(eqn) || (eqn.op->counts && !is_complex(eqn.attrs.get<Dtype>("dtype")));
}

bool is_loop_op(const Graph& graph, const Eqn& eqn) {
  if (eqn.op->elementwise != nullptr) return true;
  return eqn.op->reduces.has_value() && !eqn.attrs.get<Dims>("axes").empty() &&
         !is_complex(graph.type(eqn.inputs[0]).dtype) && !is_complex(graph.type(eqn.outputs[0]).dtype);
}

std::optional<std::vector<int>> LoopShape::row_dims(const Shape& shape) const {
  if (columns < 0) return std::nullopt;
  Shape rows = domain;
  for (std::size_t d = rows.size() - static_cast<std::size_t>(columns); d < rows.size(); ++d) rows[d] = 1;
  return pair_dims(rows, shape);
}

std::optional<std::vector<int>> read_dims(const LoopShape& loop, const View& view, const Shape& shape, Role role) {
  std::vector<int> found(loop.domain.size(), -1);
  if (num_elements(shape) == 1 && shape != loop.domain) return found;
  std::vector<int> of_view(loop.domain.size(), -1);
  if (role == Role::kFull && shape == loop.domain) {
    std::iota(of_view.begin(), of_view.end(), 0);
  } else {
    const std::optional<std::vector<int>> pairs = loop.row_dims(shape);
    if (!pairs) return std::nullopt;
    of_view = *pairs;
  }
  for (std::size_t d = 0; d < found.size(); ++d) {
    if (of_view[d] >= 0) found[d] = view.dims[static_cast<std::size_t>(of_view[d])];
  }
  return found;
}

std::optional<LoopShape> shape_of_loop(const Graph& graph, const std::vector<const Eqn*>& producers,
                                       std::span<const Eqn* const> eqns) {
  LoopShape loop;
  loop.domain = domain_of(graph, eqns);
  // Row values are known from the first reduction on, but elementwise ops on rows may come before it.
  for (const Eqn* eqn : eqns) {
    const bool fits = eqn->op->elementwise != nullptr ? add_elementwise(graph, producers, loop, *eqn)
                                                      : add_reduction(graph, producers, loop, *eqn);
    if (!fits) return std::nullopt;
  }
  return loop;
}

}  // namespace shoal::cpu
