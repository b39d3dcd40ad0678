#include "backend/cpu/loops/lower.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "backend/cpu/loops/phase_builder.h"
#include "base/check.h"
#include "core/dispatch.h"
#include "ops/elementwise.h"

namespace shoal::cpu {
namespace {

using scalar::Core;

constexpr std::size_t kNoOperand = static_cast<std::size_t>(-1);

// What a reduction is computed in. Sums of small floats are taken in f64; bool is added by or.
Dtype reduction_dtype(ReduceKind kind, Dtype dtype) {
  const bool adds = kind == ReduceKind::kSum || kind == ReduceKind::kProd;
  if (dtype == Dtype::kF16 || dtype == Dtype::kBF16) return adds ? Dtype::kF64 : Dtype::kF32;
  return dtype == Dtype::kF32 && adds ? Dtype::kF64 : dtype;
}
ReduceKind reduction_kind(ReduceKind kind, Dtype dtype) {
  if (dtype != Dtype::kBool) return kind;
  return kind == ReduceKind::kSum || kind == ReduceKind::kMax || kind == ReduceKind::kOr ? ReduceKind::kOr
                                                                                         : ReduceKind::kAnd;
}
class Lowering {
 public:
  Lowering(const Graph& body, LoopShape shape, std::vector<const Eqn*> producers)
      : body_(body), shape_(std::move(shape)), producers_(std::move(producers)) {
    plan_.domain = shape_.domain;
    const std::size_t rank = shape_.domain.size();
    plan_.first_column = shape_.columns < 0 ? rank : rank - static_cast<std::size_t>(shape_.columns);
    for (std::size_t d = 0; d < rank; ++d) {
      plan_.is_total.push_back(std::ranges::count(shape_.total_axes, static_cast<std::int64_t>(d)) != 0);
    }
  }

  std::optional<LoopPlan> run() {
    for (const Eqn& eqn : body_.eqns) {
      if (is_loop_op(body_, eqn)) set_level(eqn);
    }
    find_needed();
    for (int level = 0; level <= last_level_; ++level) {
      emit_rows(level);
      emit_columns(level);
    }
    emit_rows(last_level_ + 1);
    if (plan_.totals.empty()) plan_.is_total.assign(shape_.domain.size(), false);
    find_extents();
    if (!walk()) return std::nullopt;
    set_accesses();
    return std::move(plan_);
  }

 private:
  // A value of the body as the loop sees it: through views, back to what is computed or read.
  struct Use {
    View view;
    const Eqn* maker = nullptr;  // Of a computed value, a constant or positions.
    bool is_constant = false;
    bool is_known = false;

    bool is_computed() const { return maker != nullptr && !is_known; }
  };
  Use use_of(ValueId id) const {
    Use use{.view = seen_through(body_, producers_, id)};
    use.maker = producers_[static_cast<std::size_t>(use.view.source)];
    use.is_constant = use.maker != nullptr && is_constant(*use.maker);
    use.is_known = use.maker != nullptr && is_known(*use.maker);
    return use;
  }
  Role role_of(ValueId made) const { return shape_.roles.at(made); }

  // Levels: full values of level n are computed in the n-th pass over the columns; row values of level n before it.
  void set_level(const Eqn& eqn) {
    int level = 0;
    for (ValueId id : eqn.inputs) {
      const Use use = use_of(id);
      if (use.is_computed()) level = std::max(level, level_.at(use.view.source));
    }
    const ValueId made = eqn.outputs[0];
    const bool reduces = eqn.op->reduces.has_value();
    level_[made] = reduces && role_of(made) == Role::kRow ? level + 1 : level;
    last_level_ = std::max(last_level_, level);
  }

  // What later phases need of each one.
  void find_needed() {
    for (const Eqn& eqn : body_.eqns) {
      if (!is_loop_op(body_, eqn)) continue;
      const ValueId made = eqn.outputs[0];
      const bool in_rows = role_of(made) == Role::kRow && !eqn.op->reduces;
      const int level = level_.at(made) - (eqn.op->reduces && role_of(made) == Role::kRow ? 1 : 0);
      for (ValueId id : eqn.inputs) {
        const Use use = use_of(id);
        if (!use.is_computed()) continue;
        const ValueId source = use.view.source;
        if (role_of(source) == Role::kRow) {
          if (!in_rows || level_.at(source) < level) kept_.insert(source);
        } else if (level_.at(source) < level && !is_cheap(*use.maker)) {
          kept_.insert(source);
        }
      }
    }
  }

  // Whether computing a full value again costs no more than keeping it.
  bool is_cheap(const Eqn& eqn) const {
    if (eqn.op->elementwise == nullptr || body_of_eqn(eqn).nodes.size() > 6) return false;
    return std::ranges::all_of(eqn.inputs, [&](ValueId id) {
      const Use use = use_of(id);
      return !use.is_computed() || role_of(use.view.source) == Role::kRow;
    });
  }

  const scalar::Body& body_of_eqn(const Eqn& eqn) const {
    std::vector<Dtype> dtypes;
    for (ValueId id : eqn.inputs) dtypes.push_back(body_.type(id).dtype);
    return body_of(*eqn.op, dtypes, body_.type(eqn.outputs[0]).dtype);
  }

  int array_of(LoopOperand operand, Dtype dtype, bool written) {
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const LoopArray& array = plan_.loop.arrays[i];
      if (plan_.operands[i] == operand && array.written == written && array.dtype == dtype) return static_cast<int>(i);
    }
    plan_.operands.push_back(std::move(operand));
    plan_.loop.arrays.push_back({.dtype = dtype, .access = Access::kDense, .written = written});
    return static_cast<int>(plan_.operands.size()) - 1;
  }

  int emit_input(PhaseBuilder& phase, ValueId id, const Use& use, Role role) {
    const auto number =
        static_cast<std::size_t>(std::ranges::find(body_.inputs, use.view.source) - body_.inputs.begin());
    const Dtype dtype = body_.type(id).dtype;
    std::optional<std::vector<int>> dims = read_dims(shape_, use.view, body_.type(id).shape, role);
    SHOAL_CHECK(dims.has_value() && number < body_.inputs.size(), "a loop reads what its shape allows");
    const int array = array_of({.kind = LoopOperand::Kind::kInput,
                                .number = number,
                                .dims = std::move(*dims),
                                .starts = use.view.starts,
                                .steps = use.view.steps},
                               dtype, false);
    return phase.input({LoopInput::Kind::kArray, array}, dtype);
  }

  // ---- Counts: integers that positions, constants, sums and products with constants make are one number that is
  // stepped along.

  struct Count {
    std::int64_t start = 0;
    Dims steps;  // Along each dimension of the domain.
    bool is_constant() const {
      return std::ranges::all_of(steps, [](std::int64_t step) { return step == 0; });
    }
  };
  static constexpr std::int64_t kMostCounted = std::int64_t{1} << 40;  // Of starts and steps: nothing overflows.

  // In phases over columns, or, if `rows`, in those that run once. Nothing for other values.
  std::optional<Count> count_of(ValueId id, bool rows) const {
    const Use use = use_of(id);
    if (use.maker == nullptr) return std::nullopt;
    Count count{.steps = Dims(shape_.domain.size(), 0)};
    if (use.is_constant) {
      const Scalar& value = use.maker->attrs.get<Scalar>("value");
      if (!is_integer(value.dtype)) return std::nullopt;
      with_element_type(value.dtype, [&]<class T>(T) {
        if constexpr (std::is_integral_v<T>) count.start = static_cast<std::int64_t>(value.as<T>());
      });
      return checked(std::move(count));
    }
    if (use.is_known) {
      const auto dim = use.maker->attrs.get<std::int64_t>("dim");
      const std::optional<std::vector<int>> dims =
          read_dims(shape_, use.view, body_.type(id).shape, rows ? Role::kRow : Role::kFull);
      SHOAL_CHECK(dims.has_value(), "a loop reads what its shape allows");
      count.start = use.view.starts[static_cast<std::size_t>(dim)];
      for (std::size_t d = 0; d < count.steps.size(); ++d) {
        if ((*dims)[d] == dim && shape_.domain[d] != 1) count.steps[d] = use.view.steps[static_cast<std::size_t>(dim)];
      }
      return count;
    }
    if (role_of(use.view.source) != (rows ? Role::kRow : Role::kFull) || use.maker->op->reduces) return std::nullopt;
    const Dtype dtype = body_.type(use.view.source).dtype;
    const scalar::Body& made = body_of_eqn(*use.maker);
    if (!is_integer(dtype) || made.nodes.size() != 3 || use.maker->inputs.size() != 2) return std::nullopt;
    if (body_.type(use.maker->inputs[0]).dtype != dtype) return std::nullopt;
    const Core core = made.nodes.back().core;
    if (core != Core::kAdd && core != Core::kMul) return std::nullopt;
    const auto count_in = [&](ValueId operand) {
      // Integers of one size are the same modulo what they wrap at; the bits of floats are not what they count.
      return is_integer(body_.type(use_of(operand).view.source).dtype) ? count_of(operand, rows) : std::nullopt;
    };
    const std::optional<Count> a = count_in(use.maker->inputs[0]);
    const std::optional<Count> b = a ? count_in(use.maker->inputs[1]) : std::nullopt;
    if (!b) return std::nullopt;
    return core == Core::kAdd ? sum_of(*a, *b)
           : a->is_constant() ? multiple_of(*b, a->start)
           : b->is_constant() ? multiple_of(*a, b->start)
                              : std::nullopt;
  }
  static std::optional<Count> checked(Count count) {
    const auto fits = [](std::int64_t number) { return -kMostCounted <= number && number <= kMostCounted; };
    if (!fits(count.start) || !std::ranges::all_of(count.steps, fits)) return std::nullopt;
    return count;
  }
  static std::optional<Count> sum_of(Count a, const Count& b) {
    a.start += b.start;
    for (std::size_t d = 0; d < a.steps.size(); ++d) a.steps[d] += b.steps[d];
    return checked(std::move(a));
  }
  static std::optional<Count> multiple_of(Count a, std::int64_t factor) {
    constexpr std::int64_t kMostFactor = std::int64_t{1} << 20;
    if (factor < -kMostFactor || factor > kMostFactor) return std::nullopt;
    a.start *= factor;
    for (std::int64_t& step : a.steps) step *= factor;
    return checked(std::move(a));
  }

  int emit_count(PhaseBuilder& phase, Count count, Dtype dtype) {
    const Dtype counted = is_integer(dtype) ? dtype : Dtype::kI64;
    const int array = array_of({.kind = LoopOperand::Kind::kCount,
                                .dims = std::vector<int>(shape_.domain.size(), -1),
                                .starts = {count.start},
                                .steps = std::move(count.steps)},
                               counted, false);
    plan_.loop.arrays[static_cast<std::size_t>(array)].counts = true;
    return converted(phase, phase.input({LoopInput::Kind::kArray, array}, counted), dtype);
  }

  // The node of a value in a phase over columns of the given level, or, if `rows`, in one that runs once before it.
  int emit(PhaseBuilder& phase, ValueId id, int level, bool rows) {
    const Use use = use_of(id);
    const Dtype dtype = body_.type(id).dtype;
    if (use.is_constant) {
      const Scalar& value = use.maker->attrs.get<Scalar>("value");
      std::uint64_t bits = 0;
      std::memcpy(&bits, value.bytes.data(), size_of(value.dtype));
      return phase.add({.core = Core::kConstant, .dtype = dtype, .operands = {-1, -1, -1}, .bits = bits});
    }
    if (use.maker == nullptr) return emit_input(phase, id, use, rows ? Role::kRow : Role::kFull);
    const int node = emit_made(phase, id, use, level, rows);
    return phase.dtype_of(node) == dtype ? node : phase.apply(Core::kBitcast, dtype, node);
  }

  // The same of what is made in the loop, in the dtype in which it is made.
  int emit_made(PhaseBuilder& phase, ValueId id, const Use& use, int level, bool rows) {
    const ValueId source = use.view.source;
    if (std::optional<Count> count = count_of(id, rows))
      return emit_count(phase, *std::move(count), body_.type(source).dtype);
    const auto kept_as = [&](LoopInput::Kind kind, const std::unordered_map<ValueId, int>& where) {
      return phase.input({kind, where.at(source)}, body_.type(source).dtype);
    };
    if (role_of(source) == Role::kRow) {
      if (!rows || level_.at(source) < level) return kept_as(LoopInput::Kind::kScalar, scalar_of_);
      if (const auto kind = use.maker->op->reduces) {
        const int scalar = reduced_.at(source);
        const int node =
            phase.input({LoopInput::Kind::kScalar, scalar}, plan_.loop.scalars[static_cast<std::size_t>(scalar)]);
        return converted(phase, node, body_.type(source).dtype);
      }
    } else if (level_.at(source) < level && kept_.contains(source)) {
      return kept_as(LoopInput::Kind::kTemporary, temporary_of_);
    }
    std::vector<int> operands;
    for (ValueId input : use.maker->inputs) operands.push_back(emit(phase, input, level, rows));
    return phase.apply(body_of_eqn(*use.maker), operands);
  }

  static int converted(PhaseBuilder& phase, int node, Dtype dtype) {
    return phase.dtype_of(node) == dtype ? node : phase.apply(Core::kConvert, dtype, node);
  }

  bool is_output(ValueId id) const { return std::ranges::count(body_.outputs, id) != 0; }

  // Stores a value to every output that it is.
  void store(PhaseBuilder& phase, ValueId id, int node, const std::vector<int>& dims) {
    const std::size_t rank = body_.type(id).rank();
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      if (body_.outputs[i] != id) continue;
      const int array = array_of({.kind = LoopOperand::Kind::kOutput,
                                  .number = i,
                                  .dims = dims,
                                  .starts = Dims(rank, 0),
                                  .steps = Dims(rank, 1)},
                                 body_.type(id).dtype, true);
      phase.result({.kind = LoopResult::Kind::kArray, .index = array, .node = node});
    }
  }

  void emit_rows(int level) {
    PhaseBuilder phase(true);
    for (const Eqn& eqn : body_.eqns) {
      const ValueId made = eqn.outputs[0];
      if (!is_loop_op(body_, eqn) || role_of(made) != Role::kRow || level_.at(made) != level) continue;
      if (!kept_.contains(made) && !is_output(made)) continue;
      const int node = emit(phase, made, level, true);
      if (kept_.contains(made)) {
        scalar_of_[made] = add_scalar(body_.type(made).dtype);
        phase.result({.kind = LoopResult::Kind::kScalar, .index = scalar_of_[made], .node = node});
      }
      if (is_output(made)) store(phase, made, node, *shape_.row_dims(body_.type(made).shape));
    }
    for (const auto& [scalar, array] : partial_scalars_) {  // The totals of the rows that were just reduced.
      const int node =
          phase.input({LoopInput::Kind::kScalar, scalar}, plan_.loop.scalars[static_cast<std::size_t>(scalar)]);
      phase.result({.kind = LoopResult::Kind::kArray, .index = array, .node = node});
    }
    partial_scalars_.clear();
    if (phase.has_results()) plan_.loop.phases.push_back(phase.take());
  }

  void emit_columns(int level) {
    PhaseBuilder phase(false);
    for (const Eqn& eqn : body_.eqns) {
      if (!is_loop_op(body_, eqn)) continue;
      const ValueId made = eqn.outputs[0];
      const auto kind = eqn.op->reduces;
      if (kind && role_of(made) == Role::kRow && level_.at(made) == level + 1) {
        const int node = reduced_node(phase, eqn, level);
        reduced_[made] = add_scalar(phase.dtype_of(node));
        phase.result({.kind = LoopResult::Kind::kReduce,
                      .index = reduced_[made],
                      .node = node,
                      .reduction = reduction_kind(*kind, phase.dtype_of(node))});
      } else if (role_of(made) == Role::kTotal && level_.at(made) == level) {
        emit_total(phase, eqn, level);
      } else if (!kind && role_of(made) == Role::kFull && level_.at(made) == level) {
        if (!kept_.contains(made) && !is_output(made)) continue;
        const int node = emit(phase, made, level, false);
        if (kept_.contains(made)) {
          temporary_of_[made] = static_cast<int>(plan_.loop.temporaries.size());
          plan_.loop.temporaries.push_back(body_.type(made).dtype);
          phase.result({.kind = LoopResult::Kind::kTemporary, .index = temporary_of_[made], .node = node});
        }
        if (is_output(made)) {
          std::vector<int> dims(shape_.domain.size());
          for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
          store(phase, made, node, dims);
        }
      }
    }
    if (phase.has_results()) plan_.loop.phases.push_back(phase.take());
  }

  int reduced_node(PhaseBuilder& phase, const Eqn& eqn, int level) {
    const int node = emit(phase, eqn.inputs[0], level, false);
    return converted(phase, node, reduction_dtype(*eqn.op->reduces, phase.dtype_of(node)));
  }

  bool columns_are_reduced() const {
    std::size_t last = shape_.domain.size();
    while (last > 0 && shape_.domain[last - 1] == 1) --last;
    return last == 0 || plan_.is_total[last - 1];
  }

  void emit_total(PhaseBuilder& phase, const Eqn& eqn, int level) {
    if (!is_output(eqn.outputs[0])) return;  // Nobody else can use it.
    const int node = reduced_node(phase, eqn, level);
    const Dtype dtype = phase.dtype_of(node);
    const ReduceKind kind = reduction_kind(*eqn.op->reduces, dtype);
    const std::size_t number = plan_.totals.size();
    const auto output =
        static_cast<std::size_t>(std::ranges::find(body_.outputs, eqn.outputs[0]) - body_.outputs.begin());
    plan_.totals.push_back({.output = output, .kind = kind, .dtype = dtype});
    const LoopOperand partial{
        .kind = LoopOperand::Kind::kPartial, .number = number, .dims = {}, .starts = {}, .steps = {}};
    if (columns_are_reduced()) {
      const int scalar = add_scalar(dtype);
      phase.result({.kind = LoopResult::Kind::kReduce, .index = scalar, .node = node, .reduction = kind});
      partial_scalars_.emplace_back(scalar, array_of(partial, dtype, true));
      return;
    }
    const int before = phase.input({LoopInput::Kind::kArray, array_of(partial, dtype, false)}, dtype);
    phase.result({.kind = LoopResult::Kind::kArray,
                  .index = array_of(partial, dtype, true),
                  .node = phase.apply(combining_core(kind), dtype, before, node)});
  }

  int add_scalar(Dtype dtype) {
    plan_.loop.scalars.push_back(dtype);
    return static_cast<int>(plan_.loop.scalars.size()) - 1;
  }

  const Shape& static_shape(const LoopOperand& operand) const {
    const auto& ids = operand.kind == LoopOperand::Kind::kInput ? body_.inputs : body_.outputs;
    return body_.type(ids[operand.number]).shape;
  }

  bool takes_all(const LoopOperand& operand, std::size_t d) const {
    const auto s = static_cast<std::size_t>(operand.dims[d]);
    return operand.starts[s] == 0 && operand.steps[s] == 1 && static_shape(operand)[s] == shape_.domain[d];
  }

  // Where the extent of each dimension can be read: shards may be smaller than the types say.
  void find_extents() {
    plan_.extents.assign(shape_.domain.size(), {kNoOperand, 0});
    for (std::size_t d = 0; d < shape_.domain.size(); ++d) {
      for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
        const LoopOperand& operand = plan_.operands[i];
        const bool is_memory = operand.kind != LoopOperand::Kind::kPartial && operand.dims[d] >= 0;
        if (!is_memory || !takes_all(operand, d)) continue;
        plan_.extents[d] = {i, static_cast<std::size_t>(operand.dims[d])};
      }
    }
  }

  // Whether the dimension of an operand is followed by nothing but extents of 1 up to `next`, or to the end.
  static bool is_next(const Shape& shape, int dim, int next) {
    for (int s = dim + 1; s < next; ++s) {
      if (shape[static_cast<std::size_t>(s)] != 1) return false;
    }
    return dim < next;
  }

  // Whether every operand can step through dimensions a and b, which follow each other, as through one.
  bool walked_as_one(std::size_t a, std::size_t b) const {
    return std::ranges::all_of(plan_.operands, [&](const LoopOperand& operand) {
      if (operand.kind == LoopOperand::Kind::kPartial) return true;
      if (operand.kind == LoopOperand::Kind::kCount) return operand.steps[a] == operand.steps[b] * shape_.domain[b];
      const int from = operand.dims[a];
      const int to = operand.dims[b];
      if (from < 0 || to < 0) return from < 0 && to < 0;
      return operand.steps[static_cast<std::size_t>(from)] == 1 && takes_all(operand, b) &&
             is_next(static_shape(operand), from, to);
    });
  }

  bool is_total(std::size_t d) const { return plan_.is_total[d]; }

  // Puts together the dimensions that are walked as one. False if the columns of rows are not.
  bool walk() {
    const std::size_t rank = shape_.domain.size();
    bool has_columns = false;
    for (std::size_t d = 0; d < rank; ++d) {
      if (shape_.domain[d] == 1) continue;
      const bool is_column = d >= plan_.first_column;
      const bool starts_columns = is_column && !has_columns;
      const bool joins = !plan_.dims.empty() && !starts_columns &&
                         is_total(d) == is_total(static_cast<std::size_t>(plan_.dims.back().back())) &&
                         walked_as_one(static_cast<std::size_t>(plan_.dims.back().back()), d);
      if (joins) {
        plan_.dims.back().push_back(static_cast<int>(d));
      } else if (is_column && !starts_columns) {
        return false;
      } else {
        plan_.dims.push_back({static_cast<int>(d)});
      }
      has_columns = has_columns || is_column;
    }
    if (plan_.dims.empty() || (shape_.columns >= 0 && !has_columns)) plan_.dims.emplace_back();
    for (const std::vector<int>& dims : plan_.dims) {
      plan_.is_reduced.push_back(!dims.empty() && is_total(static_cast<std::size_t>(dims[0])));
    }
    if (plan_.totals.empty()) {
      lengthen_columns();
      return true;
    }
    if (plan_.dims.back().empty()) plan_.is_reduced.back() = true;
    if (plan_.is_reduced.back()) return true;
    // The rows that are added up come last among the rows. If all reduced extents are 1, there is one.
    const auto last = std::ranges::find(plan_.is_reduced.rbegin(), plan_.is_reduced.rend(), true);
    const auto place = plan_.is_reduced.rend() - last - 1;
    std::vector<int> added;
    if (last != plan_.is_reduced.rend()) {
      added = plan_.dims[static_cast<std::size_t>(place)];
      plan_.dims.erase(plan_.dims.begin() + place);
      plan_.is_reduced.erase(plan_.is_reduced.begin() + place);
    }
    plan_.dims.insert(plan_.dims.end() - 1, std::move(added));
    plan_.is_reduced.insert(plan_.is_reduced.end() - 1, true);
    return true;
  }

  std::int64_t extent_of(const std::vector<int>& dims) const {
    std::int64_t extent = 1;
    for (const int d : dims) extent *= shape_.domain[static_cast<std::size_t>(d)];
    return extent;
  }

  // Where columns are so few that most of a vector would be idle, those of the longest dimension are better, even if
  // they do not lie side by side: elements may be computed in any order. Not where many such rows lie side by side
  // (narrow_rows.h).
  void lengthen_columns() {
    const std::int64_t columns = extent_of(plan_.dims.back());
    if (shape_.columns >= 0 || columns >= kFewColumns) return;
    if (plan_.dims.size() > 1 && extent_of(plan_.dims[plan_.dims.size() - 2]) * columns >= kManyElements) return;
    const auto longest = std::ranges::max_element(plan_.dims, {}, [&](const auto& dims) { return extent_of(dims); });
    if (extent_of(*longest) < kManyColumns) return;
    std::rotate(longest, longest + 1, plan_.dims.end());
  }
  static constexpr std::int64_t kFewColumns = 8;
  static constexpr std::int64_t kManyColumns = 32;
  static constexpr std::int64_t kManyElements = 256;

  void set_accesses() {
    const std::vector<int>& columns = plan_.dims.back();
    for (std::size_t i = 0; i < plan_.operands.size(); ++i) {
      const LoopOperand& operand = plan_.operands[i];
      LoopArray& array = plan_.loop.arrays[i];
      if (operand.kind == LoopOperand::Kind::kPartial) {
        array.access = columns_are_reduced() ? Access::kUniform : Access::kDense;
        continue;
      }
      const Access along =
          columns.empty() ? Access::kUniform : access_along(operand, body_, static_cast<std::size_t>(columns.back()));
      const bool is_row = array.written && is_row_result(static_cast<int>(i));
      array.access = is_row ? Access::kUniform : array.written && along == Access::kUniform ? Access::kDense : along;
    }
  }

  bool is_row_result(int array) const {
    for (const Phase& phase : plan_.loop.phases) {
      for (const LoopResult& result : phase.results) {
        if (result.kind == LoopResult::Kind::kArray && result.index == array) return phase.once;
      }
    }
    return false;
  }

  const Graph& body_;
  LoopShape shape_;
  std::vector<const Eqn*> producers_;
  LoopPlan plan_;
  int last_level_ = 0;
  std::unordered_map<ValueId, int> level_;
  std::set<ValueId> kept_;                            // Needed by a later phase than the one that computes it.
  std::unordered_map<ValueId, int> scalar_of_;        // Of row values that are kept.
  std::unordered_map<ValueId, int> reduced_;          // Of reductions of rows.
  std::unordered_map<ValueId, int> temporary_of_;     // Of full values that are kept.
  std::vector<std::pair<int, int>> partial_scalars_;  // Scalars that are totals of a row, and their arrays.
};

}  // namespace

Access access_along(const LoopOperand& operand, const Graph& body, std::size_t along) {
  if (operand.kind == LoopOperand::Kind::kCount) {
    return operand.steps[along] != 0 ? Access::kStrided : Access::kUniform;
  }
  if (operand.dims[along] < 0) return Access::kUniform;
  const auto dim = static_cast<std::size_t>(operand.dims[along]);
  const auto& ids = operand.kind == LoopOperand::Kind::kInput ? body.inputs : body.outputs;
  const Shape& shape = body.type(ids[operand.number]).shape;
  const bool is_last = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end(),
                                   [](std::int64_t extent) { return extent == 1; });
  return operand.steps[dim] == 1 && is_last ? Access::kDense : Access::kStrided;
}

Core combining_core(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return Core::kAdd;
    case ReduceKind::kProd:
      return Core::kMul;
    case ReduceKind::kMax:
      return Core::kMax;
    case ReduceKind::kMin:
      return Core::kMin;
    case ReduceKind::kAnd:
      return Core::kAnd;
    case ReduceKind::kOr:
      return Core::kOr;
  }
  return Core::kAdd;
}

LoopStrides strides_of(const LoopPlan& plan, FunctionRef<const Shape&(const LoopOperand&)> shape_of) {
  LoopStrides result;
  Dims domain = plan.domain;
  for (std::size_t d = 0; d < domain.size(); ++d) {
    const auto& [operand, dim] = plan.extents[d];
    if (operand < plan.operands.size()) domain[d] = shape_of(plan.operands[operand])[dim];
  }
  for (const std::vector<int>& dims : plan.dims) {
    std::int64_t extent = 1;
    for (int d : dims) extent *= domain[static_cast<std::size_t>(d)];
    result.extents.push_back(extent);
  }
  // A reduced dimension of extent 1, which is in none of the plan's dims, and of which this shard has nothing.
  for (std::size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] != 0 || plan.domain[d] != 1) continue;
    if (d >= plan.first_column || (plan.is_total[d] && plan.is_reduced.back())) {
      result.extents.back() = 0;
    } else if (plan.is_total[d]) {
      result.extents[result.extents.size() - 2] = 0;
    }
  }
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    const LoopOperand& operand = plan.operands[i];
    result.strides.emplace_back(result.extents.size(), 0);
    result.offsets.push_back(0);
    if (operand.kind == LoopOperand::Kind::kPartial) continue;
    if (operand.kind == LoopOperand::Kind::kCount) {
      result.offsets[i] = operand.starts[0];
      for (std::size_t k = 0; k < plan.dims.size(); ++k) {
        if (!plan.dims[k].empty()) result.strides[i][k] = operand.steps[static_cast<std::size_t>(plan.dims[k].back())];
      }
      continue;
    }
    const Shape& shape = shape_of(operand);
    if (num_elements(shape) == 0) continue;  // Nowhere to step to.
    const Dims elements = row_major_strides(shape);
    const auto size = static_cast<std::int64_t>(size_of(plan.loop.arrays[i].dtype));
    for (std::size_t s = 0; s < shape.size(); ++s) result.offsets[i] += operand.starts[s] * elements[s] * size;
    for (std::size_t k = 0; k < plan.dims.size(); ++k) {
      if (plan.dims[k].empty()) continue;
      const int dim = operand.dims[static_cast<std::size_t>(plan.dims[k].back())];
      if (dim < 0) continue;
      const auto s = static_cast<std::size_t>(dim);
      result.strides[i][k] = operand.steps[s] * elements[s] * size;
    }
  }
  return result;
}

void move_to_row(const LoopStrides& strides, std::int64_t row, std::span<std::byte*> bases) {
  for (std::size_t k = strides.extents.size() - 1; k-- > 0;) {
    const std::int64_t i = row % strides.extents[k];
    row /= strides.extents[k];
    if (i == 0) continue;
    for (std::size_t a = 0; a < bases.size(); ++a) bases[a] += i * strides.strides[a][k];
  }
}

std::optional<LoopPlan> lower(const Graph& body, std::optional<int> columns) {
  std::vector<const Eqn*> producers = producers_of(body);
  std::vector<const Eqn*> eqns;
  for (const Eqn& eqn : body.eqns) {
    if (is_loop_op(body, eqn)) eqns.push_back(&eqn);
  }
  if (eqns.empty()) return std::nullopt;
  std::optional<LoopShape> shape = shape_of_loop(body, producers, eqns);
  if (!shape) return std::nullopt;
  if (columns) {
    if (shape->columns >= 0 || !shape->total_axes.empty()) return std::nullopt;
    shape->columns = *columns;
  }
  return Lowering(body, std::move(*shape), std::move(producers)).run();
}

}  // namespace shoal::cpu
