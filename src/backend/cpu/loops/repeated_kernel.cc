#include "backend/cpu/loops/repeated_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/loops/loop_shape.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/phase_builder.h"
#include "backend/cpu/loops/routine_of_loop.h"
#include "backend/cpu/loops/tiers.h"
#include "backend/cpu/loops/view.h"
#include "ir/bodies.h"
#include "ops/elementwise.h"

namespace shoal::cpu {
namespace {

// Larger bodies have enough to do in a trip, and larger shapes are shared among threads.
constexpr std::size_t kMostSteps = 64;
constexpr std::int64_t kMostRepeatedColumns = 1 << 14;
// What the interpreters take for an operation, for a column of it, and for a step of a routine, in nanoseconds: for
// when to come back.
constexpr double kOperationTime = 40;
constexpr double kColumnTime = 0.5;
constexpr double kStepTime = 8;
// As long as a step takes, fused loops work on so many elements.
constexpr double kElementsOfStep = 8;
constexpr double kTimeAtOnce = 1e6 * RepeatedKernel::kMillisecondsAtOnce;

// The trips are the rows of a loop: from one row to the next, carries do not move. In each,
//   1. scalars are computed, once;
//   2. arrays are, column by column;
//   3. carried scalars are stored, which nobody reads any more.
class Rows {
 public:
  Rows(const Graph& body, const Graph* condition, std::size_t carries)
      : body_(body), condition_(condition), carries_(carries) {}

  struct Plan {
    Loop loop;
    std::vector<std::size_t> operands;  // Of each array of the loop: an argument, or one of the yields after them.
    std::int64_t columns = 1;
  };

  // Nothing if the body does something else.
  std::optional<Plan> plan() {
    for (std::size_t i = 0; i < body_.inputs.size(); ++i) {
      if (!add_shape(body_.inputs[i])) return std::nullopt;
      argument_[body_.inputs[i]] = i;
    }
    if ((condition_ != nullptr && !ask()) || !add_equations(body_, {})) return std::nullopt;
    for (std::size_t k = 0; k < body_.outputs.size(); ++k) store(k);
    if (has_columns_) plan_.columns = num_elements(*shape_);
    if (plan_.columns > kMostRepeatedColumns || plan_.columns == 0 || plan_.operands.size() > kMostArrays)
      return std::nullopt;
    keep_in_registers();
    for (Phase phase : {first_.take(), columns_.take(), last_.take()}) {
      if (!phase.results.empty()) plan_.loop.phases.push_back(std::move(phase));
    }
    if (plan_.loop.phases.empty()) return std::nullopt;
    return std::move(plan_);
  }

 private:
  // What a value is: nodes are made where they are asked for.
  struct Known {
    bool is_scalar = true;
    std::optional<Scalar> constant = {};
    int node = -1;  // In its phase: the first of scalars, that over columns of arrays.
  };

  // Arrays of one element are computed as scalars are.
  static bool is_scalar(const Type& type) { return num_elements(type.shape) == 1; }

  // All arrays are of one shape.
  bool add_shape(ValueId id) {
    const Shape& shape = body_.type(id).shape;
    if (is_scalar(body_.type(id)) || !is_used(id)) return true;
    if (!shape_) shape_ = shape;
    return *shape_ == shape;
  }

  bool is_used(ValueId id) const {
    return std::ranges::any_of(body_.eqns, [&](const Eqn& eqn) { return std::ranges::count(eqn.inputs, id) != 0; }) ||
           std::ranges::count(body_.outputs, id) != 0;
  }

  // The condition is a scalar of the first phase.
  bool ask() {
    const std::vector<int> uses = count_uses(*condition_);
    std::unordered_map<ValueId, Known> given;
    for (std::size_t i = 0; i < condition_->inputs.size(); ++i) {
      const ValueId id = condition_->inputs[i];
      if (uses[slot(id)] == 0) continue;
      if (!is_scalar(body_.type(body_.inputs[i]))) return false;
      given[id] = known_of(body_, body_.inputs[i], known_);
    }
    if (!add_equations(*condition_, given)) return false;
    plan_.loop.goes_on = loop_scalar(operand(results_[0], bool_, true), bool_);
    return true;
  }

  // The equations of the body, and those of the fusions in it, whose values are those of the body by `outer`.
  bool add_equations(const Graph& graph, const std::unordered_map<ValueId, Known>& given) {
    std::unordered_map<ValueId, Known> known = given;
    if (&graph == &body_) known = std::move(known_);
    for (const Eqn& eqn : graph.eqns) {
      if (!add_equation(graph, eqn, known)) return false;
    }
    if (&graph == &body_) {
      known_ = std::move(known);
    } else {
      results_.clear();
      for (ValueId id : graph.outputs) results_.push_back(known_of(graph, id, known));
    }
    return true;
  }

  Known known_of(const Graph& graph, ValueId id, std::unordered_map<ValueId, Known>& known) {
    const auto found = known.find(id);
    if (found != known.end()) return found->second;
    // An argument of the body.
    const Type& type = graph.type(id);
    Known argument{.is_scalar = is_scalar(type)};
    PhaseBuilder& phase = argument.is_scalar ? first_ : columns_;
    const Access access = argument.is_scalar ? Access::kUniform : Access::kDense;
    argument.node =
        phase.input({LoopInput::Kind::kArray, array(argument_.at(id), type.dtype, access, false)}, type.dtype);
    return known[id] = argument;
  }

  bool add_equation(const Graph& graph, const Eqn& eqn, std::unordered_map<ValueId, Known>& known) {
    if (++steps_ > kMostSteps || eqn.op->op_class != OpClass::kCompute) return false;
    if (const auto bodies = bodies_of(eqn); !bodies.empty()) {
      if (bodies.size() != 1) return false;
      const Graph& inside = *bodies.front();
      std::unordered_map<ValueId, Known> given;
      for (std::size_t i = 0; i < inside.inputs.size(); ++i) {
        given[inside.inputs[i]] = known_of(graph, eqn.inputs[i], known);
      }
      if (!add_equations(inside, given)) return false;
      for (std::size_t k = 0; k < eqn.outputs.size(); ++k) known[eqn.outputs[k]] = results_[k];
      return true;
    }
    if (eqn.outputs.size() != 1) return false;
    const ValueId out = eqn.outputs[0];
    const Type& type = graph.type(out);
    Known made{.is_scalar = is_scalar(type)};
    if (!made.is_scalar) {
      if (!shape_) shape_ = type.shape;
      if (*shape_ != type.shape) return false;
    }
    if (is_constant(eqn)) {
      made.constant = eqn.attrs.get<Scalar>("value");
      known[out] = made;
      return true;
    }
    if (is_repeated_scalar(graph, eqn)) {
      const bool is_array = !made.is_scalar;
      made = known_of(graph, eqn.inputs[0], known);
      made.is_scalar = !is_array;
      if (is_array && !made.constant) made.node = scalar_in_columns(made.node, type.dtype);
      known[out] = made;
      return true;
    }
    PhaseBuilder& phase = made.is_scalar ? first_ : columns_;
    if (is_view(graph, eqn) && graph.type(eqn.inputs[0]).dtype != type.dtype) {  // The same bits, element by element.
      const Known read = known_of(graph, eqn.inputs[0], known);
      made.node = phase.apply(scalar::Core::kBitcast, type.dtype,
                              operand(read, graph.type(eqn.inputs[0]).dtype, made.is_scalar));
      known[out] = made;
      return true;
    }
    if (eqn.op->elementwise == nullptr) return false;
    std::vector<Dtype> dtypes;
    std::vector<int> operands;
    for (ValueId id : eqn.inputs) {
      dtypes.push_back(graph.type(id).dtype);
      operands.push_back(operand(known_of(graph, id, known), dtypes.back(), made.is_scalar));
    }
    made.node = phase.apply(body_of(*eqn.op, dtypes, type.dtype), operands);
    known[out] = made;
    return true;
  }

  // A broadcast of a scalar: the same element everywhere.
  static bool is_repeated_scalar(const Graph& graph, const Eqn& eqn) {
    return eqn.inputs.size() == 1 && is_scalar(graph.type(eqn.inputs[0])) && moves_elements(*eqn.op) &&
           eqn.op->elementwise == nullptr && graph.type(eqn.inputs[0]).dtype == graph.type(eqn.outputs[0]).dtype;
  }

  // The node of a value in the first phase, or in the one over columns.
  int operand(const Known& value, Dtype dtype, bool in_first) {
    if (value.constant) return constant(in_first ? first_ : columns_, *value.constant);
    if (in_first || !value.is_scalar) return value.node;
    return scalar_in_columns(value.node, dtype);
  }

  static int constant(PhaseBuilder& phase, const Scalar& value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, value.bytes.data(), size_of(value.dtype));
    return phase.add({.core = scalar::Core::kConstant, .dtype = value.dtype, .operands = {-1, -1, -1}, .bits = bits});
  }

  // A scalar of the loop that has the value of a node of the first phase.
  int loop_scalar(int node, Dtype dtype) {
    const auto [found, is_new] = scalar_of_.try_emplace(node, static_cast<int>(plan_.loop.scalars.size()));
    if (is_new) {
      plan_.loop.scalars.push_back(dtype);
      first_.result({.kind = LoopResult::Kind::kScalar, .index = found->second, .node = node});
    }
    return found->second;
  }
  int scalar_in_columns(int node, Dtype dtype) {
    return columns_.input({LoopInput::Kind::kScalar, loop_scalar(node, dtype)}, dtype);
  }

  int array(std::size_t operand, Dtype dtype, Access access, bool written) {
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const LoopArray& other = plan_.loop.arrays[i];
      if (plan_.operands[i] == operand && other.written == written) return static_cast<int>(i);
    }
    plan_.operands.push_back(operand);
    plan_.loop.arrays.push_back({.dtype = dtype, .access = access, .written = written});
    return static_cast<int>(plan_.operands.size()) - 1;
  }

  // Carried scalars are read in the first phase and written in the last.
  void keep_in_registers() {
    for (std::size_t read = 0; read < plan_.operands.size(); ++read) {
      LoopArray& array = plan_.loop.arrays[read];
      if (array.written || array.access != Access::kUniform || plan_.operands[read] >= carries_) continue;
      for (std::size_t other = 0; other < plan_.operands.size(); ++other) {
        const bool is_next = plan_.operands[other] == plan_.operands[read] && plan_.loop.arrays[other].written;
        if (is_next) array.carried_by = static_cast<int>(other);
      }
    }
  }

  void store(std::size_t k) {
    const ValueId id = body_.outputs[k];
    if (k < carries_ && id == body_.inputs[k]) return;  // It stays.
    const Dtype dtype = body_.type(id).dtype;
    const Known value = known_of(body_, id, known_);
    const std::size_t operand_number = k < carries_ ? k : body_.inputs.size() + k - carries_;
    const bool is_scalar_result = is_scalar(body_.type(id));
    const int target = array(operand_number, dtype, is_scalar_result ? Access::kUniform : Access::kDense, true);
    has_columns_ = has_columns_ || !is_scalar_result;
    if (!is_scalar_result) {
      columns_.result({.kind = LoopResult::Kind::kArray, .index = target, .node = operand(value, dtype, false)});
      return;
    }
    const int node = operand(value, dtype, true);
    last_.result({.kind = LoopResult::Kind::kArray,
                  .index = target,
                  .node = last_.input({LoopInput::Kind::kScalar, loop_scalar(node, dtype)}, dtype)});
  }

  const Graph& body_;
  const Graph* condition_;
  std::size_t carries_;
  std::size_t steps_ = 0;
  std::optional<Shape> shape_ = {};
  bool has_columns_ = false;
  std::unordered_map<ValueId, std::size_t> argument_ = {};  // The number of each argument.
  std::unordered_map<ValueId, Known> known_ = {};
  std::vector<Known> results_ = {};              // Of the fusion that was added last.
  std::unordered_map<int, int> scalar_of_ = {};  // By node of the first phase.
  PhaseBuilder first_ = PhaseBuilder(true);
  PhaseBuilder columns_ = PhaseBuilder(false);
  PhaseBuilder last_ = PhaseBuilder(true);
  Plan plan_;
};

class RepeatedLoop final : public RepeatedKernel {
 public:
  RepeatedLoop(Rows::Plan plan, std::int64_t trips)
      : plan_(std::move(plan)), tiers_(plan_.loop, static_cast<double>(trips) * static_cast<double>(plan_.columns)) {
    double time = 0;
    for (const Phase& phase : plan_.loop.phases) {
      const double columns = phase.once ? 1 : static_cast<double>(plan_.columns);
      time += static_cast<double>(phase.nodes.size()) * (kOperationTime + kColumnTime * columns);
    }
    at_once_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(kTimeAtOnce / std::max(1.0, time)));
  }

  std::int64_t trips_at_once() const override { return at_once_; }

  std::int64_t run(std::span<const Operand> operands, std::int64_t trips, FunctionRef<bool()>) const override {
    std::array<std::byte*, kMostArrays> bases;
    std::array<std::int64_t, kMostArrays> steps;
    std::array<std::int64_t, kMostArrays> columns;
    for (std::size_t a = 0; a < plan_.operands.size(); ++a) {
      bases[a] = operands[plan_.operands[a]].data;
      steps[a] = operands[plan_.operands[a]].step;
      columns[a] = static_cast<std::int64_t>(size_of(plan_.loop.arrays[a].dtype));
    }
    tiers_.runner(trips * plan_.columns)
        .run({.bases = bases.data(),
              .row_strides = steps.data(),
              .column_strides = columns.data(),
              .rows = trips,
              .columns = plan_.columns,
              .scratch = nullptr,
              .rows_done = &trips});
    return trips;
  }

 private:
  Rows::Plan plan_;
  Tiers tiers_;
  std::int64_t at_once_ = 1;
};

class RepeatedRoutine final : public RepeatedKernel {
 public:
  RepeatedRoutine(RoutinePlan plan, std::int64_t trips)
      : operands_(std::move(plan.operands)),
        tiers_(std::move(plan.routine), elements_of(plan, trips)),
        may_take_any_time_(plan.goes_on_freely),
        steps_(std::max(1.0, plan.steps)),
        at_once_(std::max<std::int64_t>(1, static_cast<std::int64_t>(kTimeAtOnce / (kStepTime * steps_)))) {}

  std::int64_t trips_at_once() const override { return at_once_; }
  bool may_take_any_time() const override { return may_take_any_time_; }

  std::int64_t run(std::span<const Operand> operands, std::int64_t trips,
                   FunctionRef<bool()> is_to_end) const override {
    std::array<std::byte*, kMostArrays> bases;
    std::array<std::int64_t, kMostArrays> steps;
    for (std::size_t a = 0; a < operands_.size(); ++a) {
      bases[a] = operands[operands_[a]].data;
      steps[a] = operands[operands_[a]].step;
    }
    std::int64_t done = trips;
    tiers_.runner(static_cast<std::int64_t>(static_cast<double>(trips) * steps_ * kElementsOfStep))
        .run({.bases = bases.data(),
              .row_strides = steps.data(),
              .column_strides = nullptr,
              .rows = trips,
              .columns = 1,
              .scratch = nullptr,
              .rows_done = &done,
              .is_to_end = &is_to_end});
    return done;
  }

 private:
  // Until a trip has ended there is no other code to go on with: what may take long is compiled before.
  static double elements_of(const RoutinePlan& plan, std::int64_t trips) {
    if (plan.goes_on_freely) return static_cast<double>(kLargeElements);
    return static_cast<double>(trips) * plan.steps * kElementsOfStep;
  }

  std::vector<std::size_t> operands_;
  Tiers tiers_;
  bool may_take_any_time_;
  double steps_;
  std::int64_t at_once_;
};

}  // namespace

std::unique_ptr<RepeatedKernel> repeated_kernel(const Graph& body, const Graph* condition, std::size_t carries,
                                                std::int64_t trips) {
  if (std::optional<Rows::Plan> plan = Rows(body, condition, carries).plan()) {
    return std::make_unique<RepeatedLoop>(std::move(*plan), trips);
  }
  if (std::optional<RoutinePlan> plan = routine_of_loop(body, condition, carries)) {
    return std::make_unique<RepeatedRoutine>(std::move(*plan), trips);
  }
  return nullptr;
}

}  // namespace shoal::cpu
