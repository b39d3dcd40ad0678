// A wrong sharding rule does not pass unnoticed, and a failing graph shrinks to a small one.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "equations.h"
#include "ops/table.h"
#include "random_graphs.h"

namespace shoal::parity {
namespace {

using Rule = ShardingRule (*)(const RuleContext&);

OpDef with_rule(std::string_view name, Rule rule) {
  OpDef op = op_named(name);
  op.rule = rule;
  return op;
}

ShardingRule true_rule(const RuleContext& context) { return op_named(context.op.name).rule(context); }

// Partial results are taken for whole ones.
ShardingRule without_reductions(const RuleContext& context) {
  ShardingRule rule = true_rule(context);
  for (Factor& factor : rule.factors) {
    if (factor.kind == FactorKind::kReduction) factor.kind = FactorKind::kPassThrough;
  }
  return rule;
}

ShardingRule adding_instead(const RuleContext& context) {
  ShardingRule rule = true_rule(context);
  rule.reduction = ReduceKind::kSum;
  return rule;
}

ShardingRule with_dims_swapped(const RuleContext& context) {
  ShardingRule rule = true_rule(context);
  std::swap(rule.results[0][0], rule.results[0][1]);
  return rule;
}

// Merged dimensions are taken to lie the other way round in the merged one.
ShardingRule minor_first(const RuleContext& context) {
  ShardingRule rule = true_rule(context);
  for (DimFactors& dim : rule.results[0]) std::reverse(dim.begin(), dim.end());
  return rule;
}

ShardingRule never_whole(const RuleContext& context) {
  ShardingRule rule = true_rule(context);
  for (std::size_t d = 0; d < rule.results[0].size(); ++d) {
    rule.results[0][d] = rule.operands[0][d];
    rule.factors[static_cast<std::size_t>(rule.operands[0][d][0])].kind = FactorKind::kPassThrough;
  }
  return rule;
}

// How many placements of the equation give other values than the oracle.
int count_failures(const OpDef& op, Sample made) {
  Rng rng(1);
  const Equation equation = make_equation(rng, op, std::move(made), Fill::kIntegers);
  const Mesh& mesh = standard_meshes()[3].second;
  int failures = 0;
  for (const Specs& specs : all_placements(equation, mesh)) {
    if (failure_of(make_case(rng, equation, mesh, specs))) ++failures;
  }
  return failures;
}

void expect_detected(const OpDef& broken, const Sample& made) {
  EXPECT_GT(count_failures(broken, made), 0) << "a wrong rule of " << broken.name << " passes";
  EXPECT_EQ(count_failures(op_named(broken.name), made), 0) << broken.name;
}

const Type kSquare = type_of(float32, {8, 8});
const Sample kMatmul{
    .operands = {kSquare, kSquare},
    .attrs = {{"lhs_contract", Dims{1}}, {"rhs_contract", Dims{0}}, {"lhs_batch", Dims{}}, {"rhs_batch", Dims{}}}};

TEST(BrokenRules, ReductionsTakenForWhole) {
  expect_detected(with_rule("reduce_sum", without_reductions), {{kSquare}, {{"axes", Dims{1}}}});
  expect_detected(with_rule("reduce_min", without_reductions), {{kSquare}, {{"axes", Dims{0}}}});
  expect_detected(with_rule("dot_general", without_reductions), kMatmul);
}

TEST(BrokenRules, AnotherReduction) {
  expect_detected(with_rule("reduce_max", adding_instead), {{kSquare}, {{"axes", Dims{1}}}});
  expect_detected(with_rule("reduce_prod", adding_instead), {{kSquare}, {{"axes", Dims{1}}}});
}

TEST(BrokenRules, DimensionsSwapped) {
  expect_detected(with_rule("transpose", with_dims_swapped), {{kSquare}, {{"perm", Dims{1, 0}}}});
  expect_detected(with_rule("negative", with_dims_swapped), {{kSquare}, {}});
  expect_detected(with_rule("dot_general", with_dims_swapped), kMatmul);
}

TEST(BrokenRules, FactorsInAnotherOrder) {
  expect_detected(with_rule("reshape", minor_first), {{kSquare}, {{"shape", Shape{64}}}});
}

TEST(BrokenRules, DimensionsThatMustBeWhole) {
  expect_detected(with_rule("slice", never_whole),
                  {{kSquare}, {{"starts", Dims{1, 0}}, {"limits", Dims{7, 8}}, {"strides", Dims{1, 1}}}});
}

TEST(BrokenRules, NonlinearOpOnPartialResults) {
  // The operand must be a partial result: |x| after a sum over a split dimension.
  const auto failure = [](const OpDef& op) {
    Rng rng(1);
    Case test;
    test.mesh = standard_meshes()[1].second;
    const ValueId x = add_input(test, kSquare, random_buffer(rng, float32, {8, 8}, Fill::kIntegers), P("x"));
    const ValueId sum = add_eqn(test.graph, "reduce_sum", {{"axes", Dims{0}}}, {x});
    add_output(test, test.graph.add_eqn(op, {}, {sum}, SourceLocation::current())[0], std::nullopt);
    return failure_of(test);
  };
  OpDef broken = op_named("abs");
  broken.linear = Linear::kTogether;
  EXPECT_TRUE(failure(broken));
  EXPECT_FALSE(failure(op_named("abs")));
  EXPECT_FALSE(failure(op_named("negative")));
}

TEST(Shrink, KeepsWhatFails) {
  const OpDef broken = with_rule("reduce_sum", without_reductions);
  const auto fails = [](const Case& one) { return failure_of(one).has_value(); };
  int shrunk = 0;
  int to_few = 0;  // Now and then no single change leads on.
  for (std::uint64_t seed = 1; seed <= 400 && shrunk < 5; ++seed) {
    Case test = random_case(seed);
    for (Eqn& eqn : test.graph.eqns) {
      if (eqn.op->name == "reduce_sum") eqn.op = &broken;
    }
    if (!fails(test)) continue;
    ++shrunk;
    const Case small = shrink(test, fails);
    EXPECT_TRUE(fails(small));
    to_few += small.graph.eqns.size() <= 3 ? 1 : 0;
    EXPECT_LE(small.graph.eqns.size(), test.graph.eqns.size()) << "seed " << seed << "\n" << to_text(small);
    EXPECT_LE(small.graph.outputs.size(), 2U);
    EXPECT_NE(to_text(small).find("reduce_sum"), std::string::npos);
    EXPECT_EQ(to_text(parse_graph(to_text(small.graph), find_op)), to_text(small.graph));
  }
  EXPECT_EQ(shrunk, 5);
  EXPECT_GE(to_few, 3);
}

}  // namespace
}  // namespace shoal::parity
