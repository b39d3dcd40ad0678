// What is kept within a budget, against all choices that there are: each is cut and counted.
#include "transform/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ops/builder.h"
#include "ops/eqn_cost.h"
#include "ops/table.h"
#include "transform/checkpoint.h"

namespace shoal {
namespace {

using Values = std::vector<ValueId>;

class RandomBody {
 public:
  explicit RandomBody(unsigned seed) : rng_(seed) {}

  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(rng_); }

  // Appends so many equations on values that there are; returns their results.
  Values add(Graph& graph, int count) {
    Builder build(graph, {});
    Values made;
    for (int i = 0; i < count; ++i) {
      const auto any = [&] {
        const std::size_t all = graph.inputs.size() + made.size();
        // Mostly of what was made last, so that there are chains.
        const auto back = static_cast<std::size_t>(below(3) == 0 ? below(static_cast<int>(all))
                                                                 : std::min(below(3), static_cast<int>(all) - 1));
        const std::size_t at = all - 1 - back;
        return at < graph.inputs.size() ? graph.inputs[at] : made[at - graph.inputs.size()];
      };
      const ValueId x = any();
      const ValueId y = any();
      const bool is_small = graph.type(x).shape == Shape{};
      switch (below(4)) {
        case 0:
          made.push_back(build.elementwise("sin", {x}));
          break;
        case 1:
          made.push_back(is_small || graph.type(y).shape.empty()
                             ? build.elementwise("exp", {x})
                             : build.dot_general(x, y, {.lhs_contract = {1}, .rhs_contract = {0}}));
          break;
        case 2:
          made.push_back(is_small ? build.elementwise("tanh", {x}) : build.reduce(ReduceKind::kSum, x, {0, 1}));
          break;
        default:
          made.push_back(graph.type(x).shape == graph.type(y).shape ? build.multiply(x, y)
                                                                    : build.elementwise("cos", {x}));
          break;
      }
    }
    return made;
  }

 private:
  std::mt19937 rng_;
};

// A loop of three trips over a body of so many equations, whose carry is [8,8].
ValueId add_loop(Graph& graph, RandomBody& random, ValueId carry, int count) {
  Graph body;
  body.name = "body";
  body.add_input(graph.type(carry));
  const Values made = random.add(body, count);
  Builder build(body, {});
  ValueId yielded = body.inputs[0];
  for (const ValueId id : made) {
    yielded = body.type(id).shape.empty() ? build.multiply(yielded, build.broadcast_in_dim(id, {8, 8}, {}))
                                          : build.add(yielded, id);
  }
  body.outputs = {yielded};
  Attrs attrs = with_bodies(
      {{"carries", std::int64_t{1}}, {"slices", std::int64_t{0}}, {"length", std::int64_t{3}}, {"reverse", false}},
      {std::move(body)});
  return Builder(graph, {}).equation(op_named("scan"), std::move(attrs), {carry})[0];
}

double work_in(const Graph& graph, double times) {
  double work = 0;
  for (const Eqn& eqn : graph.eqns) {
    const double trips = eqn.op->control == nullptr ? 1 : eqn.op->control(eqn.attrs).weight();
    if (eqn.op->control == nullptr) work += times * work_of(graph, eqn);
    for (const Graph* body : bodies_of(eqn)) work += work_in(*body, times * trips);
  }
  return work;
}

struct Price {
  double work = 0;
  double bytes = 0;
};

Price price_of(const Graph& graph, const Values& wanted, ChosenValues chosen) {
  SaveRules rules({"at most 0"});  // So that nothing is kept in vain.
  rules.keep_also(std::move(chosen));
  const Recomputed parts = recompute(graph, wanted, rules);
  Price price{.work = work_in(parts.again, 1)};
  for (std::size_t i = graph.outputs.size(); i < parts.kept.outputs.size(); ++i) {
    const Type& type = parts.kept.type(parts.kept.outputs[i]);
    price.bytes += bytes_of(type);
  }
  return price;
}

// All values that equations compute, inside loops, too.
void list_values(const Graph& graph, std::vector<std::pair<const Graph*, ValueId>>& values) {
  for (const Eqn& eqn : graph.eqns) {
    if (eqn.inputs.empty()) continue;
    for (const ValueId id : eqn.outputs) values.emplace_back(&graph, id);
    for (const Graph* body : bodies_of(eqn)) list_values(*body, values);
  }
}

TEST(Budget, NoChoiceIsBetter) {
  int with_loops = 0;
  int between = 0;  // Where something is kept, and something computed again.
  for (unsigned seed = 1; seed <= 60; ++seed) {
    RandomBody random(seed);
    Graph graph;
    graph.add_input({.dtype = float32, .shape = {8, 8}});
    graph.add_input({.dtype = float32, .shape = {8, 8}});
    Values made = random.add(graph, 3 + random.below(4));
    if (seed % 2 == 0) {
      ValueId carry = graph.inputs[0];
      for (const ValueId id : made) carry = graph.type(id).shape.empty() ? carry : id;
      made.push_back(add_loop(graph, random, carry, 1 + random.below(2)));
      made.push_back(Builder(graph, {}).elementwise("sin", {made.back()}));
      ++with_loops;
    }
    Values wanted = {made.back()};
    for (const ValueId id : made) {
      if (random.below(2) == 0) wanted.push_back(id);
    }
    std::vector<std::pair<const Graph*, ValueId>> values;
    list_values(graph, values);
    ASSERT_LE(values.size(), 16U);
    std::vector<Price> prices;
    for (std::size_t set = 0; set < std::size_t{1} << values.size(); ++set) {
      ChosenValues chosen;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if ((set >> i & 1) != 0) chosen[values[i].first].insert(values[i].second);
      }
      prices.push_back(price_of(graph, wanted, std::move(chosen)));
    }
    for (const double budget : {0.0, 300.0, 520.0, 800.0, 1400.0, 1e9}) {
      double least = std::numeric_limits<double>::infinity();
      for (const Price& price : prices) {
        if (price.bytes <= budget) least = std::min(least, price.work);
      }
      const SaveRules rules({"at most " + std::to_string(static_cast<std::int64_t>(budget))});
      const Price found = price_of(graph, wanted, cheapest_to_keep(graph, wanted, rules));
      EXPECT_LE(found.bytes, budget) << to_text(graph);
      EXPECT_LE(found.work, least) << budget << '\n' << to_text(graph);
      between += found.bytes > 0 && found.work > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(with_loops, 30);
  EXPECT_GT(between, 60);
}

// A graph for which all choices are too many: the search keeps to the budget, and is no worse than that of the values
// by what each costs alone, the dearest first.
TEST(Budget, LargeGraphs) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    RandomBody random(seed);
    Graph graph;
    graph.add_input({.dtype = float32, .shape = {8, 8}});
    graph.add_input({.dtype = float32, .shape = {8, 8}});
    const Values made = random.add(graph, 60);
    const double all = price_of(graph, made, {}).work;
    double before = all;
    for (const double budget : {0.0, 1000.0, 3000.0, 9000.0, 1e9}) {
      const SaveRules rules({"at most " + std::to_string(static_cast<std::int64_t>(budget))});
      const Price found = price_of(graph, made, cheapest_to_keep(graph, made, rules));
      EXPECT_LE(found.bytes, budget);
      EXPECT_LE(found.work, before);
      before = found.work;
      ChosenValues chosen;
      std::vector<std::pair<double, ValueId>> order;
      for (const Eqn& eqn : graph.eqns) {
        const Type& type = graph.type(eqn.outputs[0]);
        order.emplace_back(work_of(graph, eqn) / bytes_of(type), eqn.outputs[0]);
      }
      std::ranges::sort(order, std::greater<>());
      double bytes = 0;
      for (const auto& [worth, id] : order) {
        const double size = bytes_of(graph.type(id).shape, float32);
        if (bytes + size > budget) continue;
        bytes += size;
        chosen[&graph].insert(id);
      }
      EXPECT_LE(found.work, price_of(graph, made, chosen).work * 1.05) << budget;
    }
    EXPECT_EQ(before, 0);
  }
}

}  // namespace
}  // namespace shoal
