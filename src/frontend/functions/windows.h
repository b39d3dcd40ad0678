// How windows move over arrays: what convolutions and reductions of windows share.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "shoal/convolution.h"

namespace shoal::lax {

using PadPairs = std::vector<WindowPadding::Pair>;

/// As much as can be counted; ops refuse extents that are so long.
constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

inline std::int64_t up_to_endless(std::int64_t a, std::int64_t b) { return a > kEndless - b ? kEndless : a + b; }

/// The number of elements from the first to the last of n with gaps between them.
std::int64_t dilated(std::int64_t n, std::int64_t dilation);
/// One entry for each dimension, 1 if none were given. Throws InvalidArgument, naming the argument.
Dims one_for_each(std::string_view what, const Dims& given, std::size_t count);
/// How much goes before and after each dimension of an array with these extents. Windows are counted with their gaps.
PadPairs pads_around(const WindowPadding& padding, const Dims& extents, const Dims& windows, const Dims& strides);
/// The attributes of an op that moves a window.
Attrs moves(const Dims& strides, const PadPairs& padding, const Dims& base_dilation, const Dims& window_dilation);

}  // namespace shoal::lax
