// Every op of the table gives the oracle's values wherever its operands and results lie.
//
//   placed    every placement of each operand and result, the others whole or matching, on every standard mesh; on
//             extents that divide evenly and on others, by shardings of inputs and outputs and by constraints
//   dtypes    every dtype that the op takes, on one placement
//   sampled   random shapes, attributes, meshes and placements of all operands at once, from a printed seed
//
// Collectives and calls run in random manual regions instead, on every mesh.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <set>

#include "base/env.h"
#include "cases.h"
#include "generators.h"
#include "manual_regions.h"
#include "ops/elementwise.h"
#include "ops/table.h"
#include "spmd/factors.h"

namespace shoal::parity {
namespace {

constexpr int kFewestCases = 50;

using Specs = std::vector<std::optional<PartitionSpec>>;  // Of the operands, then of the results.

Type type_of(Dtype dtype, Shape shape) {
  Type type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  return type;
}

// An equation with data and the oracle's results, to be run under many placements.
struct Equation {
  const OpDef& op;
  Sample sample;
  std::vector<Buffer> data;
  std::vector<Type> results;
  std::vector<Known> expected;

  bool is_comparable() const { return !std::isinf(expected[0].error); }
};

// Sums of arbitrary floats cannot be compared with anything.
Fill wildest_fill(const OpDef& op) {
  const bool sums = op.name == "reduce_sum" || op.name == "reduce_prod" || op.name == "dot_general";
  return sums ? Fill::kReals : Fill::kSpecial;
}

Equation make_equation(Rng& rng, const OpDef& op, Sample made, Fill fill) {
  Equation equation{.op = op, .sample = std::move(made), .data = {}, .results = {}, .expected = {}};
  Graph graph;
  for (const Type& type : equation.sample.operands) {
    graph.add_input(type);
    equation.data.push_back(random_buffer(rng, type.dtype, type.shape, fill));
  }
  const std::vector<ValueId> outputs =
      graph.add_eqn(op, equation.sample.attrs, graph.inputs, SourceLocation::current());
  equation.results = graph.types(outputs);
  const std::vector<Known> values = analyse(graph, equation.data);
  for (ValueId id : outputs) equation.expected.push_back(values[static_cast<std::size_t>(id)]);
  return equation;
}

// A sharding that divides goes to the input or output itself or, as one that does not, to a constraint.
Case make_case(Rng& rng, const Equation& equation, const Mesh& mesh, const Specs& specs) {
  Case test;
  test.mesh = mesh;
  test.graph.name = equation.op.name;
  const auto at_boundary = [&](const std::optional<PartitionSpec>& spec, const Shape& shape) {
    return spec && divides(mesh, *spec, shape) && rng.chance(60);
  };
  const auto constrain = [&](ValueId id, const PartitionSpec& spec) {
    return add_eqn(test.graph, "sharding_constraint", {{"sharding", NamedSharding(mesh, spec)}}, {id});
  };
  std::vector<ValueId> operands;
  const std::vector<Type>& types = equation.sample.operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool placed = at_boundary(specs[i], types[i].shape);
    ValueId id = add_input(test, types[i], equation.data[i], placed ? specs[i] : std::nullopt);
    if (specs[i] && !placed) id = constrain(id, *specs[i]);
    operands.push_back(id);
  }
  const std::vector<ValueId> results =
      test.graph.add_eqn(equation.op, equation.sample.attrs, operands, SourceLocation::current());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::optional<PartitionSpec>& spec = specs[types.size() + i];
    const bool placed = at_boundary(spec, equation.results[i].shape);
    const ValueId id = spec && !placed ? constrain(results[i], *spec) : results[i];
    add_output(test, id, placed ? spec : std::nullopt);
  }
  return test;
}

// The other operands and results placed as the op's rule would have them if one of them has this spec.
Specs matching(const Equation& equation, const Mesh& mesh, std::size_t tensor, const PartitionSpec& spec) {
  const std::vector<Type>& operands = equation.sample.operands;
  const ShardingRule rule = equation.op.rule(
      {.op = equation.op, .inputs = operands, .outputs = equation.results, .attrs = equation.sample.attrs});
  std::vector<TensorFactors> tensors = rule.operands;
  tensors.insert(tensors.end(), rule.results.begin(), rule.results.end());
  const Grid grid(mesh);
  const FactorAxes axes = project(grid, rule, tensors[tensor], grid.dims_of(mesh, spec, tensors[tensor].size()));
  Specs specs;
  for (const TensorFactors& factors : tensors) specs.push_back(grid.spec_of(mesh, dims_of(factors, axes)));
  specs[tensor] = spec;
  return specs;
}

class OpParity : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }

  // After a few failures there is no use in more.
  bool given_up() const { return failures_ >= 3; }

  void check(const Case& test, const std::vector<Known>& expected, int& count) {
    ++count;
    std::optional<std::string> failure;
    try {
      failure = compare(run(test), expected);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure) return;
    ADD_FAILURE() << *failure << "\n" << to_text(test);
    ++failures_;
  }

  void check(const Equation& equation, const Mesh& mesh, const Specs& specs, int& count) {
    check(make_case(rng_, equation, mesh, specs), equation.expected, count);
  }

  // A random equation of the op whose first operand, or result if there are none, has this type.
  std::optional<Equation> equation_of(const Mesh& mesh, const Type& first, Fill fill) {
    for (int tries = 0; tries < 20; ++tries) {
      std::optional<Sample> made = sample(rng_, mesh, op(), first);
      if (!made) continue;
      Equation equation = make_equation(rng_, op(), std::move(*made), fill);
      if (equation.is_comparable()) return equation;
    }
    return {};
  }

  // An equation of the first dtype that the op takes.
  std::optional<Equation> any_equation(const Mesh& mesh, const Shape& shape, Fill fill) {
    for (const Dtype dtype : {float32, int32, bool_, complex64}) {
      auto equation = equation_of(mesh, type_of(dtype, shape), fill);
      if (equation) return equation;
    }
    return {};
  }

  void check_placed(const Mesh& mesh, const Equation& equation) {
    std::vector<Type> tensors = equation.sample.operands;
    tensors.insert(tensors.end(), equation.results.begin(), equation.results.end());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const PartitionSpec& spec : all_specs(mesh, tensors[i].rank())) {
        Specs alone(tensors.size(), PartitionSpec());
        alone[i] = spec;
        check(equation, mesh, alone, placed_);
        check(equation, mesh, matching(equation, mesh, i, spec), placed_);
        if (given_up()) return;
      }
    }
  }

  void check_dtypes(const Mesh& mesh) {
    for (int i = 0; i < kNumDtypes; ++i) {
      const Type first = type_of(static_cast<Dtype>(i), {8, 4});
      for (const Fill fill : {wildest_fill(op()), Fill::kIntegers}) {
        const auto equation = equation_of(mesh, first, fill);
        if (!equation) continue;
        dtypes_.insert(first.dtype);
        Specs specs(equation->sample.operands.size() + equation->results.size());
        const Type& placed = equation->sample.operands.empty() ? equation->results[0] : equation->sample.operands[0];
        specs[0] = random_spec(rng_, mesh, placed.rank());
        check(*equation, mesh, specs, sampled_);
      }
    }
  }

  void check_sampled(int count) {
    const std::vector<Dtype> taken(dtypes_.begin(), dtypes_.end());
    for (int i = 0; i < count && !given_up(); ++i) {
      const Mesh& mesh = rng_.pick(all_meshes()).second;
      const Type first = type_of(rng_.pick(taken), random_shape(rng_, rng_.below(5)));
      const auto equation = equation_of(mesh, first, rng_.chance(50) ? Fill::kIntegers : wildest_fill(op()));
      if (!equation) continue;
      Specs specs;
      for (const Type& type : equation->sample.operands) specs.push_back(maybe_spec(mesh, type));
      for (const Type& type : equation->results) specs.push_back(maybe_spec(mesh, type));
      check(*equation, mesh, specs, sampled_);
    }
  }

  std::optional<PartitionSpec> maybe_spec(const Mesh& mesh, const Type& type) {
    if (rng_.chance(25)) return {};
    return random_spec(rng_, mesh, type.rank());
  }

  // A call of a random body: jit of one op, shard_map of one or several.
  std::optional<Sample> call_of(const Mesh& mesh, const Type& first) {
    if (op().name == "jit") {
      const OpDef& inner = *rng_.pick(std::vector<const OpDef*>{&op_named("dot_general"), &op_named("add"),
                                                               &op_named("reduce_max"), &op_named("transpose")});
      std::optional<Sample> made = sample(rng_, mesh, inner, first);
      if (!made) return {};
      auto body = std::make_shared<Graph>();
      for (const Type& type : made->operands) body->add_input(type);
      body->outputs = body->add_eqn(inner, made->attrs, body->inputs, SourceLocation::current());
      return Sample{.operands = made->operands, .attrs = {{"body", GraphAttr{std::move(body)}}}};
    }
    ManualOptions options{.only = &op(), .equations = 4};
    if (op().op_class == OpClass::kCall) options.only = nullptr;
    if (op().op_class == OpClass::kBoundary) options.only = &op_named("transpose");
    const std::vector<Type> operands(options.only == nullptr ? 2 : 1, first);
    std::optional<Attrs> attrs = random_manual_region(rng_, mesh, operands, options);
    if (!attrs) return {};
    return Sample{.operands = operands, .attrs = std::move(*attrs)};
  }

  void check_calls(const Mesh& mesh, int count) {
    const OpDef& call = op_named(op().name == "jit" ? "jit" : "shard_map");
    for (int i = 0; i < count && !given_up(); ++i) {
      const Type first = type_of(static_cast<Dtype>(i % kNumDtypes), i % 2 == 0 ? Shape{24, 12} : Shape{4, 8, 6});
      std::optional<Sample> made = call_of(mesh, first);
      if (!made) continue;
      const Equation equation = make_equation(rng_, call, std::move(*made), Fill::kIntegers);
      if (!equation.is_comparable()) continue;
      dtypes_.insert(first.dtype);
      Specs specs;
      for (const Type& type : equation.sample.operands) specs.push_back(maybe_spec(mesh, type));
      for (const Type& type : equation.results) specs.push_back(maybe_spec(mesh, type));
      check(equation, mesh, specs, sampled_);
    }
  }

  const std::uint64_t seed_ = static_cast<std::uint64_t>(env_int("SHOAL_PARITY_SEED", 0, 1'000'000'000).value_or(1));
  Rng rng_{seed_};
  int placed_ = 0;
  int sampled_ = 0;
  std::set<Dtype> dtypes_;
  int failures_ = 0;
};

TEST_P(OpParity, GivesTheValuesOfTheOracle) {
  const bool in_regions = op().op_class == OpClass::kCollective || op().op_class == OpClass::kCall ||
                          op().op_class == OpClass::kBoundary;
  ASSERT_TRUE(in_regions || generator_of(op()) != nullptr)
      << "nobody has taught tests/parity/generators.cc how to make operands for " << op().name;
  const auto rounds = static_cast<int>(env_int("SHOAL_PARITY_ROUNDS", 1, 1'000'000).value_or(1));
  if (in_regions) {
    for (const auto& [name, mesh] : all_meshes()) check_calls(mesh, 40 * rounds);
  } else {
    for (const auto& [name, mesh] : standard_meshes()) {
      const auto even = any_equation(mesh, {8, 16}, wildest_fill(op()));
      const auto uneven = any_equation(mesh, {6, 5}, Fill::kIntegers);
      ASSERT_TRUE(even && uneven) << "the generator of " << op().name << " makes no operands";
      check_placed(mesh, *even);
      check_placed(mesh, *uneven);
      if (given_up()) return;
    }
    check_dtypes(standard_meshes()[3].second);
    check_sampled(100 * rounds);
  }
  const int cases = placed_ + sampled_;
  std::cout << fmt::format("{:20} {:6} cases: {:6} placed, {:4} sampled from seed {}, {:2} dtypes\n", op().name, cases,
                           placed_, sampled_, seed_, dtypes_.size());
  EXPECT_GE(cases, kFewestCases);
}

std::string name_of_op(const testing::TestParamInfo<const OpDef*>& info) { return std::string(info.param->name); }

INSTANTIATE_TEST_SUITE_P(EveryOp, OpParity, testing::ValuesIn(all_ops().begin(), all_ops().end()), name_of_op);

}  // namespace
}  // namespace shoal::parity
