#include "bindings/numpy/complex_order.h"

#include <cmath>
#include <limits>

#include "base/caller.h"
#include "frontend/array/promotion.h"

namespace shoal::python {
namespace {

// The numbers that count, and infinity of the wrong sign where none does.
Array counted_only(const Array& x, const std::optional<Array>& mask, bool greatest) {
  if (!mask) return x;
  const double never = greatest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return shoal::where(truth(*mask), x, never);
}

Array extreme(const Array& x, const Axes& axis, bool greatest) {
  const ReduceOptions options{.axis = axis, .keepdims = true};
  return greatest ? max(x, options) : min(x, options);
}

// Or to another base.
Array complex_logaddexp_of(const Operand& x, const Operand& y, double log_of_base) {
  const Array first = multiply(x, log_of_base);
  const Array second = multiply(y, log_of_base);
  const Array is_less = less(real(first), real(second));
  const Array greatest = shoal::where(is_less, second, first);
  const Array other = shoal::where(is_less, first, second);
  const Array sum = greatest + log1p(exp(other - greatest));
  const double pi = 3.14159265358979323846;
  const Array angle = pi - remainder(pi - imag(sum), 2 * pi);
  return lax::complex(real(sum), angle) / log_of_base;
}

}  // namespace

bool is_complex_operand(const Operand& x) { return is_complex(type_of_operand(x).dtype); }

Array ordered_extreme(const Operand& x, const ReduceOptions& options, bool greatest) {
  const Caller caller(greatest ? "max" : "min", x.where());
  const Array real_part = counted_only(real(x), options.where, greatest);
  const Array top = extreme(real_part, options.axis, greatest);
  const Array ties = equal(real(x), top);
  const Array imaginary = counted_only(imag(x), ties, greatest);
  const Array second = shoal::where(isnan(top), top, extreme(imaginary, options.axis, greatest));
  Array result = lax::complex(top, second);
  if (!options.keepdims) result = squeeze(result, Axes(canonical_axes(options.axis, result.ndim())));
  return options.initial ? ordered_choice(result, *options.initial, greatest) : result;
}

Array ordered_number_extreme(const Operand& x, const ReduceOptions& options, bool greatest) {
  const Caller caller(greatest ? "nanmax" : "nanmin", x.where());
  ReduceOptions counted = options;
  const Array numbers = logical_not(isnan(x));
  counted.where = options.where ? logical_and(numbers, *options.where) : numbers;
  const Array none_left = all(isnan(x), {.axis = options.axis, .keepdims = options.keepdims});
  return shoal::where(none_left, std::numeric_limits<double>::quiet_NaN(), ordered_extreme(x, counted, greatest));
}

Array ordered_choice(const Operand& x, const Operand& y, bool greatest) {
  const Caller caller(greatest ? "maximum" : "minimum", x.where());
  const Array second_wins = greatest ? less(x, y) : less(y, x);
  return shoal::where(logical_and(logical_or(second_wins, isnan(y)), logical_not(isnan(x))), y, x);
}

Array ordered_number(const Operand& x, const Operand& y, bool greatest) {
  const Caller caller(greatest ? "fmax" : "fmin", x.where());
  const Array first_wins = greatest ? less(y, x) : less(x, y);
  return shoal::where(logical_or(first_wins, isnan(y)), x, y);
}

Array complex_log2(const Operand& x) {
  const Caller caller("log2", x.where());
  return log(x) / std::log(2.0);
}
Array complex_exp2(const Operand& x) {
  const Caller caller("exp2", x.where());
  return exp(multiply(x, std::log(2.0)));
}

Array complex_softmax(const Operand& x, const Axes& axis) {
  const Caller caller("softmax", x.where());
  const Array powers = exp(subtract(x, ordered_extreme(x, {.axis = axis, .keepdims = true}, true)));
  return powers / sum(powers, {.axis = axis, .keepdims = true});
}

Array complex_log_softmax(const Operand& x, const Axes& axis) {
  const Caller caller("log_softmax", x.where());
  const Array rest = subtract(x, ordered_extreme(x, {.axis = axis, .keepdims = true}, true));
  return rest - log(sum(exp(rest), {.axis = axis, .keepdims = true}));
}

Array complex_logsumexp(const Operand& x, const ReduceOptions& options) {
  const Caller caller("logsumexp", x.where());
  const Array top = extreme(counted_only(real(x), options.where, true), options.axis, true);
  const Array shift = shoal::where(isfinite(top), top, 0);
  ReduceOptions kept = options;
  kept.keepdims = true;
  const Array result = log(sum(exp(subtract(x, shift)), kept)) + shift;
  return options.keepdims ? result : squeeze(result, Axes(canonical_axes(options.axis, result.ndim())));
}

Array complex_logaddexp(const Operand& x, const Operand& y) {
  const Caller caller("logaddexp", x.where());
  return complex_logaddexp_of(x, y, 1);
}
Array complex_logaddexp2(const Operand& x, const Operand& y) {
  const Caller caller("logaddexp2", x.where());
  return complex_logaddexp_of(x, y, std::log(2.0));
}
Array complex_softplus(const Operand& x) {
  const Caller caller("softplus", x.where());
  return complex_logaddexp(x, 0);
}
Array complex_log1mexp(const Operand& x) {
  const Caller caller("log1mexp", x.where());
  return log(-expm1(negative(x)));
}

Array complex_relu(const Operand& x) {
  const Caller caller("relu", x.where());
  return ordered_choice(x, 0, true);
}

Array complex_silu(const Operand& x) {
  const Caller caller("silu", x.where());
  return multiply(x, nn::sigmoid(x));
}

Array complex_gelu(const Operand& x) {
  const Caller caller("gelu", x.where());
  const Array v = shoal::to_array(x);
  const Array inner = (v + v * v * v * 0.044715) * std::sqrt(2 / M_PI);
  return v * (tanh(inner) + 1.0) * 0.5;
}

}  // namespace shoal::python
