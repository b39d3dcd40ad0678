#include "shoal/ndimage.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::ndimage {
namespace {

// The position that stands for one outside, of n elements.
Array inside(const std::string& mode, const Array& position, std::int64_t n) {
  const auto mirrored = [](const Array& at, std::int64_t last) {
    if (last == 0) return zeros_like(at);
    return abs(remainder(at + last, 2 * last) - last);
  };
  if (mode == "wrap") return remainder(position, n);
  if (mode == "mirror") return mirrored(position, n - 1);
  // Mirrored in steps of halves, in which edges are whole.
  if (mode == "reflect") return floor_divide(mirrored(2 * position + 1, 2 * n) - 1, 2);
  return clip(position, 0, n - 1);
}

// The nearest whole number; halves go away from zero.
Array rounded(const Array& x) {
  const Array whole = trunc(x);
  return where(greater_equal(abs(x - whole), 0.5), whole + copysign(1.0, x), whole);
}

// A neighbour along one dimension.
struct Neighbour {
  Array position;
  std::optional<Array> is_inside;  // Where it may be outside.
  std::optional<Array> weight;
};

std::vector<Neighbour> neighbours(const Array& coordinate, std::int64_t n, int order, const std::string& mode) {
  std::vector<Neighbour> result;
  const auto add = [&](const Array& position, const std::optional<Array>& weight) {
    Neighbour one{inside(mode, position, n), {}, weight};
    if (mode == "constant") one.is_inside = logical_and(greater_equal(position, 0), less(position, n));
    result.push_back(one);
  };
  if (order == 0) {
    add(convert(is_integer(coordinate.dtype()) ? coordinate : rounded(coordinate), int32), {});
    return result;
  }
  const Array below = floor(coordinate);
  const Array share = coordinate - below;
  const Array position = convert(below, int32);
  add(position, 1.0 - share);
  add(position + 1, share);
  return result;
}

}  // namespace

Array map_coordinates(const Operand& input, const std::vector<Array>& coordinates, int order,
                      const MapOptions& options) {
  const Caller caller("map_coordinates", input.where());
  const Array x = to_array(input);
  if (coordinates.size() != x.ndim()) {
    throw misuse<InvalidArgument>("there are {} arrays of coordinates for {}, which has {} dimensions",
                                  coordinates.size(), type_of(x), x.ndim());
  }
  static constexpr std::array<std::string_view, 5> kModes = {"constant", "nearest", "wrap", "mirror", "reflect"};
  if (std::find(kModes.begin(), kModes.end(), options.mode) == kModes.end()) {
    throw misuse<Unsupported>(R"(mode "{}"; it is "constant", "nearest", "wrap", "mirror" or "reflect")", options.mode);
  }
  if (order != 0 && order != 1) throw misuse<Unsupported>("order {}; it is 0 or 1", order);
  if (x.size() == 0) throw misuse<InvalidArgument>("the input {} has no elements", type_of(x));
  const Array outside = convert(to_array(options.cval), x.dtype());

  // Each corner of the cells that coordinates lie in, as a position in the flattened array.
  struct Corner {
    std::optional<Array> position;
    std::optional<Array> is_inside;
    std::optional<Array> weight;
  };
  const auto joined = [](const std::optional<Array>& a, const std::optional<Array>& b, auto&& f) {
    if (!a || !b) return a ? a : b;
    return std::optional<Array>(f(*a, *b));
  };
  std::vector<Corner> corners(1);
  for (std::size_t d = 0; d < x.ndim(); ++d) {
    const Array given = coordinates[d];
    const Array coordinate = order == 0 ? given : convert(given, inexact_dtype(given.dtype()));
    std::vector<Corner> more;
    for (const Corner& corner : corners) {
      for (const Neighbour& one : neighbours(coordinate, x.shape()[d], order, options.mode)) {
        const std::int64_t n = x.shape()[d];
        more.push_back(
            {joined(corner.position, one.position, [n](const Array& a, const Array& b) { return a * n + b; }),
             joined(corner.is_inside, one.is_inside, [](const Array& a, const Array& b) { return logical_and(a, b); }),
             joined(corner.weight, one.weight, [](const Array& a, const Array& b) { return a * b; })});
      }
    }
    corners = std::move(more);
  }
  const Array flat = ravel(x);
  std::optional<Array> result;
  for (const Corner& corner : corners) {
    if (!corner.position) return x;  // A scalar has one element.
    Array item = take(flat, *corner.position, {.mode = IndexMode::kClip});
    if (corner.is_inside) item = where(*corner.is_inside, item, outside);
    if (corner.weight) item = item * *corner.weight;
    result = result ? *result + item : item;
  }
  if (is_integer(x.dtype()) && is_floating(result->dtype())) result = rounded(*result);
  return convert(*result, x.dtype());
}

}  // namespace shoal::ndimage
