#include "passes/inline_calls.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace shoal {
namespace {

std::string inlined(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = inline_calls(graph);
  verify(result, "inlined");
  return to_text(result);
}

TEST(InlineCalls, ReplacesCallsByTheirBodies) {
  EXPECT_EQ(inlined(R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2], %3: f32[2] = jit(%1, %0) {body = graph "f"(%0: f32[2], %1: f32[2]) {
      %2: f32[2] = subtract(%0, %1)
      return %2, %0
    }}
  %4: f32[2] = add(%2, %3)
  return %4
})"),
            R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = subtract(%1, %0)
  %3: f32[2] = add(%2, %1)
  return %3
})");
}

TEST(InlineCalls, GoesIntoNestedCalls) {
  EXPECT_EQ(inlined(R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      %1: f32[2] = sin(%0)
      %2: f32[2] = jit(%1) {body = graph "g"(%5: f32[2]) {
              %6: f32[2] = cos(%5)
              return %6
            }}
      %3: f32[2] = jit(%2) {body = graph "g"(%5: f32[2]) {
              %6: f32[2] = cos(%5)
              return %6
            }}
      return %3
    }}
  return %1
})"),
            R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = sin(%0)
  %2: f32[2] = cos(%1)
  %3: f32[2] = cos(%2)
  return %3
})");
}

TEST(InlineCalls, GoesIntoManualRegions) {
  EXPECT_EQ(inlined(R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2]{V:x} = jit(%0) {body = graph "g" over("x"=2)(%0: f32[2]{V:x}) {
              %1: f32[2]{V:x} = negative(%0)
              return %1
            }}
      return %1
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})"),
            R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2]{V:x} = negative(%0)
      return %1
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})");
}

TEST(InlineCalls, ACallMayReturnItsOperands) {
  EXPECT_EQ(inlined(R"(graph "main"(%0: f32[2], %1: i32[]) {
  %2: i32[], %3: f32[2], %4: i32[] = jit(%0, %1) {body = graph "f"(%0: f32[2], %1: i32[]) {
      return %1, %0, %1
    }}
  return %3, %2, %4
})"),
            R"(graph "main"(%0: f32[2], %1: i32[]) {
  return %0, %1, %1
})");
}

TEST(InlineCalls, KeepsTheGridAndThePlacements) {
  const std::string text = R"(on mesh("x"=2; devices 0, 1)
graph "main" over("y"=3)(%0: f32[2] @[x]) {
  %1: f32[2] @[_] = sin(%0)
  return %1
})";
  EXPECT_EQ(inlined(text), text);
}

}  // namespace
}  // namespace shoal
