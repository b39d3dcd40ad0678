// Windows that move: shapes, rules and complaints. Values are recorded in tests/parity/data/convolution.txt.
#include <gtest/gtest.h>

#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::complaint;
using test_support::infer;
using test_support::rule_of;
using test_support::type_of;

Attrs moves(const Dims& strides, const Dims& low, const Dims& high, const Dims& base, const Dims& window) {
  return {{"strides", strides}, {"low", low}, {"high", high}, {"base_dilation", base}, {"window_dilation", window}};
}

Attrs plain(std::size_t rank) {
  return moves(Dims(rank, 1), Dims(rank, 0), Dims(rank, 0), Dims(rank, 1), Dims(rank, 1));
}

Attrs reduction(const Dims& window, const std::string& kind = "sum") {
  Attrs attrs = plain(window.size());
  attrs.set("window", window);
  attrs.set("kind", kind);
  return attrs;
}

Shape convolved(const Attrs& attrs, const Shape& lhs, const Shape& rhs) {
  return infer("convolution", attrs, {type_of(float32, lhs), type_of(float32, rhs)})[0].shape;
}

TEST(Convolution, CountsThePlacesOfTheWindow) {
  EXPECT_EQ(convolved(plain(1), {2, 3, 7}, {4, 3, 3}), (Shape{2, 4, 5}));
  EXPECT_EQ(convolved(plain(1), {2, 3, 2}, {4, 3, 3}), (Shape{2, 4, 0}));
  EXPECT_EQ(convolved(plain(1), {2, 3, 0}, {4, 3, 1}), (Shape{2, 4, 0}));
  EXPECT_EQ(convolved(moves({2}, {1}, {1}, {1}, {1}), {2, 3, 7}, {4, 3, 3}), (Shape{2, 4, 4}));
  EXPECT_EQ(convolved(moves({2}, {1}, {-1}, {3}, {2}), {2, 3, 7}, {4, 3, 3}), (Shape{2, 4, 8}));
  EXPECT_EQ(convolved(plain(0), {2, 6}, {4, 3}), (Shape{2, 4}));
  EXPECT_EQ(convolved(plain(1), {2, 0, 3}, {4, 0, 2}), (Shape{2, 4, 2}));
}

TEST(Convolution, BatchesAndFeaturesPass) {
  const Type x = type_of(float32, {8, 6, 10});
  EXPECT_EQ(to_string(rule_of("convolution", plain(1), {x, type_of(float32, {4, 6, 3})})),
            "(i, j, l), (k, j, m) -> (i, k, l) reduction={j} need_replication={m} windowed={l}");
  // Groups are the major part of the features.
  EXPECT_EQ(to_string(rule_of("convolution", plain(1), {x, type_of(float32, {4, 3, 3})})),
            "(i, jk, m), (jl, k, n) -> (i, jl, m) reduction={k} need_replication={n} windowed={m}");
  // With one feature in each, they are the features.
  EXPECT_EQ(to_string(rule_of("convolution", plain(1), {x, type_of(float32, {12, 1, 3})})),
            "(i, j, m), (jl, k, n) -> (i, jl, m) reduction={k} need_replication={n} windowed={m}");
  // A window of one element sees no neighbours.
  EXPECT_EQ(to_string(rule_of("convolution", plain(1), {x, type_of(float32, {4, 6, 1})})),
            "(i, j, l), (k, j, m) -> (i, k, l) reduction={j} need_replication={m}");
}

TEST(Convolution, AWindowWithMorePositionsThanPlacesIsSplit) {
  EXPECT_EQ(to_string(rule_of("convolution", plain(1), {type_of(float32, {8, 6, 10}), type_of(float32, {4, 6, 9})})),
            "(i, j, l), (k, j, l) -> (i, k, m) reduction={j} need_replication={m} windowed_reduction={l}");
}

TEST(ReduceWindow, OtherDimensionsPass) {
  EXPECT_EQ(to_string(rule_of("reduce_window", reduction({1, 3}), {type_of(float32, {8, 6})})),
            "(i, j) -> (i, j) windowed={j}");
  // Few places of a wide window are not worth splitting.
  EXPECT_EQ(to_string(rule_of("reduce_window", reduction({1, 5}), {type_of(float32, {8, 6})})),
            "(i, j) -> (i, k) need_replication={j, k}");
}

TEST(ConvolutionErrors, Operands) {
  const Type x = type_of(float32, {8, 6, 10});
  EXPECT_EQ(complaint("convolution", plain(1), {x, type_of(int32, {4, 6, 3})}),
            "convolution: operands must be of one dtype, not f32[8,6,10] and i32[4,6,3]");
  EXPECT_EQ(complaint("convolution", plain(1), {x, type_of(float32, {4, 6})}),
            "convolution: operands f32[8,6,10] and f32[4,6] must be of one rank, at least 2");
  const std::string features = ", and that multiple must divide the features of the result, dimension 0 of the latter";
  EXPECT_EQ(
      complaint("convolution", plain(1), {x, type_of(float32, {4, 4, 3})}),
      "convolution: the features of f32[8,6,10], dimension 1, must be a multiple of those of f32[4,4,3]" + features);
  EXPECT_EQ(
      complaint("convolution", plain(1), {x, type_of(float32, {4, 2, 3})}),
      "convolution: the features of f32[8,6,10], dimension 1, must be a multiple of those of f32[4,2,3]" + features);
  EXPECT_EQ(complaint("convolution", plain(2), {x, type_of(float32, {4, 6, 3})}),
            "convolution: strides (1, 1) must have 1 entries, one for each dimension along which the window moves");
  EXPECT_EQ(complaint("convolution", moves({0}, {0}, {0}, {1}, {1}), {x, type_of(float32, {4, 6, 3})}),
            "convolution: strides (0,) must be at least 1");
}

TEST(ConvolutionErrors, ReduceWindow) {
  const Type x = type_of(float32, {8, 6});
  EXPECT_EQ(complaint("reduce_window", reduction({1, 0}), {x}),
            "reduce_window: window (1, 0) must have one entry for each dimension of operand f32[8,6], at least 1");
  EXPECT_EQ(complaint("reduce_window", reduction({1, 2}, "mean"), {x}),
            "reduce_window: kind is 'mean'; it must be 'sum', 'prod', 'max' or 'min'");
  EXPECT_EQ(complaint<TypeMismatch>("reduce_window", reduction({1, 2}, "max"), {type_of(complex64, {8, 6})}),
            "reduce_window: complex numbers have no order; got complex64[8,6]");
  EXPECT_EQ(complaint("reduce_window", reduction({1, 2}), {type_of(bool_, {8, 6})}),
            "reduce_window: sums and products are of numbers; got bool[8,6]");
}

}  // namespace
}  // namespace shoal
