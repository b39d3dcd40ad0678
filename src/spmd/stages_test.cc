#include "spmd/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/table.h"
#include "shoal/error.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kTraced = R"(graph "f"(%0: f32[8]) {
  %1: f32[8] = jit(%0) {body = graph "g"(%0: f32[8]) {
      %1: f32[8] = sin(%0)
      %2: f32[8] = cos(%0)
      return %1
    }, name = "g"}
  %2: f32[8] = sin(%0)
  %3: f32[8] = add(%1, %2)
  return %3
})";

TEST(Stages, AreInOrder) {
  std::vector<std::string> results;
  for (const Stage& stage : all_stages()) {
    if (!stage.result.empty()) results.emplace_back(stage.result);
  }
  EXPECT_THAT(results, ElementsAre("simplified", "placed", "propagated", "partitioned", "fused"));
}

TEST(Stages, RunFromOneToAnother) {
  Compilation program{.graph = parse_graph(kTraced, find_op)};
  std::vector<std::string> names;
  run_stages(program, "inline_calls", "dce",
             [&](const Stage& stage, const GraphPtr&) { names.emplace_back(stage.name); });
  EXPECT_THAT(names, ElementsAre("inline_calls", "simplify", "cse", "hoist", "dce"));
  EXPECT_EQ(to_text(*program.graph), R"(graph "f"(%0: f32[8]) {
  %1: f32[8] = sin(%0)
  %2: f32[8] = add(%1, %1)
  return %2
})");
  EXPECT_THROW(run_stages(program, "optimise", "dce"), InternalError);
}

TEST(Stages, LeadAProgramToItsDevices) {
  set_num_cpu_devices(8);
  const Mesh mesh({devices()[0], devices()[1]}, {2}, {"x"});
  Compilation program{.graph = parse_graph(kTraced, find_op),
                      .placing = {.inputs = {{.sharding = NamedSharding(mesh, P("x")), .label = "x"}},
                                  .outputs = std::vector<OutputSpec>(1)},
                      .fuse = [](Graph graph) { return graph; }};
  run_stages(program, "inline_calls", "fuse");
  EXPECT_EQ(to_text(*program.graph), R"(on mesh("x"=2; devices 0, 1)
graph "f"(%0: f32[4] varying(x) of [8] @[x]) {
  %1: f32[4] varying(x) of [8] @[x] = sin(%0)
  %2: f32[4] varying(x) of [8] @[x] = add(%1, %1)
  return %2
})");
  EXPECT_EQ(program.placing.output_shardings[0], Sharding(NamedSharding(mesh, P("x"))));
}

}  // namespace
}  // namespace shoal
