// Reductions by functions that do not fit.
#include <utility>
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

using Two = std::pair<Array, Array>;

TEST(ReduceError, Operands) {
  const Array x = ones({4, 6});
  const auto sums = [](const Two& a, const Two& b) { return Two(a.first + b.first, a.second + b.second); };
  const auto first = [](const std::vector<Array>& a, const std::vector<Array>&) { return a; };
  const Two zero(Array(0.0), Array(0.0));
  EXPECT_MISUSE(InvalidArgument, ("reduce: initial values must be scalars, got float32[2]"),
                lax::reduce(x, ones({2}), add, {0}));
  EXPECT_MISUSE(TypeMismatch,
                ("reduce: initial values must have the dtypes of the operands, got float32[] for int32[4,6]"),
                lax::reduce(x.astype(int32), 0.5F, add, {0}));
  EXPECT_MISUSE(InvalidArgument, ("reduce: operands must have one shape, got float32[4,6] and float32[6]"),
                lax::reduce(Two(x, ones({6})), zero, sums, {0}));
  EXPECT_MISUSE(InvalidArgument, ("reduce: operands must have the same tree structure as init_values"),
                lax::reduce(std::vector<Array>{x, x}, std::vector<Array>{Array(0.0)}, first, {0}));
  EXPECT_MISUSE(InvalidArgument, ("reduce: there must be an operand"),
                lax::reduce(std::vector<Array>(), std::vector<Array>(), first, {0}));
  EXPECT_MISUSE(OutOfRange, ("reduce", "axis 2"), lax::reduce(x, 0.0, add, {2}));
  EXPECT_MISUSE(InvalidArgument, ("reduce", "twice"), lax::reduce(x, 0.0, add, {0, 0}));
}

TEST(ReduceError, Computations) {
  const Array x = ones({4, 6});
  const Array row = ones({6});
  const auto compares = [](const Array& a, const Array& b) { return a < b; };
  const auto adds_row = [&](const Array& a, const Array& b) { return sum(row * a) + b; };
  const auto drops = [](const std::vector<Array>& a, const std::vector<Array>&) { return std::vector{a[0]}; };
  const auto loops = [](const Array& a, const Array& b) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& c) { return c + b; }, a);
  };
  const auto shows = [](const Array& a, const Array& b) {
    debug::print("{}", a);
    return a + b;
  };
  EXPECT_MISUSE(TypeMismatch, ("reduce: computation gives bool[] for elements of float32[]; it must keep the type"),
                lax::reduce(x, 0.0, compares, {0}));
  EXPECT_MISUSE(InvalidArgument, ("reduce: computation gives 1 arrays for 2"),
                lax::reduce(std::vector{x, x}, std::vector{Array(0.0), Array(0.0)}, drops, {0}));
  EXPECT_MISUSE(Unsupported, ("reduce: computation has multiply", "elementwise operations on its arguments"),
                lax::reduce(x, 0.0, adds_row, {0}));
  EXPECT_MISUSE(Unsupported, ("reduce: computation has scan"), lax::reduce(x, 0.0, loops, {0}));
  EXPECT_MISUSE(Unsupported, ("reduce: computation has debug_callback"), lax::reduce(x, 0.0, shows, {0}));
}

TEST(ReduceError, Windows) {
  const Array x = ones({4, 6});
  EXPECT_MISUSE(InvalidArgument, ("reduce_window: initial values must be scalars, got float32[2]"),
                lax::reduce_window(x, ones({2}), add, {1, 2}));
  EXPECT_MISUSE(InvalidArgument, ("reduce_window", "window_dimensions (2,)", "float32[4,6]"),
                lax::reduce_window(x, 0.0, add, {2}));
  EXPECT_MISUSE(InvalidArgument, ("reduce_window", "window_dimensions (0, 1)", "at least 1"),
                lax::reduce_window(x, 0.0, add, {0, 1}));
  EXPECT_MISUSE(InvalidArgument, ("reduce_window", "window_strides (1,)"),
                lax::reduce_window(x, 0.0, add, {1, 1}, {.window_strides = {1}}));
  EXPECT_MISUSE(InvalidArgument, ("reduce_window: padding has 1 pairs, but the window moves along 2 dimensions"),
                lax::reduce_window(x, 0.0, add, {1, 1}, {.padding = {{1, 1}}}));
  EXPECT_MISUSE(InvalidArgument, ("reduce_window: dimension 0 of float32[4,6] is too long to count"),
                lax::reduce_window(x, 0.0, add, {1, 1}, {.base_dilation = {std::int64_t{1} << 61, 1}}));
  EXPECT_MISUSE(TypeMismatch, ("complex"), lax::reduce_window(x.astype(complex64), 0.0, maximum, {1, 2}));
}

}  // namespace
}  // namespace shoal::test
