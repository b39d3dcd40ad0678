// Elementwise functions: those of the table, and those composed of them.
#include <cmath>
#include <limits>
#include <utility>

#include "core/dispatch.h"
#include "frontend/array/promotion.h"
#include "frontend/array/term.h"
#include "frontend/array/trace.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {

namespace {

Array apply(const char* name, Kinds kinds, std::initializer_list<const Operand*> operands) {
  const SourceLocation where = (*operands.begin())->where();
  return bind(op_named(name), {}, promote(name, kinds, {operands.begin(), operands.size()}), where)[0];
}

}  // namespace

#define SHOAL_UNARY(name, kinds, ...) \
  Array name(const Operand& x) { return apply(#name, kinds, {&x}); }
#define SHOAL_BINARY(name, kinds, ...) \
  Array name(const Operand& x, const Operand& y) { return apply(#name, kinds, {&x, &y}); }
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

Array astype(const Operand& x, Dtype dtype) { return convert(to_array(x), dtype, false, x.where()); }

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  const SourceLocation line = condition.where();
  Array predicate = to_array(condition);
  if (predicate.dtype() != bool_) predicate = not_equal({predicate, line}, {0, line});
  const Operand* const branches[] = {&x, &y};
  std::vector<Array> values = promote("where", kAny, branches);
  Shape shape = broadcast_shapes("where", values[0].shape(), values[1].shape(), line);
  shape = broadcast_shapes("where", shape, predicate.shape(), line);
  const auto full_shape = [&](const Array& array) { return array.ndim() == 0 ? array : broadcast(array, shape, line); };
  return bind_one("select", {}, {full_shape(predicate), full_shape(values[0]), full_shape(values[1])}, line);
}

// ---- Composed functions.

namespace {

Array logical(Array (*op)(const Operand&, const Operand&), const Operand& x, const Operand& y) {
  return op({truth(x), x.where()}, {truth(y), x.where()});
}

// x in the dtype that the function computes in.
Term promoted(const char* function, Kinds kinds, const Operand& x) {
  const Operand* const operands[] = {&x};
  return {promote(function, kinds, operands)[0], x.where()};
}

Array times(const char* function, const Operand& x, double factor) {
  return at_least_f32(
      function, kFloats, [=](const Term& v) { return v * factor; }, x);
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

Term without_nan(const Term& x, const NanToNumOptions& options) {
  const double greatest = greatest_of(x.array().dtype());
  const Term infinite = x.then(isinf);
  const auto constant = [&](double value) {
    return Term(full({}, x.number(value), {.dtype = x.array().dtype()}), x.where());
  };
  const Term at_infinity =
      select(x > 0, constant(options.posinf.value_or(greatest)), constant(options.neginf.value_or(-greatest)));
  return select(x.then(isnan), constant(options.nan), select(infinite, at_infinity, x));
}

}  // namespace

Array absolute(const Operand& x) { return abs(x); }
Array conjugate(const Operand& x) { return conj(x); }
Array fix(const Operand& x) { return trunc(x); }
Array rint(const Operand& x) { return promoted("rint", kFloats, x).then(round).array(); }
Array true_divide(const Operand& x, const Operand& y) { return divide(x, y); }
Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }
Array pow(const Operand& x, const Operand& y) { return power(x, y); }

Array isposinf(const Operand& x) {
  const Term v = promoted("isposinf", kFloats, x);
  return v.then(equal, v.number(std::numeric_limits<double>::infinity())).array();
}
Array isneginf(const Operand& x) {
  const Term v = promoted("isneginf", kFloats, x);
  return v.then(equal, v.number(-std::numeric_limits<double>::infinity())).array();
}

Array deg2rad(const Operand& x) { return times("deg2rad", x, M_PI / 180); }
Array rad2deg(const Operand& x) { return times("rad2deg", x, 180 / M_PI); }
Array radians(const Operand& x) { return deg2rad(x); }
Array degrees(const Operand& x) { return rad2deg(x); }

Array angle(const Operand& x) {
  const Term v = promoted("angle", kFractions, x);
  return v.then(imag).then(arctan2, v.then(real)).array();
}

Array isreal(const Operand& x) {
  const Term im = promoted("isreal", kArithmetic, x).then(imag);
  return im.then(equal, Operand(0, x.where())).array();
}
Array iscomplex(const Operand& x) {
  const Term im = promoted("iscomplex", kArithmetic, x).then(imag);
  return im.then(not_equal, Operand(0, x.where())).array();
}

Array logical_not(const Operand& x) { return bitwise_not({truth(x), x.where()}); }
Array logical_and(const Operand& x, const Operand& y) { return logical(bitwise_and, x, y); }
Array logical_or(const Operand& x, const Operand& y) { return logical(bitwise_or, x, y); }
Array logical_xor(const Operand& x, const Operand& y) { return logical(bitwise_xor, x, y); }

Array float_power(const Operand& x, const Operand& y) {
  const Operand* const operands[] = {&x, &y};
  const std::vector<Array> arrays = promote("float_power", kFractions, operands);
  return power({arrays[0], x.where()}, {arrays[1], x.where()});
}

std::pair<Array, Array> divmod(const Operand& x, const Operand& y) { return {floor_divide(x, y), remainder(x, y)}; }

Array clip(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high) {
  Term result(to_array(x), x.where());
  if (low) result = result.then(maximum, *low);
  if (high) result = result.then(minimum, *high);
  return result.array();
}

Array nan_to_num(const Operand& x, const NanToNumOptions& options) {
  const Term v(to_array(x), x.where());
  const Dtype dtype = v.array().dtype();
  if (is_complex(dtype)) {
    return lax::complex(without_nan(v.then(real), options), without_nan(v.then(imag), options));
  }
  return is_floating(dtype) ? without_nan(v, options).array() : v.array();
}

Array isclose(const Operand& x, const Operand& y, const CloseOptions& options) {
  const Operand* const operands[] = {&x, &y};
  const std::vector<Array> arrays = promote("isclose", kFractions, operands);
  const SourceLocation line = x.where();
  const Term a(arrays[0], line);
  const Term b(arrays[1], line);
  const Term bound = options.atol + options.rtol * b.then(abs);
  const Term near = (a - b).then(abs).then(less_equal, bound);
  const Term same = a.then(equal, b);  // Equal infinities have no difference.
  Term close = same.then(logical_or, near.then(logical_and, b.then(isfinite)));
  if (options.equal_nan) close = close.then(logical_or, a.then(isnan).then(logical_and, b.then(isnan)));
  return close.array();
}

Array allclose(const Operand& x, const Operand& y, const CloseOptions& options) {
  return all({isclose(x, y, options), x.where()});
}

Array array_equal(const Operand& x, const Operand& y, bool equal_nan) {
  const Term a(to_array(x), x.where());
  const Term b(to_array(y), x.where());
  if (a.array().shape() != b.array().shape()) return to_array({false, x.where()});
  Term same = a.then(equal, b);
  if (equal_nan) {
    const auto nan = [](const Term& v) { return v.then(not_equal, v); };
    same = same.then(logical_or, nan(a).then(logical_and, nan(b)));
  }
  return all(same);
}

namespace lax {

Array clamp(const Operand& low, const Operand& x, const Operand& high) { return clip(x, low, high); }

Array complex(const Operand& re, const Operand& im) {
  const Operand* const operands[] = {&re, &im};
  const std::vector<Array> parts = promote("complex", kFloats, operands);
  const SourceLocation line = re.where();
  if (size_of(parts[0].dtype()) < size_of(float32)) {
    throw TypeMismatch(std::string("complex: the parts must be f32 or f64, not ") + type_of(parts[0]), line);
  }
  return bind(op_named("complex"), {}, parts, line)[0];
}

}  // namespace lax
}  // namespace shoal
