// Mistakes with matrices, convolutions and windows.
#include <limits>

#include "misuse.h"

namespace shoal::test {
namespace {

TEST(LinalgError, OperandsThatAreNoMatrices) {
  EXPECT_MISUSE(InvalidArgument, ("cholesky", "float32[3]", "no matrix", "at least 2"), linalg::cholesky(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("qr", "float32[]", "no matrix"), linalg::qr(1.0));
  EXPECT_MISUSE(InvalidArgument, ("svdvals", "float32[3]"), linalg::svdvals(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("lu", "float32[3]"), lax::linalg::lu(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("matrix_transpose", "float32[3]"), linalg::matrix_transpose(ones({3})));
}

TEST(LinalgError, MatricesThatAreNotSquare) {
  EXPECT_MISUSE(InvalidArgument, ("eigh", "float32[4,2,3]", "square"), linalg::eigh(ones({4, 2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("cholesky", "float32[2,3]", "square"), lax::linalg::cholesky(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("inv", "float32[2,3]", "square"), linalg::inv(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("det", "float32[2,3]", "square"), linalg::det(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("slogdet", "float32[2,3]", "square"), linalg::slogdet(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("solve", "float32[2,3]", "square"), linalg::solve(ones({2, 3}), ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("lu_factor", "float32[2,3]", "square"), linalg::lu_factor(ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("matrix_power", "float32[2,3]", "square"), linalg::matrix_power(ones({2, 3}), 2));
  EXPECT_MISUSE(InvalidArgument, ("cond", "float32[2,3]", "square"), linalg::cond(ones({2, 3}), 1));
  EXPECT_MISUSE(InvalidArgument, ("triangular_solve", "float32[2,3]", "square"),
                lax::linalg::triangular_solve(ones({2, 3}), ones({2, 2})));
}

TEST(LinalgError, DtypesWithoutDecompositions) {
  EXPECT_MISUSE(TypeMismatch, ("eigh", "float64", "complex128", "not float16"),
                linalg::eigh(ones({2, 2}, {.dtype = float16})));
  EXPECT_MISUSE(TypeMismatch, ("solve", "bfloat16"),
                linalg::solve(ones({2, 2}, {.dtype = bfloat16}), ones({2}, {.dtype = bfloat16})));
}

TEST(LinalgError, RightSidesThatDoNotFit) {
  EXPECT_MISUSE(InvalidArgument, ("solve", "float32[3]", "rows", "float32[2,2]"),
                linalg::solve(ones({2, 2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("solve", "float32[]"), linalg::solve(ones({2, 2}), 1.0));
  EXPECT_MISUSE(InvalidArgument, ("solve", "(3,)", "(4,)", "broadcast"),
                linalg::solve(ones({3, 2, 2}), ones({4, 2, 1})));
  EXPECT_MISUSE(InvalidArgument, ("lstsq", "float32[4]", "float32[3,2]"), linalg::lstsq(ones({3, 2}), ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("lstsq", "float32[2,3,2]", "a matrix"), linalg::lstsq(ones({2, 3, 2}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("cho_solve", "float32[3]"), linalg::cho_solve(linalg::cho_factor(eye(2)), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("lu_solve", "float32[3]"), linalg::lu_solve(linalg::lu_factor(eye(2)), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("solve_triangular", "float32[3]"), linalg::solve_triangular(eye(2), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("triangular_solve", "float32[2,3]", "float32[2,2]", "as many columns"),
                lax::linalg::triangular_solve(ones({2, 2}), ones({2, 3})));
  EXPECT_MISUSE(InvalidArgument, ("triangular_solve", "as many rows"),
                lax::linalg::triangular_solve(ones({2, 2}), ones({3, 2}), {.left_side = true}));
  EXPECT_MISUSE(InvalidArgument, ("triangular_solve", "float64[2,2]", "dtype"),
                lax::linalg::triangular_solve(ones({2, 2}), ones({2, 2}, {.dtype = float64})));
}

TEST(LinalgError, Options) {
  EXPECT_MISUSE(InvalidArgument, ("qr", "\"raw\"", "\"reduced\"", "\"complete\""), linalg::qr(eye(2), "raw"));
  EXPECT_MISUSE(InvalidArgument, ("eigh", "\"lower\"", "\"L\"", "\"U\""), linalg::eigh(eye(2), {.UPLO = "lower"}));
  EXPECT_MISUSE(InvalidArgument, ("eigvalsh", "\"l\""), linalg::eigvalsh(eye(2), {.UPLO = "l"}));
  EXPECT_MISUSE(InvalidArgument, ("lu_solve", "trans is 3", "adjoint"),
                linalg::lu_solve(linalg::lu_factor(eye(2)), ones({2}), 3));
  EXPECT_MISUSE(InvalidArgument, ("solve_triangular", "trans is -1"),
                linalg::solve_triangular(eye(2), ones({2}), {.trans = -1}));
  EXPECT_MISUSE(InvalidArgument, ("cond", "float32[0,2]", "no elements"), linalg::cond(ones({0, 2})));
}

TEST(LinalgError, Products) {
  EXPECT_MISUSE(InvalidArgument, ("multi_dot", "2 to 50", "1"), linalg::multi_dot({eye(2)}));
  EXPECT_MISUSE(InvalidArgument, ("multi_dot", "array 1", "float32[2]", "vectors"),
                linalg::multi_dot({eye(2), ones({2}), eye(2)}));
  EXPECT_MISUSE(InvalidArgument, ("multi_dot", "array 0", "extent 1", "array 1", "extent 3"),
                linalg::multi_dot({ones({2, 1}), ones({3, 4})}));
}

// ---- Convolutions.

TEST(ConvolutionError, Operands) {
  const Array x = ones({2, 4, 6});
  EXPECT_MISUSE(TypeMismatch, ("conv", "float32[2,4,6]", "float64[3,4,2]"),
                lax::conv(x, ones({3, 4, 2}, {.dtype = float64}), {1}, "SAME"));
  EXPECT_MISUSE(InvalidArgument, ("conv", "float32[3,4]", "same number of dimensions"),
                lax::conv(x, ones({3, 4}), {1}, "SAME"));
  EXPECT_MISUSE(InvalidArgument, ("conv", "at least 2"), lax::conv(ones({3}), ones({3}), {}, "SAME"));
  EXPECT_MISUSE(InvalidArgument, ("conv", "4 features in 1 groups", "4 input features, not 3"),
                lax::conv(x, ones({3, 3, 2}), {1}, "SAME"));
  EXPECT_MISUSE(TypeMismatch, ("conv_general_dilated", "int32", "float32"),
                lax::conv_general_dilated(x, ones({3, 4, 2}), {1}, "SAME", {.preferred_element_type = int32}));
}

TEST(ConvolutionError, Groups) {
  const Array x = ones({2, 4, 6});
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "4 features in 3 groups"),
                lax::conv_general_dilated(x, ones({3, 4, 2}), {1}, "SAME", {.feature_group_count = 3}));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "2 groups", "3 output features"),
                lax::conv_general_dilated(x, ones({3, 2, 2}), {1}, "SAME", {.feature_group_count = 2}));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "3 groups", "2 batches"),
                lax::conv_general_dilated(x, ones({3, 4, 2}), {1}, "SAME", {.batch_group_count = 3}));
  EXPECT_MISUSE(
      InvalidArgument, ("conv_general_dilated", "feature_group_count is 2", "batch_group_count is 2"),
      lax::conv_general_dilated(x, ones({3, 2, 2}), {1}, "SAME", {.feature_group_count = 2, .batch_group_count = 2}));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "feature_group_count is 0"),
                lax::conv_general_dilated(x, ones({3, 2, 2}), {1}, "SAME", {.feature_group_count = 0}));
}

TEST(ConvolutionError, HowTheWindowMoves) {
  const Array x = ones({2, 4, 6});
  const Array y = ones({3, 4, 2});
  EXPECT_MISUSE(InvalidArgument, ("conv", "\"same\"", "\"SAME\"", "\"VALID\""), lax::conv(x, y, {1}, "same"));
  EXPECT_MISUSE(InvalidArgument, ("conv", "2 pairs", "1 dimensions"), lax::conv(x, y, {1}, {{0, 0}, {0, 0}}));
  EXPECT_MISUSE(InvalidArgument, ("conv", "window_strides (1, 1)", "1 dimensions"), lax::conv(x, y, {1, 1}, "SAME"));
  EXPECT_MISUSE(InvalidArgument, ("conv", "window_strides (0,)", "at least 1"), lax::conv(x, y, {0}, "SAME"));
  EXPECT_MISUSE(InvalidArgument, ("conv_with_general_padding", "\"SAME\"", "lhs_dilation (2,)", "conv_transpose"),
                lax::conv_with_general_padding(x, y, {1}, "SAME", {2}, {1}));
  EXPECT_MISUSE(InvalidArgument, ("conv_transpose", "rhs_dilation (1, 2)"),
                lax::conv_transpose(ones({2, 6, 4}), ones({2, 4, 3}), {1}, "SAME", {.rhs_dilation = {1, 2}}));
}

TEST(ConvolutionError, DimensionNumbers) {
  const Array x = ones({2, 4, 6});
  const Array y = ones({3, 4, 2});
  const auto with = [](const char* lhs, const char* rhs, const char* out) {
    return lax::ConvOptions{.dimension_numbers = lax::ConvDimensionNumbers{lhs, rhs, out}};
  };
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "\"NHWC\"", "3 dimensions"),
                lax::conv_general_dilated(x, y, {1}, "SAME", with("NHWC", "OIH", "NCH")));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "\"NCW\"", "letters of \"NCH\""),
                lax::conv_general_dilated(x, y, {1}, "SAME", with("NCH", "OIH", "NCW")));
  EXPECT_MISUSE(InvalidArgument, ("conv_general_dilated", "\"NNH\""),
                lax::conv_general_dilated(x, y, {1}, "SAME", with("NNH", "OIH", "NCH")));
}

TEST(ConvolutionError, OfVectors) {
  EXPECT_MISUSE(InvalidArgument, ("convolve", "float32[2,2]", "vectors"), convolve(eye(2), ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("correlate", "float32[0]"), correlate(ones({0}), ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("convolve", "\"half\"", "\"full\""), convolve(ones({2}), ones({2}), "half"));
}

}  // namespace
}  // namespace shoal::test
