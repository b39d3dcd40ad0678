#include "shoal/image.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/contractions.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::image {
namespace {

constexpr double kHalfTurn = 3.14159265358979323846;
// A sum of weights below this is none.
constexpr double kNoWeight = 1000.0 * std::numeric_limits<float>::epsilon();

// ---- Kernels: the weight of what lies at a distance x >= 0, and 0 from the radius on.

std::int64_t radius_of(ResizeMethod method) {
  switch (method) {
    case ResizeMethod::kLanczos3:
      return 3;
    case ResizeMethod::kLanczos5:
      return 5;
    case ResizeMethod::kCubic:
    case ResizeMethod::kCubicPytorch:
      return 2;
    default:
      return 1;
  }
}

Array lanczos(const Array& x, double radius) {
  const Array lobes = radius * sin(x * kHalfTurn) * sin(x * (kHalfTurn / radius));
  const Array inside = where(greater(x, 1e-3), lobes / (square(maximum(x, 1e-3)) * (kHalfTurn * kHalfTurn)), 1);
  return where(greater(x, radius), 0, inside);
}

// The convolution kernel of Keys.
Array cubic(const Array& x, double a) {
  const Array near = ((a + 2) * x - (a + 3)) * x * x + 1.0;
  const Array far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return where(greater_equal(x, 2), 0, where(greater_equal(x, 1), far, near));
}

Array kernel(ResizeMethod method, const Array& x) {
  switch (method) {
    case ResizeMethod::kLanczos3:
      return lanczos(x, 3);
    case ResizeMethod::kLanczos5:
      return lanczos(x, 5);
    case ResizeMethod::kCubic:
      return cubic(x, -0.5);
    case ResizeMethod::kCubicPytorch:
      return cubic(x, -0.75);
    default:
      return maximum(1.0 - x, 0);
  }
}

// ---- One dimension.

// Where the n new elements of a dimension of m come from.
struct Resampling {
  ResizeMethod method;
  bool antialias;
  std::int64_t m;
  std::int64_t n;
  Array inverse;        ///< 1 / scale, a scalar.
  Array shift;          ///< translation / scale, a scalar.
  Array centre;         ///< The position that each new element comes from, in elements of the image.
  std::int64_t beyond;  ///< How many elements an edge stands for.
  std::optional<double> known_inverse;

  Resampling(ResizeMethod given, bool smooth, std::int64_t from, std::int64_t to, const Array& inverse_scale,
             const Array& translation, std::optional<double> known)
      : method(given == ResizeMethod::kCubicPytorch && smooth ? ResizeMethod::kCubic : given),
        antialias(smooth),
        m(from),
        n(to),
        inverse(inverse_scale),
        shift(translation * inverse_scale),
        centre((lax::iota(inverse.dtype(), to) + 0.5) * inverse - shift - 0.5),
        beyond(method == ResizeMethod::kCubicPytorch ? radius_of(method) : 0),
        known_inverse(known) {}

  bool is_area() const { return method == ResizeMethod::kArea; }

  // How many neighbours in a row may have a weight, if that is known.
  std::optional<std::int64_t> taps() const {
    if (is_area()) {
      if (!known_inverse) return {};
      return static_cast<std::int64_t>(std::ceil(*known_inverse)) + 1;
    }
    if (!antialias) return 2 * radius_of(method);
    if (!known_inverse) return {};
    return static_cast<std::int64_t>(
        std::ceil(2 * static_cast<double>(radius_of(method)) * std::fmax(*known_inverse, 1)));
  }
  // The first of them.
  Array first_tap() const {
    if (is_area()) return floor(left());
    return floor(centre - static_cast<double>(radius_of(method)) * width()) + 1.0;
  }

  // The weight of the elements at whole positions, which broadcast against the new elements.
  Array weight(const Array& position) const {
    Array result;
    if (is_area()) {
      const Array right = left() + inverse;
      result = maximum(minimum(right, position + 1.0) - maximum(left(), position), 0);
    } else {
      result = kernel(method, abs(centre - position) / width());
    }
    const double last = static_cast<double>(m - 1 + beyond);
    const Array inside = logical_and(greater_equal(position, static_cast<double>(-beyond)), less_equal(position, last));
    return where(inside, result, 0);
  }
  // The weights, so that they add up to 1; 0 where nothing of the image is, or where they are NaN, as by a scale of 0.
  Array shares(const Array& weights, const Array& total) const {
    const Array factor = norm(total);
    return where(equal(factor, 0), 0, weights * factor);
  }

 private:
  Array norm(const Array& total) const {
    const Array some = greater(abs(total), kNoWeight);
    const Array factor = where(some, 1.0 / where(some, total, 1), 0);
    if (beyond > 0) return factor;
    const Array inside = logical_and(greater_equal(centre, -0.5), less_equal(centre, static_cast<double>(m) - 0.5));
    return where(inside, factor, 0);
  }
  Array left() const { return centre + 0.5 - 0.5 * inverse; }
  Array width() const { return antialias ? maximum(inverse, 1) : ones_like(inverse); }
};

std::int64_t elements_below(const Array& x, std::int64_t d) {
  std::int64_t count = 1;
  for (std::size_t i = static_cast<std::size_t>(d) + 1; i < x.ndim(); ++i) count *= x.shape()[i];
  return count;
}

// The items of x at positions along dimension d, n of them inside of it. Where an item is a few elements, these are
// taken one by one, as loops do along a last dimension.
Array taken(const Array& x, std::int64_t d, const Array& positions, std::int64_t n) {
  constexpr std::int64_t kFew = 16;
  const std::int64_t below = elements_below(x, d);
  if (below == 1 || below >= kFew) return take(x, positions, {.axis = d, .mode = IndexMode::kClip});
  Shape joined(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(d));
  joined.push_back(extent_of(x, d) * below);
  const Array starts = expand_dims(positions * below, std::int64_t{1});
  const Array each = ravel(starts + lax::iota(positions.dtype(), below));
  const Array items = take(reshape(x, joined), each, {.axis = d, .mode = IndexMode::kClip});
  Shape result = x.shape();
  result[static_cast<std::size_t>(d)] = n;
  return reshape(items, result);
}

// A vector along dimension d.
Array along(const Array& vector, std::int64_t d, std::size_t rank) {
  Shape shape(rank, 1);
  shape[static_cast<std::size_t>(d)] = vector.size();
  return reshape(vector, shape);
}

Array summed_taps(const Array& x, std::int64_t d, const Resampling& way, std::int64_t taps) {
  const Array first = way.first_tap();
  std::vector<Array> weights;
  std::optional<Array> total;
  for (std::int64_t t = 0; t < taps; ++t) {
    weights.push_back(way.weight(first + static_cast<double>(t)));
    total = total ? *total + weights.back() : weights.back();
  }
  std::optional<Array> sum;
  for (std::int64_t t = 0; t < taps; ++t) {
    const Array position = clip(first + static_cast<double>(t), 0, static_cast<double>(way.m - 1));
    const Array item = taken(x, d, convert(position, int32), way.n);
    const Array weight = convert(way.shares(weights[static_cast<std::size_t>(t)], *total), x.dtype());
    const Array term = item * along(weight, d, x.ndim());
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

Array product_with_weights(const Array& x, std::int64_t d, const Resampling& way) {
  Array source = x;
  if (way.beyond > 0) {
    std::vector<PadWidth::Pair> width(x.ndim(), {0, 0});
    width[static_cast<std::size_t>(d)] = {way.beyond, way.beyond};
    source = pad(x, PadWidth(width), {.mode = "edge"});
  }
  const Array positions = lax::iota(way.centre.dtype(), way.m + 2 * way.beyond) - static_cast<double>(way.beyond);
  const Array weights = way.weight(expand_dims(positions, std::int64_t{1}));
  const Array matrix = convert(way.shares(weights, sum(weights, {.axis = 0})), x.dtype());
  const Array result = contract(source, matrix, {.lhs_contracting = {d}, .rhs_contracting = {0}});
  return moveaxis(result, -1, d);
}

Array resampled(const Array& x, std::int64_t d, const Resampling& way) {
  // A neighbour by its position takes as long as some fifty products in a matrix.
  constexpr std::int64_t kProductsForATap = 64;
  const std::optional<std::int64_t> taps = way.taps();
  const bool few = taps && *taps * kProductsForATap <= way.m;
  return few ? summed_taps(x, d, way, *taps) : product_with_weights(x, d, way);
}

Array nearest(const Array& image, const Shape& shape) {
  Array x = image;
  // From the last one on, so that lines are longer when they are copied.
  for (std::int64_t d = static_cast<std::int64_t>(x.ndim()) - 1; d >= 0; --d) {
    const std::int64_t m = extent_of(x, d);
    const std::int64_t n = shape[static_cast<std::size_t>(d)];
    if (m == n) continue;
    // In f32 as in JAX, which rounds where extents have no common divisor.
    const Array position = (lax::iota(float32, n) + 0.5) * static_cast<double>(m) / static_cast<double>(n);
    x = taken(x, d, convert(floor(position), int32), n);
  }
  return x;
}

void check_rank(const Array& image, const Shape& shape) {
  if (shape.size() == image.ndim()) return;
  throw misuse<InvalidArgument>("shape {} must have {} extents, one for each dimension of the image {}",
                                to_string(shape), image.ndim(), type_of(image));
}

}  // namespace

ResizeMethod resize_method(std::string_view name, SourceLocation location) {
  const Caller caller("resize_method", location);
  static constexpr std::array<std::pair<std::string_view, ResizeMethod>, 13> kMethods = {{
      {"nearest", ResizeMethod::kNearest},
      {"linear", ResizeMethod::kLinear},
      {"bilinear", ResizeMethod::kLinear},
      {"trilinear", ResizeMethod::kLinear},
      {"triangle", ResizeMethod::kLinear},
      {"lanczos3", ResizeMethod::kLanczos3},
      {"lanczos5", ResizeMethod::kLanczos5},
      {"cubic", ResizeMethod::kCubic},
      {"bicubic", ResizeMethod::kCubic},
      {"tricubic", ResizeMethod::kCubic},
      {"cubic-pytorch", ResizeMethod::kCubicPytorch},
      {"bicubic-pytorch", ResizeMethod::kCubicPytorch},
      {"area", ResizeMethod::kArea},
  }};
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  throw misuse<InvalidArgument>(
      R"(method "{}"; it is "nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch" or "area")", name);
}

Array resize(const Operand& image, const Shape& shape, ResizeMethod method, const ResizeOptions& options) {
  const Caller caller("resize", image.where());
  const Array given = to_array(image);
  check_rank(given, shape);
  check_extents(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 0 && given.shape()[d] == 0) {
      throw misuse<InvalidArgument>("the image {} has no elements to make the shape {} of", type_of(given),
                                    to_string(shape));
    }
  }
  if (method == ResizeMethod::kNearest) return nearest(given, shape);
  Array x = convert(given, inexact_dtype(given.dtype()));
  const Dtype dtype = real_dtype(x.dtype()) == float64 ? float64 : float32;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    const std::int64_t m = extent_of(x, d);
    const std::int64_t n = shape[static_cast<std::size_t>(d)];
    if (m == n) continue;
    const double inverse = n == 0 ? 1 : static_cast<double>(m) / static_cast<double>(n);
    const Array inverse_scale = full({}, inverse, {.dtype = dtype});
    x = resampled(x, d, {method, options.antialias, m, n, inverse_scale, zeros_like(inverse_scale), inverse});
  }
  return x;
}

Array scale_and_translate(const Operand& image, const Shape& shape, const Dims& spatial_dims, const Operand& scale,
                          const Operand& translation, ResizeMethod method, const ResizeOptions& options) {
  const Caller caller("scale_and_translate", image.where());
  const Array given = to_array(image);
  check_rank(given, shape);
  check_extents(shape);
  if (method == ResizeMethod::kNearest) {
    throw misuse<InvalidArgument>("has no method \"nearest\"; resize has it");
  }
  const std::vector<Array> numbers = promote_of_any_rank(kFloats, {&scale, &translation});
  const auto count = static_cast<std::int64_t>(spatial_dims.size());
  for (const Array& vector : numbers) {
    if (vector.ndim() == 1 && vector.size() == count) continue;
    throw misuse<InvalidArgument>("scale and translation must be vectors of {}, as many as spatial_dims, not {}", count,
                                  type_of(vector));
  }
  Array x = convert(given, inexact_dtype(given.dtype()));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t d = canonical_axis(spatial_dims[static_cast<std::size_t>(i)], x.ndim());
    const auto number = [&](const Array& vector) { return squeeze(lax::slice_in_dim(vector, i, i + 1)); };
    const Array inverse = 1.0 / number(numbers[0]);
    x = resampled(x, d,
                  {method,
                   options.antialias,
                   extent_of(x, d),
                   shape[static_cast<std::size_t>(d)],
                   inverse,
                   number(numbers[1]),
                   {}});
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (x.shape()[d] == shape[d]) continue;
    throw misuse<InvalidArgument>(
        "shape {} differs from the image {} in dimension {}, which spatial_dims does not name", to_string(shape),
        type_of(given), d);
  }
  return x;
}

}  // namespace shoal::image
