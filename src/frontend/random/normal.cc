// The normal distribution, and what is made of normal numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/diagonals.h"
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

// ---- The inverse of the error function as x times a polynomial of w = -log(1 - x^2), or of its root where that is
// great: Giles 2012, "Approximating the erfinv function". JAX has it, too, so that normal numbers are those of JAX also
// where 1 - x^2 is rounded; erf_inv is more exact there, and takes several times as long.

constexpr double kNearF32[] = {1.50140941,      0.246640727,    -0.00417768164, -0.00125372503, 0.00021858087,
                               -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08};
constexpr double kFarF32[] = {2.83297682,     1.00167406,    0.00943887047,  -0.0076224613,  0.00573950773,
                              -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257};
constexpr double kNearF64[] = {
    1.6536545626831027356,      0.24015818242558961693,     -0.0060336708714301490533,  -0.00074070253416626697512,
    0.0001867342080340571352,   -1.3882523362786468719e-05, -1.3654692000834678645e-06, 4.2347877827932403518e-07,
    -2.9070369957882005086e-08, -4.1126339803469836976e-09, 1.051212273321532285e-09,   -5.4154120542946279317e-11,
    -1.2975133253453532498e-11, 2.6335093153082322977e-12,  -8.1519341976054721522e-14, -4.0545662729752068639e-14,
    6.6376381343583238325e-15,  2.0972767875968561637e-17,  -1.333171662854620906e-16,  1.115787767802518096e-17,
    1.2858480715256400167e-18,  -1.685059138182016589e-19,  -3.6444120640178196996e-21};
constexpr double kFarF64[] = {
    3.0838856104922207635,      1.0052589676941592334,     0.005370914553590063617,    -0.0037512085075692412107,
    0.0024914420961078508066,   -0.0016882755560235047313, 0.00095328937973738049703,  -0.0003550375203628474796,
    2.4031110387097893999e-05,  6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
    2.9234449089955446044e-06,  -4.013867526981545969e-06, 1.5027403968909827627e-06,  1.8239629214389227755e-08,
    -2.7517406297064545428e-07, 9.0756561938885390979e-08, 2.2137376921775487049e-09};
constexpr double kFarthestF64[] = {4.8499064014085844221,      1.0103004648645343977,      -0.00013871931833623122026,
                                   -0.00021503011930044477347, 7.5995277030017761139e-05,  -1.9681778105531670567e-05,
                                   4.5260625972231537039e-06,  -9.9298272942317002539e-07, 2.2900482228026654717e-07,
                                   -6.7711997758452339498e-08, 2.9147953450901080826e-08,  -1.4960026627149240478e-08,
                                   7.6157012080783393804e-09,  -3.7894654401267369937e-09, 1.5076572693500548083e-09,
                                   -2.5556418169965252055e-10, -2.7109920616438573243e-11};

Array inverse_of_erf(const Array& x) {
  const Dtype dtype = x.dtype();
  if (size_of(dtype) < size_of(float32)) return convert(inverse_of_erf(convert(x, float32)), dtype);
  const Array w = -log1p(-(x * x));
  const Array root = sqrt(w);
  const Array factor =
      dtype == float32 ? where(w < 5.0, polynomial(w - 2.5, kNearF32), polynomial(root - 3.0, kFarF32))
                       : where(w < 6.25, polynomial(w - 3.125, kNearF64),
                               where(w < 16.0, polynomial(root - 3.25, kFarF64), polynomial(root - 5.0, kFarthestF64)));
  const double infinity = std::numeric_limits<double>::infinity();
  return x * where(abs(x) == 1.0, infinity, factor);
}

// Uniform numbers above -1 are turned into normal ones.
Array normal_of_reals(const Array& key, const Shape& shape, Dtype dtype) {
  const double above = -1 + format_of(dtype).epsilon / 2;
  return kRootOfTwo * inverse_of_erf(uniform(key, shape, dtype, above, 1.0));
}

// The same as one program, also where operations run at once.
Array normal_at_once(const Array& key, const Shape& shape, Dtype dtype) {
  static const auto& program = *new auto(jit(normal_of_reals, {.name = "normal"}));
  return program(key, shape, dtype, Caller::line());
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
  const auto share = [](const Array& x) { return erf(x / kRootOfTwo); };
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
  return parameter(scale, dtype) * sqrt(log(u) * -2.0);
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
  const Array root = sqrt(4.0 * m * y + square(m) * square(y));
  const Array x = m + square(m) * y / 2.0 - m / 2.0 * root;
  return where(u <= m / (m + x), x, square(m) / x);
}

Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape, Dtype dtype, std::optional<std::int64_t> m) {
  const Caller caller("orthogonal", key.where());
  check_inexact(dtype);
  const std::int64_t columns = m.value_or(n);
  const auto [q, r] =
      lax::linalg::qr(normal(key, joined(shape, {std::max(n, columns), std::min(n, columns)}), dtype), false);
  // The signs of the diagonal make the decomposition unique; sums with zeros are exact.
  const auto last = static_cast<std::int64_t>(r.ndim()) - 1;
  const Array signs = sign(sum(diagonal_alone(r, last - 1, last, 0), {.axis = -2, .keepdims = true}));
  const Array result = q * signs;
  return n < columns ? linalg::matrix_transpose(result) : result;
}

}  // namespace shoal::random
