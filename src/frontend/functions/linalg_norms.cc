#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"

namespace shoal::linalg {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array magnitude(const Array& x) { return abs(x); }

Array summed(const Array& x, const Axes& axis, bool keepdims) {
  return sum(x, ReduceOptions{.axis = axis, .keepdims = keepdims});
}

Array root_of_squares(const Array& x, const Axes& axis, bool keepdims) {
  const Array size = magnitude(x);
  return sqrt(summed(size * size, axis, keepdims));
}

// The p-norm along one dimension.
Array vector_norm(const Array& x, double p, std::int64_t axis, bool keepdims) {
  const Axes along(Dims{axis});
  const ReduceOptions options{.axis = along, .keepdims = keepdims};
  if (p == kInfinity) return shoal::max(magnitude(x), options);
  if (p == -kInfinity) return shoal::min(magnitude(x), options);
  if (p == 0) return astype(count_nonzero(x, options), real_dtype(x.dtype()));
  if (p == 1) return summed(magnitude(x), along, keepdims);
  if (p == 2) return root_of_squares(x, along, keepdims);
  const Array powers = power(magnitude(x), p);
  return power(summed(powers, along, keepdims), 1 / p);
}

// The greatest or least sum of magnitudes along `inner`, over all positions along `outer`.
Array extreme_sum(const Array& x, std::int64_t inner, std::int64_t outer, bool greatest, bool keepdims) {
  const Array sums = summed(magnitude(x), Axes(Dims{inner}), true);
  const ReduceOptions options{.axis = Dims{outer}, .keepdims = true};
  const Array result = greatest ? shoal::max(sums, options) : shoal::min(sums, options);
  return keepdims ? result : squeeze(result, Axes(Dims{inner, outer}));
}

// A reduction of the singular values of the matrices that two dimensions make.
Array of_singular_values(const Array& x, std::int64_t rows, std::int64_t columns, bool keepdims,
                         Array (*reduction)(const Operand&, const ReduceOptions&)) {
  const Array matrices = moveaxis(x, {rows, columns}, {-2, -1});
  const Array result = reduction(svdvals(matrices), ReduceOptions{.axis = -1});
  return keepdims ? [&](const Operand& v) { return expand_dims(v, Dims{rows, columns}); }(result) : result;
}

Array matrix_norm(const Array& x, double p, std::int64_t rows, std::int64_t columns, bool keepdims) {
  if (p == 1 || p == -1) return extreme_sum(x, rows, columns, p > 0, keepdims);
  if (p == kInfinity || p == -kInfinity) return extreme_sum(x, columns, rows, p > 0, keepdims);
  if (p == 2) return of_singular_values(x, rows, columns, keepdims, shoal::max);
  if (p == -2) return of_singular_values(x, rows, columns, keepdims, shoal::min);
  throw misuse<InvalidArgument>("order {} of matrices: it is 1, -1, 2, -2, infinity, -infinity, \"fro\" or \"nuc\"", p);
}

}  // namespace

Array norm(const Operand& x, const NormOptions& options) {
  const Caller caller("norm", x.where());
  const std::size_t rank = to_array(x).ndim();
  canonical_axes(options.axis, rank);
  // In the order given: of a matrix, rows come first.
  Dims axes;
  if (options.axis.get()) {
    for (std::int64_t axis : *options.axis.get()) axes.push_back(canonical_axis(axis, rank));
  } else {
    axes = canonical_axes({}, rank);
  }
  const auto check_count = [&](bool fits, std::string_view allowed) {
    if (fits) return;
    throw misuse<InvalidArgument>("an order is for {}, but {} dimensions of {} were given", allowed, axes.size(),
                                  type_of(to_array(x)));
  };
  const auto formula = [&](const Array& v) {
    if (const auto* name = std::get_if<std::string>(&options.ord.get())) {
      if (*name != "fro" && *name != "nuc") {
        throw misuse<InvalidArgument>("order \"{}\"; names are \"fro\" and \"nuc\"", *name);
      }
      check_count(axes.size() == 2, "two dimensions");
      if (*name == "nuc") return of_singular_values(v, axes[0], axes[1], options.keepdims, sum);
      return root_of_squares(v, axes, options.keepdims);
    }
    const auto* p = std::get_if<double>(&options.ord.get());
    if (p == nullptr) return root_of_squares(v, axes, options.keepdims);
    check_count(axes.size() == 1 || axes.size() == 2, "one or two dimensions");
    if (axes.size() == 1) return vector_norm(v, *p, axes[0], options.keepdims);
    return matrix_norm(v, *p, axes[0], axes[1], options.keepdims);
  };
  return at_least_f32(kFractions, formula, x);
}

}  // namespace shoal::linalg
