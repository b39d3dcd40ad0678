// Errors of computations travel in their results, and are thrown where these are read.
#include <memory>
#include <sstream>

#include "frontend/array/array_impl.h"
#include "misuse.h"
#include "runtime/program.h"

namespace shoal::test {
namespace {

std::vector<Type> same_type(const InferContext& context) { return {context.inputs[0]}; }

ShardingRule no_rule(const RuleContext&) {
  return {.factors = {}, .operands = {TensorFactors()}, .results = {TensorFactors()}};
}

void fail(const KernelContext&) { throw InvalidArgument("the kernel of shard gave up"); }

// A scalar whose computation fails.
Array failing() {
  static const OpDef op{.name = "failing", .doc = "Fails.", .infer = same_type, .rule = no_rule, .reference = fail};
  Graph graph;
  graph.outputs = graph.add_eqn(op, {}, {graph.add_input(Type{})}, {});
  const auto program = std::make_shared<const Program>(graph, std::vector<InputSpec>(1), std::vector<OutputSpec>(1),
                                                       SourceLocation::current());
  const DeviceArray argument = detail::concrete(Array(1.0));
  return detail::Access::make(program->call({argument})[0]);
}

ShardingRule elementwise_rule(const RuleContext& context) {
  ShardingRule rule;
  const int factor = rule.add_factor(context.inputs[0].shape[0]);
  rule.operands = {{{factor}}};
  rule.results = {{{factor}}};
  return rule;
}

// Fails on the shard that begins with 5.
void fail_once(const KernelContext& context) {
  const float first = *static_cast<const float*>(context.inputs[0].data);
  if (first == 5.0F) throw InvalidArgument("the kernel of one shard gave up");
  *static_cast<float*>(context.outputs[0].data) = first;
}

TEST(TravellingError, OfOneShardFailsTheArray) {
  static const OpDef op{
      .name = "failing_once", .doc = "Fails.", .infer = same_type, .rule = elementwise_rule, .reference = fail_once};
  const Array x = put(arange(8.0), mesh_8(), P("i"));
  const DeviceArray argument = detail::concrete(x);
  Graph graph;
  graph.outputs = graph.add_eqn(op, {}, {graph.add_input(argument.type())}, {});
  const auto program = std::make_shared<const Program>(graph, std::vector<InputSpec>{{x.sharding(), "x"}},
                                                       std::vector<OutputSpec>(1), SourceLocation::current());
  const Array bad = detail::Access::make(program->call({argument})[0]);
  EXPECT_THROW(bad.block_until_ready(), InvalidArgument);
  EXPECT_THROW(bad.sum().block_until_ready(), InvalidArgument);
  EXPECT_EQ((x + 1).sum().item<float>(), 36.0F);
}

TEST(TravellingError, ThrownWhereTheValueIsRead) {
  const Array bad = failing();
  EXPECT_EQ(bad.shape(), Shape{});
  EXPECT_TRUE(bad.is_ready());
  EXPECT_THROW(bad.block_until_ready(), InvalidArgument);
  EXPECT_THROW(bad.item<float>(), InvalidArgument);
  EXPECT_THROW(bad.to_vector<float>(), InvalidArgument);
  EXPECT_THROW(bad.addressable_shards(), InvalidArgument);
  EXPECT_THROW(static_cast<bool>(bad), InvalidArgument);
  std::ostringstream out;
  EXPECT_THROW(out << bad, InvalidArgument);
}

TEST(TravellingError, PassesThroughComputations) {
  const Array bad = failing();
  const Array later = bad * 2 + ones({4});
  EXPECT_EQ(later.shape(), Shape{4});
  EXPECT_THROW(later.to_vector<float>(), InvalidArgument);
  const Array jitted = jit([](const Array& x) { return x.sum() - 1; })(later);
  EXPECT_THROW(jitted.item<float>(), InvalidArgument);
  const Array moved = put(later, mesh_4x2(), P("x"));
  EXPECT_THROW(moved.block_until_ready(), InvalidArgument);
  EXPECT_THROW(with_sharding_constraint(later, NamedSharding(mesh_4x2(), P("x"))).block_until_ready(), InvalidArgument);
}

TEST(TravellingError, ReadByAnEagerShardMapAtOnce) {
  const auto f = shard_map([](const Array& x) { return x; }, {.mesh = mesh_8(), .in_specs = P(), .out_specs = P()});
  EXPECT_THROW(f(failing()), InvalidArgument);
  EXPECT_EQ(f(2.0F).item<float>(), 2.0F);
}

TEST(TravellingError, KeepsItsMessage) {
  try {
    (failing() + 1).block_until_ready();
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("gave up"));
  }
}

TEST(TravellingError, LeavesOthersAlone) {
  const Array bad = failing();
  const Array good = ones({4}) + 1;
  EXPECT_THROW((bad + good).block_until_ready(), InvalidArgument);
  EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
}

}  // namespace
}  // namespace shoal::test
