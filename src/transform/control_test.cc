// Derivatives of loops and branches as text: what is kept for the linear part, and how.
#include "transform/control.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/table.h"
#include "transform/linearize.h"
#include "transform/transpose.h"

namespace shoal {
namespace {

Graph parsed(const std::string& text) { return parse_graph(text, find_op); }

// The linear part of a loop is given its captures and slices, and what depends on captures alone it computes again.
// What is made of slices and carries is stacked.
TEST(DerivativesOfLoops, KeepOnlyWhatTripsChange) {
  const Graph loop = parsed(R"(graph "f"(%0: f32[3], %1: f32[7,3], %2: f32[3]) {
  %3: f32[3] = scan(%0, %1, %2) {bodies = graphs(graph "body"(%0: f32[3], %1: f32[3], %2: f32[3]) {
      %3: f32[3] = exp(%2)
      %4: f32[3] = multiply(%3, %1)
      %5: f32[3] = multiply(%0, %4)
      return %5
    }), carries = 1, length = 7, reverse = false, slices = 1}
  return %3
}
)");
  const Linearized cut = linearize(loop, {true, true, true});
  EXPECT_EQ(to_text(cut.primal), R"(graph "f"(%0: f32[3], %1: f32[7,3], %2: f32[3]) {
  %3: f32[3], %4: f32[7,3], %5: f32[7,3] = scan(%0, %1, %2) {bodies = graphs(graph "body"(%0: f32[3], %1: f32[3], %2: f32[3]) {
      %3: f32[3] = exp(%2)
      %4: f32[3] = multiply(%3, %1)
      %5: f32[3] = multiply(%0, %4)
      return %5, %4, %0
    }), carries = 1, length = 7, reverse = false, slices = 1}
  return %3, %1, %4, %5, %2
})");
  EXPECT_EQ(to_text(cut.tangent),
            R"(graph "f"(%3: f32[7,3], %4: f32[7,3], %5: f32[7,3], %6: f32[3], %0: f32[3], %1: f32[7,3], %2: f32[3]) {
  %7: f32[3] = scan(%0, %1, %3, %4, %5, %2, %6) {bodies = graphs(graph "body"(%0: f32[3], %1: f32[3], %3: f32[3], %4: f32[3], %5: f32[3], %2: f32[3], %6: f32[3]) {
      %7: f32[3] = exp(%6)
      %8: f32[3] = multiply(%2, %7)
      %9: f32[3] = multiply(%8, %3)
      %10: f32[3] = multiply(%7, %1)
      %11: f32[3] = add(%9, %10)
      %12: f32[3] = multiply(%0, %4)
      %13: f32[3] = multiply(%5, %11)
      %14: f32[3] = add(%12, %13)
      return %14
    }), carries = 1, length = 7, reverse = false, slices = 4}
  return %7
})");
  EXPECT_EQ(to_text(transpose(cut.tangent, cut.num_residuals)),
            R"(graph "f"(%0: f32[7,3], %1: f32[7,3], %2: f32[7,3], %3: f32[3], %4: f32[3]) {
  %5: f32[3] = full() {shape = (3), value = f32(0)}
  %6: f32[3], %7: f32[3], %8: f32[7,3] = scan(%4, %5, %0, %1, %2, %3) {bodies = graphs(graph "body"(%5: f32[3], %11: f32[3], %0: f32[3], %1: f32[3], %2: f32[3], %3: f32[3]) {
      %4: f32[3] = exp(%3)
      %6: f32[3] = multiply(%5, %2)
      %7: f32[3] = multiply(%5, %1)
      %8: f32[3] = multiply(%6, %4)
      %9: f32[3] = multiply(%6, %0)
      %10: f32[3] = multiply(%9, %4)
      %12: f32[3] = add(%11, %10)
      return %7, %12, %8
    }), carries = 2, length = 7, reverse = true, slices = 3}
  return %6, %8, %7
})");
}

// Branches share what they keep.
TEST(DerivativesOfBranches, ShareTheirResiduals) {
  const Graph branches = parsed(R"(graph "f"(%0: i32[], %1: f32[3]) {
  %2: f32[3] = switch(%0, %1) {bodies = graphs(graph "a"(%0: f32[3]) {
      %1: f32[3] = exp(%0)
      %2: f32[3] = sin(%1)
      return %2
    }, graph "b"(%0: f32[3]) {
      %1: f32[3] = log(%0)
      %2: f32[3] = cos(%1)
      return %2
    }, graph "c"(%0: f32[3]) {
      return %0
    })}
  return %2
}
)");
  const Linearized cut = linearize(branches, {false, true});
  EXPECT_EQ(to_text(cut.primal), R"(graph "f"(%0: i32[], %1: f32[3]) {
  %2: f32[3], %3: f32[3] = switch(%0, %1) {bodies = graphs(graph "a"(%0: f32[3]) {
      %1: f32[3] = exp(%0)
      %2: f32[3] = sin(%1)
      return %2, %1
    }, graph "b"(%0: f32[3]) {
      %1: f32[3] = log(%0)
      %2: f32[3] = cos(%1)
      return %2, %1
    }, graph "c"(%0: f32[3]) {
      %1: f32[3] = full() {shape = (3), value = f32(0)}
      return %0, %1
    })}
  return %2, %0, %3, %1
})");
  EXPECT_EQ(to_text(cut.tangent), R"(graph "f"(%1: i32[], %2: f32[3], %3: f32[3], %0: f32[3]) {
  %4: f32[3] = switch(%1, %0, %2, %3) {bodies = graphs(graph "a"(%0: f32[3], %1: f32[3], %5: f32[3]) {
      %2: f32[3] = multiply(%0, %1)
      %3: f32[3] = cos(%1)
      %4: f32[3] = multiply(%2, %3)
      return %4
    }, graph "b"(%0: f32[3], %2: f32[3], %1: f32[3]) {
      %3: f32[3] = divide(%0, %1)
      %4: f32[3] = sin(%2)
      %5: f32[3] = multiply(%3, %4)
      %6: f32[3] = negative(%5)
      return %6
    }, graph "c"(%0: f32[3], %1: f32[3], %2: f32[3]) {
      return %0
    })}
  return %4
})");
}

}  // namespace
}  // namespace shoal
