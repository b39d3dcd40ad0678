#include "shoal/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/windows.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace lax {
namespace {

// Which dimension each of "N", "C" and the others in the order of `order` is, in a spec.
Dims dims_of_spec(const std::string& spec, const std::string& order) {
  Dims dims;
  for (char label : order) {
    const std::size_t at = spec.find(label);
    if (at == std::string::npos || spec.find(label, at + 1) != std::string::npos || spec.size() != order.size()) {
      throw misuse<InvalidArgument>(
          "dimension numbers \"{}\" must be the letters of \"{}\" in any order, one for each dimension", spec, order);
    }
    dims.push_back(static_cast<std::int64_t>(at));
  }
  return dims;
}

Dims inverse(const Dims& permutation) {
  Dims result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    result[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

// The dimensions of operands and result in the order of the op: batches or results, features, then the others.
struct Layout {
  Dims lhs;
  Dims rhs;
  Dims out;

  Layout(const std::optional<ConvDimensionNumbers>& numbers, std::size_t rank) {
    if (!numbers) {
      for (std::size_t d = 0; d < rank; ++d) lhs.push_back(static_cast<std::int64_t>(d));
      rhs = out = lhs;
      return;
    }
    if (numbers->lhs_spec.size() != rank) {
      throw misuse<InvalidArgument>("dimension numbers \"{}\" must have a letter for each of {} dimensions",
                                    numbers->lhs_spec, rank);
    }
    // The order of the dimensions along which the window moves is that of rhs.
    std::string others = numbers->rhs_spec;
    std::erase_if(others, [](char label) { return label == 'I' || label == 'O'; });
    lhs = dims_of_spec(numbers->lhs_spec, "NC" + others);
    rhs = dims_of_spec(numbers->rhs_spec, "OI" + others);
    out = dims_of_spec(numbers->out_spec, "NC" + others);
  }
};

Array in_order(const Array& x, const Dims& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : shoal::transpose(x, order);
}

void check_operands(const Array& lhs, const Array& rhs) {
  if (lhs.dtype() != rhs.dtype()) {
    throw misuse<TypeMismatch>("operands must have one dtype, but are {} and {}", type_of(lhs), type_of(rhs));
  }
  if (lhs.ndim() >= 2 && lhs.ndim() == rhs.ndim()) return;
  throw misuse<InvalidArgument>("operands {} and {} must have the same number of dimensions, at least 2", type_of(lhs),
                                type_of(rhs));
}

// Operands in the order of the op. The extents of batches, features and groups must fit.
void check_groups(const Array& lhs, const Array& rhs, std::int64_t feature_groups, std::int64_t batch_groups) {
  if (feature_groups < 1 || batch_groups < 1 || (feature_groups > 1 && batch_groups > 1)) {
    throw misuse<InvalidArgument>(
        "feature_group_count is {} and batch_group_count is {}; they must be at least 1, and one of them 1",
        feature_groups, batch_groups);
  }
  const std::int64_t features = lhs.shape()[1];
  if (features % feature_groups != 0 || features / feature_groups != rhs.shape()[1]) {
    throw misuse<InvalidArgument>(
        "the left operand has {} features in {} groups, so the right one must have {} input features, not {}", features,
        feature_groups, static_cast<double>(features) / static_cast<double>(feature_groups), rhs.shape()[1]);
  }
  const std::int64_t groups = std::max(feature_groups, batch_groups);
  if (rhs.shape()[0] % groups != 0 || lhs.shape()[0] % batch_groups != 0) {
    throw misuse<InvalidArgument>("{} groups must divide the {} output features{}", groups, rhs.shape()[0],
                                  batch_groups > 1 ? fmt::format(" and the {} batches", lhs.shape()[0]) : "");
  }
}

// With batches in groups: they become groups of features.
Array batch_groups_as_features(const Array& lhs, std::int64_t groups) {
  Shape split = lhs.shape();
  split[0] /= groups;
  split.insert(split.begin(), groups);
  Shape joined = lhs.shape();
  joined[0] /= groups;
  joined[1] *= groups;
  const Array apart = moveaxis(shoal::reshape(lhs, split), 0, 1);
  return shoal::reshape(apart, joined);
}

Array convolved(const Array& lhs, const Array& rhs, const Dims& window_strides, const WindowPadding& padding,
                const ConvOptions& options) {
  check_operands(lhs, rhs);
  check_preferred(lhs.dtype(), options.preferred_element_type);
  const Layout layout(options.dimension_numbers, lhs.ndim());
  Array left = in_order(lhs, layout.lhs);
  const Array right = in_order(rhs, layout.rhs);
  check_groups(left, right, options.feature_group_count, options.batch_group_count);
  const std::size_t count = lhs.ndim() - 2;
  const Dims strides = one_for_each("window_strides", window_strides, count);
  const Dims base = one_for_each("lhs_dilation", options.lhs_dilation, count);
  const Dims window = one_for_each("rhs_dilation", options.rhs_dilation, count);
  if (padding.name() != nullptr && base != Dims(count, 1)) {
    throw misuse<InvalidArgument>(
        "padding \"{}\" has no meaning with lhs_dilation {}; give pairs, or call conv_transpose", *padding.name(),
        to_string(base));
  }
  Dims windows;
  for (std::size_t d = 0; d < count; ++d) windows.push_back(dilated(right.shape()[d + 2], window[d]));
  const Shape extents(left.shape().begin() + 2, left.shape().end());
  Attrs attrs = moves(strides, pads_around(padding, extents, windows, strides), base, window);
  if (options.preferred_element_type && *options.preferred_element_type != lhs.dtype()) {
    attrs.set("dtype", *options.preferred_element_type);
  }
  if (options.batch_group_count > 1) left = batch_groups_as_features(left, options.batch_group_count);
  return in_order(bind_one("convolution", std::move(attrs), {left, right}), inverse(layout.out));
}

// The padding of a convolution with gaps in its left operand that undoes one with these strides.
WindowPadding::Pair transposed_padding(const std::string& name, std::int64_t window, std::int64_t stride) {
  if (name == "VALID") return {window - 1, std::max(window, stride) - 1};
  const std::int64_t total = up_to_endless(window, stride) - 2;
  const std::int64_t before = stride > window - 1 ? window - 1 : total / 2 + total % 2;
  return {before, total - before};
}

}  // namespace

Array conv_general_dilated(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                           const WindowPadding& padding, const ConvOptions& options) {
  const Caller caller("conv_general_dilated", lhs.where());
  return convolved(to_array(lhs), to_array(rhs), window_strides, padding, options);
}

Array conv(const Operand& lhs, const Operand& rhs, const Dims& window_strides, const WindowPadding& padding) {
  const Caller caller("conv", lhs.where());
  return convolved(to_array(lhs), to_array(rhs), window_strides, padding, {});
}

Array conv_with_general_padding(const Operand& lhs, const Operand& rhs, const Dims& window_strides,
                                const WindowPadding& padding, const Dims& lhs_dilation, const Dims& rhs_dilation) {
  const Caller caller("conv_with_general_padding", lhs.where());
  return convolved(to_array(lhs), to_array(rhs), window_strides, padding,
                   {.lhs_dilation = lhs_dilation, .rhs_dilation = rhs_dilation});
}

Array conv_transpose(const Operand& lhs, const Operand& rhs, const Dims& strides, const WindowPadding& padding,
                     const ConvTransposeOptions& options) {
  const Caller caller("conv_transpose", lhs.where());
  const Array left = to_array(lhs);
  Array right = to_array(rhs);
  check_operands(left, right);
  const std::size_t count = left.ndim() - 2;
  ConvDimensionNumbers numbers;
  if (options.dimension_numbers) {
    numbers = *options.dimension_numbers;
  } else {
    std::string others;
    for (std::size_t d = 0; d < count; ++d) others += static_cast<char>('0' + d);
    numbers = {"N" + others + "C", others + "IO", "N" + others + "C"};
  }
  const Dims order = Layout(numbers, left.ndim()).rhs;
  const Dims gaps = one_for_each("strides", strides, count);
  const Dims dilation = one_for_each("rhs_dilation", options.rhs_dilation, count);
  WindowPadding pads = padding;
  if (padding.name() != nullptr && (*padding.name() == "SAME" || *padding.name() == "VALID")) {
    PadPairs pairs;
    for (std::size_t d = 0; d < count; ++d) {
      const std::int64_t window = right.shape()[static_cast<std::size_t>(order[d + 2])];
      pairs.push_back(transposed_padding(*padding.name(), dilated(window, dilation[d]), gaps[d]));
    }
    pads = pairs;
  }
  if (options.transpose_kernel) {
    right = flip(right, Axes(Dims(order.begin() + 2, order.end())));
    right = swapaxes(right, order[0], order[1]);
  }
  return convolved(left, right, Dims(count, 1), pads,
                   {.lhs_dilation = gaps,
                    .rhs_dilation = dilation,
                    .dimension_numbers = numbers,
                    .preferred_element_type = options.preferred_element_type});
}

}  // namespace lax

namespace {

Array reversed(const Array& x) { return flip(x, Axes{}); }

// The sums of products of y, moved along x, which is the longer one.
Array correlated(const Array& x, const Array& y, const std::string& mode) {
  const std::int64_t n = y.size();
  std::pair<std::int64_t, std::int64_t> padding{0, 0};
  if (mode == "full") padding = {n - 1, n - 1};
  if (mode == "same") padding = {n / 2, n - n / 2 - 1};
  if (mode != "full" && mode != "same" && mode != "valid") {
    throw misuse<InvalidArgument>("mode is \"{}\"; it must be \"full\", \"same\" or \"valid\"", mode);
  }
  const auto line = [](const Array& v) { return reshape(v, Dims{1, 1, -1}, OutSharding()); };
  return ravel(lax::conv_general_dilated(line(x), line(y), {1}, {padding}));
}

// The two vectors as floats of one dtype.
std::pair<Array, Array> vectors_of(const Operand& a, const Operand& v) {
  auto [x, y] = promote_dtypes(a, v);
  if (x.ndim() != 1 || y.ndim() != 1 || x.size() == 0 || y.size() == 0) {
    throw misuse<InvalidArgument>("takes two vectors with elements, not {} and {}", type_of(x), type_of(y));
  }
  const Dtype dtype = inexact_dtype(x.dtype());
  return {convert(x, dtype, x.weak_type()), convert(y, dtype, y.weak_type())};
}

}  // namespace

Array convolve(const Operand& a, const Operand& v, const std::string& mode) {
  const Caller caller("convolve", a.where());
  const auto [x, y] = vectors_of(a, v);
  const bool swapped = x.size() < y.size();
  return correlated(swapped ? y : x, reversed(swapped ? x : y), mode);
}

Array correlate(const Operand& a, const Operand& v, const std::string& mode) {
  const Caller caller("correlate", a.where());
  const auto [x, given] = vectors_of(a, v);
  const Array y = is_complex(given.dtype()) ? conj(given) : given;
  if (x.size() >= y.size()) return correlated(x, y, mode);
  return reversed(correlated(y, x, mode));
}

}  // namespace shoal
