// Elementwise functions: those of the table, and those composed of them.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "base/caller.h"
#include "base/misuse.h"
#include "core/dispatch.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {

namespace {

Array apply(const char* name, Kinds kinds, std::initializer_list<const Operand*> operands) {
  const Caller caller(name, (*operands.begin())->where());
  return bind(op_named(name), {}, promote(kinds, operands))[0];
}

// Functions that are products of others for some operands; the first argument says which function it is.

std::optional<Array> composed(void*, const Operand&, const Operand&) { return {}; }

// A small whole exponent, given as a number, is as many products as it has bits, as in JAX.
std::optional<Array> composed(struct KnownAs_power*, const Operand& x, const Operand& y) {
  constexpr std::int64_t kGreatest = 16;
  const std::int64_t* exponent = y.number() == nullptr ? nullptr : std::get_if<std::int64_t>(y.number());
  if (exponent == nullptr || *exponent == 0 || *exponent < -kGreatest || *exponent > kGreatest) return {};
  const Array base = to_array(x);
  if ((kind_of(base.dtype()) & kFractions) == 0) return {};
  const Caller caller("power", x.where());
  std::optional<Array> product;
  Array factor = base;
  for (std::int64_t left = std::abs(*exponent); left > 0; left /= 2) {
    if (left % 2 != 0) product = product ? *product * factor : factor;
    if (left > 1) factor = factor * factor;
  }
  return *exponent < 0 ? reciprocal(*product) : *product;
}

}  // namespace

#define SHOAL_UNARY(name, kinds, ...) \
  Array name(const Operand& x) { return apply(#name, kinds, {&x}); }
#define SHOAL_BINARY(name, kinds, ...)                                                              \
  Array name(const Operand& x, const Operand& y) {                                                  \
    const std::optional<Array> made = composed(static_cast<struct KnownAs_##name*>(nullptr), x, y); \
    return made ? *made : apply(#name, kinds, {&x, &y});                                            \
  }
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY

Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }
Array operator-(const Operand& x) { return negative(x); }
Array operator&(const Operand& x, const Operand& y) { return bitwise_and(x, y); }
Array operator|(const Operand& x, const Operand& y) { return bitwise_or(x, y); }
Array operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
Array operator~(const Operand& x) { return bitwise_not(x); }
Array operator<(const Operand& x, const Operand& y) { return less(x, y); }
Array operator<=(const Operand& x, const Operand& y) { return less_equal(x, y); }
Array operator>(const Operand& x, const Operand& y) { return greater(x, y); }
Array operator>=(const Operand& x, const Operand& y) { return greater_equal(x, y); }
Array operator==(const Operand& x, const Operand& y) { return equal(x, y); }
Array operator!=(const Operand& x, const Operand& y) { return not_equal(x, y); }

Array astype(const Operand& x, Dtype dtype) {
  const Caller caller("astype", x.where());
  return convert(to_array(x), dtype);
}

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  const Caller caller("where", condition.where());
  Array predicate = to_array(condition);
  if (predicate.dtype() != bool_) predicate = not_equal(predicate, 0);
  std::vector<Array> values = promote_of_any_rank(kAnyOrKey, {&x, &y});
  Shape shape = broadcast_shapes(values[0].shape(), values[1].shape());
  shape = broadcast_shapes(shape, predicate.shape());
  const auto full_shape = [&](const Array& array) { return array.ndim() == 0 ? array : broadcast(array, shape); };
  return bind_one("select", {}, {full_shape(predicate), full_shape(values[0]), full_shape(values[1])});
}

// ---- Composed functions.

namespace {

Array logical(Array (*op)(const Operand&, const Operand&), const Operand& x, const Operand& y) {
  return op(truth(x), truth(y));
}

// x in the dtype that the function computes in.
Array promoted(Kinds kinds, const Operand& x) { return promote(kinds, {&x})[0]; }

Array times(const Operand& x, double factor) {
  return at_least_f32(
      kFloats, [=](const Array& v) { return v * factor; }, x);
}

// The greatest finite number of a dtype, which must be a float.
double greatest_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 0x1.ffcp15;
    case Dtype::kBF16:
      return 0x1.fep127;
    case Dtype::kF32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Array without_nan(const Array& x, const NanToNumOptions& options) {
  const double greatest = greatest_of(x.dtype());
  const Array infinite = isinf(x);
  const auto fitting = [&](const Operand& value) {
    return value.array() != nullptr ? convert(*value.array(), x.dtype()) : full({}, value, {.dtype = x.dtype()});
  };
  const Array above = fitting(options.posinf.value_or(greatest));
  const Array below = fitting(options.neginf.value_or(-greatest));
  return where(isnan(x), fitting(options.nan), where(infinite, where(x > 0, above, below), x));
}

}  // namespace

Array absolute(const Operand& x) {
  const Caller caller("absolute", x.where());
  return abs(x);
}
Array conjugate(const Operand& x) {
  const Caller caller("conjugate", x.where());
  return conj(x);
}
Array fix(const Operand& x) {
  const Caller caller("fix", x.where());
  return trunc(x);
}
Array rint(const Operand& x) {
  const Caller caller("rint", x.where());
  return round(promoted(kFloats, x));
}
Array true_divide(const Operand& x, const Operand& y) {
  const Caller caller("true_divide", x.where());
  return divide(x, y);
}
Array mod(const Operand& x, const Operand& y) {
  const Caller caller("mod", x.where());
  return remainder(x, y);
}
Array pow(const Operand& x, const Operand& y) {
  const Caller caller("pow", x.where());
  return power(x, y);
}

Array isposinf(const Operand& x) {
  const Caller caller("isposinf", x.where());
  const Array v = promoted(kFloats, x);
  return equal(v, std::numeric_limits<double>::infinity());
}
Array isneginf(const Operand& x) {
  const Caller caller("isneginf", x.where());
  const Array v = promoted(kFloats, x);
  return equal(v, -std::numeric_limits<double>::infinity());
}

Array deg2rad(const Operand& x) {
  const Caller caller("deg2rad", x.where());
  return times(x, M_PI / 180);
}
Array rad2deg(const Operand& x) {
  const Caller caller("rad2deg", x.where());
  return times(x, 180 / M_PI);
}
Array radians(const Operand& x) {
  const Caller caller("radians", x.where());
  return deg2rad(x);
}
Array degrees(const Operand& x) {
  const Caller caller("degrees", x.where());
  return rad2deg(x);
}

Array angle(const Operand& x) {
  const Caller caller("angle", x.where());
  const Array v = promoted(kFractions, x);
  return arctan2(imag(v), real(v));
}

Array isreal(const Operand& x) {
  const Caller caller("isreal", x.where());
  const Array im = imag(promoted(kArithmetic, x));
  return equal(im, 0);
}
Array iscomplex(const Operand& x) {
  const Caller caller("iscomplex", x.where());
  const Array im = imag(promoted(kArithmetic, x));
  return not_equal(im, 0);
}

Array logical_not(const Operand& x) {
  const Caller caller("logical_not", x.where());
  return bitwise_not(truth(x));
}
Array logical_and(const Operand& x, const Operand& y) {
  const Caller caller("logical_and", x.where());
  return logical(bitwise_and, x, y);
}
Array logical_or(const Operand& x, const Operand& y) {
  const Caller caller("logical_or", x.where());
  return logical(bitwise_or, x, y);
}
Array logical_xor(const Operand& x, const Operand& y) {
  const Caller caller("logical_xor", x.where());
  return logical(bitwise_xor, x, y);
}

Array float_power(const Operand& x, const Operand& y) {
  const Caller caller("float_power", x.where());
  const std::vector<Array> arrays = promote(kFractions, {&x, &y});
  return power(arrays[0], arrays[1]);
}

std::pair<Array, Array> divmod(const Operand& x, const Operand& y) {
  const Caller caller("divmod", x.where());
  return {floor_divide(x, y), remainder(x, y)};
}

Array clip(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high) {
  const Caller caller("clip", x.where());
  Array result = to_array(x);
  for (const std::optional<Operand>& bound : {low, high}) {
    if (bound) check_promotion({&x, &*bound});
  }
  if (low) result = maximum(result, *low);
  if (high) result = minimum(result, *high);
  return result;
}

Array nan_to_num(const Operand& x, const NanToNumOptions& options) {
  const Caller caller("nan_to_num", x.where());
  const Array v = to_array(x);
  const Dtype dtype = v.dtype();
  if (is_complex(dtype)) {
    return lax::complex(without_nan(real(v), options), without_nan(imag(v), options));
  }
  return is_floating(dtype) ? without_nan(v, options) : v;
}

Array isclose(const Operand& x, const Operand& y, const CloseOptions& options) {
  const Caller caller("isclose", x.where());
  const std::vector<Array> arrays = promote(kFractions, {&x, &y});
  const Array& a = arrays[0];
  const Array& b = arrays[1];
  const Array bound = options.atol + options.rtol * abs(b);
  const Array near = less_equal(abs(a - b), bound);
  const Array same = equal(a, b);  // Equal infinities have no difference.
  Array close = logical_or(same, logical_and(near, isfinite(b)));
  if (options.equal_nan) close = logical_or(close, logical_and(isnan(a), isnan(b)));
  return close;
}

Array allclose(const Operand& x, const Operand& y, const CloseOptions& options) {
  const Caller caller("allclose", x.where());
  return all(isclose(x, y, options));
}

Array array_equal(const Operand& x, const Operand& y, bool equal_nan) {
  const Caller caller("array_equal", x.where());
  const Array a = to_array(x);
  const Array b = to_array(y);
  if (a.shape() != b.shape()) return to_array(false);
  Array same = equal(a, b);
  if (equal_nan) {
    const auto nan = [](const Array& v) { return not_equal(v, v); };
    same = logical_or(same, logical_and(nan(a), nan(b)));
  }
  return all(same);
}

namespace lax {

Array clamp(const Operand& low, const Operand& x, const Operand& high) {
  const Caller caller("clamp", low.where());
  return clip(x, low, high);
}

Array complex(const Operand& re, const Operand& im) {
  const Caller caller("complex", re.where());
  const std::vector<Array> parts = promote(kFloats, {&re, &im});
  if (size_of(parts[0].dtype()) < size_of(float32)) {
    throw misuse<TypeMismatch>("the parts must be f32 or f64, not {}", type_of(parts[0]));
  }
  return bind(op_named("complex"), {}, parts)[0];
}

}  // namespace lax
}  // namespace shoal
