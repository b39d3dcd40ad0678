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

// The second carry is read for itself alone, the third for the first; of the slices and captures one each is used, and
// the stack by nobody.
TEST(Dce, NarrowsLoops) {
  EXPECT_EQ(cleaned(R"(graph "main"(%0: f32[], %1: f32[3], %2: f32[3]) {
  %3: f32[], %4: f32[], %5: f32[], %6: f32[3] = scan(%0, %0, %0, %1, %2, %0, %1) {bodies = graphs(graph "body"(%0: f32[], %1: f32[], %2: f32[], %3: f32[], %4: f32[], %5: f32[], %6: f32[3]) {
      %7: f32[] = add(%0, %2)
      %8: f32[] = multiply(%1, %3)
      %9: f32[] = sin(%2)
      %10: f32[] = add(%9, %4)
      %11: f32[] = add(%10, %5)
      return %7, %8, %11, %8
    }), carries = 3, length = 3, reverse = false, slices = 2}
  return %3
})"),
            R"(graph "main"(%0: f32[], %1: f32[3], %2: f32[3]) {
  %3: f32[], %4: f32[] = scan(%0, %0, %2, %0) {bodies = graphs(graph "body"(%0: f32[], %1: f32[], %2: f32[], %3: f32[]) {
      %4: f32[] = add(%0, %1)
      %5: f32[] = sin(%1)
      %6: f32[] = add(%5, %2)
      %7: f32[] = add(%6, %3)
      return %4, %7
    }), carries = 2, length = 3, reverse = false, slices = 1}
  return %3
})");
}

// What the question reads is needed; a result of a branch that nobody needs goes from all.
TEST(Dce, NarrowsWhatAsksAndBranches) {
  EXPECT_EQ(cleaned(R"(graph "main"(%0: f32[], %1: i32[]) {
  %2: f32[], %3: f32[] = while(%0, %0) {bodies = graphs(graph "condition"(%0: f32[], %1: f32[]) {
      %2: bool[] = less(%1, %1)
      return %2
    }, graph "body"(%0: f32[], %1: f32[]) {
      %2: f32[] = sin(%0)
      %3: f32[] = cos(%1)
      return %2, %3
    }), carries = 2}
  %4: f32[], %5: f32[] = switch(%1, %3, %0) {bodies = graphs(graph "a"(%0: f32[], %1: f32[]) {
      return %0, %1
    }, graph "b"(%0: f32[], %1: f32[]) {
      %2: f32[] = sin(%1)
      return %0, %2
    })}
  return %4
})"),
            R"(graph "main"(%0: f32[], %1: i32[]) {
  %2: f32[] = while(%0) {bodies = graphs(graph "condition"(%0: f32[]) {
      %1: bool[] = less(%0, %0)
      return %1
    }, graph "body"(%0: f32[]) {
      %1: f32[] = cos(%0)
      return %1
    }), carries = 1}
  %3: f32[] = switch(%1, %2) {bodies = graphs(graph "a"(%0: f32[]) {
      return %0
    }, graph "b"(%0: f32[]) {
      return %0
    })}
  return %3
})");
}

}  // namespace
}  // namespace shoal
