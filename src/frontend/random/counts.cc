// Distributions of counts.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/random/generator.h"
#include "frontend/random/samples.h"
#include "shoal/control_flow.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/random.h"

namespace shoal::random {
namespace {

void check_counts(Dtype dtype) {
  if (!is_integer(dtype)) throw misuse<InvalidArgument>("dtype is {}; counts are integers", name_of(dtype));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Hörmann's transformed rejection with a squeeze, "The generation of binomial random variates", 1993, and "The
// transformed rejection method for generating Poisson random variables", 1993: propose(u, v, from_end) gives counts,
// and whether they are accepted by their probabilities, for u in [-1/2, 1/2), its distance from an end, and v in [0,
// 1). Where from_end is large and v at most v_r they are accepted at once. `ends` says where none is asked for.
template <class Propose>
Array by_rejection(const Array& key, const Array& v_r, const Array& ends, const Array& like, Propose&& propose) {
  using State = std::tuple<Array, Array, Array>;  // The key, the count, whether it is accepted.
  const auto next = [&](const State& state) {
    const auto& [rest, count, is_done] = state;
    const Array keys = split_key(rest, {3});
    const Array u = uniform(key_at(keys, 1), like.shape(), like.dtype()) - 0.5;
    const Array v = uniform(key_at(keys, 2), like.shape(), like.dtype());
    const Array from_end = 0.5 - abs(u);
    const auto [k, is_probable] = propose(u, v, from_end);
    const Array is_accepted = ((from_end >= 0.07) & (v <= v_r)) | is_probable;
    return State(key_at(keys, 0), where(is_accepted, k, count), is_done | is_accepted);
  };
  const State begin(key, full_like(like, -1), ends);
  return std::get<1>(lax::while_loop([](const State& state) { return any(~std::get<2>(state)); }, next, begin));
}

// ---- Poisson. All functions take a lam in the shape of the sample, and give floats.

// How many uniform numbers have a product above exp(-lam) (Knuth, The Art of Computer Programming, 3.4.1).
Array poisson_by_products(const Array& key, const Array& lam) {
  using State = std::tuple<Array, Array, Array>;  // The key, the count, the logarithm of the product.
  const auto goes_on = [&](const Array& log_product) { return log_product > -lam; };
  const auto next = [&](const State& state) {
    const auto& [rest, count, log_product] = state;
    const Array keys = split_key(rest, {2});
    const Array u = uniform(key_at(keys, 1), lam.shape(), lam.dtype());
    return State(key_at(keys, 0), where(goes_on(log_product), count + 1.0, count), log_product + quick_log(u));
  };
  const Array zero = zeros_like(lam);
  const auto [rest, count, log_product] = lax::while_loop(
      [&](const State& state) { return any(goes_on(std::get<2>(state))); }, next, State(key, zero, zero));
  return count - 1.0;
}

// PTRS.
Array poisson_by_rejection(const Array& key, const Array& lam) {
  const Array b = 0.931 + 2.53 * sqrt(lam);
  const Array a = -0.059 + 0.02483 * b;
  const Array inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const Array v_r = 0.9277 - 3.6224 / (b - 2.0);
  const Array log_lam = log(lam);
  const auto propose = [&](const Array& u, const Array& v, const Array& from_end) {
    const Array k = floor((2.0 * a / from_end + b) * u + lam + 0.43);
    const Array log_hat = log(v * inverse_alpha / (a / (from_end * from_end) + b));
    const Array log_share = -lam + k * log_lam - lgamma(k + 1.0);
    const Array is_outside = (k < 0.0) | ((from_end < 0.013) & (v > from_end));
    return std::pair(k, ~is_outside & (log_hat <= log_share));
  };
  return by_rejection(key, v_r, lam != lam, lam, propose);
}

Array exact_poisson(const Array& key, const Array& lam) {
  const Array is_small = isnan(lam) | (lam < 10.0);
  // Each place takes one of these, so that both may use the key.
  const Array result = where(is_small, poisson_by_products(key, where(is_small, lam, 0.0)),
                             poisson_by_rejection(cloned_keys(key), where(is_small, 1e5, lam)));
  return where(lam == 0.0, 0.0, result);
}

// The least k at which the sum of the first 20 probabilities reaches u.
Array poisson_by_sums(const Array& u, const Array& lam) {
  constexpr int kTerms = 20;
  Array probability = exp(-lam);
  Array total = probability;
  Array count = convert(total < u, u.dtype());
  for (int k = 1; k < kTerms - 1; ++k) {
    probability = probability * (lam / static_cast<double>(k));
    total = total + probability;
    count = count + convert(total < u, u.dtype());
  }
  return count;
}

// (1 - y^2 + 2 y log(y)) / (1 - y)^2, by a series where y is close to 1.
Array peizer_pratt_ratio(const Array& y) {
  const Array d = y - 1.0;
  const Array is_near = abs(d) < 0.25;
  Array series = full({}, 0, {.dtype = d.dtype()});
  for (int k = 9; k > 0; --k) {
    series = d * ((k % 2 == 0 ? 2.0 : -2.0) / ((k + 1) * (k + 2)) + series);
  }
  const Array far = where(is_near, 2.0, y);
  const Array distance = where(is_near, 1.0, d);
  return where(is_near, series, (1.0 - square(far) + 2.0 * far * log(far)) / square(distance));
}

// The normal number whose distribution is, by Peizer and Pratt, the probability of counts up to x (Johnson, Kemp and
// Kotz 2005, page 168).
Array peizer_pratt_number(const Array& x, const Array& lam) {
  const Array correction = x - lam + 2.0 / 3 + 0.02 / (x + 1.0);
  return correction * sqrt((1.0 + peizer_pratt_ratio((x + 0.5) / lam)) / lam);
}

// The least count whose number is at least z. The series of Cornish and Fisher leads next to it.
Array poisson_by_approximation(const Array& z, const Array& lam) {
  const Array root = sqrt(lam);
  const Array guess = lam + root * z - 2.0 / 3 + square(z) / 6.0 + z * (1.0 - square(z)) / (72.0 * root);
  const Array count = ceil(guess + 0.6);  // The error of the guess lies between -0.4 and 1.6.
  const auto reaches = [&](const Array& c) {
    const Array number = where(c < 0.0, -kInfinity, peizer_pratt_number(maximum(c, 0.0), lam));
    return convert(number >= z, z.dtype());
  };
  return maximum(count + 1.0 - reaches(count) - reaches(count - 1.0), 0.0);
}

Array approximate_poisson(const Array& key, const Array& lam, const Shape& shape) {
  const Array z = normal(key, shape, lam.dtype());
  const Array share = 0.5 * erfc(z * -std::sqrt(0.5));
  return where(lam < 7.0, poisson_by_sums(share, lam), poisson_by_approximation(z, lam));
}

}  // namespace

Array poisson(const Operand& key, const Operand& lam, const SampleShape& shape, Dtype dtype,
              const std::string& method) {
  const Caller caller("poisson", key.where());
  check_counts(dtype);
  check_word("method", method, {"exact", "approximate"});
  const Shape wanted = sample_shape(shape, {shape_of(lam)});
  const Array single = single_key(key);
  if (method == "exact") {
    const Array rates = varying_with(single, broadcast(parameter(lam, float32), wanted));
    return convert(exact_poisson(single, rates), dtype);
  }
  const bool is_wide = element_of(lam).dtype == float64 || size_of(dtype) > size_of(float32);
  return convert(approximate_poisson(single, parameter(lam, is_wide ? float64 : float32), wanted), dtype);
}

// ---- Binomial.

namespace {

// How many geometric distances fit into n.
Array binomial_by_distances(const Array& key, const Array& n, const Array& p) {
  using State = std::tuple<Array, Array, Array>;  // The key, the count, the sum of the distances.
  const Array log_rest = quick_log1p(-p);
  const auto next = [&](const State& state) {
    const auto& [rest, count, sum] = state;
    const Array keys = split_key(rest, {2});
    const Array u = uniform(key_at(keys, 0), n.shape(), p.dtype());
    return State(key_at(keys, 1), where(sum <= n, count + 1.0, count), sum + ceil(quick_log(u) / log_rest));
  };
  const Array zero = zeros_like(n);
  const auto [rest, count, sum] =
      lax::while_loop([&](const State& state) { return any(std::get<2>(state) <= n); }, next, State(key, zero, zero));
  return count - 1.0;
}

// log(k!) less the formula of Stirling.
Array stirling_rest(const Array& k) {
  const Array table =
      array({0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
             0.0138761288230707, 0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287},
            {.dtype = k.dtype()});
  const Array place = minimum(maximum(k, 0.0), 9.0);
  const Array next = square(place + 1.0);
  const Array series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / next) / next) / (place + 1.0);
  return where(k <= 9.0, take(table, convert(floor(place), int32), {.mode = IndexMode::kClip}), series);
}

// BTRS, for p up to 1/2.
Array binomial_by_rejection(const Array& key, const Array& n, const Array& p) {
  const Array deviation = sqrt(n * p * (1.0 - p));
  const Array b = 1.15 + 2.53 * deviation;
  const Array a = -0.0873 + 0.0248 * b + 0.01 * p;
  const Array c = n * p + 0.5;
  const Array v_r = 0.92 - 4.2 / b;
  const Array r = p / (1.0 - p);
  const Array alpha = (2.83 + 5.1 / b) * deviation;
  const Array m = floor((n + 1.0) * p);
  const auto propose = [&](const Array& u, const Array& v, const Array& from_end) {
    const Array k = floor((2.0 * a / from_end + b) * u + c);
    const Array log_hat = log(v * alpha / (a / (from_end * from_end) + b));
    const Array log_share = (m + 0.5) * log((m + 1.0) / (r * (n - m + 1.0))) +
                            (n + 1.0) * log((n - m + 1.0) / (n - k + 1.0)) +
                            (k + 0.5) * log(r * (n - k + 1.0) / (k + 1.0)) + stirling_rest(m) + stirling_rest(n - m) -
                            stirling_rest(k) - stirling_rest(n - k);
    const Array is_outside = (k < 0.0) | (k > n);
    return std::pair(k, ~is_outside & (log_hat <= log_share));
  };
  return by_rejection(key, v_r, p != p, n, propose);
}

// Of n and p in the shape of the sample.
Array binomial_samples(const Array& key, const Array& n, const Array& p, Dtype dtype) {
  const Array is_left = p < 0.5;
  const Array q = where(is_left, p, 1.0 - p);
  const Array is_no_probability = isnan(q) | (q < 0.0);
  const Array is_no_count = isnan(n) | (n < 0.0);
  const Array is_infinite = isinf(n);
  // Of infinitely many that fail surely no draw is ever accepted.
  const Array is_hopeless = is_infinite & (q == 0.0);
  // What is neither is computed with numbers that are, and replaced.
  const Array share = where(is_no_probability, 0.01, q);
  const Array is_small = is_no_count | (n * share <= 10.0);
  const Array trials = floor(n);
  const Array is_many = ~(is_small | is_hopeless);
  // Each place takes one of these, so that both may use the key.
  const Array few = binomial_by_distances(key, where(is_small, trials, 0.0), share);
  const Array many = binomial_by_rejection(cloned_keys(key), where(is_many, trials, 1e4), where(is_many, share, 0.5));
  Array count = convert(where(is_small, few, many), dtype);
  const Array is_invalid = is_no_probability | is_no_count;
  count = where(is_invalid, std::numeric_limits<double>::quiet_NaN(), where(is_infinite, kInfinity, count));
  const Array is_complement = ~(is_left | is_no_count | isnan(q) | is_infinite);
  return where(is_complement, convert(trials, dtype) - count, count);
}

}  // namespace

Array binomial(const Operand& key, const Operand& n, const Operand& p, const SampleShape& shape, Dtype dtype) {
  const Caller caller("binomial", key.where());
  check_floats(dtype);
  const Shape wanted = sample_shape(shape, {shape_of(n), shape_of(p)});
  const Array single = single_key(key);
  const Dtype computed = inexact_dtype(element_of(p).dtype);
  const Array trials = broadcast(parameter(n, computed), wanted);
  const Array share = broadcast(parameter(p, computed), wanted);
  // By this both lie and vary as all do: loops keep types.
  const Array zero = varying_with(single, zeros_like(trials) + zeros_like(share));
  return binomial_samples(single, trials + zero, share + zero, dtype);
}

Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MultinomialOptions& options) {
  const Caller caller("multinomial", key.where());
  const auto [trials, shares] = floats_of(n, p);
  if (shares.ndim() == 0) throw misuse<InvalidArgument>("p is a scalar; it must have at least one dimension");
  const Shape own(shares.shape().begin(), shares.shape().end() - 1);
  const Shape wanted = sample_shape(options.shape.get().value_or(own), {trials.shape(), own});
  const std::int64_t kinds = shares.shape().back();
  const Array probabilities = moveaxis(broadcast(shares, joined(wanted, {kinds})), -1, 0);
  // One kind after the other, out of what the kinds before have left.
  const Array rest = lax::cumsum(probabilities, 0, true);
  const Array ratios = clip(probabilities / where(rest == 0.0, 1.0, rest), 0.0, 1.0);
  using Slice = std::tuple<Array, Array>;
  const auto next = [](const Array& left, const Slice& slice) {
    const auto& [ratio, of_kind] = slice;
    const Array count = binomial(of_kind, left, ratio, {}, left.dtype());
    return std::pair(left - count, count);
  };
  const Array single = single_key(key);
  const Array begin = broadcast(trials, wanted) + varying_with(single, zeros_like(sum(ratios, {.axis = 0})));
  const Array counts = lax::scan(next, begin, Slice(ratios, split_key(single, {kinds}))).second;
  return convert(moveaxis(counts, 0, -1), options.dtype.value_or(trials.dtype()));
}

Array geometric(const Operand& key, const Operand& p, const SampleShape& shape, Dtype dtype) {
  const Caller caller("geometric", key.where());
  check_counts(dtype);
  const Array share = parameter(p, inexact_dtype(element_of(p).dtype));
  const Array u = uniform(key, sample_shape(shape, {share.shape()}), share.dtype());
  return convert(floor(quick_log(where(u == 0.0, 1.0, u)) / quick_log1p(-share)) + 1.0, dtype);
}

}  // namespace shoal::random
