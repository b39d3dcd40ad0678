#include "frontend/array/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

thread_local const Tape* running = nullptr;

}  // namespace

Tape::Running::Running(const Tape& tape) : outer_(std::exchange(running, &tape)) {}
Tape::Running::~Running() { running = outer_; }

bool Tape::is_running() { return running != nullptr && running->context_ == Trace::current(); }

Tape::Tape(std::string name) : name_(std::move(name)), context_(Trace::current()), number_(next_number()) {
  graph_.name = name_;
  if (context_ != nullptr) graph_.axes = context_->graph().axes;
}

Array Tape::with_tangent(const Array& array) {
  const Type& type = detail::impl_of(array).type;
  const ValueId value = graph_.add_value(type);
  arguments_.push_back(value);
  return Access::make(shared_from_this(), array, value, type);
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
    primals.push_back(is_own ? impl.abstract->primal : operand);
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
    if (made[i]) results[i] = Access::make(shared_from_this(), results[i], *made[i], result_types[i]);
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
    result = Array(impl.abstract->primal);
  }
  graph_.inputs = residual_values_;
  graph_.inputs.insert(graph_.inputs.end(), arguments_.begin(), arguments_.end());
  map.residuals = std::move(residuals_);
  if (context_ != nullptr) map.unchecked = context_->unchecked();
  map.graph = std::make_shared<const Graph>(std::move(graph_));
  finished_ = true;
  return map;
}

std::shared_ptr<Tape> Tape::of(std::span<const Array> operands) {
  std::shared_ptr<Tape> innermost;
  for (const Array& operand : operands) {
    const ArrayImpl* impl = Access::get(operand);
    if (impl == nullptr || impl->tape() == nullptr) continue;
    const std::shared_ptr<Tape>& tape = impl->abstract->tape;
    if (tape->finished_ || tape->thread_ != std::this_thread::get_id()) detail::refuse_tracer(*impl);
    // To a trace that began after the tape the array is a capture.
    if (tape->context_ != Trace::current()) continue;
    if (innermost == nullptr || innermost->number_ < tape->number_) innermost = tape;
  }
  return innermost;
}

bool has_tangents(std::span<const Array> arrays) {
  return std::ranges::any_of(arrays, [](const Array& array) {
    const ArrayImpl* impl = Access::get(array);
    return impl != nullptr && impl->tape() != nullptr;
  });
}

Array without_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  return impl == nullptr || impl->tape() == nullptr ? array : without_tangents(impl->abstract->primal);
}

Array without_ended_tangents(const Array& array) {
  const ArrayImpl* impl = Access::get(array);
  const bool has_ended = impl != nullptr && impl->tape() != nullptr && impl->tape()->finished();
  return has_ended ? without_ended_tangents(impl->abstract->primal) : array;
}

}  // namespace shoal
