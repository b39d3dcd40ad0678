#include "frontend/array/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/caller.h"
#include "base/check.h"
#include "base/misuse.h"
#include "core/dispatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "transform/linearity.h"
#include "transform/linearize.h"

namespace shoal {
namespace {

using detail::Access;
using detail::ArrayImpl;

// Whether an op is one of bodies that may compute more than what is linear.
bool runs_graphs(const OpDef& op, const Attrs& attrs) {
  return attrs.contains("bodies") ||
         (attrs.contains("body") && !attrs.contains("transposed") && op.reference == nullptr);
}

thread_local bool binds_forward = false;

}  // namespace

// While a tape that goes forward makes its part of an equation.
class Tape::BindingForward {
 public:
  explicit BindingForward(bool is_forward) : before_(std::exchange(binds_forward, binds_forward || is_forward)) {}
  ~BindingForward() { binds_forward = before_; }
  BindingForward(const BindingForward&) = delete;
  BindingForward& operator=(const BindingForward&) = delete;

 private:
  bool before_;
};

Tape::Tape(std::string name, Direction direction)
    : Layer(std::move(name)), is_forward_(direction == Direction::kForward || binds_forward) {
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

Array Tape::tangent_alone(const Type& type) {
  const ValueId value = graph_.add_value(type);
  arguments_.push_back(value);
  return Access::make(self(), Array(), value, type);
}

Array Tape::tangent_of(const Array& array) {
  const ArrayImpl& impl = detail::impl_of(array);
  return impl.tape() == this ? Access::make(self(), Array(), impl.abstract->value, impl.type) : Array();
}

ValueId Tape::value_of_tangent(const Array& tangent) {
  const ArrayImpl& impl = detail::impl_of(tangent);
  return impl.tape() == this ? impl.abstract->value : residual(tangent);
}

Array Tape::with_tangent(const Array& array, const Array& tangent) {
  if (Access::is_empty(tangent)) return array;
  return Access::make(self(), array, value_of_tangent(tangent), detail::impl_of(array).type);
}

bool Tape::is_at_once() const { return context() == nullptr && Trace::current() == nullptr; }

std::vector<Array> Tape::cut(std::span<const Array> tangents, std::span<const Type> types, PullBack pull_back) {
  MapCut made{.position = graph_.eqns.size(), .operands = {}, .results = {}, .pull_back = std::move(pull_back)};
  for (const Array& tangent : tangents) made.operands.push_back(value_of_tangent(tangent));
  std::vector<Array> results;
  for (const Type& type : types) {
    made.results.push_back(graph_.add_value(type));
    results.push_back(Access::make(self(), Array(), made.results.back(), type));
  }
  cuts_.push_back(std::move(made));
  return results;
}

bool Tape::is_own_tangent(const ArrayImpl& impl) const { return impl.tape() == this && impl.is_tangent_alone(); }

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
  EqnPrimals(Tape& tape, const OpDef& op, std::span<const Array> operands, std::span<const Array> results)
      : tape_(tape), op_(op), operands_(operands), results_(results) {}
  ValueId operand(std::size_t i) override {
    if (!tape_.is_own_tangent(detail::impl_of(operands_[i]))) return tape_.residual(operands_[i]);
    refuse();
  }
  ValueId result(std::size_t i) override {
    if (i < results_.size()) return tape_.residual(results_[i]);
    refuse();
  }
  [[noreturn]] void refuse() const { throw not_linear(op_.name); }

 private:
  Tape& tape_;
  const OpDef& op_;
  std::span<const Array> operands_;
  std::span<const Array> results_;
};

namespace {

// Whether all elements are known to be zeros.
bool is_zero(const Array& array) {
  const ArrayImpl& impl = detail::impl_of(array);
  if (impl.layer() != nullptr) return !Access::is_empty(impl.abstract->outside) && is_zero(impl.abstract->outside);
  if (impl.trace() != nullptr) return is_zero(impl.trace()->graph(), impl.abstract->value);
  if (impl.is_type_only()) return false;
  const Buffer whole = to_host(detail::concrete(array));
  bool all = true;
  with_element_type(impl.type.dtype, [&](auto tag) {
    using T = decltype(tag);
    const std::span elements(reinterpret_cast<const T*>(whole.data()), whole.size_bytes() / sizeof(T));
    all = std::ranges::all_of(elements, [](const T& x) { return x == T{}; });
  });
  return all;
}

}  // namespace

std::vector<Array> Tape::bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  std::vector<Array> primals;
  std::vector<Type> types;
  std::vector<MaybeValue> tangents;
  std::vector<bool> flags;
  std::vector<bool> are_alone;
  for (const Array& operand : operands) {
    const ArrayImpl& impl = detail::impl_of(operand);
    const bool is_own = impl.tape() == this;
    const bool is_tangent = is_own_tangent(impl);
    are_alone.push_back(is_tangent);
    primals.push_back(is_own && !is_tangent ? impl.abstract->outside : operand);
    tangents.push_back(is_own ? MaybeValue(impl.abstract->value) : MaybeValue());
    flags.push_back(is_own);
    types.push_back(impl.type);
  }
  const bool is_alone = std::ranges::find(are_alone, true) != are_alone.end();
  for (std::size_t i = 0; is_alone && is_forward_ && i < operands.size() && adds_elements(op); ++i) {
    if (!are_alone[i] && !is_zero(operands[i])) throw not_linear_but_affine(op.name);
  }
  const BindingForward binding(is_forward_);
  const LinearizedEqn cut = linearize_eqn(op, attrs, types, flags);
  std::vector<Array> results;
  std::vector<Type> result_types;
  if (is_alone) {
    result_types = op.infer({.op = op, .inputs = types, .attrs = attrs, .axes = graph_.axes, .where = Caller::line()});
  }
  if (!is_alone || runs_graphs(op, attrs)) {
    // What is not linear is not run: it might never end.
    if (is_alone) check_linear(op, attrs, types, result_types, graph_.axes, are_alone, is_forward_);
    result_types.clear();
    for (std::size_t i = 0; i < primals.size(); ++i) {
      // As all is linear in a tangent alone, at which value it is differentiated does not matter.
      if (is_own_tangent(detail::impl_of(primals[i]))) primals[i] = zeros_of(types[i]);
    }
    results = shoal::bind(op, cut.attrs, primals);
    const std::size_t count = results.size() - cut.residuals.size();
    for (std::size_t i = 0; i < count; ++i) result_types.push_back(detail::impl_of(results[i]).type);
  }
  EqnPrimals values(*this, op, primals, results);
  Builder build(graph_, derivative_of(Caller::line()));
  const std::vector<MaybeValue> made = cut.tangents(tangents, result_types, values, build);
  for (std::size_t i = results.size(); i < made.size(); ++i) {
    // Of tangents alone nothing is computed: what has no tangent is zero, if it can be that.
    if (!made[i] && !has_tangents(result_types[i].dtype)) values.refuse();
    results.push_back(made[i] ? Array() : zeros_of(result_types[i]));
  }
  results.resize(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i]) results[i] = Access::make(self(), is_alone ? Array() : results[i], *made[i], result_types[i]);
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
  return add_the_rest(std::move(map));
}

TangentMap Tape::finish_tangents(std::span<const Array> tangents) {
  TangentMap map;
  for (const Array& tangent : tangents) {
    map.has_tangent.push_back(!Access::is_empty(tangent));
    if (map.has_tangent.back()) graph_.outputs.push_back(value_of_tangent(tangent));
  }
  return add_the_rest(std::move(map));
}

TangentMap Tape::add_the_rest(TangentMap map) {
  graph_.inputs = residual_values_;
  graph_.inputs.insert(graph_.inputs.end(), arguments_.begin(), arguments_.end());
  map.residuals = std::move(residuals_);
  map.cuts = std::move(cuts_);
  if (context() != nullptr) map.unchecked = context()->unchecked();
  // Over axes of vmap types say nothing.
  for (const auto& [axis, size] : outer_axes().axes()) {
    if (context() == nullptr || !context()->mesh().find_axis(axis)) map.unchecked = union_of(map.unchecked, {axis});
  }
  map.graph = std::make_shared<const Graph>(std::move(graph_));
  Layer::finish();
  return map;
}

Array zeros_of(const Type& type) {
  const Scalar zero = Scalar::of(0).converted_to(type.dtype);
  return summed_as(bind_one("full", {{"shape", type.shape}, {"value", zero}, {"weak", type.weak}}, {}), type);
}

Array without_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  return impl == nullptr || impl->tape() == nullptr || impl->is_tangent_alone()
             ? array
             : without_tangents(impl->abstract->outside);
}

Array without_ended_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  const bool has_ended = impl != nullptr && impl->tape() != nullptr && impl->tape()->finished();
  return has_ended && !impl->is_tangent_alone() ? without_ended_tangents(impl->abstract->outside) : array;
}

}  // namespace shoal
