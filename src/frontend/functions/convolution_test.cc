// Convolutions and moving windows, against what JAX gave for the same expressions (testdata/convolution.inc), and what
// is moved for them.
#include "shoal/convolution.h"

#include <limits>

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "shoal/reduce.h"
#include "spmd/test_collectives.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;

const RecordedNumbers kConvolutions[] = {
#include "frontend/testdata/convolution.inc"
};

TEST(Convolution, AsInJax) { expect_recorded(kConvolutions); }

Array convolved(const Array& x, const Array& y) { return lax::conv(x, y, {1}, "SAME"); }
Array in_groups(const Array& x, const Array& y) {
  return lax::conv_general_dilated(x, y, {1}, "SAME", {.feature_group_count = 4});
}

TEST(Convolution, MovesNothingWhereBatchesAndFeaturesAreSplit) {
  const Mesh mesh = mesh_4x2();
  const Array x = put(M({8, 4, 6}), mesh, P("x"));
  const Array y = put(M({6, 4, 3}, 1), mesh, P("y"));
  EXPECT_EQ(collectives_of(convolved, x, y), Collectives());
  EXPECT_TRUE(same(convolved(x, y), convolved(M({8, 4, 6}), M({6, 4, 3}, 1))));
  EXPECT_EQ(spec_of(convolved(x, y)), P("x", "y"));
}

TEST(Convolution, SumsOverSplitFeaturesAreReducedOnce) {
  const Mesh mesh = mesh_4x2();
  const Array x = put(M({2, 32, 6}), mesh, P(none, "x"));
  const Array y = put(M({6, 32, 3}, 1), mesh, P(none, "x"));
  EXPECT_EQ(collectives_of(convolved, x, y), (Collectives{{"all_reduce", 1}}));
  EXPECT_TRUE(static_cast<bool>(allclose(convolved(x, y), convolved(M({2, 32, 6}), M({6, 32, 3}, 1)))));
}

TEST(Convolution, SplitGroupsMoveNothing) {
  const Mesh mesh = mesh_4x2();
  const Array x = put(M({2, 8, 6}), mesh, P(none, "x"));
  const Array y = put(M({12, 2, 3}, 1), mesh, P("x"));
  EXPECT_EQ(collectives_of(in_groups, x, y), Collectives());
  EXPECT_TRUE(same(in_groups(x, y), in_groups(M({2, 8, 6}), M({12, 2, 3}, 1))));
}

TEST(ReduceWindow, OfOtherDimensionsMovesNothing) {
  const Array x = put(M({8, 6, 4}), mesh_4x2(), P("x", none, "y"));
  const auto pool = [](const Array& a) {
    return lax::reduce_window(a, 0.0, add, {1, 2, 1}, {.window_strides = {1, 2, 1}}) / 2;
  };
  EXPECT_EQ(collectives_in(jit(pool).lower(x).compile().as_text()), Collectives());
  EXPECT_TRUE(same(pool(x), pool(M({8, 6, 4}))));
}

TEST(ReduceWindow, OfIntegers) {
  const Array x = array({3, -1, 4, 1, -5, 9});
  EXPECT_EQ(ints(lax::reduce_window(x, std::numeric_limits<int>::min(), maximum, {3})), (std::vector<int>{4, 4, 4, 9}));
  EXPECT_EQ(ints(lax::reduce_window(x, 10, add, {2}, {.window_strides = {2}})), (std::vector<int>{12, 15, 14}));
  EXPECT_EQ(ints(lax::reduce_window(x, 5, minimum, {1}, {.base_dilation = {2}})),
            (std::vector<int>{3, 5, -1, 5, 4, 5, 1, 5, -5, 5, 5}));
}

}  // namespace
}  // namespace shoal::test
