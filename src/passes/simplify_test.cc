#include "passes/simplify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/table.h"
#include "passes/dce.h"

namespace shoal {
namespace {

std::string simplified(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = dce(simplify(graph));
  verify(result, "simplified");
  EXPECT_TRUE(graphs_equal(dce(simplify(result)), result)) << "once is enough";
  return to_text(result);
}

// A graph of one f32[2,3,4] operand whose last value is its result.
std::string body(std::string_view eqns, std::string_view result) {
  return "graph \"main\"(%0: f32[2,3,4]) {\n" + std::string(eqns) + "  return " + std::string(result) + "\n}";
}

TEST(Simplify, TwoTransposesAreOne) {
  EXPECT_EQ(simplified(body("  %1: f32[4,2,3] = transpose(%0) {perm = (2, 0, 1)}\n"
                            "  %2: f32[3,4,2] = transpose(%1) {perm = (2, 0, 1)}\n",
                            "%2")),
            body("  %1: f32[3,4,2] = transpose(%0) {perm = (1, 2, 0)}\n", "%1"));
}

TEST(Simplify, ATransposeThereAndBackIsNone) {
  EXPECT_EQ(simplified(body("  %1: f32[4,2,3] = transpose(%0) {perm = (2, 0, 1)}\n"
                            "  %2: f32[2,3,4] = transpose(%1) {perm = (1, 2, 0)}\n"
                            "  %3: f32[2,3,4] = sin(%2)\n",
                            "%3")),
            body("  %1: f32[2,3,4] = sin(%0)\n", "%1"));
}

TEST(Simplify, ATransposeThatSwapsEqualExtentsStays) {
  const std::string text = R"(graph "main"(%0: f32[3,3]) {
  %1: f32[3,3] = transpose(%0) {perm = (1, 0)}
  return %1
})";
  EXPECT_EQ(simplified(text), text);
}

TEST(Simplify, ReshapesInARowAreOne) {
  EXPECT_EQ(simplified(body("  %1: f32[24] = reshape(%0) {shape = (24)}\n"
                            "  %2: f32[6,4] = reshape(%1) {shape = (6, 4)}\n"
                            "  %3: f32[4,6] = reshape(%2) {shape = (4, 6)}\n",
                            "%3")),
            body("  %1: f32[4,6] = reshape(%0) {shape = (4, 6)}\n", "%1"));
  EXPECT_EQ(simplified(body("  %1: f32[24] = reshape(%0) {shape = (24)}\n"
                            "  %2: f32[2,3,4] = reshape(%1) {shape = (2, 3, 4)}\n",
                            "%2, %1")),
            body("  %1: f32[24] = reshape(%0) {shape = (24)}\n", "%0, %1"))
      << "the first is still needed";
}

TEST(Simplify, ConversionsToTheSameDtypeGo) {
  EXPECT_EQ(simplified(body("  %1: f32[2,3,4] = convert(%0) {dtype = f32}\n"
                            "  %2: f16[2,3,4] = convert(%1) {dtype = f16}\n"
                            "  %3: f32[2,3,4] = convert(%2) {dtype = f32}\n",
                            "%3")),
            body("  %1: f16[2,3,4] = convert(%0) {dtype = f16}\n"
                 "  %2: f32[2,3,4] = convert(%1) {dtype = f32}\n",
                 "%2"))
      << "one that rounds stays";
  const std::string weak = R"(graph "main"(%0: ~f32[]) {
  %1: f32[] = convert(%0) {dtype = f32}
  return %1
})";
  EXPECT_EQ(simplified(weak), weak) << "a weak type is another";
}

TEST(Simplify, BroadcastsInARowAreOne) {
  EXPECT_EQ(simplified(R"(graph "main"(%0: f32[3]) {
  %1: f32[3,4] = broadcast_in_dim(%0) {dims = (0), shape = (3, 4)}
  %2: f32[2,3,4] = broadcast_in_dim(%1) {dims = (1, 2), shape = (2, 3, 4)}
  return %2
})"),
            R"(graph "main"(%0: f32[3]) {
  %1: f32[2,3,4] = broadcast_in_dim(%0) {dims = (1), shape = (2, 3, 4)}
  return %1
})");
}

TEST(Simplify, ElementwiseOpsTakeScalarsAsTheyAre) {
  EXPECT_EQ(simplified(R"(graph "main"(%0: f32[3,4], %1: f32[]) {
  %2: f32[3,4] = broadcast_in_dim(%1) {dims = (), shape = (3, 4)}
  %3: f32[3,4] = multiply(%0, %2)
  return %3
})"),
            R"(graph "main"(%0: f32[3,4], %1: f32[]) {
  %2: f32[3,4] = multiply(%0, %1)
  return %2
})");
  EXPECT_EQ(simplified(R"(graph "main"(%0: f32[], %1: f32[]) {
  %2: f32[3] = broadcast_in_dim(%0) {dims = (), shape = (3)}
  %3: f32[3] = broadcast_in_dim(%1) {dims = (), shape = (3)}
  %4: f32[3] = multiply(%2, %3)
  return %4
})"),
            R"(graph "main"(%0: f32[], %1: f32[]) {
  %2: f32[3] = broadcast_in_dim(%1) {dims = (), shape = (3)}
  %3: f32[3] = multiply(%0, %2)
  return %3
})") << "one operand has the shape";
}

TEST(Simplify, SlicesOfEverythingGo) {
  EXPECT_EQ(
      simplified(body("  %1: f32[2,3,4] = slice(%0) {limits = (2, 3, 4), starts = (0, 0, 0), strides = (1, 1, 1)}\n"
                      "  %2: f32[2,3,4] = sin(%1)\n",
                      "%2")),
      body("  %1: f32[2,3,4] = sin(%0)\n", "%1"));
}

TEST(Simplify, WindowsThatBeginAtConstantsAreSlices) {
  const auto sliced = [](std::string_view first, std::string_view eqn) {
    return simplified("graph \"main\"(%0: f32[8,3], %1: " + std::string(first) + "[]) {\n" +
                      "  %2: i32[] = full() {shape = (), value = i32(7)}\n" +
                      "  %3: i32[] = full() {shape = (), value = i32(-4)}\n" + std::string(eqn) + "  return %4\n}");
  };
  EXPECT_THAT(sliced("i32", "  %4: f32[4,2] = dynamic_slice(%0, %2, %3) {sizes = (4, 2)}\n"),
              testing::HasSubstr("f32[4,2] = slice(%0) {limits = (8, 2), starts = (4, 0), strides = (1, 1)}"))
      << "as near as it fits";
  EXPECT_THAT(sliced("i32", "  %4: f32[8,3] = dynamic_slice(%0, %2, %2) {sizes = (8, 3)}\n"),
              testing::HasSubstr("return %0"));
  EXPECT_THAT(sliced("i32", "  %4: f32[4,2] = dynamic_slice(%0, %2, %1) {sizes = (4, 2)}\n"),
              testing::HasSubstr("dynamic_slice(%0"))
      << "one start is not known";
}

TEST(Simplify, SlicesOfWhatWasPutTogetherAreThoseOfAPart) {
  const auto sliced = [](std::string_view slice) {
    return simplified(R"(graph "main"(%0: f32[2,3], %1: f32[4,3]) {
  %2: f32[6,3] = concatenate(%0, %1) {dim = 0}
  %3: f32[8,3] = concatenate(%2, %0) {dim = 0}
  )" + std::string(slice) +
                      "\n  return %4\n}");
  };
  EXPECT_EQ(sliced("%4: f32[2,3] = slice(%3) {limits = (6, 3), starts = (3, 0), strides = (2, 1)}"),
            R"(graph "main"(%0: f32[2,3], %1: f32[4,3]) {
  %2: f32[2,3] = slice(%1) {limits = (4, 3), starts = (1, 0), strides = (2, 1)}
  return %2
})") << "of the second";
  EXPECT_EQ(sliced("%4: f32[2,3] = slice(%3) {limits = (8, 3), starts = (6, 0), strides = (1, 1)}"),
            R"(graph "main"(%0: f32[2,3], %1: f32[4,3]) {
  return %0
})") << "all of one";
  EXPECT_THAT(sliced("%4: f32[2,3] = slice(%3) {limits = (3, 3), starts = (1, 0), strides = (1, 1)}"),
              testing::HasSubstr("slice(%2)"))
      << "of two that were put together first";
}

TEST(Simplify, WhatUndoesItselfGoes) {
  EXPECT_EQ(simplified(body("  %1: f32[2,3,4] = negative(%0)\n"
                            "  %2: f32[2,3,4] = negative(%1)\n"
                            "  %3: f32[2,3,4] = negative(%2)\n",
                            "%3")),
            body("  %1: f32[2,3,4] = negative(%0)\n", "%1"));
}

TEST(Simplify, NeutralElementsOfIntegersGo) {
  EXPECT_EQ(simplified(R"(graph "main"(%0: i32[3]) {
  %1: i32[] = full() {shape = (), value = i32(1)}
  %2: i32[3] = multiply(%1, %0)
  %3: i32[3] = full() {shape = (3), value = i32(0)}
  %4: i32[3] = add(%2, %3)
  %5: i32[3] = subtract(%4, %3)
  return %5
})"),
            R"(graph "main"(%0: i32[3]) {
  return %0
})");
}

TEST(Simplify, NothingGoesThatWouldChangeBits) {
  for (const char* text : {R"(graph "main"(%0: i32[3]) {
  %1: i32[] = full() {shape = (), value = i32(0)}
  %2: i32[3] = subtract(%1, %0)
  return %2
})",
                           R"(graph "main"(%0: f32[3]) {
  %1: f32[] = full() {shape = (), value = f32(0)}
  %2: f32[3] = add(%0, %1)
  return %2
})",
                           R"(graph "main"(%0: f32[3]) {
  %1: f32[] = full() {shape = (), value = f32(1)}
  %2: f32[3] = multiply(%0, %1)
  return %2
})"}) {
    EXPECT_EQ(simplified(text), text);
  }
}

// A neutral element may have more dimensions than the operand: the result's type decides.
TEST(Simplify, AResultOfAnotherShapeStays) {
  const std::string text = R"(graph "main"(%0: i32[]) {
  %1: i32[3] = full() {shape = (3), value = i32(0)}
  %2: i32[3] = add(%0, %1)
  return %2
})";
  EXPECT_EQ(simplified(text), text);
}

TEST(Simplify, GoesIntoManualRegions) {
  EXPECT_EQ(simplified(R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      %1: f32[2]{V:x} = negative(%0)
      %2: f32[2]{V:x} = negative(%1)
      return %2
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})"),
            R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = shard_map(%0) {axes = ["x"], body = graph "f" over("x"=2)(%0: f32[2]{V:x}) {
      return %0
    }, in_specs = specs(P("x")), mesh = mesh("x"=2; devices 0, 1), out_specs = specs(P("x"))}
  return %1
})");
}

TEST(Simplify, ConstraintsStay) {
  const std::string text = R"(graph "main"(%0: f32[4]) {
  %1: f32[4] = sharding_constraint(%0) {sharding = sharding(P("x"), memory(device), mesh("x"=2; devices 0, 1))}
  return %1
})";
  EXPECT_EQ(simplified(text), text);
}

}  // namespace
}  // namespace shoal
