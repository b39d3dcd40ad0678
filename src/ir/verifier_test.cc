#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/test_support.h"
#include "sharding/test_support.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using test_support::op_named;
using test_support::type_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// %0 and %1 are inputs, %2 = copy(%0), %3, %4 = swap(%2, %1); %4 is returned.
Graph good_graph() {
  Graph graph;
  const ValueId x = graph.add_input(type_of(float32, {4}));
  const ValueId y = graph.add_input(type_of(int32, {2, 3}));
  const ValueId copied = graph.add_eqn(op_named("copy"), {}, {x}, SourceLocation::current())[0];
  graph.outputs = {graph.add_eqn(op_named("swap"), {}, {copied, y}, SourceLocation::current())[1]};
  return graph;
}

// The same on a grid of 2 × 3 devices, propagated.
Graph placed_graph() {
  Graph graph = good_graph();
  graph.grid = std::make_shared<const Grid>(test_support::grid({2, 3}));
  for (Value& value : graph.values) value.placement = Placement::replicated(value.type.rank());
  return graph;
}

// A shard of f32[4] over the first axis.
Graph partitioned_graph() {
  Graph graph;
  graph.grid = std::make_shared<const Grid>(test_support::grid({2, 3}));
  const ValueId x = graph.add_input(type_of(float32, {2}));
  graph.outputs = graph.add_eqn(op_named("copy"), {}, {x}, SourceLocation::current());
  for (Value& value : graph.values) {
    value.global = GlobalShape{{4}, {.dims = {{0}}, .partial = {}}};
    value.varying = AtomSet(Atoms{0});
  }
  return graph;
}

void expect_error(const Graph& graph, const std::string& text, std::string_view stage = "traced") {
  EXPECT_THAT([&] { verify(graph, stage); },
              ThrowsMessage<InternalError>(
                  AllOf(HasSubstr("verify after " + std::string(stage) + ", graph 'main'"), HasSubstr(text))));
}

TEST(Verifier, PassesGoodGraphs) {
  EXPECT_NO_THROW(verify(Graph{}, "traced"));
  EXPECT_NO_THROW(verify(good_graph(), "traced"));
  EXPECT_NO_THROW(verify(placed_graph(), "propagated"));
  EXPECT_NO_THROW(verify(partitioned_graph(), "partitioned"));
}

TEST(Verifier, FindsUsesBeforeTheDefinition) {
  Graph graph = good_graph();
  std::swap(graph.eqns[0], graph.eqns[1]);
  expect_error(graph, "= swap(%2, %1) use %2 before its definition");
  graph = good_graph();
  graph.eqns[0].inputs = {2};
  expect_error(graph, "copy(%2) use %2 before its definition");
  graph = good_graph();
  graph.eqns[0].inputs = {17};
  expect_error(graph, "use %17 before its definition");
}

TEST(Verifier, FindsUndefinedOutputs) {
  for (const ValueId id : {-1, 5, 1000}) {
    Graph graph = good_graph();
    graph.outputs.push_back(id);
    expect_error(graph, "the outputs use %" + std::to_string(id) + " before its definition");
  }
}

TEST(Verifier, FindsSecondDefinitions) {
  Graph graph = good_graph();
  graph.inputs.push_back(0);
  expect_error(graph, "an input defines %0 a second time");
  graph = good_graph();
  graph.eqns[0].outputs = {0};
  expect_error(graph, "= copy(%0) defines %0 a second time");
  graph = good_graph();
  graph.eqns.push_back(graph.eqns[0]);
  expect_error(graph, "= copy(%0) defines %2 a second time");
}

TEST(Verifier, FindsDefinitionsOfUnknownValues) {
  for (const ValueId id : {-1, 5, 1000}) {
    Graph graph = good_graph();
    graph.inputs[1] = id;
    expect_error(graph, "%" + std::to_string(id) + " is defined but unknown");
    graph = good_graph();
    graph.eqns[0].outputs = {id};
    expect_error(graph, "%" + std::to_string(id) + " is defined but unknown");
  }
}

TEST(Verifier, FindsEquationsWithoutOp) {
  Graph graph = good_graph();
  graph.eqns[0].op = nullptr;
  expect_error(graph, "an equation has no op");
}

TEST(Verifier, FindsWrongNumbersOfOperandsAndResults) {
  Graph graph = good_graph();
  graph.eqns[0].inputs = {0, 1};
  expect_error(graph, "= copy(%0, %1) has 2 operands, not 1");
  graph = good_graph();
  graph.eqns[1].outputs = {3};
  expect_error(graph, "%3: i32[2,3] = swap(%2, %1) has 2 results");
}

TEST(Verifier, FindsTypesThatDoNotFollow) {
  Graph graph = good_graph();
  graph.value(2).type.shape = {5};
  expect_error(graph, "%2: f32[5] = copy(%0) should give f32[4], not f32[5]");
  graph = good_graph();
  graph.value(2).type.weak = true;
  expect_error(graph, "should give f32[4], not ~f32[4]");
}

TEST(Verifier, FindsWhatTheOpRefuses) {
  Graph graph = good_graph();
  graph.eqns[0].op = &op_named("refuse");
  expect_error(graph, "= refuse(%0) does not check: refuse: not today");
  graph = good_graph();
  graph.eqns.push_back(
      {.op = &op_named("source"), .attrs = {}, .inputs = {}, .outputs = {graph.add_value({})}, .where = {}});
  expect_error(graph, "attribute 'shape' is missing");
}

TEST(Verifier, FindsNegativeExtents) {
  Graph graph = good_graph();
  graph.value(0).type.shape = {-4};
  expect_error(graph, "%0 has a negative extent");
}

TEST(Verifier, FindsUnboundAxes) {
  Graph graph = good_graph();
  graph.value(0).type.varying = graph.value(2).type.varying = graph.value(4).type.varying = {"x"};
  expect_error(graph, "%0 varies over 'x', which is not bound");
  graph.axes.bind("x", 2);
  EXPECT_NO_THROW(verify(graph, "traced"));
}

TEST(Verifier, FindsPlacementsThatDoNotFit) {
  Graph graph = placed_graph();
  graph.grid = nullptr;
  expect_error(graph, "%0 has a placement but the graph has no grid", "propagated");
  graph = placed_graph();
  graph.value(3).placement = Placement::replicated(1);
  expect_error(graph, "the placement of %3 is of another rank", "propagated");
  graph = placed_graph();
  graph.value(3).placement = Placement{.dims = {{0}, {0}}, .partial = {}};
  expect_error(graph, "the placement of %3 uses an axis twice", "propagated");
  graph = placed_graph();
  graph.value(3).placement = Placement{.dims = {{0}, {}}, .partial = {0}};
  expect_error(graph, "the placement of %3 uses an axis twice", "propagated");
  for (const Atom unknown : Atoms{2, 63, 64, 255}) {
    graph = placed_graph();
    graph.value(3).placement = Placement{.dims = {{}, {unknown}}, .partial = {}};
    expect_error(graph, "the placement of %3 uses an unknown axis", "propagated");
    graph.value(3).placement = Placement{.dims = {{}, {}}, .partial = {unknown}};
    expect_error(graph, "the placement of %3 uses an unknown axis", "propagated");
  }
}

TEST(Verifier, FindsShardsThatAreNot) {
  Graph graph = partitioned_graph();
  graph.value(1).global.edit([](GlobalShape& global) { global.shape = {5}; });
  expect_error(graph, "%1 is not the shard of its global shape", "partitioned");
  graph = partitioned_graph();
  graph.value(1).global.edit([](GlobalShape& global) { global.shape = {4, 1}; });
  expect_error(graph, "the placement of %1 is of another rank", "partitioned");
  graph = partitioned_graph();
  graph.value(1).varying = AtomSet(Atoms{0, 1});
  expect_error(graph, "%1 varies over more than its placement does", "partitioned");
}

TEST(Verifier, ComparesVaryingAxesWhereThereIsNoGrid) {
  Graph graph = good_graph();
  graph.axes.bind("x", 2);
  graph.value(2).type.varying = {"x"};
  expect_error(graph, "should give f32[4], not f32[4]{V:x}");
  graph.grid = std::make_shared<const Grid>(test_support::grid({2}));
  EXPECT_NO_THROW(verify(graph, "placed")) << "on a grid, atoms stand for them";
}

TEST(Verifier, FindsPlacementsOverManualAxes) {
  Graph graph = partitioned_graph();
  graph.value(1).manual = AtomSet(Atoms{1});
  EXPECT_NO_THROW(verify(graph, "partitioned"));
  graph.value(1).manual = AtomSet(Atoms{0});
  expect_error(graph, "the placement of %1 uses an axis that is manual there", "partitioned");
}

TEST(Verifier, FindsAttributesThatOpsDoNotTake) {
  Graph graph = good_graph();
  graph.eqns[0].attrs.set("dim", std::int64_t{0});
  expect_error(graph, "has an attribute 'dim', which copy does not take");
  graph.eqns[0].op = &op_named("join");
  EXPECT_NO_THROW(verify(graph, "traced"));
  graph.eqns[0].attrs.set("dim", std::string("0"));
  expect_error(graph, "attribute 'dim' of ");
  graph.eqns[0].attrs = {{"out_sharding", Dims{0}}};
  expect_error(graph, "attribute 'out_sharding' of ");
}

TEST(Verifier, FindsNegativeGlobalExtents) {
  Graph graph = partitioned_graph();
  graph.value(0).type.shape.assign(graph.value(0).type.rank(), 0);
  const std::size_t rank = graph.value(0).type.rank();
  graph.value(0).global.edit([&](GlobalShape& global) { global.shape.assign(rank, -1); });
  expect_error(graph, "%0 has a negative global extent", "partitioned");
}

TEST(Verifier, LooksIntoSubGraphs) {
  Graph inner = good_graph();
  inner.name = "inner";
  inner.value(2).type.shape = {5};
  Graph graph = good_graph();
  graph.eqns[0].op = &op_named("join");
  graph.eqns[0].attrs.set("body", GraphAttr{std::make_shared<const Graph>(inner)});
  EXPECT_THAT([&] { verify(graph, "traced"); },
              ThrowsMessage<InternalError>(HasSubstr("graph 'inner': %2: f32[5] = copy(%0) should give f32[4]")));
}

}  // namespace
}  // namespace shoal
