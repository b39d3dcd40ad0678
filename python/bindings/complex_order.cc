#include "complex_order.h"

#include <cmath>
#include <limits>

#include "frontend/term.h"

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

Array ordered_choice(const Operand& x, const Operand& y, bool greatest) {
  const SourceLocation where = x.where();
  const Array second_wins = greatest ? less(x, y) : less(y, x);
  const Array is_second = logical_or({second_wins, where}, {isnan(y), where});
  const Array keeps_first = isnan(x);
  return shoal::where({logical_and({is_second, where}, {logical_not({keeps_first, where}), where}), where}, y, x);
}

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

Array complex_relu(const Operand& x) { return ordered_choice(x, {0, x.where()}, true); }

Array complex_silu(const Operand& x) { return multiply(x, {nn::sigmoid(x), x.where()}); }

Array complex_gelu(const Operand& x, bool approximate) {
  // The error function of complex numbers is not there.
  if (!approximate) not_implemented("gelu: of complex numbers there is the approximation alone");
  const Term v(shoal::to_array(x), x.where());
  const Term inner = (v + v * v * v * 0.044715) * std::sqrt(2 / M_PI);
  return (v * (inner.then(tanh) + 1.0) * 0.5).array();
}

}  // namespace shoal::python
