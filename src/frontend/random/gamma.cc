// The gamma distribution, and what is made of it.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/gamma_slope.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "ir/explicit_axes.h"
#include "shoal/control_flow.h"
#include "shoal/custom_derivatives.h"
#include "shoal/explicit_axes.h"
#include "shoal/lax.h"
#include "shoal/nn.h"
#include "shoal/numpy.h"
#include "shoal/random.h"
#include "shoal/vmap.h"

namespace shoal::random {
namespace {

constexpr const char* kExact = "exact";
constexpr const char* kApproximate = "approximate";

// A normal number x for which 1 + c x is positive, and that. `zero` is like c.
std::pair<Array, Array> normal_above(const Array& key, const Array& c, const Array& zero) {
  using State = std::tuple<Array, Array, Array>;
  const auto next = [&](const State& state) {
    const Array& rest = std::get<0>(state);
    const Array x = zero + normal(subkey(rest, 1), {}, c.dtype());
    return State(subkey(rest, 0), x, multiply_add(x, c, zero + 1.0));
  };
  const auto is_wrong = [](const State& state) { return std::get<2>(state) <= 0.0; };
  const auto [rest, x, v] = lax::while_loop(is_wrong, next, State(key, zero, zero - 1.0));
  return {x, v};
}

// 1 / sqrt(x). JAX takes what the processor has for it, which is mostly that rounded once; where 1 + c x is next to 0 a
// sample shows its last place.
Array reciprocal_root(const Array& x) {
  if (x.dtype() != float32) return 1.0 / sqrt(x);
  return convert(1.0 / sqrt(convert(x, float64)), float32);
}

// One sample of shape a by Marsaglia and Tsang. Below 1 it is one of shape a + 1, times a power of a uniform number.
Array gamma_of_one(const Array& key, const Array& a, bool in_logs) {
  const Dtype dtype = a.dtype();
  // Numbers that depend on the key alone become like `a` by adding this: a loop keeps types.
  const Array zero = zeros_like(a);
  const Array is_large = a >= 1.0;
  const Array d = where(is_large, a, a + 1.0) - 1.0 / 3;
  const Array c = (zero + 1.0 / 3) * reciprocal_root(d);
  using State = std::tuple<Array, Array, Array, Array>;  // The key, x^2, v^3 and u.
  const auto is_rejected = [&](const State& state) {
    const auto& [rest, x, v, u] = state;
    const Array is_outside = u >= 1.0 - 0.0331 * (x * x);
    return is_outside & (quick_log(u) >= x * 0.5 + d * ((1.0 - v) + quick_log(v)));
  };
  const auto next = [&](const State& state) {
    const Array& rest = std::get<0>(state);
    const auto [x, v] = normal_above(subkey(rest, 1), c, zero);
    return State(subkey(rest, 0), x * x, v * v * v, zero + uniform(subkey(rest, 2), {}, dtype));
  };
  const State begin(subkey(key, 0), zero, zero + 1.0, zero + 2.0);
  const Array v = std::get<2>(lax::while_loop(is_rejected, next, begin));
  if (in_logs) {
    const Array log_u = -exponential(subkey(key, 1), {}, dtype);
    const Array boost = where(is_large | (log_u == 0.0), 0.0, log_u * (1.0 / a));
    return quick_log(d) + quick_log(v) + boost;
  }
  const Array u = 1.0 - uniform(subkey(key, 1), {}, dtype);
  return d * v * where(is_large, 1.0, power(u, 1.0 / a));
}

// Keys of their own for the elements of an array, split over devices as these are.
Array keys_for(const Array& key, const Array& a) {
  const Array keys = split_key(key, a.shape());
  const Shared<ExplicitAxes>& axes = detail::impl_of(a).type.explicit_axes;
  if (!axes) return keys;
  return reshard(keys, NamedSharding(axes->mesh, spec_of(*axes), {}, Caller::line()));
}

Array exact_gamma(const Array& key, const Array& a, bool in_logs) {
  std::function<Array(Array, Array)> sample = [&](const Array& k, const Array& x) {
    return gamma_of_one(k, x, in_logs);
  };
  for (std::size_t d = 0; d < a.ndim(); ++d) sample = vmap(sample);
  return sample(keys_for(key, a), varying_with(key, a));
}

// Which samples are rejected does not change with a, so that steps of the loop have other derivatives than samples:
// these follow from the distribution.
Array implicit_gamma(const Array& key, const Array& a, bool in_logs) {
  const auto sample = [=](const Array& order) { return exact_gamma(key, order, in_logs); };
  const auto rule = [=](const std::tuple<Array>& primals, const std::tuple<Array>& tangents) {
    const auto& [order] = primals;
    const Array value = sample(order);
    // A sample that is rounded to 0 does not change.
    const Array wide = convert(value, float64);
    const Array logarithm = in_logs ? wide : log(maximum(wide, std::numeric_limits<double>::min()));
    const Array slope = slope_of_log_sample(order, logarithm, order.dtype());
    const Array tangent = std::get<0>(tangents) * (in_logs ? slope : slope * value);
    return std::pair(value, tangent);
  };
  return custom_jvp(sample, rule, Caller::line())(a);
}

// ---- Without a loop.

// The logarithm of a sample of shape a, which must be at least 4, as a quantile of chi-square with 2 a degrees of
// freedom: the cube of a polynomial of a normal number (Goldstein 1973; Johnson, Kotz and Balakrishnan 1994, (18.37)).
// Its first coefficient is 1, as it must be for a large a, instead of the published 1.0000886.
Array log_of_quantile(const Array& key, const Array& a) {
  constexpr std::array<std::array<double, 3>, 7> kCoefficients = {{
      {1.0, -0.2237368, -0.01513904},
      {0.4713941, 0.02607083, -0.008986007},
      {0.0001348028, 0.01128186, 0.02277679},
      {-0.008553069, -0.01153761, -0.01323293},
      {0.00312558, 0.005169654, -0.006950356},
      {-0.0008426812, 0.00253001, 0.001060438},
      {0.00009780499, -0.001450117, 0.001565326},
  }};
  const Array freedom = 2.0 * a;
  const Array position = normal(key, a.shape(), a.dtype()) * rsqrt(freedom);
  const Array inverse = 1.0 / freedom;
  Array root = polynomial(inverse, kCoefficients.back());
  for (std::size_t i = kCoefficients.size() - 1; i-- > 0;) {
    root = root * position + polynomial(inverse, kCoefficients[i]);
  }
  return log(a) + 3.0 * log(maximum(root, format_of(a.dtype()).tiny));
}

// A sample of shape a is one of shape a + n, times a power of a uniform number for each step (Stuart 1962,
// "Gamma-distributed products of independent random variables"). In f32 at least.
Array approximate_gamma(const Array& key, const Array& a, bool in_logs) {
  constexpr std::int64_t kSteps = 4;
  const Dtype dtype = size_of(a.dtype()) < size_of(float32) ? float32 : a.dtype();
  const Array order = convert(a, dtype);
  const Array keys = split_key(key, {2});
  const Array base = log_of_quantile(key_at(keys, 0), order + static_cast<double>(kSteps));
  const Shape stacked = joined({kSteps}, a.shape());
  const Array steps = lax::broadcasted_iota(dtype, stacked, 0);
  const Array falls = exponential(key_at(keys, 1), stacked, dtype) / (order + steps);
  const Array result = base - sum(falls, {.axis = 0});
  return convert(in_logs ? result : exp(result), a.dtype());
}

Array gamma_samples(const Operand& key, const Operand& a, const SampleShape& shape, Dtype dtype,
                    const std::string& method, bool in_logs) {
  check_floats(dtype);
  check_word("method", method, {kExact, kApproximate});
  const Array order = broadcast(parameter(a, dtype), sample_shape(shape, {shape_of(a)}));
  const Array single = single_key(key);
  return method == kExact ? implicit_gamma(single, order, in_logs) : approximate_gamma(single, order, in_logs);
}

}  // namespace

Array gamma(const Operand& key, const Operand& a, const SampleShape& shape, Dtype dtype, const std::string& method) {
  const Caller caller("gamma", key.where());
  return gamma_samples(key, a, shape, dtype, method, false);
}

Array loggamma(const Operand& key, const Operand& a, const SampleShape& shape, Dtype dtype, const std::string& method) {
  const Caller caller("loggamma", key.where());
  return gamma_samples(key, a, shape, dtype, method, true);
}

Array beta(const Operand& key, const Operand& a, const Operand& b, const SampleShape& shape, Dtype dtype,
           const std::string& method) {
  const Caller caller("beta", key.where());
  check_floats(dtype);
  check_safe(dtype, {&a, &b});
  const Shape wanted = sample_shape(shape, {shape_of(a), shape_of(b)});
  const Array keys = split_key(single_key(key), {2});
  const Array log_a = loggamma(key_at(keys, 0), a, wanted, dtype, method);
  const Array log_b = loggamma(key_at(keys, 1), b, wanted, dtype, method);
  // Scaled by the greater one, so that not both underflow.
  const Array greater = maximum(log_a, log_b);
  const Array share = exp(log_a - greater);
  return share / (share + exp(log_b - greater));
}

Array dirichlet(const Operand& key, const Operand& alpha, const SampleShape& shape, Dtype dtype) {
  const Caller caller("dirichlet", key.where());
  check_floats(dtype);
  const Array orders = parameter(alpha, dtype);
  if (orders.ndim() == 0) {
    throw misuse<InvalidArgument>("alpha is {}; it must have at least one dimension", type_of(to_array(alpha)));
  }
  const Shape batches = sample_shape(shape, {Shape(orders.shape().begin(), orders.shape().end() - 1)});
  return nn::softmax(loggamma(key, orders, joined(batches, {orders.shape().back()}), dtype));
}

Array chisquare(const Operand& key, const Operand& df, const SampleShape& shape, Dtype dtype,
                const std::string& method) {
  const Caller caller("chisquare", key.where());
  check_floats(dtype);
  check_safe(dtype, {&df});
  return exp(loggamma(key, parameter(df, dtype) / 2.0, sample_shape(shape, {shape_of(df)}), dtype, method)) * 2.0;
}

Array t(const Operand& key, const Operand& df, const SampleShape& shape, Dtype dtype) {
  const Caller caller("t", key.where());
  check_floats(dtype);
  check_safe(dtype, {&df});
  const Shape wanted = sample_shape(shape, {shape_of(df)});
  const Array half = parameter(df, dtype) / 2.0;
  const Array keys = split_key(single_key(key), {2});
  return normal(key_at(keys, 0), wanted, dtype) * sqrt(half / gamma(key_at(keys, 1), half, wanted, dtype));
}

Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const SampleShape& shape, Dtype dtype) {
  const Caller caller("f", key.where());
  check_floats(dtype);
  check_safe(dtype, {&dfnum, &dfden});
  const Shape wanted = sample_shape(shape, {shape_of(dfnum), shape_of(dfden)});
  const Array keys = split_key(single_key(key), {2});
  const auto mean_square = [&](const Array& k, const Operand& freedom) {
    return chisquare(k, freedom, wanted, dtype) / parameter(freedom, dtype);
  };
  return mean_square(key_at(keys, 1), dfnum) / mean_square(key_at(keys, 0), dfden);
}

Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape, Dtype dtype) {
  const Caller caller("generalized_normal", key.where());
  const Array inverse = 1.0 / own_parameter(p, dtype);
  const Array keys = split_key(single_key(key), {2});
  const Array size = gamma(key_at(keys, 0), inverse, shape, dtype);
  return rademacher(key_at(keys, 1), shape, dtype) * power(size, inverse);
}

Array ball(const Operand& key, std::int64_t d, const Operand& p, const Shape& shape, Dtype dtype) {
  const Caller caller("ball", key.where());
  if (d < 0) throw misuse<InvalidArgument>("d is {}; a ball has at least 0 dimensions", d);
  const Array keys = split_key(single_key(key), {2});
  const Array direction = generalized_normal(key_at(keys, 0), p, joined(shape, {d}), dtype);
  const Array rest = exponential(key_at(keys, 1), shape, dtype);
  const Array size = power(sum(power(abs(direction), p), {.axis = -1}) + rest, 1.0 / own_parameter(p, dtype));
  return direction / expand_dims(size, -1);
}

}  // namespace shoal::random
