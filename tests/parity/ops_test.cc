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

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <vector>

#include "base/env.h"
#include "equations.h"
#include "manual_regions.h"
#include "ops/elementwise.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

constexpr int kFewestCases = 50;

// Sums of arbitrary floats cannot be compared with anything, and of matrices with NaN nothing is left to compare.
Fill wildest_fill(const OpDef& op) {
  static const std::set<std::string_view> names = {"reduce_sum",
                                                   "reduce_prod",
                                                   "dot_general",
                                                   "cumsum",
                                                   "scatter_reduce",
                                                   "cumprod",
                                                   "cholesky",
                                                   "cholesky_inverse",
                                                   "triangular_inverse",
                                                   "triangular_solve",
                                                   "lu",
                                                   "qr",
                                                   "eigh",
                                                   "svd",
                                                   "convolution",
                                                   "fft",
                                                   "attention",
                                                   "attention_gradient",
                                                   "hessenberg",
                                                   "householder_product",
                                                   "schur",
                                                   "eig"};
  return names.contains(op.name) ? Fill::kReals : Fill::kSpecial;
}

// Whether it computes elements by series, which take long where nothing is compiled. The rule is that of all
// elementwise ops: one placement of many shows that it is theirs.
bool iterates(const Equation& equation) {
  if (equation.op.elementwise == nullptr) return false;
  std::vector<Dtype> dtypes;
  for (const Type& type : equation.sample.operands) dtypes.push_back(type.dtype);
  const scalar::Body& body = body_of(equation.op, dtypes, equation.sample.operands[0].dtype);
  return std::ranges::any_of(body.nodes, [](const scalar::Node& node) { return node.core == scalar::Core::kCarried; });
}
constexpr std::size_t kPlacementsForOne = 32;
// Of the placements of many operands and results about so many are tried.
constexpr std::size_t kMostPlacements = 400;

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
    for (const Dtype dtype : {float32, int32, bool_, complex64, uint64}) {
      auto equation = equation_of(mesh, type_of(dtype, shape), fill);
      if (equation) return equation;
    }
    return {};
  }

  void check_placed(const Mesh& mesh, const Equation& equation) {
    const std::vector<Specs> placements = all_placements(equation, mesh);
    const std::size_t step = iterates(equation) ? kPlacementsForOne : placements.size() / kMostPlacements + 1;
    for (std::size_t i = 0; i < placements.size() && !given_up(); i += step) {
      check(equation, mesh, placements[i], placed_);
    }
  }

  void check_dtypes(const Mesh& mesh) {
    for (int i = 0; i < kNumDtypes; ++i) {
      const Type first = type_of(static_cast<Dtype>(i), {8, 4});
      for (const Fill fill : {wildest_fill(op()), Fill::kIntegers}) {
        const auto equation = equation_of(mesh, first, fill);
        if (!equation) continue;
        dtypes_.insert(first.dtype);
        const std::vector<Type> tensors = tensors_of(*equation);
        Specs specs(tensors.size());
        specs[0] = random_spec(rng_, mesh, tensors[0].rank());
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
      check(*equation, mesh, random_specs(mesh, *equation), sampled_);
    }
  }

  Specs random_specs(const Mesh& mesh, const Equation& equation) {
    Specs specs;
    for (const Type& type : tensors_of(equation)) {
      specs.emplace_back();
      if (rng_.chance(75)) specs.back() = random_spec(rng_, mesh, type.rank());
    }
    return specs;
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
    if (op().op_class == OpClass::kCall || op().op_class == OpClass::kRegion) options.only = nullptr;
    if (is_boundary(op())) options.only = &op_named("transpose");
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
      check(equation, mesh, random_specs(mesh, equation), sampled_);
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
                          op().op_class == OpClass::kRegion || is_boundary(op());
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
      for (const auto& [attribute, value] : even->sample.attrs.entries()) {
        EXPECT_NE(op().attributes.find(attribute), nullptr)
            << "the record of " << op().name << " has no attribute " << attribute;
      }
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

INSTANTIATE_TEST_SUITE_P(EveryOp, OpParity, testing::ValuesIn(ops_with_results()), name_of_op);

}  // namespace
}  // namespace shoal::parity
