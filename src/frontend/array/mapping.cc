#include "frontend/array/mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "ir/dim_attrs.h"

namespace shoal {
namespace {

using detail::Access;
using detail::ArrayImpl;

AxisNames sorted(AxisNames axes) {
  std::ranges::sort(axes);
  return axes;
}

}  // namespace

Mapping::Mapping(std::string name, MappedAxis axis)
    : Layer(std::move(name), axis.name, axis.size, sorted(axis.split.axes)), axis_(std::move(axis)) {}

std::string Mapping::why_not() const {
  return fmt::format(
      "of '{}' stands for those of all places, and has no elements of its own; compute with it, return it, or do this "
      "outside the mapped function",
      name());
}

Array Mapping::mapped(const Array& array, std::size_t dim) {
  return Access::make(std::static_pointer_cast<Mapping>(shared_from_this()), array, dim,
                      without_dim(detail::impl_of(array).type, dim));
}

std::vector<Array> Mapping::bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  Graph graph;
  graph.axes = outer_axes();
  std::vector<Array> values;
  std::vector<Batched> given;
  for (const Array& operand : operands) {
    const ArrayImpl& impl = detail::impl_of(operand);
    const bool is_own = impl.mapping() == this;
    values.push_back(is_own ? impl.abstract->outside : operand);
    const ValueId input = graph.add_input(detail::impl_of(values.back()).type);
    given.push_back({input, is_own ? std::optional(impl.abstract->dim) : std::nullopt});
  }
  Builder build(graph, Caller::line());
  const std::vector<Batched> results = batch_eqn(op, attrs, given, axis_, build);
  // What was written is done outside, equation by equation.
  values.resize(graph.values.size());
  std::vector<Array> arguments;
  for (Eqn& eqn : graph.eqns) {
    arguments.clear();
    for (const ValueId id : eqn.inputs) arguments.push_back(values[slot(id)]);
    std::vector<Array> made = shoal::bind(*eqn.op, std::move(eqn.attrs), arguments);
    for (std::size_t i = 0; i < made.size(); ++i) values[slot(eqn.outputs[i])] = std::move(made[i]);
  }
  std::vector<Array> arrays;
  for (const Batched& result : results) {
    const Array& outside = values[slot(result.value)];
    arrays.push_back(result.dim ? mapped(outside, *result.dim) : outside);
  }
  return arrays;
}

std::vector<Mapping::Result> Mapping::finish(std::span<const Array> results) {
  std::vector<Result> made;
  for (const Array& result : results) {
    const ArrayImpl& impl = detail::impl_of(result, "the result");
    const bool is_own = impl.mapping() == this;
    made.push_back(
        {is_own ? impl.abstract->outside : result, is_own ? std::optional(impl.abstract->dim) : std::nullopt});
  }
  Layer::finish();
  return made;
}

}  // namespace shoal
