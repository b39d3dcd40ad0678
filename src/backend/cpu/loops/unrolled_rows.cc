#include "backend/cpu/loops/unrolled_rows.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/loops/phase_builder.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

constexpr std::int64_t kMostUnrolled = 16;
constexpr std::int64_t kLeastUnrolledRows = 256;
// Compiling takes time with the nodes.
constexpr std::size_t kMostNodes = 512;

class Unrolling {
 public:
  Unrolling(const LoopPlan& plan, const Graph& body)
      : from_(plan), body_(body), column_(static_cast<std::size_t>(plan.dims.back()[0])), made_(plan), phase_(false) {
    columns_ = plan.domain[column_];
    made_.loop = {};
    made_.operands.clear();
    made_.dims.pop_back();
    made_.is_reduced.pop_back();
    made_.totals.clear();
    made_.first_column = plan.domain.size();
    made_.width = columns_;
  }

  LoopPlan run() {
    for (const LoopArray& array : from_.loop.arrays) add_arrays(array);
    scalars_.resize(from_.loop.scalars.size());
    temporaries_.resize(from_.loop.temporaries.size(), std::vector<int>(static_cast<std::size_t>(columns_)));
    for (const Phase& phase : from_.loop.phases) phase.once ? add_once(phase) : add_columns(phase);
    made_.loop.phases.push_back(phase_.take());
    if (!made_.totals.empty()) store_totals();
    for (auto& [operand, dim] : made_.extents) {
      if (operand < arrays_.size()) operand = static_cast<std::size_t>(arrays_[operand][0]);
    }
    return std::move(made_);
  }

 private:
  // The arrays of the new loop for each column of a row; the same one, if it has an element per row.
  void add_arrays(const LoopArray& array) {
    const LoopOperand& operand = from_.operands[arrays_.size()];
    if (operand.kind == LoopOperand::Kind::kPartial) return static_cast<void>(arrays_.emplace_back());
    const bool counts = operand.kind == LoopOperand::Kind::kCount;
    const bool moves = counts ? operand.steps[column_] != 0 : operand.dims[column_] >= 0;
    std::vector<int>& numbers = arrays_.emplace_back();
    for (std::int64_t column = 0; column < columns_; ++column) {
      if (moves || column == 0) {
        LoopOperand one = operand;
        if (moves && counts) {
          one.starts[0] += column * one.steps[column_];
          one.steps[column_] = 0;
        } else if (moves) {
          const auto dim = static_cast<std::size_t>(one.dims[column_]);
          one.starts[dim] += column * one.steps[dim];
          one.dims[column_] = -1;
        }
        made_.loop.arrays.push_back(array);
        made_.loop.arrays.back().access = access_along(one, body_, static_cast<std::size_t>(made_.dims.back().back()));
        made_.loop.arrays.back().carried_by = -1;
        made_.operands.push_back(std::move(one));
      }
      numbers.push_back(static_cast<int>(made_.operands.size()) - 1);
    }
  }

  // The nodes of a phase for one column.
  std::vector<int> add_nodes(const Phase& phase, std::size_t column) {
    std::vector<int> ids;
    for (scalar::Node node : phase.nodes) {
      if (node.core == scalar::Core::kInput) {
        ids.push_back(add_input(phase.inputs[static_cast<std::size_t>(node.bits)], node.dtype, column));
        continue;
      }
      bool has_all = true;
      for (int& operand : node.operands) {
        if (operand < 0) continue;
        operand = ids[static_cast<std::size_t>(operand)];
        has_all = has_all && operand != kNone;
      }
      ids.push_back(has_all ? phase_.add(node) : kNone);
    }
    return ids;
  }

  int add_input(const LoopInput& input, Dtype dtype, std::size_t column) {
    const auto index = static_cast<std::size_t>(input.index);
    if (input.kind == LoopInput::Kind::kScalar) return scalars_[index];
    if (input.kind == LoopInput::Kind::kTemporary) return temporaries_[index][column];
    if (is_partial(index)) return kNone;
    return phase_.input({LoopInput::Kind::kArray, arrays_[index][column]}, dtype);
  }

  bool is_partial(std::size_t array) const { return from_.operands[array].kind == LoopOperand::Kind::kPartial; }

  void add_once(const Phase& phase) {
    const std::vector<int> ids = add_nodes(phase, 0);
    for (const LoopResult& result : phase.results) {
      const int node = ids[static_cast<std::size_t>(result.node)];
      const auto index = static_cast<std::size_t>(result.index);
      if (result.kind == LoopResult::Kind::kScalar) {
        scalars_[index] = node;
      } else {
        phase_.result({.kind = LoopResult::Kind::kArray, .index = arrays_[index][0], .node = node});
      }
    }
  }

  void add_columns(const Phase& phase) {
    // What is added to a total, not what comes of it.
    const auto node_of = [&](const LoopResult& result) {
      const bool adds = result.kind == LoopResult::Kind::kArray && is_partial(static_cast<std::size_t>(result.index));
      return adds ? phase.nodes[static_cast<std::size_t>(result.node)].operands[1] : result.node;
    };
    std::vector<std::vector<int>> of_results(phase.results.size());
    for (std::size_t column = 0; column < static_cast<std::size_t>(columns_); ++column) {
      const std::vector<int> ids = add_nodes(phase, column);
      for (std::size_t r = 0; r < phase.results.size(); ++r) {
        of_results[r].push_back(ids[static_cast<std::size_t>(node_of(phase.results[r]))]);
      }
    }
    for (std::size_t r = 0; r < phase.results.size(); ++r) {
      const LoopResult& result = phase.results[r];
      const auto index = static_cast<std::size_t>(result.index);
      switch (result.kind) {
        case LoopResult::Kind::kArray:
          if (is_partial(index)) {
            add_totals(from_.totals[from_.operands[index].number], of_results[r]);
            break;
          }
          for (std::size_t column = 0; column < of_results[r].size(); ++column) {
            phase_.result(
                {.kind = LoopResult::Kind::kArray, .index = arrays_[index][column], .node = of_results[r][column]});
          }
          break;
        case LoopResult::Kind::kTemporary:
          temporaries_[index] = of_results[r];
          break;
        case LoopResult::Kind::kScalar:
          break;  // Of phases that are run once.
        case LoopResult::Kind::kReduce:
          scalars_[index] = reduced(of_results[r], result.reduction);
          break;
      }
    }
  }

  // Each column's total is one that the new loop reduces its columns to.
  void add_totals(const LoopTotal& total, const std::vector<int>& nodes) {
    for (std::size_t column = 0; column < nodes.size(); ++column) {
      LoopTotal one = total;
      one.first = static_cast<std::int64_t>(column);
      one.step = columns_;
      made_.totals.push_back(one);
      made_.loop.scalars.push_back(total.dtype);
      phase_.result({.kind = LoopResult::Kind::kReduce,
                     .index = static_cast<int>(made_.loop.scalars.size()) - 1,
                     .node = nodes[column],
                     .reduction = total.kind});
    }
  }

  void store_totals() {
    PhaseBuilder phase(true);
    for (std::size_t t = 0; t < made_.totals.size(); ++t) {
      const Dtype dtype = made_.totals[t].dtype;
      made_.loop.arrays.push_back({.dtype = dtype, .access = Access::kUniform, .written = true});
      made_.operands.push_back(
          {.kind = LoopOperand::Kind::kPartial, .number = t, .dims = {}, .starts = {}, .steps = {}});
      phase.result({.kind = LoopResult::Kind::kArray,
                    .index = static_cast<int>(made_.loop.arrays.size()) - 1,
                    .node = phase.input({LoopInput::Kind::kScalar, static_cast<int>(t)}, dtype)});
    }
    made_.loop.phases.push_back(phase.take());
  }

  // As a loop reduces a row that has no more columns than there are lanes. Lanes without a column change nothing.
  int reduced(const std::vector<int>& nodes, ReduceKind kind) {
    const Dtype dtype = phase_.dtype_of(nodes[0]);
    const scalar::Core core = combining_core(kind);
    const int neutral =
        phase_.add({.core = scalar::Core::kConstant, .dtype = dtype, .bits = neutral_bits(kind, dtype)});
    std::vector<int> lanes;
    for (const int node : nodes) lanes.push_back(phase_.apply(core, dtype, neutral, node));
    for (auto half = static_cast<std::size_t>(kLanes / 2); half > 0; half /= 2) {
      for (std::size_t i = 0; i < half && i + half < lanes.size(); ++i) {
        lanes[i] = phase_.apply(core, dtype, lanes[i], lanes[i + half]);
      }
      lanes.resize(std::min(lanes.size(), half));
    }
    return lanes[0];
  }

  static constexpr int kNone = -2;  // A node that the new loop has no use for: what a total was before.

  const LoopPlan& from_;
  const Graph& body_;
  std::size_t column_;
  std::int64_t columns_;
  LoopPlan made_;
  PhaseBuilder phase_;
  std::vector<std::vector<int>> arrays_;       // Of the new loop, for each of the old one, and each column.
  std::vector<int> scalars_;                   // The nodes that they are.
  std::vector<std::vector<int>> temporaries_;  // Likewise, of each column.
};

bool is_worth_it(const LoopPlan& plan, const Graph& body) {
  const bool adds_rows = !plan.totals.empty() && !plan.is_reduced.back();
  if (!(adds_rows || plan.has_rows()) || plan.dims.size() < 2 || plan.dims.back().size() != 1) return false;
  const std::int64_t columns = plan.domain[static_cast<std::size_t>(plan.dims.back()[0])];
  std::int64_t rows = 1;
  for (const int d : plan.dims[plan.dims.size() - 2]) rows *= plan.domain[static_cast<std::size_t>(d)];
  if (columns < 1 || columns > kMostUnrolled || rows < kLeastUnrolledRows || plan.loop.goes_on >= 0) return false;
  std::size_t nodes = 0;
  for (const Phase& phase : plan.loop.phases) nodes += phase.nodes.size();
  const auto times = static_cast<std::size_t>(columns);
  if (nodes * times > kMostNodes || plan.loop.arrays.size() * times > kMostArrays) return false;
  // Of all that is read through views, too: a slice of even shards may have uneven ones.
  for (std::size_t id = 0; id < body.values.size(); ++id) {
    if (!has_even_shards(body, static_cast<ValueId>(id))) return false;
  }
  return true;
}

}  // namespace

std::optional<LoopPlan> unroll_rows(const LoopPlan& plan, const Graph& body) {
  if (!is_worth_it(plan, body)) return std::nullopt;
  return Unrolling(plan, body).run();
}

}  // namespace shoal::cpu
