// The normal distribution, and what is made of normal numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/linalg.h"
#include "shoal/numpy.h"
#include "shoal/random.h"

namespace shoal::random {
namespace {

const double kRootOfTwo = std::sqrt(2.0);

// JAX's formula, so that normal numbers are those of JAX also where 1 - x^2 is rounded.
Array inverse_of_erf(const Array& x) { return bind_one("quick_erf_inv", {}, {x}); }

// Uniform numbers above -1 are turned into normal ones.
Array normal_of_reals(const Array& key, const Shape& shape, Dtype dtype) {
  const double above = -1 + format_of(dtype).epsilon / 2;
  return kRootOfTwo * inverse_of_erf(uniform(cloned_keys(key), shape, dtype, above, 1.0));
}

// The same as one program, also where operations run at once.
Array normal_at_once(const Array& key, const Shape& shape, Dtype dtype) {
  static const auto& program = *new auto(jit(normal_of_reals, {.name = "normal"}));
  return program(used_key(key), shape, dtype, Caller::line());
}

}  // namespace

Array normal(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("normal", key.where());
  check_inexact(dtype);
  check_extents(shape);
  const Array single = single_key(key);
  if (!is_complex(dtype)) return normal_at_once(single, shape, dtype);
  const Array keys = split_key(single, {2});
  const auto part = [&](std::int64_t i) { return normal_at_once(key_at(keys, i), shape, real_dtype(dtype)); };
  return lax::complex(part(0), part(1)) / kRootOfTwo;
}

Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const SampleShape& shape,
                       Dtype dtype) {
  const Caller caller("truncated_normal", key.where());
  check_floats(dtype);
  const Shape wanted = sample_shape(shape, {shape_of(lower), shape_of(upper)});
  const Array low = parameter(lower, dtype);
  const Array high = parameter(upper, dtype);
  // Compiled programs of JAX multiply by the reciprocal.
  const Array root_of_half = 1.0 / parameter(kRootOfTwo, dtype);
  const auto share = [&](const Array& x) { return quick_erf(x * root_of_half); };
  const Array value = kRootOfTwo * inverse_of_erf(uniform(key, wanted, dtype, share(low), share(high)));
  // Roundings do not lead out of the open interval.
  const double infinity = std::numeric_limits<double>::infinity();
  return minimum(maximum(value, nextafter(low, infinity)), nextafter(high, -infinity));
}

namespace {

// A matrix whose product with its transpose is cov.
Array root_of(const Array& cov, const std::string& method) {
  if (method == "cholesky") return linalg::cholesky(cov);
  const auto scaled = [](const Array& vectors, const Array& values) { return vectors * expand_dims(sqrt(values), -2); };
  if (method == "eigh") {
    const linalg::EighResult result = linalg::eigh(cov);
    return scaled(result.eigenvectors, result.eigenvalues);
  }
  const linalg::SVDResult result = linalg::svd(cov);
  return scaled(result.U, result.S);
}

}  // namespace

Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const SampleShape& shape,
                          const MultivariateNormalOptions& options) {
  const Caller caller("multivariate_normal", key.where());
  check_word("method", options.method, {"cholesky", "eigh", "svd"});
  const auto [centre, covariances] = floats_of(mean, cov);
  const Dtype dtype = options.dtype.value_or(centre.dtype());
  check_floats(dtype);
  if (centre.ndim() < 1) throw misuse<InvalidArgument>("mean is {}; it must be a vector", type_of(centre));
  const std::int64_t n = centre.shape().back();
  const Shape& matrix = covariances.shape();
  if (matrix.size() < 2 || matrix.back() != n || matrix[matrix.size() - 2] != n) {
    throw misuse<InvalidArgument>("cov is {}; for a mean of {} it must be a matrix {} × {}", type_of(covariances), n, n,
                                  n);
  }
  const Shape batches = sample_shape(
      shape, {Shape(centre.shape().begin(), centre.shape().end() - 1), Shape(matrix.begin(), matrix.end() - 2)});
  const Array numbers = normal(key, joined(batches, {n}), dtype);
  return centre + einsum("...ij,...j->...i", root_of(covariances, options.method), numbers);
}

Array lognormal(const Operand& key, const Operand& sigma, const SampleShape& shape, Dtype dtype) {
  const Caller caller("lognormal", key.where());
  check_inexact(dtype);
  check_safe(dtype, {&sigma});
  const Array numbers = normal(key, sample_shape(shape, {shape_of(sigma)}), dtype);
  return exp(numbers * parameter(sigma, dtype));
}

Array maxwell(const Operand& key, const Shape& shape, Dtype dtype) {
  const Caller caller("maxwell", key.where());
  check_floats(dtype);
  return linalg::norm(normal(key, joined(shape, {3}), dtype), {.axis = -1});
}

Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape,
                           Dtype dtype) {
  const Caller caller("double_sided_maxwell", key.where());
  check_floats(dtype);
  const Shape parameters = sample_shape({}, {shape_of(loc), shape_of(scale)});
  const Shape wanted = joined(shape.empty() ? parameters : shape, parameters);
  const Array keys = split_key(single_key(key), {2});
  const Array size = maxwell(key_at(keys, 0), wanted, dtype);
  return rademacher(key_at(keys, 1), wanted, dtype) * size * own_parameter(scale, dtype) + own_parameter(loc, dtype);
}

Array rayleigh(const Operand& key, const Operand& scale, const SampleShape& shape, Dtype dtype) {
  const Caller caller("rayleigh", key.where());
  check_floats(dtype);
  check_safe(dtype, {&scale});
  const Array u = uniform(key, sample_shape(shape, {shape_of(scale)}), dtype);
  return parameter(scale, dtype) * sqrt(quick_log(u) * -2.0);
}

Array wald(const Operand& key, const Operand& mean, const SampleShape& shape, Dtype dtype) {
  const Caller caller("wald", key.where());
  check_floats(dtype);
  check_safe(dtype, {&mean});
  const Shape wanted = sample_shape(shape, {shape_of(mean)});
  const Array keys = split_key(single_key(key), {2});
  const Array m = parameter(mean, dtype);
  const Array y = square(normal(key_at(keys, 0), wanted, dtype));
  const Array u = uniform(key_at(keys, 1), wanted, dtype);
  // Much of it cancels: which products are rounded makes a difference.
  const Array root = sqrt(multiply_add(4.0 * m, y, square(m) * square(y)));
  const Array x = multiply_add(m * -0.5, root, m + square(m) * y / 2.0);
  return where(u <= m / (m + x), x, square(m) / x);
}

Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape, Dtype dtype, std::optional<std::int64_t> m) {
  const Caller caller("orthogonal", key.where());
  check_inexact(dtype);
  const std::int64_t columns = m.value_or(n);
  const auto [q, r] =
      lax::linalg::qr(normal(key, joined(shape, {std::max(n, columns), std::min(n, columns)}), dtype), false);
  // The signs of the diagonal make the decomposition unique.
  const Array result = q * expand_dims(sign(diagonal(r, {.offset = 0, .axis1 = -2, .axis2 = -1})), -2);
  return n < columns ? linalg::matrix_transpose(result) : result;
}

}  // namespace shoal::random
