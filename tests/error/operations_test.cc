// Mistakes with shapes, dtypes, indices and values.
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

// ---- Creation.

TEST(CreationError, ElementsThatDoNotFillTheShape) {
  const std::vector<float> five(5);
  EXPECT_MISUSE(InvalidArgument, ("array", "5 elements", "(2, 3)"), array(std::span<const float>(five), {2, 3}));
  EXPECT_MISUSE(InvalidArgument, ("array", "(-1, -5)"), array(std::span<const float>(five), {-1, -5}));
}

TEST(CreationError, ArraysThatAreTooLarge) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  EXPECT_MISUSE(InvalidArgument, ("[1099511627776,1099511627776]", "2^63"), zeros({kLong, kLong}));
  EXPECT_MISUSE(InvalidArgument, ("[4611686018427387904]", "2^63"), ones({kHuge}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast", "[4611686018427387904]", "2^63"), broadcast_to(1.0F, {kHuge}));
  EXPECT_MISUSE(InvalidArgument, ("2^63"), eye(std::int64_t{1} << 31));
  EXPECT_MISUSE(InvalidArgument, ("[4611686018427387904,0]", "2^63"), zeros({kHuge, 0}));
  const Array wide = zeros({kHuge, 0}, {.dtype = bool_});
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "2^63"), concatenate({wide, wide}));
  EXPECT_MISUSE(InvalidArgument, ("2^63"), tile(wide, {4, 1}));
  EXPECT_MISUSE(InvalidArgument, ("2^63"), repeat(wide, 4, 0));
  EXPECT_MISUSE(InvalidArgument, ("pad", "2^63"), lax::pad(ones({4}), 0.0, {{kHuge, kHuge, 0}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "2^63"), lax::pad(ones({4}), 0.0, {{0, 0, kHuge}}));
  EXPECT_MISUSE(InvalidArgument, ("ShapeDtypeStruct", "2^63"), Array(ShapeDtypeStruct{{kHuge}, float64}));
  const Array line = ones({1, 1, 4});
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "2^63"),
                lax::conv_general_dilated(line, ones({1, 1, 5}), {1}, {{0, 0}}, {.rhs_dilation = {kHuge}}));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "2^63"),
                lax::conv_general_dilated(line, ones({1, 1, 1}), {1}, {{kHuge, kHuge}}));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "2^63"),
                lax::conv_general_dilated(line, ones({1, 1, 1}), {1}, {{0, 0}}, {.lhs_dilation = {kHuge}}));
}

TEST(CreationError, RaggedRows) {
  EXPECT_MISUSE(InvalidArgument, ("array", "row [1] is a list of 3, but row [0] is a list of 2", "all rows"),
                array({{1, 2}, {3, 4, 5}}));
  EXPECT_MISUSE(InvalidArgument, ("array", "row [2]", "a list of 1", "a list of 3"),
                array({{1.0, 2.0, 3.0}, {3.0, 4.0, 5.0}, {3.0}}));
  EXPECT_MISUSE(InvalidArgument, ("array", "row [1][1] is a list of 1, but row [0][0] is a list of 2"),
                array({{{1, 2}, {3, 4}}, {{5, 6}, {7}}}));
  EXPECT_MISUSE(InvalidArgument, ("array", "row [1] is a number, but row [0] is a list of 2"), array({{1, 2}, 3}));
  EXPECT_MISUSE(InvalidArgument, ("array", "row [1] is a list of 2, but row [0] is a number"), array({3, {1, 2}}));
  EXPECT_MISUSE(InvalidArgument, ("array", "row [1]", "a list of 1", "a list of 0"), array({{}, {1}}));
}

TEST(CreationError, ComplexLiterals) {
  EXPECT_MISUSE(TypeMismatch, ("array", "float32", "complex"), array({std::complex<double>(1, 2)}, {.dtype = float32}));
}

TEST(CreationError, NegativeExtent) {
  EXPECT_MISUSE(InvalidArgument, ("zeros", "(2, -3)", "negative"), zeros({2, -3}));
  EXPECT_MISUSE(InvalidArgument, ("ones", "(-1,)", "negative"), ones({-1}));
  EXPECT_MISUSE(InvalidArgument, ("full", "(-1,)", "negative"), full({-1}, 2));
  EXPECT_MISUSE(InvalidArgument, ("full", "(-1,)"), full({-1}, Array(2)));
}

TEST(CreationError, RangesWithoutAnEnd) {
  EXPECT_MISUSE(InvalidArgument, ("arange", "step is 0", "not be 0"), arange(0, 5, 0));
  EXPECT_MISUSE(InvalidArgument, ("arange", "step is nan"), arange(0, 5, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_MISUSE(InvalidArgument, ("arange", "inf"), arange(std::numeric_limits<double>::infinity()));
  EXPECT_MISUSE(InvalidArgument, ("arange", "nan"), arange(std::numeric_limits<double>::quiet_NaN()));
}

TEST(CreationError, BoundsThatAreNoNumbers) {
  EXPECT_MISUSE(InvalidArgument, ("arange", "2 elements"), arange(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("arange", "complex"), arange(std::complex<double>(1, 2)));
  EXPECT_MISUSE(TypeMismatch, ("arange", "bool"), arange(0, 2, {.dtype = bool_}));
}

TEST(CreationError, IntegersThatDoNotFit) {
  EXPECT_MISUSE(OutOfRange, ("3000000000", "int32"), Array(3000000000));
  EXPECT_MISUSE(OutOfRange, ("full", "300", "uint8"), full({2}, 300, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("full", "-1", "uint16"), full({2}, -1, {.dtype = uint16}));
  EXPECT_MISUSE(OutOfRange, ("add", "300", "int8"), zeros({2}, {.dtype = int8}) + 300);
  EXPECT_MISUSE(OutOfRange, ("multiply", "-1", "uint8"), -1 * zeros({2}, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("array", "300", "uint8"), array({1, 300}, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("array", "3000000000", "int32"), array({{1, 3000000000}}));
  EXPECT_MISUSE(OutOfRange, ("full_like", "300", "int8"), full_like(zeros({2}, {.dtype = int8}), 300));
  EXPECT_MISUSE(OutOfRange, ("pad", "300", "int8"), pad(zeros({2}, {.dtype = int8}), 1, {.constant_values = 300}));
  EXPECT_MISUSE(InvalidArgument, ("iota", "199", "int8"), lax::iota(int8, 200));
  EXPECT_MISUSE(InvalidArgument, ("iota", "4999999999", "int32"), lax::broadcasted_iota(int32, {0, 5000000000}, 1));
  EXPECT_MISUSE(OutOfRange, ("arange", "2999999999", "int32"), arange(3000000000));
  EXPECT_MISUSE(OutOfRange, ("arange", "299", "uint8"), arange(0, 300, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("arange", "-2", "uint8"), arange(-2, 3, {.dtype = uint8}));
  EXPECT_MISUSE(OutOfRange, ("maximum", "18446744073709551615", "int64"),
                maximum(zeros({2}, {.dtype = int64}), std::numeric_limits<std::uint64_t>::max()));
}

// ---- Shapes.

TEST(ShapeError, ShapesThatDoNotBroadcast) {
  EXPECT_MISUSE(InvalidArgument, ("add", "(2, 3)", "(2,)", "extents 3 and 2", "one of them 1"),
                ones({2, 3}) + ones({2}));
  EXPECT_MISUSE(InvalidArgument, ("maximum", "(4,)", "(5,)"), maximum(ones({4}), ones({5})));
  EXPECT_MISUSE(InvalidArgument, ("where", "(2,)", "(3,)"), where(true, ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("where", "(2,)", "(3,)"), where(ones({2}, {.dtype = bool_}), ones({3}), 0));
  EXPECT_MISUSE(InvalidArgument, ("power", "(2,)", "(3,)"), power(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("hypot", "(2,)", "(3,)"), hypot(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("isclose", "(2,)", "(3,)"), isclose(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("float_power", "(2,)", "(3,)"), float_power(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("softmax_cross_entropy", "(2,)", "(3,)"),
                nn::softmax_cross_entropy(ones({2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("less", "(2,)", "(3,)"), ones({2}) < ones({3}));
}

TEST(ShapeError, BroadcastTo) {
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "(3,)", "(2,)"), broadcast_to(ones({3}), {2}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "float32[2,3]", "(3,)"), broadcast_to(ones({2, 3}), {3}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "float32[3]", "(1,)"), broadcast_to(ones({3}), {1}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_to", "(-1, 3)"), broadcast_to(ones({1, 3}), {-1, 3}));
}

TEST(ShapeError, Matmul) {
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(2, 3)", "(2, 3)", "extent 3", "extent 2"),
                matmul(ones({2, 3}), ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(3,)", "(4,)"), matmul(ones({3}), ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "()", "(4,)", "scalars"), matmul(2.0, ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(3,)", "()", "scalars"), matmul(ones({3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(2,)", "(3,)", "broadcast"), matmul(ones({2, 4, 5}), ones({3, 5, 6})));
  EXPECT_MISUSE(InvalidArgument, ("matmul", "(5,)", "(3, 4, 6)"), matmul(ones({5}), ones({3, 4, 6})));
}

TEST(ShapeError, Dot) {
  EXPECT_MISUSE(InvalidArgument, ("dot", "(2, 3)", "(2, 3)", "3 and 2"), dot(ones({2, 3}), ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("dot", "(3,)", "(4,)"), dot(ones({3}), ones({4})));
}

TEST(ShapeError, DotGeneral) {
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "(2, 3)", "(2, 3)"),
                lax::dot_general(ones({2, 3}), ones({2, 3}), {.lhs_contracting = {1}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(OutOfRange, ("dot_general", "axis 2", "2 dimensions"),
                lax::dot_general(ones({2, 3}), ones({3, 2}), {.lhs_contracting = {2}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "contract", "(0, 1)", "(0,)"),
                lax::dot_general(ones({2, 3}), ones({2, 3}), {.lhs_contracting = {0, 1}, .rhs_contracting = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "batch", "extent 2", "extent 4"),
                lax::dot_general(ones({2, 3}), ones({4, 3}), {.lhs_batch = {0}, .rhs_batch = {0}}));
  EXPECT_MISUSE(InvalidArgument, ("dot_general", "dimension 0", "twice"),
                lax::dot_general(ones({2, 3}), ones({2, 3}),
                                 {.lhs_contracting = {0}, .rhs_contracting = {0}, .lhs_batch = {0}, .rhs_batch = {0}}));
}

TEST(ShapeError, Reshape) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)", "6 elements", "[2,3]"), reshape(x, {4, 2}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, 4)", "6 elements"), reshape(x, {-1, 4}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, -1)", "one extent may be -1"), reshape(x, {-1, -1}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-2, -3)"), reshape(x, {-2, -3}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)"), x.reshape({4, 2}));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)"), x.reshape(4, 2));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(-1, 0)"), reshape(zeros({0}), {-1, 0}));
}

TEST(ShapeError, Transpose) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("transpose", "axis 2", "2 dimensions"), transpose(x, Dims{0, 2}));
  EXPECT_MISUSE(InvalidArgument, ("transpose", "(0, 0)", "dimension 0", "twice"), transpose(x, Dims{0, 0}));
  EXPECT_MISUSE(InvalidArgument, ("transpose", "(0,)", "2"), x.transpose({0}));
}

TEST(ShapeError, ExpandDimsAndSqueeze) {
  EXPECT_MISUSE(OutOfRange, ("expand_dims", "axis 3"), expand_dims(ones({2, 3}), 3));
  EXPECT_MISUSE(OutOfRange, ("expand_dims", "axis -4"), expand_dims(ones({2, 3}), -4));
  EXPECT_MISUSE(InvalidArgument, ("squeeze", "axis 0", "[2,3]", "extent 2"), squeeze(ones({2, 3}), 0));
  EXPECT_MISUSE(OutOfRange, ("squeeze", "axis 2"), squeeze(ones({2, 3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("squeeze", "axis -2", "twice"), squeeze(ones({1, 3}), {0, -2}));
}

TEST(ShapeError, SwapaxesAndMoveaxis) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("swapaxes", "axis 2", "2 dimensions"), swapaxes(x, 0, 2));
  EXPECT_MISUSE(OutOfRange, ("moveaxis", "axis -3"), moveaxis(x, -3, 0));
  EXPECT_MISUSE(OutOfRange, ("moveaxis", "axis 2"), moveaxis(x, 0, 2));
  EXPECT_MISUSE(InvalidArgument, ("moveaxis", "(0, 1)", "(0,)", "as many"), moveaxis(x, Dims{0, 1}, Dims{0}));
  EXPECT_MISUSE(InvalidArgument, ("moveaxis", "axis -1", "twice"), moveaxis(x, {1, -1}, {0, 1}));
  EXPECT_MISUSE(InvalidArgument, ("expand_dims", "axis 0", "twice"), expand_dims(x, {0, 0}));
}

TEST(ShapeError, BroadcastArrays) {
  EXPECT_MISUSE(InvalidArgument, ("broadcast_arrays", "(2,)", "(3,)"), broadcast_arrays({ones({2}), ones({3})}));
}

// ---- Joining and splitting.

TEST(JoiningError, NothingToJoin) {
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "no arrays", "at least one"), concatenate({}));
  EXPECT_MISUSE(InvalidArgument, ("stack", "no arrays"), stack(std::vector<Array>{}));
  EXPECT_MISUSE(InvalidArgument, ("hstack", "no arrays"), hstack({}));
  EXPECT_MISUSE(InvalidArgument, ("vstack", "no arrays"), vstack({}));
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "no operands"), lax::concatenate({}, 0));
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "scalars", "stack"), concatenate({1, 2}));
  EXPECT_MISUSE(InvalidState, ("concatenate", "without a value"), concatenate({Array()}));
}

TEST(JoiningError, ShapesThatDoNotFit) {
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "(2, 3)", "(2, 2)", "axis 0"),
                concatenate({ones({2, 3}), ones({2, 2})}));
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "(2, 3)", "(2,)"), concatenate({ones({2, 3}), ones({2})}, 1));
  EXPECT_MISUSE(OutOfRange, ("concatenate", "axis 2"), concatenate({ones({2, 3})}, 2));
  EXPECT_MISUSE(InvalidArgument, ("stack", "(2,)", "(3,)", "equal"), stack({ones({2}), ones({3})}));
  EXPECT_MISUSE(OutOfRange, ("stack", "axis 2"), stack({ones({2})}, 2));
  EXPECT_MISUSE(InvalidArgument, ("hstack", "(2, 3)", "(3, 3)"), hstack({ones({2, 3}), ones({3, 3})}));
  EXPECT_MISUSE(InvalidArgument, ("vstack", "(1, 2)", "(1, 3)"), vstack({ones({2}), ones({3})}));
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "f32[2]", "i32[2]", "dtypes"),
                lax::concatenate({ones({2}), arange(2)}, 0));
  EXPECT_MISUSE(InvalidArgument, ("concatenate", "dim is -1"), lax::concatenate({ones({2}), ones({2})}, -1));
}

TEST(SplittingError, Sections) {
  const Array x = ones({2, 6});
  EXPECT_MISUSE(InvalidArgument, ("split", "axis 1", "extent 6", "4 equal parts", "array_split"), split(x, 4, 1));
  EXPECT_MISUSE(InvalidArgument, ("split", "0 equal parts", "at least 1"), split(x, 0));
  EXPECT_MISUSE(InvalidArgument, ("array_split", "-1 parts", "at least 1"), array_split(x, -1));
  EXPECT_MISUSE(InvalidArgument, ("split", "(4, 2)", "ascend", "6"), split(x, {4, 2}, 1));
  EXPECT_MISUSE(InvalidArgument, ("split", "(7,)", "0 and 6"), split(x, {7}, 1));
  EXPECT_MISUSE(InvalidArgument, ("array_split", "(-1,)"), array_split(x, {-1}, 1));
  EXPECT_MISUSE(OutOfRange, ("split", "axis 2"), split(x, 2, 2));
}

// ---- Repeating, rearranging and padding.

TEST(MovementError, Counts) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("tile", "(2, -1)", "negative"), tile(x, {2, -1}));
  EXPECT_MISUSE(InvalidArgument, ("repeat", "-1", "at least 0"), repeat(x, -1));
  EXPECT_MISUSE(OutOfRange, ("repeat", "axis 2"), repeat(x, 2, 2));
  EXPECT_MISUSE(InvalidArgument, ("roll", "2 shifts", "3 axes"), roll(x, {1, 2}, {0, 1, 0}));
  EXPECT_MISUSE(OutOfRange, ("roll", "axis -3"), roll(x, 1, -3));
  EXPECT_MISUSE(OutOfRange, ("flip", "axis 2"), flip(x, 2));
  EXPECT_MISUSE(InvalidArgument, ("flip", "axis -2", "twice"), flip(x, {0, -2}));
}

TEST(MovementError, Pad) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("pad", "3 pairs", "float32[2,3]"), pad(x, {{1, 1}, {1, 1}, {1, 1}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "(-1, 2)", "negative", "lax::pad"), pad(x, {{-1, 2}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "'mirror'", "'constant', 'edge', 'reflect'"), pad(x, 1, {.mode = "mirror"}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "'edge'", "axis 1", "float32[2,0]"), pad(ones({2, 0}), 1, {.mode = "edge"}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "'wrap'", "no elements"), pad(ones({0}), 1, {.mode = "wrap"}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "'mean'", "no elements"), pad(ones({0}), 1, {.mode = "mean"}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "stat_length (0, 0)", "positive"),
                pad(x, 1, {.mode = "mean", .stat_length = PadWidth(0)}));
  EXPECT_MISUSE(TypeMismatch, ("pad", "float32[]", "int32[2]"), lax::pad(arange(2), 0.5, {{1, 1, 0}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "extent -1"), lax::pad(x, 0, {{-2, -1}, {}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "interior", "negative"), lax::pad(x, 0, {{0, 0, -1}, {}}));
  EXPECT_MISUSE(InvalidArgument, ("pad", "one entry for each dimension"), lax::pad(x, 0, {{1, 1}}));
}

TEST(MovementError, Matrices) {
  EXPECT_MISUSE(InvalidArgument, ("tril", "float32[2]", "no matrix"), tril(ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("triu", "float32[]", "2 dimensions"), triu(1.0));
  EXPECT_MISUSE(InvalidArgument, ("diag", "float32[2,2,2]"), diag(ones({2, 2, 2})));
  EXPECT_MISUSE(InvalidArgument, ("eye", "(-1, 2)", "negative"), eye(-1, {.m = 2}));
  EXPECT_MISUSE(InvalidArgument, ("meshgrid", "array 1", "float32[2,2]"), meshgrid({ones({2}), ones({2, 2})}));
  EXPECT_MISUSE(InvalidArgument, ("meshgrid", "'yx'", "'xy' and 'ij'"), meshgrid({ones({2})}, {.indexing = "yx"}));
  EXPECT_MISUSE(InvalidArgument, ("linspace", "num is -1"), linspace(0, 1, -1));
  EXPECT_MISUSE(OutOfRange, ("linspace", "axis 1"), linspace(0, 1, 3, {.axis = 1}));
  EXPECT_MISUSE(InvalidArgument, ("one_hot", "num_classes is -2"), nn::one_hot(arange(3), -2));
  EXPECT_MISUSE(OutOfRange, ("one_hot", "axis 2"), nn::one_hot(arange(3), 2, {.axis = 2}));
}

TEST(MovementError, Windows) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("dynamic_slice", "1 start indices", "float32[2,3]"),
                lax::dynamic_slice(x, {0}, {1, 1}));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_slice", "sizes (3, 1)", "float32[2,3]"),
                lax::dynamic_slice(x, {0, 0}, {3, 1}));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_slice", "sizes (1,)"), lax::dynamic_slice(x, {0, 0}, {1}));
  EXPECT_MISUSE(TypeMismatch, ("dynamic_slice", "float32", "integer"), lax::dynamic_slice(x, {0.0, 0}, {1, 1}));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_slice_in_dim", "int32[2]", "scalar"),
                lax::dynamic_slice_in_dim(x, arange(2), 1));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_slice_in_dim", "(2, 4)"), lax::dynamic_slice_in_dim(x, 0, 4, 1));
  EXPECT_MISUSE(OutOfRange, ("dynamic_index_in_dim", "axis 2"), lax::dynamic_index_in_dim(x, 0, 2));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_update_slice", "float32[3,1]", "float32[2,3]"),
                lax::dynamic_update_slice(x, ones({3, 1}), {0, 0}));
  EXPECT_MISUSE(InvalidArgument, ("dynamic_update_slice", "float32[3]"),
                lax::dynamic_update_slice(x, ones({3}), {0, 0}));
  EXPECT_MISUSE(TypeMismatch, ("dynamic_update_slice", "int32[1,1]", "astype"),
                lax::dynamic_update_slice(x, ones({1, 1}, {.dtype = int32}), {0, 0}));
  EXPECT_MISUSE(InvalidArgument, ("slice", "1:4:1", "dimension 1"), lax::slice(x, {0, 1}, {2, 4}));
  EXPECT_MISUSE(InvalidArgument, ("slice", "one entry"), lax::slice(x, {0}, {2}));
  EXPECT_MISUSE(OutOfRange, ("slice_in_dim", "axis 2"), lax::slice_in_dim(x, 0, 1, 1, 2));
  EXPECT_MISUSE(OutOfRange, ("rev", "axis 2"), lax::rev(x, {2}));
  EXPECT_MISUSE(OutOfRange, ("iota", "axis 1"), lax::broadcasted_iota(int32, {3}, 1));
  EXPECT_MISUSE(InvalidArgument, ("iota", "negative"), lax::iota(int32, -1));
  EXPECT_MISUSE(InvalidArgument, ("reshape", "(4, 2)"), lax::reshape(x, {4, 2}));
  EXPECT_MISUSE(InvalidArgument, ("transpose", "(0,)"), lax::transpose(x, {0}));
  EXPECT_MISUSE(InvalidArgument, ("broadcast_in_dim", "(2, 4)"), lax::broadcast_in_dim(x, {2, 4}, {0, 1}));
  EXPECT_MISUSE(InvalidArgument, ("iota", "bool"), lax::iota(bool_, 3));
  EXPECT_MISUSE(InvalidArgument, ("bitcast", "f32[2,3]", "float64", "extent 2"), lax::bitcast_convert_type(x, float64));
  EXPECT_MISUSE(InvalidArgument, ("bitcast", "bool"), lax::bitcast_convert_type(x, bool_));
}

TEST(MovementError, Iteration) {
  EXPECT_MISUSE(TypeMismatch, ("begin", "float32[]", "no dimension"), Array(1.0).begin());
  EXPECT_MISUSE(InvalidState, ("begin", "without a value"), Array().begin());
}

// ---- Reductions.

TEST(ReductionError, Axis) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("sum", "axis 2", "2 dimensions"), sum(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("sum", "axis 2", "2 dimensions"), x.sum(2));
  EXPECT_MISUSE(OutOfRange, ("max", "axis -3"), x.max({.axis = -3}));
  EXPECT_MISUSE(OutOfRange, ("prod", "axis 5"), x.prod({.axis = {0, 5}}));
  EXPECT_MISUSE(OutOfRange, ("mean", "axis 2"), mean(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("any", "axis 2"), any(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("all", "axis 0", "0 dimensions"), all(Array(true), {.axis = 0}));
  EXPECT_MISUSE(InvalidArgument, ("min", "axis -2", "twice"), min(x, {.axis = {0, -2}}));
}

TEST(ReductionError, NothingToChooseFrom) {
  EXPECT_MISUSE(InvalidArgument, ("max", "axis 0", "no elements"), max(zeros({0, 2}), {.axis = 0}));
  EXPECT_MISUSE(InvalidArgument, ("min", "axis 0", "no elements"), zeros({0}).min());
}

TEST(ReductionError, ComplexNumbersHaveNoOrder) {
  const Array z = zeros({2}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("max", "complex"), max(z));
  EXPECT_MISUSE(TypeMismatch, ("ptp", "complex"), ptp(z));
  EXPECT_MISUSE(TypeMismatch, ("nanmin", "complex"), nanmin(z));
  EXPECT_MISUSE(TypeMismatch, ("logsumexp", "complex64"), logsumexp(z));
  EXPECT_MISUSE(TypeMismatch, ("fmax", "complex64"), fmax(z, 1));
  EXPECT_MISUSE(TypeMismatch, ("maximum", "complex64"), maximum(z, 1));
}

TEST(ReductionError, AxisOfComposedOnes) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("var", "axis 2"), var(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("std", "axis 2"), std_(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("logsumexp", "axis 2"), logsumexp(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("nanmean", "axis 2"), nanmean(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("nansum", "axis 2"), nansum(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("count_nonzero", "axis 2"), count_nonzero(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("average", "axis 2"), average(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("softmax", "axis 2"), nn::softmax(x, 2));
  EXPECT_MISUSE(OutOfRange, ("log_softmax", "axis 2"), nn::log_softmax(x, 2));
  EXPECT_MISUSE(OutOfRange, ("standardize", "axis -3"), nn::standardize(x, -3));
  EXPECT_MISUSE(OutOfRange, ("logmeanexp", "axis 2"), nn::logmeanexp(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("glu", "axis 2"), nn::glu(x, 2));
  EXPECT_MISUSE(OutOfRange, ("softmax_cross_entropy", "axis 2"), nn::softmax_cross_entropy(x, x, 2));
  EXPECT_MISUSE(OutOfRange, ("norm", "axis 2"), linalg::norm(x, {.axis = 2}));
  EXPECT_MISUSE(OutOfRange, ("trace", "axis 1"), trace(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("trace", "float32[2,3]", "differ"), trace(x, {.axis1 = 1, .axis2 = -1}));
}

TEST(ReductionError, MasksAndInitialValues) {
  const Array x = ones({2, 3});
  const Array mask = ones({2}, {.dtype = bool_});
  EXPECT_MISUSE(InvalidArgument, ("sum", "(2,)", "(2, 3)"), sum(x, {.where = mask}));
  EXPECT_MISUSE(InvalidArgument, ("mean", "mask", "(4, 2, 3)", "(2, 3)"), mean(x, {.where = ones({4, 2, 3})}));
  EXPECT_MISUSE(InvalidArgument, ("max", "mask needs an initial value"), max(x, {.where = true}));
  EXPECT_MISUSE(InvalidArgument, ("prod", "initial value must be a scalar", "float32[2]"),
                prod(x, {.initial = ones({2})}));
  EXPECT_MISUSE(InvalidArgument, ("mean", "initial value is for sum"), mean(x, {.initial = 1}));
  EXPECT_MISUSE(InvalidArgument, ("any", "initial value is for sum"), any(x, {.initial = true}));
  EXPECT_MISUSE(InvalidArgument, ("logsumexp", "initial"), logsumexp(x, {.initial = 1}));
  EXPECT_MISUSE(InvalidArgument, ("average", "no mask"), average(x, {.where = true}));
  EXPECT_MISUSE(InvalidArgument, ("logmeanexp", "takes no mask"), nn::logmeanexp(x, {.where = true}));
}

TEST(ReductionError, Weights) {
  EXPECT_MISUSE(InvalidArgument, ("average", "(2,)", "(2, 3)", "(1,)"), average(ones({2, 3}), ones({2}), {.axis = 1}));
  EXPECT_MISUSE(InvalidArgument, ("average", "(3,)", "(0, 1)"), average(ones({2, 3}), ones({3})));
}

TEST(ReductionError, OddExtentOfGlu) {
  EXPECT_MISUSE(InvalidArgument, ("glu", "axis -1", "float32[2,3]", "extent 3", "even"), nn::glu(ones({2, 3})));
}

TEST(ReductionError, ShapesOfAttention) {
  const Array q = ones({4, 2, 8});
  EXPECT_MISUSE(InvalidArgument, ("dot_product_attention", "(4, 2, 8)", "(4, 2, 6)"),
                nn::dot_product_attention(q, ones({4, 2, 6}), ones({4, 2, 6})));
  EXPECT_MISUSE(InvalidArgument, ("dot_product_attention", "(4, 3, 8)", "divide the heads"),
                nn::dot_product_attention(q, ones({4, 3, 8}), ones({4, 3, 8})));
  EXPECT_MISUSE(InvalidArgument, ("dot_product_attention", "(4, 8)"), nn::dot_product_attention(ones({4, 8}), q, q));
  EXPECT_MISUSE(InvalidArgument, ("dot_product_attention", "(3, 4)", "(1, 2, 4, 4)"),
                nn::dot_product_attention(q, q, q, {.mask = ones({3, 4})}));
  EXPECT_MISUSE(InvalidArgument, ("dot_product_attention", "mask or bias", "(2, 2, 4, 4)", "(1, 2, 4, 4)"),
                nn::dot_product_attention(q, q, q, {.bias = ones({2, 2, 4, 4})}));
  EXPECT_MISUSE(TypeMismatch, ("dot_product_attention", "int32"),
                nn::dot_product_attention(arange(8).reshape({1, 1, 8}), arange(8).reshape({1, 1, 8}),
                                          arange(8).reshape({1, 1, 8})));
}

TEST(ReductionError, OrderOfNorm) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("norm", "3", "\"fro\""), linalg::norm(x, {.ord = 3}));
  EXPECT_MISUSE(InvalidArgument, ("norm", "\"max\"", "\"fro\""), linalg::norm(x, {.ord = "max"}));
  EXPECT_MISUSE(InvalidArgument, ("norm", "two dimensions", "1 dimensions"),
                linalg::norm(x, {.ord = "fro", .axis = 0}));
  EXPECT_MISUSE(InvalidArgument, ("norm", "one or two", "3 dimensions"), linalg::norm(ones({2, 2, 2}), {.ord = 1}));
}

// ---- einsum and other products.

TEST(EinsumError, Subscripts) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(InvalidArgument, ("einsum", "\"ij,jk->ik\"", "terms is 2", "operands is 1"), einsum("ij,jk->ik", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "\"ijk\" has 3 labels", "float32[2,3]", "2 dimensions"), einsum("ijk", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "\"i\" has 1 labels"), einsum("i", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "\"...ijk\" has 3 labels"), einsum("...ijk", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'j' has extent 4", "operand 1", "but 3"),
                einsum("ij,jk", x, ones({4, 2})));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "of the ellipsis has extent 4"), einsum("...,...", x, ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'k' of the output"), einsum("ij->ik", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'i' is in the output twice"), einsum("ij->ii", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'1' is not a label"), einsum("i1", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'.' is not a label"), einsum("i.j", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'.' is not a label"), einsum("...i...", x));
  EXPECT_MISUSE(InvalidArgument, ("einsum", "'-' is not a label"), einsum("ij->ji->", x));
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("einsum", "\"i\"", "no operands"), einsum("i", std::vector<Operand>{}));
}

TEST(EinsumError, PreferredElementType) {
  const Array x = ones({2});
  EXPECT_MISUSE(TypeMismatch, ("einsum", "float32", "float16", "not smaller"),
                einsum("i,i", x, x, {.preferred_element_type = float16}));
  EXPECT_MISUSE(TypeMismatch, ("dot_general", "float32", "int64", "same kind"),
                lax::dot_general(x, x, {.lhs_contracting = {0}, .rhs_contracting = {0}}, int64));
}

TEST(ProductError, Shapes) {
  EXPECT_MISUSE(InvalidArgument, ("inner", "(2, 3)", "(2,)"), inner(ones({2, 3}), ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("vdot", "float32[2,3]", "float32[5]", "6 and 5"), vdot(ones({2, 3}), ones({5})));
  EXPECT_MISUSE(InvalidArgument, ("vecdot", "axis -1", "3 and 2"), vecdot(ones({2, 3}), ones({2, 2})));
  EXPECT_MISUSE(OutOfRange, ("vecdot", "axis 2"), vecdot(ones({2, 3}), ones({2, 3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("tensordot", "3 axes"), tensordot(ones({2, 3}), ones({2, 3}), 3));
  EXPECT_MISUSE(InvalidArgument, ("tensordot", "-1 axes"), tensordot(ones({2}), ones({2}), -1));
  EXPECT_MISUSE(InvalidArgument, ("tensordot", "(2, 3)", "3 and 2"), tensordot(ones({2, 3}), ones({2, 3}), 1));
  EXPECT_MISUSE(InvalidArgument, ("tensordot", "(0, 1)", "(0,)", "number"),
                tensordot(ones({2, 3}), ones({2, 3}), {0, 1}, {0}));
  EXPECT_MISUSE(InvalidArgument, ("tensordot", "axis 0", "twice"),
                tensordot(ones({2, 2}), ones({2, 2}), {0, 0}, {0, 1}));
}

// ---- Dtypes.

TEST(DtypeError, OpsThatDoNotTakeADtype) {
  const Array z = zeros({2}, {.dtype = complex64});
  EXPECT_MISUSE(TypeMismatch, ("floor", "complex64"), floor(z));
  EXPECT_MISUSE(TypeMismatch, ("remainder", "complex64"), z % 2);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_and", "float32"), ones({2}) & 1);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_or", "float32"), ones({2}, {.dtype = int32}) | 1.0);
  EXPECT_MISUSE(TypeMismatch, ("bitwise_not", "float32"), ~ones({2}));
  EXPECT_MISUSE(TypeMismatch, ("arctan2", "complex64"), arctan2(z, 1));
  EXPECT_MISUSE(TypeMismatch, ("cbrt", "complex64"), cbrt(z));
  EXPECT_MISUSE(TypeMismatch, ("isposinf", "complex64"), isposinf(z));
  EXPECT_MISUSE(TypeMismatch, ("fmod", "complex64"), fmod(z, 2));
  EXPECT_MISUSE(TypeMismatch, ("gcd", "float32"), gcd(ones({2}), 2));
  EXPECT_MISUSE(TypeMismatch, ("left_shift", "float32"), left_shift(ones({2}), 1));
  EXPECT_MISUSE(TypeMismatch, ("clz", "float32"), clz(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("gelu", "complex64"), nn::gelu(z));
  EXPECT_MISUSE(TypeMismatch, ("softmax", "complex64"), nn::softmax(z));
  EXPECT_MISUSE(TypeMismatch, ("complex", "float16"), lax::complex(ones({2}, {.dtype = float16}), 1));
  EXPECT_MISUSE(TypeMismatch, ("complex", "complex64"), lax::complex(z, 1));
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("float31", "float32"), parse_dtype("float31"));
}

// ---- Indices.

TEST(IndexError, PositionsOutsideTheArray) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("index 2", "dimension 0", "float32[2,3]", "extent 2"), x[2]);
  EXPECT_MISUSE(OutOfRange, ("index -3", "dimension 0", "extent 2"), x[-3]);
  EXPECT_MISUSE(OutOfRange, ("index 3", "dimension 1", "extent 3"), x[{0, 3}]);
  EXPECT_MISUSE(OutOfRange, ("index 3", "dimension 1", "extent 3"), x[{ellipsis, 3}]);
  EXPECT_MISUSE(OutOfRange, ("index 2", "dimension 0"), x.at(2).get());
}

TEST(IndexError, TooManyEntries) {
  const Array x = ones({2, 3});
  EXPECT_MISUSE(OutOfRange, ("3 entries", "float32[2,3]", "2 dimensions"), x[{0, 0, 0}]);
  EXPECT_MISUSE(OutOfRange, ("1 entries", "float32[]", "0 dimensions"), Array(1.0)[0]);
  EXPECT_MISUSE(OutOfRange, ("one ellipsis"), x[{ellipsis, 0, ellipsis}]);
}

TEST(IndexError, Steps) {
  EXPECT_MISUSE(InvalidArgument, ("step", "0", "must not be 0"), ones({4})[{range({}, {}, 0)}]);
}

// ---- Reading.

TEST(ReadingError, ItemOfSeveralElements) {
  EXPECT_MISUSE(InvalidArgument, ("item", "f32[2]", "2 elements"), ones({2}).item<float>());
  EXPECT_MISUSE(InvalidArgument, ("item", "0 elements"), zeros({0}).item<float>());
}

TEST(ReadingError, VectorOfAnotherDtype) {
  EXPECT_MISUSE(TypeMismatch, ("to_vector", "float32", "float64", "astype"), ones({2}).to_vector<double>());
  EXPECT_MISUSE(TypeMismatch, ("to_vector", "int32", "bool"), arange(2).to_vector<bool>());
}

TEST(ReadingError, TruthOfSeveralElements) {
  EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("bool", "(2,)", "any()", "all()"),
                         static_cast<bool>(ones({2}) == ones({2})));
}

// ---- Arrays without a value.

TEST(NoValueError, EveryUse) {
  const Array nothing;
  EXPECT_MISUSE(InvalidState, ("add", "without a value"), nothing + 1);
  EXPECT_MISUSE(InvalidState, ("add", "without a value"), 1 + nothing);
  EXPECT_MISUSE(InvalidState, ("sin", "without a value"), sin(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.sum());
  EXPECT_MISUSE(InvalidState, ("without a value"), matmul(nothing, nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), where(nothing, 1, 2));
  EXPECT_MISUSE(InvalidState, ("without a value"), reshape(nothing, {1}));
  EXPECT_MISUSE(InvalidState, ("without a value"), full({2}, nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), arange(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.item<float>());
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.sharding());
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing.addressable_shards());
  EXPECT_MISUSE(InvalidState, ("without a value"), device_put(nothing));
  EXPECT_MISUSE(InvalidState, ("without a value"), device_put(nothing, devices()[0]));
  EXPECT_MISUSE(InvalidState, ("without a value"), nothing[0]);
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.shape());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.dtype());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.to_vector<float>());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), nothing.block_until_ready());
  EXPECT_MISUSE_ANYWHERE(InvalidState, ("without a value"), static_cast<bool>(nothing));
}

TEST(NoValueError, PrintsAsSuch) {
  std::ostringstream out;
  out << Array();
  EXPECT_EQ(out.str(), "<no value>");
}

// ---- Looking at values.

TEST(DebugPrintError, PlacesThatDoNotFitTheOperands) {
  const Array x = ones({2});
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'{} and {}'", "2 places for 1 values"),
                (debug::print("{} and {}", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "0 places for 1 values"), (debug::print("x", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'x: {:3'", "single '{'"), (debug::print("x: {:3", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'x}'", "single '}'"), (debug::print("x}"), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'{{{'", "single '{'"), (debug::print("{{{", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "names a value 'y', which is not given", "arg(\"y\", value)"),
                (debug::print("{y}", debug::arg("x", x)), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "has no place for the value 'x'"),
                (debug::print("{}", 1, debug::arg("x", x)), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'{:d}' has the format 'd'", "an element of float32"),
                (debug::print("{:d}", x), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'{:.2f}'", "not for complex numbers"),
                (debug::print("{:.2f}", x.astype(complex64)), 0));
  EXPECT_MISUSE(InvalidArgument, ("debug::print", "'50} {}'", "single '}'"), (debug::print("50} {}", x), 0));
}

TEST(DebugPrintError, IsThrownWhenTheFunctionIsTraced) {
  const unsigned line = __LINE__ + 2;
  const auto f = jit([](const Array& x) {
    debug::print("{}");
    return x;
  });
  EXPECT_MISUSE_AT(line, InvalidArgument, ("debug::print", "1 places for 0 values"), f(ones({2})));
}

TEST(DebugPrintError, ArrayWithoutAValue) {
  EXPECT_MISUSE(InvalidState, ("without a value"), (debug::print("{}", Array()), 0));
  EXPECT_MISUSE(InvalidState, ("without a value"), (debug::inspect_array_sharding(Array(), [](const Sharding&) {}), 0));
}

TEST(PictureError, AsSvgAndHtml) {
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 3"), debug::sharding_svg(ones({2, 2, 2})));
  EXPECT_MISUSE(InvalidArgument, ("visualize_sharding", "rank 0"), debug::sharding_html(ones({})));
  EXPECT_MISUSE(IndivisibleError, ("dimension 0", "7"), debug::sharding_svg({7}, NamedSharding(mesh_8(), P("i"))));
  EXPECT_MISUSE(InvalidState, ("sharding_html", "being traced"), jit([](const Array& x) {
                  debug::sharding_html(x);
                  return x;
                })(ones({2})));
}

}  // namespace
}  // namespace shoal::test
