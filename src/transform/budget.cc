#include "transform/budget.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ops/eqn_cost.h"
#include "transform/cut.h"

namespace shoal {
namespace {

// So many values are tried in all combinations.
constexpr std::size_t kMostTried = 16;
// Values looked at by a search in the other direction, which takes their square times the size of the graph.
constexpr double kMostSteps = 5e7;

using Selection = std::vector<bool>;  // Of the values that can be kept.

// A graph laid out flat, with what it holds, as far as values inside can be kept: of a loop one trip, whose values and
// work count times the trips.
class FlatGraph {
 public:
  FlatGraph(const Graph& graph, std::span<const ValueId> wanted, const SaveRules& rules) : rules_(rules) {
    std::vector<int> arguments;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) arguments.push_back(given());
    const std::vector<int> numbers = lay_out(graph, arguments, 1);
    for (const ValueId id : wanted) wanted_.push_back(numbers[slot(id)]);
    reached_.resize(values_.size());
    run_.resize(steps_.size());
  }

  std::size_t num_steps() const { return steps_.size(); }
  std::size_t num_candidates() const { return candidates_.size(); }

  struct Price {
    double work = 0;
    double bytes = 0;
  };

  /// What it takes to compute what is wanted again where these are kept, and the bytes of those of them that are
  /// needed.
  Price price(const Selection& kept) {
    ++visit_;
    Price total;
    open_ = wanted_;
    while (!open_.empty()) {
      const int number = open_.back();
      open_.pop_back();
      const Value& value = values_[static_cast<std::size_t>(number)];
      int& reached = reached_[static_cast<std::size_t>(number)];
      if (std::exchange(reached, visit_) == visit_ || value.step < 0) continue;
      if (value.candidate >= 0 && kept[static_cast<std::size_t>(value.candidate)]) {
        total.bytes += value.bytes;
        continue;
      }
      const Step& step = steps_[static_cast<std::size_t>(value.step)];
      if (std::exchange(run_[static_cast<std::size_t>(value.step)], visit_) == visit_) continue;
      total.work += step.work;
      open_.insert(open_.end(), step.needs.begin(), step.needs.end());
    }
    return total;
  }

  ChosenValues chosen(const Selection& kept) const {
    ChosenValues values;
    for (const auto& [value, candidate] : candidates_) {
      if (kept[static_cast<std::size_t>(candidate)]) values[value.first].insert(value.second);
    }
    return values;
  }

 private:
  struct Value {
    int step = -1;       // That computes it; -1 for what is there.
    int candidate = -1;  // Its number among the values that can be kept.
    double bytes = 0;
  };
  struct Step {
    double work = 0;
    std::vector<int> needs = {};
  };

  int given() {
    values_.push_back({});
    return static_cast<int>(values_.size()) - 1;
  }
  int add_step(double work, std::vector<int> needs) {
    steps_.push_back({.work = work, .needs = std::move(needs)});
    return static_cast<int>(steps_.size()) - 1;
  }
  int made_by(int step) {
    values_.push_back({.step = step});
    return static_cast<int>(values_.size()) - 1;
  }
  int candidate_of(const Graph& graph, ValueId id, int step, double times) {
    const int number = made_by(step);
    const auto next = static_cast<int>(candidates_.size());
    values_.back().candidate = candidates_.try_emplace({&graph, id}, next).first->second;
    values_.back().bytes = times * bytes_of(graph.type(id));
    return number;
  }

  // The number of each value of the graph.
  std::vector<int> lay_out(const Graph& graph, const std::vector<int>& arguments, double times) {
    std::vector<int> numbers(graph.values.size(), -1);
    for (std::size_t i = 0; i < arguments.size(); ++i) numbers[slot(graph.inputs[i])] = arguments[i];
    const std::vector<Names> names = names_of_values(graph);
    for (const Eqn& eqn : graph.eqns) {
      std::vector<int> operands;
      for (const ValueId id : eqn.inputs) operands.push_back(numbers[slot(id)]);
      if (given_name(eqn) != nullptr) {
        numbers[slot(eqn.outputs[0])] = operands[0];
      } else if (has_effect(eqn)) {
        for (const ValueId id : eqn.outputs) numbers[slot(id)] = given();
      } else if (can_be_cut(eqn)) {
        lay_out_inside(graph, eqn, operands, times, numbers);
      } else {
        const int step = add_step(times * work_with_bodies(graph, eqn), operands);
        for (const ValueId id : eqn.outputs) {
          const Keeping keeping =
              rules_.keeping({.op = eqn.op->name, .is_batched = is_batched(eqn), .names = names[slot(id)]});
          const bool is_constant = eqn.inputs.empty();
          numbers[slot(id)] = keeping.kept && !is_constant ? given()
                              : is_constant                ? made_by(step)
                                                           : candidate_of(graph, id, step, times);
        }
      }
    }
    return numbers;
  }

  void lay_out_inside(const Graph& graph, const Eqn& eqn, const std::vector<int>& operands, double times,
                      std::vector<int>& numbers) {
    const auto bodies = bodies_of(eqn);
    if (eqn.op->op_class != OpClass::kControl) {
      const Graph& body = *bodies.front();
      const std::vector<int> inside = lay_out(body, operands, times);
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        numbers[slot(eqn.outputs[i])] = inside[slot(body.outputs[i])];
      }
      return;
    }
    const Control control = eqn.op->control(eqn.attrs);
    std::vector<std::vector<int>> results(eqn.outputs.size());
    for (const Graph* body : bodies) {
      std::vector<int> arguments(operands.begin() + static_cast<std::ptrdiff_t>(control.first_argument),
                                 operands.end());
      // A carry is what came in, and after that what was yielded: it needs both.
      std::vector<int> carries;
      for (std::size_t i = 0; control.loops && i < control.carries; ++i) {
        carries.push_back(add_step(0, {arguments[i]}));
        arguments[i] = made_by(carries.back());
      }
      const std::vector<int> inside = lay_out(*body, arguments, control.loops ? times * control.weight() : times);
      for (std::size_t i = 0; i < carries.size(); ++i) {
        steps_[static_cast<std::size_t>(carries[i])].needs.push_back(inside[slot(body->outputs[i])]);
      }
      for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(inside[slot(body->outputs[i])]);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ValueId id = eqn.outputs[i];
      // A stack is kept by keeping what it is a stack of. The last carry, and what a branch gives, are values of their
      // own.
      if (control.is_stack(i)) {
        numbers[slot(id)] = results[i].front();
      } else {
        // A loop that runs again for its last carry begins with what came in.
        std::vector<int> needs = results[i];
        const std::size_t first = control.first_argument;
        if (control.loops) {
          needs.push_back(operands[first + i]);
        } else {
          needs.insert(needs.end(), operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(first));
        }
        numbers[slot(id)] = candidate_of(graph, id, add_step(0, std::move(needs)), times);
      }
    }
  }

  const SaveRules& rules_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::map<std::pair<const Graph*, ValueId>, int> candidates_;
  std::vector<int> wanted_;
  // Of the walk that is under way.
  int visit_ = 0;
  std::vector<int> reached_;
  std::vector<int> run_;
  std::vector<int> open_;
};

// Looks for the selection of least work whose bytes fit.
class BudgetSearch {
 public:
  BudgetSearch(FlatGraph& graph, double budget)
      : graph_(graph), budget_(budget), best_(graph.num_candidates()), least_(graph.price(best_).work) {
    // Those that are needed, help and fit.
    for (std::size_t i = 0; i < best_.size(); ++i) {
      const FlatGraph::Price price = with(Selection(best_.size()), i);
      if (price.bytes > 0 && price.bytes <= budget) useful_.push_back(i);
    }
  }

  Selection run() {
    if (useful_.size() <= kMostTried) {
      try_all();
    } else {
      add_one_by_one();
      const auto count = static_cast<double>(useful_.size());
      if (count * count * static_cast<double>(graph_.num_steps()) <= kMostSteps) drop_one_by_one();
    }
    return best_;
  }

 private:
  FlatGraph::Price with(Selection kept, std::size_t i) {
    kept[i] = true;
    return graph_.price(kept);
  }

  void consider(const Selection& kept, const FlatGraph::Price& price) {
    if (price.bytes > budget_ || price.work >= least_) return;
    least_ = price.work;
    best_ = kept;
  }

  void try_all() {
    Selection kept(best_.size());
    for (std::size_t set = 1; set < std::size_t{1} << useful_.size(); ++set) {
      for (std::size_t i = 0; i < useful_.size(); ++i) kept[useful_[i]] = (set >> i & 1) != 0;
      consider(kept, graph_.price(kept));
    }
  }

  // Always the one that saves most work for its bytes. What one saves changes little when others are added, so that
  // only the first in the queue is looked at again.
  void add_one_by_one() {
    Selection kept(best_.size());
    FlatGraph::Price now = graph_.price(kept);
    const auto worth = [&](const FlatGraph::Price& price) {
      return price.bytes <= now.bytes ? std::numeric_limits<double>::infinity()
                                      : (now.work - price.work) / (price.bytes - now.bytes);
    };
    std::priority_queue<std::pair<double, std::size_t>> queue;
    for (const std::size_t i : useful_) queue.emplace(worth(with(kept, i)), i);
    while (!queue.empty()) {
      const std::size_t i = queue.top().second;
      queue.pop();
      const FlatGraph::Price price = with(kept, i);
      if (price.bytes > budget_ || price.work >= now.work) continue;
      const double current = worth(price);
      if (!queue.empty() && current < queue.top().first) {
        queue.emplace(current, i);
        continue;
      }
      kept[i] = true;
      now = price;
      consider(kept, now);
    }
  }

  // From all that is wanted on, always gives up the one that costs least work for its bytes.
  void drop_one_by_one() {
    Selection kept(best_.size());
    for (const std::size_t i : useful_) kept[i] = true;
    FlatGraph::Price now = graph_.price(kept);
    while (now.bytes > budget_) {
      std::size_t least = best_.size();
      double least_worth = std::numeric_limits<double>::infinity();
      for (const std::size_t i : useful_) {
        if (!kept[i]) continue;
        kept[i] = false;
        const FlatGraph::Price price = graph_.price(kept);
        kept[i] = true;
        const double worth = price.bytes < now.bytes ? (price.work - now.work) / (now.bytes - price.bytes)
                                                     : std::numeric_limits<double>::max();
        if (worth < least_worth) std::tie(least_worth, least) = std::pair(worth, i);
      }
      if (least == best_.size()) return;
      kept[least] = false;
      now = graph_.price(kept);
    }
    consider(kept, now);
  }

  FlatGraph& graph_;
  double budget_;
  std::vector<std::size_t> useful_;
  Selection best_;
  double least_;
};

}  // namespace

ChosenValues cheapest_to_keep(const Graph& graph, std::span<const ValueId> wanted, const SaveRules& rules) {
  FlatGraph flat(graph, wanted, rules);
  return flat.chosen(BudgetSearch(flat, *rules.budget()).run());
}

}  // namespace shoal
