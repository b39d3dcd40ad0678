#include "passes/dce.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace shoal {
namespace {

std::string cleaned(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = dce(graph);
  verify(result, "cleaned");
  EXPECT_TRUE(graphs_equal(dce(result), result)) << "once is enough";
  return to_text(result);
}

TEST(Dce, RemovesWhatNobodyUses) {
  EXPECT_EQ(cleaned(R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = sin(%0)
  %3: f32[2] = cos(%2)
  %4: f32[2] = add(%2, %0)
  %5: f32[2] = negative(%3)
  return %4
})"),
            R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = sin(%0)
  %3: f32[2] = add(%2, %0)
  return %3
})") << "inputs stay";
}

TEST(Dce, KeepsAnEquationForOneOfItsResults) {
  const std::string text = R"(graph "main"(%0: f32[2]) {
  %1: f32[2], %2: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      %1: f32[2] = sin(%0)
      return %1, %0
    }}
  return %2
})";
  EXPECT_EQ(cleaned(text), text);
}

TEST(Dce, CleansBodiesToo) {
  EXPECT_EQ(cleaned(R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2]{V:x} = negative(%0)
      %2: f32[2]{V:x} = jit(%0) {body = graph "g" over("x"=2)(%0: f32[2]{V:x}) {
              %1: f32[2]{V:x} = cos(%0)
              %2: f32[2]{V:x} = sin(%0)
              return %2
            }}
      return %2
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})"),
            R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2]{V:x} = jit(%0) {body = graph "g" over("x"=2)(%0: f32[2]{V:x}) {
          %1: f32[2]{V:x} = sin(%0)
          return %1
        }}
      return %1
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})");
}

TEST(Dce, RemovesEverythingButInputs) {
  EXPECT_EQ(cleaned(R"(graph "main"(%7: f32[2], %3: f32[2]) {
  %1: f32[2] = add(%7, %3)
  %2: f32[2] = sin(%1)
  return %3
})"),
            R"(graph "main"(%0: f32[2], %1: f32[2]) {
  return %1
})");
}

TEST(Dce, KeepsTheGridAndThePlacements) {
  const std::string text = R"(on mesh("x"=2; devices 0, 1)
graph "main" over("y"=3)(%0: f32[2] @[x]) {
  %1: f32[2] @[_] = sin(%0)
  return %1, %1, %0
})";
  EXPECT_EQ(cleaned(text), text);
}

TEST(Dce, KeepsEffectsAndWhatTheyLookAt) {
  EXPECT_EQ(cleaned(R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = sin(%0)
  %2: f32[2] = cos(%0)
  debug_callback(%2) {callback = callback(3)}
  %3: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      debug_callback() {callback = callback(4)}
      return %0
    }}
  return %0
})"),
            R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = cos(%0)
  debug_callback(%1) {callback = callback(3)}
  %2: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      debug_callback() {callback = callback(4)}
      return %0
    }}
  return %0
})");
}

// Graphs that differ only in what was removed are the same graph.
TEST(Dce, NumbersValuesAnew) {
  const std::string_view with = R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = cos(%0)
  %2: f32[2] = sin(%0)
  return %2
})";
  const std::string_view without = R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = sin(%0)
  return %1
})";
  EXPECT_EQ(cleaned(with), cleaned(without));
}

}  // namespace
}  // namespace shoal
