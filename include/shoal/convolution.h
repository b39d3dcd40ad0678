// Convolutions. Batches, features and dimensions along which the window is one element wide stay where they are; sums
// over split features become a reduction; dimensions along which the window moves are made whole.
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

/// What surrounds an array where a window moves over it: how much before and after each dimension, where negative
/// numbers cut off; or "VALID": nothing; "SAME": as much as gives one place of the window for each stride, the smaller
/// half before; "SAME_LOWER": the greater half before.
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

/// What the dimensions are: N batches, C features, I and O features of the operand and of the result, and the same
/// letters or digits of one's own for the dimensions along which the window moves: {"NHWC", "HWIO", "NHWC"}.
struct ConvDimensionNumbers {
  std::string lhs_spec;
  std::string rhs_spec;
  std::string out_spec;
};

struct ConvOptions {
  Dims lhs_dilation = {};  ///< One more than the number of zeros between the elements of lhs; default: 1.
  Dims rhs_dilation = {};  ///< The same of rhs.
  /// Default: batches, features, then the others in lhs and in the result; O, I, then the others in rhs.
  std::optional<ConvDimensionNumbers> dimension_numbers = {};
  std::int64_t feature_group_count = 1;  ///< Features are in groups of their own.
  std::int64_t batch_group_count = 1;    ///< Batches are in groups; each makes its part of the result's features.
  /// What products are added in, and the result's dtype; as in dot_general.
  std::optional<Dtype> preferred_element_type = {};
};

/// For each place of the window rhs the sum of its products with the elements of lhs, over input features and window.
/// The window is not reversed. Operands have one dtype. Throws InvalidArgument for ranks, extents, groups and dimension
/// numbers that do not fit, and TypeMismatch for dtypes that do not.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                           const WindowPadding& padding, const ConvOptions& options = {});
Array conv(const Operand& lhs, const Operand& rhs, const Dims& window_strides, const WindowPadding& padding);
Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                                const WindowPadding& padding, const Dims& lhs_dilation, const Dims& rhs_dilation);

struct ConvTransposeOptions {
  Dims rhs_dilation = {};
  /// Default: {"NHWC", "HWIO", "NHWC"}, with as many dimensions between as there are.
  std::optional<ConvDimensionNumbers> dimension_numbers = {};
  bool transpose_kernel = false;  ///< Reverse the window and exchange its features: what a convolution is undone by.
  std::optional<Dtype> preferred_element_type = {};
};
/// A convolution of lhs with strides - 1 zeros between its elements: "SAME" makes the result `strides` times as large,
/// "VALID" as large as makes a convolution by these strides give lhs again. Pairs are those of that convolution.
Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides, const WindowPadding& padding,
                     const ConvTransposeOptions& options = {});

}  // namespace lax

/// The convolution of two vectors, floats at least: "full", "same": as many elements as the longer one, "valid":
/// without those at the ends, where one is shorter. Throws InvalidArgument for other ranks, modes and for vectors
/// without elements.
Array convolve(const Operand& a, const Operand& v, const std::string& mode = "full");
/// The sums of products of a with v, conjugated, moved along it.
Array correlate(const Operand& a, const Operand& v, const std::string& mode = "valid");

}  // namespace shoal
