#include "frontend/array/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caller.h"
#include "base/check.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "transform/linearize.h"

namespace shoal {
namespace {

using detail::Access;
using detail::ArrayImpl;

}  // namespace

Tape::Tape(std::string name) : Layer(std::move(name)) {
  graph_.name = this->name();
  graph_.axes = outer_axes();
}

std::string Tape::why_not() const {
  return fmt::format(
      "is differentiated in '{}', and its derivative would be lost here; compute with it, return it, or take "
      "stop_gradient of it",
      name());
}

Array Tape::with_tangent(const Array& array) {
  const Type& type = detail::impl_of(array).type;
  const ValueId value = graph_.add_value(type);
  arguments_.push_back(value);
  return Access::make(self(), array, value, type);
}

ValueId Tape::residual(const Array& array) {
  const ArrayImpl& impl = detail::impl_of(array);
  const auto [known, is_new] = known_residuals_.try_emplace(&impl, residuals_.size());
  if (is_new) {
    residuals_.push_back(array);
    residual_values_.push_back(graph_.add_value(impl.type));
  }
  return residual_values_[known->second];
}

class Tape::EqnPrimals final : public Primals {
 public:
  EqnPrimals(Tape& tape, std::span<const Array> operands, std::span<const Array> results)
      : tape_(tape), operands_(operands), results_(results) {}
  ValueId operand(std::size_t i) override { return tape_.residual(operands_[i]); }
  ValueId result(std::size_t i) override { return tape_.residual(results_[i]); }

 private:
  Tape& tape_;
  std::span<const Array> operands_;
  std::span<const Array> results_;
};

std::vector<Array> Tape::bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  std::vector<Array> primals;
  std::vector<Type> types;
  std::vector<MaybeValue> tangents;
  std::vector<bool> flags;
  for (const Array& operand : operands) {
    const ArrayImpl& impl = detail::impl_of(operand);
    const bool is_own = impl.tape() == this;
    primals.push_back(is_own ? impl.abstract->outside : operand);
    tangents.push_back(is_own ? MaybeValue(impl.abstract->value) : MaybeValue());
    flags.push_back(is_own);
    types.push_back(impl.type);
  }
  const LinearizedEqn cut = linearize_eqn(op, attrs, std::move(types), flags);
  std::vector<Array> results = shoal::bind(op, cut.attrs, primals);
  const std::size_t count = results.size() - cut.residuals.size();
  std::vector<Type> result_types;
  for (std::size_t i = 0; i < count; ++i) result_types.push_back(detail::impl_of(results[i]).type);
  EqnPrimals values(*this, primals, results);
  Builder build(graph_, Caller::line());
  const std::vector<MaybeValue> made = cut.tangents(tangents, result_types, values, build);
  results.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (made[i]) results[i] = Access::make(self(), results[i], *made[i], result_types[i]);
  }
  return results;
}

TangentMap Tape::finish(std::vector<Array>& results) {
  TangentMap map;
  for (Array& result : results) {
    const ArrayImpl& impl = detail::impl_of(result, "the result");
    const bool is_own = impl.tape() == this;
    map.has_tangent.push_back(is_own);
    if (!is_own) continue;
    graph_.outputs.push_back(Builder(graph_, Caller::line()).with_weakness(impl.abstract->value, impl.type.weak));
    result = Array(impl.abstract->outside);
  }
  graph_.inputs = residual_values_;
  graph_.inputs.insert(graph_.inputs.end(), arguments_.begin(), arguments_.end());
  map.residuals = std::move(residuals_);
  if (context() != nullptr) map.unchecked = context()->unchecked();
  // Over axes of vmap types say nothing.
  for (const auto& [axis, size] : outer_axes().axes()) {
    if (context() == nullptr || !context()->mesh().find_axis(axis)) map.unchecked = union_of(map.unchecked, {axis});
  }
  map.graph = std::make_shared<const Graph>(std::move(graph_));
  Layer::finish();
  return map;
}

Array without_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  return impl == nullptr || impl->tape() == nullptr ? array : without_tangents(impl->abstract->outside);
}

Array without_ended_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  const bool has_ended = impl != nullptr && impl->tape() != nullptr && impl->tape()->finished();
  return has_ended ? without_ended_tangents(impl->abstract->outside) : array;
}

}  // namespace shoal
