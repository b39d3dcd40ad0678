// Convolutions. Batches, features and dimensions along which the window is one element wide stay split as they are;
// sums over split features become a reduction; dimensions along which the window moves are made whole.
//
// @param lhs The array.
// @param rhs The window.
// @param window_strides How far the window moves, for each dimension.
// @param padding "VALID", "SAME", "SAME_LOWER", or the number of elements before and after each dimension.
// @param lhs_dilation One more than the number of zeros between the elements of lhs.
// @param rhs_dilation One more than the number of zeros between the elements of rhs.
// @param preferred_element_type The dtype in which products are added, and that of the result.
// @param name "VALID", "SAME" or "SAME_LOWER".
// @param pairs The number of elements before and after each dimension.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/array.h"

namespace shoal {

namespace lax {

/// Padding of an array over which a window moves: the number of elements before and after each dimension (negative:
/// removed); or "VALID": none; "SAME": so much that the output extent is ceil(extent / stride), with the smaller half
/// before; "SAME_LOWER": the same with the greater half before.
class WindowPadding {
 public:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  WindowPadding(const char* name) : value_(std::string(name)) {}
  WindowPadding(std::string name) : value_(std::move(name)) {}
  WindowPadding(std::initializer_list<Pair> pairs) : value_(std::vector<Pair>(pairs)) {}
  WindowPadding(std::vector<Pair> pairs) : value_(std::move(pairs)) {}
  const std::string* name() const { return std::get_if<std::string>(&value_); }
  const std::vector<Pair>* pairs() const { return std::get_if<std::vector<Pair>>(&value_); }

 private:
  std::variant<std::string, std::vector<Pair>> value_;
};

/// The meaning of the dimensions: N batches, C features, I and O features of the operand and of the result, and other
/// letters or digits, the same in all three, for the dimensions along which the window moves: {"NHWC", "HWIO", "NHWC"}.
struct ConvDimensionNumbers {
  std::string lhs_spec;
  std::string rhs_spec;
  std::string out_spec;
};

struct ConvOptions {
  Dims lhs_dilation = {};  ///< One more than the number of zeros between the elements of lhs; default: 1.
  Dims rhs_dilation = {};  ///< The same for rhs.
  /// Default: batches, features, then the others in lhs and in the result; O, I, then the others in rhs.
  std::optional<ConvDimensionNumbers> dimension_numbers = {};
  std::int64_t feature_group_count = 1;  ///< The number of groups of features that are convolved separately.
  std::int64_t batch_group_count = 1;    ///< Groups of batches; each makes its part of the result's features.
  /// The dtype in which products are added, and that of the result; as in dot_general.
  std::optional<Dtype> preferred_element_type = {};
};

/// For each position of the window rhs, the sum of its products with the elements of lhs, over input features and
/// window. The window is not reversed. Operands have one dtype. Throws InvalidArgument for ranks, extents, groups and
/// dimension numbers that do not fit, and TypeMismatch for dtypes that do not.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                           const WindowPadding& padding, const ConvOptions& options = {});
/// conv_general_dilated without dilations, with the default dimension numbers.
Array conv(const Operand& lhs, const Operand& rhs, const Dims& window_strides, const WindowPadding& padding);
/// conv_general_dilated with the default dimension numbers.
Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                                const WindowPadding& padding, const Dims& lhs_dilation, const Dims& rhs_dilation);

struct ConvTransposeOptions {
  Dims rhs_dilation = {};
  /// Default: {"NHWC", "HWIO", "NHWC"}, with as many dimensions between as there are.
  std::optional<ConvDimensionNumbers> dimension_numbers = {};
  bool transpose_kernel = false;  ///< Reverse the window and exchange its features, as a transpose does.
  std::optional<Dtype> preferred_element_type = {};
};
/// A convolution of lhs with strides - 1 zeros between its elements. "SAME" makes the result `strides` times as large;
/// "VALID" so large that a convolution by these strides would give the extents of lhs again. Pairs are the padding of
/// lhs with these zeros.
/// @param strides How much greater the result is, for each dimension.
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides, const WindowPadding& padding,
                     const ConvTransposeOptions& options = {});

}  // namespace lax

/// The convolution of two vectors, as floats at least. Modes are "full"; "same": as many elements as the longer vector;
/// "valid": only where the shorter one lies inside the longer. Throws InvalidArgument for other ranks and modes, and
/// for vectors without elements.
/// @param a A vector.
/// @param v Another one.
/// @param mode "full", "same" or "valid".
/// @return A vector.
/// @example convolve(array({1.0f, 2.0f}), array({1.0f, 10.0f}))
///   [ 1. 12. 20.]
Array convolve(const Operand& a, const Operand& v, const std::string& mode = "full");
/// The sums of products of a with the conjugate of v, which moves along it.
/// @param a A vector.
/// @param v Another one.
/// @param mode "full", "same" or "valid".
/// @return A vector.
Array correlate(const Operand& a, const Operand& v, const std::string& mode = "valid");

}  // namespace shoal
