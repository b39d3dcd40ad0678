#include "passes/cse.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "passes/dce.h"

namespace shoal {
namespace {

std::string merged(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = dce(cse(graph));
  verify(result, "merged");
  EXPECT_TRUE(graphs_equal(dce(cse(result)), result)) << "once is enough";
  return to_text(result);
}

TEST(Cse, ComputesEqualThingsOnce) {
  EXPECT_EQ(merged(R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = sin(%0)
  %3: f32[2] = sin(%0)
  %4: f32[2] = add(%2, %1)
  %5: f32[2] = add(%3, %1)
  %6: f32[2] = multiply(%4, %5)
  return %6, %5
})"),
            R"(graph "main"(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = sin(%0)
  %3: f32[2] = add(%2, %1)
  %4: f32[2] = multiply(%3, %3)
  return %4, %3
})");
}

TEST(Cse, OperandsAndAttributesCount) {
  const std::string text = R"(graph "main"(%0: f32[2,2], %1: f32[2,2]) {
  %2: f32[2,2] = subtract(%0, %1)
  %3: f32[2,2] = subtract(%1, %0)
  %4: f32[2] = reduce_sum(%2) {axes = (0)}
  %5: f32[2] = reduce_sum(%2) {axes = (1)}
  %6: f32[2] = add(%4, %5)
  return %6, %3
})";
  EXPECT_EQ(merged(text), text);
}

// Each constant lies where its user wants it; what is computed from equal ones is equal.
TEST(Cse, ConstantsStayButAreKnownToBeEqual) {
  EXPECT_EQ(merged(R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = full() {shape = (2), value = f32(3)}
  %2: f32[2] = full() {shape = (2), value = f32(3)}
  %3: f32[2] = multiply(%0, %1)
  %4: f32[2] = multiply(%0, %2)
  %5: f32[2] = add(%3, %4)
  %6: f32[2] = divide(%5, %2)
  return %6
})"),
            R"(graph "main"(%0: f32[2]) {
  %1: f32[2] = full() {shape = (2), value = f32(3)}
  %2: f32[2] = full() {shape = (2), value = f32(3)}
  %3: f32[2] = multiply(%0, %1)
  %4: f32[2] = add(%3, %3)
  %5: f32[2] = divide(%4, %2)
  return %5
})");
}

TEST(Cse, EveryEffectHappens) {
  const std::string text = R"(graph "main"(%0: f32[2]) {
  debug_callback(%0) {callback = callback(3)}
  debug_callback(%0) {callback = callback(3)}
  %1: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      debug_callback(%0) {callback = callback(4)}
      return %0
    }}
  %2: f32[2] = jit(%0) {body = graph "f"(%0: f32[2]) {
      debug_callback(%0) {callback = callback(4)}
      return %0
    }}
  %3: f32[2] = add(%1, %2)
  return %3
})";
  EXPECT_EQ(merged(text), text);
}

TEST(Cse, GoesIntoManualRegionsAndMergesThem) {
  EXPECT_EQ(merged(R"(graph "main"(%0: f32[4]) {
  %1: f32[2] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2] = all_reduce(%0) {axes = ["x"], kind = "sum"}
      %2: f32[2] = all_reduce(%0) {axes = ["x"], kind = "sum"}
      %3: f32[2] = add(%1, %2)
      return %3
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P())}
  %2: f32[2] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2] = all_reduce(%0) {axes = ["x"], kind = "sum"}
      %2: f32[2] = add(%1, %1)
      return %2
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P())}
  %3: f32[2] = subtract(%1, %2)
  return %3
})"),
            R"(graph "main"(%0: f32[4]) {
  %1: f32[2] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2] = all_reduce(%0) {axes = ["x"], kind = "sum"}
      %2: f32[2] = add(%1, %1)
      return %2
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P())}
  %2: f32[2] = subtract(%1, %1)
  return %2
})");
}

}  // namespace
}  // namespace shoal
