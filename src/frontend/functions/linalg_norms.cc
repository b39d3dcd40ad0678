#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontend/array/term.h"
#include "shoal/linalg.h"

namespace shoal::linalg {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Term magnitude(const Term& x) { return x.then(abs); }

Term summed(const Term& x, const Axes& axis, bool keepdims) {
  return x.then(sum, ReduceOptions{.axis = axis, .keepdims = keepdims});
}

Term root_of_squares(const Term& x, const Axes& axis, bool keepdims) {
  const Term size = magnitude(x);
  return summed(size * size, axis, keepdims).then(sqrt);
}

// The p-norm along one dimension.
Term vector_norm(const Term& x, double p, std::int64_t axis, bool keepdims) {
  const Axes along(Dims{axis});
  const ReduceOptions options{.axis = along, .keepdims = keepdims};
  if (p == kInfinity) return magnitude(x).then(shoal::max, options);
  if (p == -kInfinity) return magnitude(x).then(shoal::min, options);
  if (p == 0) return x.then(count_nonzero, options).then(astype, real_dtype(x.array().dtype()));
  if (p == 1) return summed(magnitude(x), along, keepdims);
  if (p == 2) return root_of_squares(x, along, keepdims);
  const Term powers = magnitude(x).then(power, x.number(p));
  return summed(powers, along, keepdims).then(power, x.number(1 / p));
}

// The greatest or least sum of magnitudes along `inner`, over all positions along `outer`.
Term extreme_sum(const Term& x, std::int64_t inner, std::int64_t outer, bool greatest, bool keepdims) {
  const Term sums = summed(magnitude(x), Axes(Dims{inner}), true);
  const ReduceOptions options{.axis = Dims{outer}, .keepdims = true};
  const Term result = greatest ? sums.then(shoal::max, options) : sums.then(shoal::min, options);
  return keepdims ? result : result.then(squeeze, Axes(Dims{inner, outer}));
}

// A reduction of the singular values of the matrices that two dimensions make.
Term of_singular_values(const Term& x, std::int64_t rows, std::int64_t columns, bool keepdims,
                        Array (*reduction)(const Operand&, const ReduceOptions&)) {
  const Term matrices(moveaxis(x, {rows, columns}, {-2, -1}), x.where());
  const Term result = matrices.then(svdvals).then(reduction, ReduceOptions{.axis = -1});
  return keepdims ? result.then([&](const Operand& v) { return expand_dims(v, Dims{rows, columns}); }) : result;
}

Term matrix_norm(const Term& x, double p, std::int64_t rows, std::int64_t columns, bool keepdims) {
  if (p == 1 || p == -1) return extreme_sum(x, rows, columns, p > 0, keepdims);
  if (p == kInfinity || p == -kInfinity) return extreme_sum(x, columns, rows, p > 0, keepdims);
  if (p == 2) return of_singular_values(x, rows, columns, keepdims, shoal::max);
  if (p == -2) return of_singular_values(x, rows, columns, keepdims, shoal::min);
  throw InvalidArgument(
      fmt::format("norm: order {} of matrices: it is 1, -1, 2, -2, infinity, -infinity, \"fro\" or \"nuc\"", p),
      x.where());
}

}  // namespace

Array norm(const Operand& x, const NormOptions& options) {
  const std::size_t rank = to_array(x).ndim();
  canonical_axes("norm", options.axis, rank, x.where());
  // In the order given: of a matrix, rows come first.
  Dims axes;
  if (options.axis.get()) {
    for (std::int64_t axis : *options.axis.get()) axes.push_back(canonical_axis("norm", axis, rank, x.where()));
  } else {
    axes = canonical_axes("norm", {}, rank, x.where());
  }
  const auto check_count = [&](bool fits, std::string_view allowed) {
    if (fits) return;
    throw InvalidArgument(fmt::format("norm: an order is for {}, but {} dimensions of {} were given", allowed,
                                      axes.size(), type_of(to_array(x))),
                          x.where());
  };
  const auto formula = [&](const Term& v) {
    if (const auto* name = std::get_if<std::string>(&options.ord.get())) {
      if (*name != "fro" && *name != "nuc") {
        throw InvalidArgument(fmt::format("norm: order \"{}\"; names are \"fro\" and \"nuc\"", *name), x.where());
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
  return at_least_f32("norm", kFractions, formula, x);
}

}  // namespace shoal::linalg
