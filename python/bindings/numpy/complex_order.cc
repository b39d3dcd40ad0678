#include "bindings/numpy/complex_order.h"

#include <cmath>
#include <limits>

#include "frontend/array/term.h"

namespace shoal::python {
namespace {

// The numbers that count, and infinity of the wrong sign where none does.
Term counted_only(const Term& x, const std::optional<Array>& mask, bool greatest) {
  if (!mask) return x;
  const double never = greatest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return {shoal::where({truth({*mask, x.where()}), x.where()}, x, x.number(never)), x.where()};
}

Term extreme(const Term& x, const Axes& axis, bool greatest) {
  const ReduceOptions options{.axis = axis, .keepdims = true};
  return {greatest ? max(x, options) : min(x, options), x.where()};
}

// Or to another base.
Array complex_logaddexp_of(const Operand& x, const Operand& y, double log_of_base) {
  const SourceLocation where = x.where();
  const Term first = Term(shoal::to_array(x), where) * log_of_base;
  const Term second = Term(shoal::to_array(y), where) * log_of_base;
  const Term is_less(less({real(first), where}, {real(second), where}), where);
  const Term greatest = select(is_less, second, first);
  const Term other = select(is_less, first, second);
  const Term sum = greatest + (other - greatest).then(exp).then(log1p);
  const double pi = 3.14159265358979323846;
  const Term angle = pi - (pi - Term(imag(sum), where)).then(remainder, sum.number(2 * pi));
  return (Term(lax::complex({real(sum), where}, angle), where) / log_of_base).array();
}

}  // namespace

bool is_complex_operand(const Operand& x) { return is_complex(type_of_operand(x).dtype); }

Array ordered_extreme(const Operand& x, const ReduceOptions& options, bool greatest) {
  const SourceLocation where = x.where();
  const Term all_real(real(x), where);
  const Term real_part = counted_only(all_real, options.where, greatest);
  const Term top = extreme(real_part, options.axis, greatest);
  const Term ties(equal(real_part, top), where);
  const Term imaginary = counted_only({imag(x), where}, Array(ties.array()), greatest);
  const Term second = select(top.then(isnan), top, extreme(imaginary, options.axis, greatest));
  Array result = lax::complex(top, second);
  if (!options.keepdims)
    result = squeeze({result, where}, Axes(canonical_axes("max", options.axis, result.ndim(), where)));
  return options.initial ? ordered_choice({result, where}, {*options.initial, where}, greatest) : result;
}

Array ordered_number_extreme(const Operand& x, const ReduceOptions& options, bool greatest) {
  const SourceLocation where = x.where();
  ReduceOptions counted = options;
  const Array numbers = logical_not({isnan(x), where});
  counted.where = options.where ? logical_and({numbers, where}, {*options.where, where}) : numbers;
  const Operand found(ordered_extreme(x, counted, greatest), where);
  const Array none_left = all({isnan(x), where}, {.axis = options.axis, .keepdims = options.keepdims});
  return shoal::where({none_left, where}, {std::numeric_limits<double>::quiet_NaN(), where}, found);
}

Array ordered_choice(const Operand& x, const Operand& y, bool greatest) {
  const SourceLocation where = x.where();
  const Array second_wins = greatest ? less(x, y) : less(y, x);
  const Array is_second = logical_or({second_wins, where}, {isnan(y), where});
  const Array keeps_first = isnan(x);
  return shoal::where({logical_and({is_second, where}, {logical_not({keeps_first, where}), where}), where}, y, x);
}

Array ordered_number(const Operand& x, const Operand& y, bool greatest) {
  const SourceLocation where = x.where();
  const Operand first_wins(greatest ? less(y, x) : less(x, y), where);
  return shoal::where({logical_or(first_wins, {isnan(y), where}), where}, x, y);
}

Array complex_log2(const Operand& x) { return divide({log(x), x.where()}, {std::log(2.0), x.where()}); }
Array complex_exp2(const Operand& x) { return exp({multiply(x, {std::log(2.0), x.where()}), x.where()}); }

Array complex_softmax(const Operand& x, const Axes& axis) {
  const SourceLocation where = x.where();
  const Term top(ordered_extreme(x, {.axis = axis, .keepdims = true}, true), where);
  const Term powers = (Term(shoal::to_array(x), where) - top).then(exp);
  return (powers / powers.then(sum, ReduceOptions{.axis = axis, .keepdims = true})).array();
}

Array complex_log_softmax(const Operand& x, const Axes& axis) {
  const SourceLocation where = x.where();
  const Term top(ordered_extreme(x, {.axis = axis, .keepdims = true}, true), where);
  const Term rest = Term(shoal::to_array(x), where) - top;
  return (rest - rest.then(exp).then(sum, ReduceOptions{.axis = axis, .keepdims = true}).then(log)).array();
}

Array complex_logsumexp(const Operand& x, const ReduceOptions& options) {
  const SourceLocation where = x.where();
  const Term real_part = counted_only({real(x), where}, options.where, true);
  const Term top = extreme(real_part, options.axis, true);
  const Term shift = select(top.then(isfinite), top, {shoal::to_array(top.number(0)), where});
  ReduceOptions kept = options;
  kept.keepdims = true;
  const Term result = (Term(shoal::to_array(x), where) - shift).then(exp).then(sum, kept).then(log) + shift;
  if (options.keepdims) return result.array();
  return squeeze(result, Axes(canonical_axes("logsumexp", options.axis, result.array().ndim(), where)));
}

Array complex_logaddexp(const Operand& x, const Operand& y) { return complex_logaddexp_of(x, y, 1); }
Array complex_logaddexp2(const Operand& x, const Operand& y) { return complex_logaddexp_of(x, y, std::log(2.0)); }
Array complex_softplus(const Operand& x) { return complex_logaddexp(x, {0, x.where()}); }
Array complex_log1mexp(const Operand& x) {
  return log({negative({expm1({negative(x), x.where()}), x.where()}), x.where()});
}

Array complex_relu(const Operand& x) { return ordered_choice(x, {0, x.where()}, true); }

Array complex_silu(const Operand& x) { return multiply(x, {nn::sigmoid(x), x.where()}); }

Array complex_gelu(const Operand& x) {
  const Term v(shoal::to_array(x), x.where());
  const Term inner = (v + v * v * v * 0.044715) * std::sqrt(2 / M_PI);
  return (v * (inner.then(tanh) + 1.0) * 0.5).array();
}

}  // namespace shoal::python
