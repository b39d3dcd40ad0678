// Elementwise functions: a row of elementwise.def is a function here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "bindings/core/memory.h"
#include "bindings/numpy/complex_order.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion.h"
#include "shoal/special.h"

namespace shoal::python {
namespace {

using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);

// What a function of bool or complex numbers is that the library has of other numbers alone; none for others.
Unary of_bool_or_complex(std::string_view name, Dtype dtype) {
  const bool rounds = name == "floor" || name == "ceil" || name == "trunc" || name == "conj" || name == "real";
  if (dtype == bool_ && rounds) return [](const Operand& x) { return shoal::to_array(x); };
  if (dtype == bool_ && (name == "imag" || name == "signbit")) return [](const Operand& x) { return zeros_like(x); };
  if (!is_complex(dtype)) return nullptr;
  static constexpr double kDegree = 0.017453292519943295;
  if (name == "log2") return &complex_log2;
  if (name == "log10") {
    return [](const Operand& x) {
      const Caller caller("log10", x.where());
      return log(x) / std::log(10.0);
    };
  }
  if (name == "exp2") return &complex_exp2;
  if (name == "deg2rad") return [](const Operand& x) { return multiply(x, {kDegree, x.where()}); };
  if (name == "rad2deg") return [](const Operand& x) { return multiply(x, {1 / kDegree, x.where()}); };
  if (name == "sinc") {
    return [](const Operand& x) {
      const Caller caller("sinc", x.where());
      // Along the real axis it falls off to 0. Neither there nor at 0 is the quotient asked, whose derivative is NaN.
      const Array is_far = logical_and(isinf(real(x)), isfinite(imag(x)));
      const Array is_zero = equal(x, 0);
      const Array inside = shoal::where(logical_or(is_far, is_zero), 1, x);
      const Array angle = multiply(inside, 3.14159265358979323846);
      return shoal::where(is_far, 0, shoal::where(is_zero, 1, sin(angle) / angle));
    };
  }
  if (name == "rint") {
    return [](const Operand& x) {
      const Caller caller("rint", x.where());
      return lax::complex(rint(real(x)), rint(imag(x)));
    };
  }
  return nullptr;
}

// The logarithm of the point's direction: the angle where both are real.
Array complex_arctan2(const Operand& y, const Operand& x) {
  const Caller caller("arctan2", y.where());
  const Array ordinate = shoal::to_array(y);
  const Array abscissa = shoal::to_array(x);
  const std::complex<double> i(0, 1);
  const Array length = sqrt(abscissa * abscissa + ordinate * ordinate);
  return -(log((abscissa + ordinate * i) / length) * i);
}

// The same for two operands.
Binary of_complex(std::string_view name) {
  if (name == "maximum") return [](const Operand& x, const Operand& y) { return ordered_choice(x, y, true); };
  if (name == "minimum") return [](const Operand& x, const Operand& y) { return ordered_choice(x, y, false); };
  if (name == "fmax") return [](const Operand& x, const Operand& y) { return ordered_number(x, y, true); };
  if (name == "fmin") return [](const Operand& x, const Operand& y) { return ordered_number(x, y, false); };
  if (name == "arctan2") return &complex_arctan2;
  if (name == "logaddexp") return &complex_logaddexp;
  if (name == "logaddexp2") return &complex_logaddexp2;
  return nullptr;
}

// Functions that JAX has for real numbers alone, and says so by a ValueError.
bool is_for_real_numbers(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kReal = {"hypot", "i0", "isposinf", "isneginf", "ldexp", "spacing"};
  return std::find(kReal.begin(), kReal.end(), name) != kReal.end();
}

// What logical functions give is weakly typed where all operands are, whatever they are compared with.
Array logical(const Array& result, std::string_view name, std::initializer_list<const Operand*> operands) {
  if (name.substr(0, 8) != "logical_") return result;
  const bool weak =
      std::all_of(operands.begin(), operands.end(), [](const Operand* x) { return type_of_operand(*x).weak; });
  const Caller caller(name, (*operands.begin())->where());
  return convert(result, bool_, weak);
}

void bind_unary(nb::module_& m, const char* name, Unary f, const char* doc, bool named = false) {
  const auto function = [f, name](nb::handle x) {
    const Operand a = operand(x, name);
    if (is_for_real_numbers(name)) refuse_complex(name, {&a});
    const Unary other = of_bool_or_complex(name, type_of_operand(a).dtype);
    return unlocked([&] { return logical(other != nullptr ? other(a) : f(a), name, {&a}); });
  };
  if (named) {
    m.def(name, function, "x"_x, doc);
  } else {
    m.def(name, function, positional(), doc);
  }
}

void bind_binary(nb::module_& m, const char* name, Binary f, const char* doc, const char* first = nullptr,
                 const char* second = nullptr) {
  const auto function = [f, name](nb::handle x, nb::handle y) {
    const Operand a = operand(x, name);
    const Operand b = operand(y, name, "y");
    if (f == static_cast<Binary>(&shoal::power)) check_power(a, y);
    if (f == static_cast<Binary>(&shoal::gcd) || f == static_cast<Binary>(&shoal::lcm)) {
      if (!is_integer(promote_types(type_of_operand(a), type_of_operand(b)).dtype)) {
        value_error(fmt::format("Arguments to jax.numpy.{} must be integers.", name));
      }
    }
    if (is_for_real_numbers(name)) refuse_complex(name, {&a, &b});
    const Binary other = is_complex_operand(a) || is_complex_operand(b) ? of_complex(name) : nullptr;
    if (other != nullptr) return unlocked([&] { return other(a, b); });
    return unlocked([&] { return logical(f(a, b), name, {&a, &b}); });
  };
  if (first != nullptr) {
    m.def(name, function, nb::arg(first).none(), nb::arg(second).none(), doc);
  } else {
    m.def(name, function, positional(), positional(), doc);
  }
}

// The functions for which JAX takes an argument `out`, which must be None.
void bind_unary_with_out(nb::module_& m, const char* name, Unary f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x, nb::handle out) {
        refuse_out(name, out);
        const Operand a = operand(x, name);
        if (is_for_real_numbers(name)) refuse_complex(name, {&a});
        return unlocked([&] {
          const Caller caller(name, a.where());
          const Array result = f(a);
          return result.dtype() == bool_ ? convert(result, bool_) : result;
        });
      },
      "x"_x, "out"_x = nb::none(), doc);
}

// A function of one array that gives a pair.
template <class F>
void bind_pair(nb::module_& m, const char* name, F f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle x) {
        const Operand a = operand(x, name);
        const std::pair<Array, Array> parts = unlocked([&] { return f(a); });
        return nb::make_tuple(parts.first, parts.second);
      },
      positional(), doc);
}

// The rows that are functions of lax or scipy.special; round has arguments of its own.
bool is_of_numpy(std::string_view name) {
  static constexpr std::array<std::string_view, 13> kOthers = {
      "logistic", "erf",   "erfc",    "erf_inv", "lgamma",           "digamma",
      "clz",      "xlogy", "xlog1py", "rsqrt",   "population_count", "shift_right_logical",
      "round"};
  return std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end();
}

// The rows whose operands have names in JAX; the others' are positional.
bool has_named_operands(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNamed = {"gcd", "lcm", "fmax", "fmin", "trunc"};
  return std::find(kNamed.begin(), kNamed.end(), name) != kNamed.end();
}

void bind_row(nb::module_& m, nb::module_& special, const char* name, Unary f, const char* doc) {
  const bool here = is_of_numpy(name);
  bind_unary(here ? m : special, name, f, doc, !here || has_named_operands(name));
}
void bind_row(nb::module_& m, nb::module_& special, const char* name, Binary f, const char* doc) {
  if (!is_of_numpy(name)) {
    bind_binary(special, name, f, doc, "x", "y");
  } else if (has_named_operands(name)) {
    bind_binary(m, name, f, doc, "x1", "x2");
  } else {
    bind_binary(m, name, f, doc);
  }
}

// Other names of functions: (new, old).
constexpr std::array<std::pair<const char*, const char*>, 18> kAliases = {{
    {"acos", "arccos"},
    {"acosh", "arccosh"},
    {"asin", "arcsin"},
    {"asinh", "arcsinh"},
    {"atan", "arctan"},
    {"atan2", "arctan2"},
    {"atanh", "arctanh"},
    {"absolute", "abs"},
    {"bitwise_invert", "bitwise_not"},
    {"invert", "bitwise_not"},
    {"bitwise_left_shift", "left_shift"},
    {"bitwise_right_shift", "right_shift"},
    {"conjugate", "conj"},
    {"true_divide", "divide"},
    {"mod", "remainder"},
    {"pow", "power"},
    {"degrees", "rad2deg"},
    {"radians", "deg2rad"},
}};

// Rounded to a number of decimals.
Array rounded(const Operand& x, std::int64_t decimals) {
  const Caller caller("round", x.where());
  const Dtype dtype = type_of_operand(x).dtype;
  if (is_integer(dtype) || dtype == bool_) return shoal::to_array(x);
  if (is_complex(dtype)) return lax::complex(rounded(real(x), decimals), rounded(imag(x), decimals));
  if (decimals == 0) return shoal::round(x);
  const double factor = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  // Half precision has no room for the factor.
  const bool half = size_of(dtype) == 2;
  const Array given = half ? astype(x, float32) : shoal::to_array(x);
  const Array scaled = decimals > 0 ? given * factor : given / factor;
  const Array whole = shoal::round(scaled);
  // What is too large to be scaled has no decimals.
  const Array kept = shoal::where(isfinite(scaled), decimals > 0 ? whole / factor : whole * factor, given);
  return half ? astype(kept, dtype) : kept;
}

Array round_of(nb::handle x, nb::handle decimals, nb::handle out) {
  refuse_out("round", out);
  const Operand a = operand(x, "round", "a");
  const std::int64_t places = integer(decimals, "'decimals' argument of jnp.round");
  if (is_integer(type_of_operand(a).dtype) && places < 0) {
    not_implemented("integer np.round not implemented for decimals < 0");
  }
  return unlocked([&] { return rounded(a, places); });
}

Array clip_of(nb::handle x, nb::handle min, nb::handle max) {
  const Operand a = operand(x, "clip", "arr");
  const std::optional<Operand> low = maybe_operand(min, "clip", "min");
  const std::optional<Operand> high = maybe_operand(max, "clip", "max");
  for (const auto& bound : {std::optional<Operand>(a), low, high}) {
    if (bound && is_complex(type_of_operand(*bound).dtype)) {
      value_error(
          "Clip received a complex value either through the input or the min/max keywords. Complex values have "
          "no ordering and cannot be clipped.");
    }
  }
  return unlocked([&] { return shoal::clip(a, low, high); });
}

// Integers as floats of the default width, as the functions of JAX take them that do not ask for that of the integers.
Operand with_default_floats(const Operand& x) {
  const Dtype dtype = type_of_operand(x).dtype;
  return inexact_dtype(dtype) == dtype ? x : Operand(astype(x, default_float()), x.where());
}

Array rint_of(const Operand& x) { return rint(with_default_floats(x)); }

Array angle_of(nb::handle z, Flag deg) {
  const Operand a = with_default_floats(operand(z, "angle", "z"));
  return unlocked([&] {
    const Array radians = angle(a);
    return deg ? rad2deg({radians, a.where()}) : radians;
  });
}

using Close = Array (*)(const Operand&, const Operand&, const CloseOptions&);
void bind_close(nb::module_& m, const char* name, Close f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle b, nb::handle rtol, nb::handle atol, Flag equal_nan) {
        const Operand x = operand(a, name, "a");
        const Operand y = operand(b, name, "b");
        const CloseOptions options{
            .rtol = operand(rtol, name, "rtol"), .atol = operand(atol, name, "atol"), .equal_nan = equal_nan};
        return unlocked([&] {
          const Caller caller(name, x.where());
          return convert(f(x, y, options), bool_);
        });
      },
      "a"_x, "b"_x, "rtol"_x = 1e-5, "atol"_x = 1e-8, "equal_nan"_x = false, doc);
}

// The distance to the next number away from 0, with the sign of x.
Array spacing(const Operand& x) {
  const Caller caller("spacing", x.where());
  const Array magnitude = abs(x);
  const Array result = copysign(nextafter(magnitude, std::numeric_limits<double>::infinity()) - magnitude, x);
  return convert(result, result.dtype());
}

// The bits of the magnitude, as NumPy counts them.
Array bitwise_count(const Operand& x) {
  const Caller caller("bitwise_count", x.where());
  return astype(population_count(abs(x)), uint8);
}

Array fabs_of(const Operand& x) {
  const Caller caller("fabs", x.where());
  const DtypeAndWeakness type = type_of_operand(x);
  if (is_complex(type.dtype)) throw misuse<TypeMismatch>("does not support complex dtypes; abs does");
  return shoal::abs(convert(shoal::to_array(x), inexact_dtype(type.dtype), type.weak));
}

Array positive(const Operand& x) { return shoal::to_array(x); }

}  // namespace

void bind_numpy_elementwise(nb::module_& m, nb::module_& special, ArrayClass& c) {
#define SHOAL_UNARY(name, kinds, result, doc, ...) bind_row(m, special, #name, &shoal::name, doc);
#define SHOAL_BINARY(name, kinds, result, doc, ...) bind_row(m, special, #name, &shoal::name, doc);
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY

  bind_unary(m, "fabs", &fabs_of, "The absolute value, as a float.");
  bind_unary_with_out(m, "fix", &fix, "The nearest integer towards 0.");
  bind_unary(m, "rint", &rint_of, "The nearest integer, ties to even, as a float.");
  bind_unary_with_out(m, "isposinf", &isposinf, "Whether x is positive infinity.");
  bind_unary_with_out(m, "isneginf", &isneginf, "Whether x is negative infinity.");
  bind_unary(m, "deg2rad", &deg2rad, "Degrees to radians.");
  bind_unary(m, "rad2deg", &rad2deg, "Radians to degrees.");
  bind_unary(m, "isreal", &isreal, "Whether the imaginary part is 0.", true);
  bind_unary(m, "iscomplex", &iscomplex, "Whether the imaginary part is not 0.", true);
  bind_unary(m, "logical_not", &logical_not, "Whether x is 0 or false.");
  bind_unary(m, "positive", &positive, "x itself.");
  bind_unary(m, "bitwise_count", &bitwise_count, "The number of bits set in the magnitude.");
  bind_unary(m, "i0", &special::i0, "The modified Bessel function of the first kind of order 0.", true);
  bind_unary(m, "spacing", &spacing, "The distance to the next number away from 0.");
  bind_binary(m, "logical_and", &logical_and, "Whether both are true.");
  bind_binary(m, "logical_or", &logical_or, "Whether either is true.");
  bind_binary(m, "logical_xor", &logical_xor, "Whether one of them alone is true.");
  bind_binary(m, "float_power", &float_power, "x to the power y, of floats.");
  bind_binary(m, "ldexp", &ldexp, "x 2^y.");
  bind_pair(m, "modf", &modf, "The fractional part of each number and the whole one.");
  bind_pair(m, "frexp", &frexp, "m and e with x = m 2^e and |m| in [0.5, 1).");
  m.def(
      "divmod",
      [](nb::handle x, nb::handle y) {
        const Operand a = operand(x, "divmod");
        const Operand b = operand(y, "divmod", "y");
        const std::pair<Array, Array> both = unlocked([&] { return shoal::divmod(a, b); });
        return nb::make_tuple(both.first, both.second);
      },
      positional(), positional(), "floor_divide(x, y) and remainder(x, y).");
  for (const auto& [alias, name] : kAliases) m.attr(alias) = m.attr(name);

  define(m, c, "round", &round_of, "a"_x, "decimals"_x = 0, "out"_x = nb::none(), "Rounded to a number of decimals.");
  m.attr("around") = m.attr("round");
  c.def(
      "__round__",
      [](nb::handle self, nb::handle digits) {
        if (!digits.is_none()) return round_of(self, digits, nb::none());
        const Array whole = round_of(self, nb::int_(0), nb::none());
        return is_integer(whole.dtype()) ? whole : astype({whole, user_line()}, default_int());
      },
      "ndigits"_x = nb::none());
  m.def("angle", &angle_of, "z"_x, "deg"_x = false, "The argument of a complex number; 0 or pi of a real one.");
  m.def("clip", &clip_of, positional(), "min"_x = nb::none(), "max"_x = nb::none(),
        "x, but at least `min` and at most `max`.");
  c.def("clip", &clip_of, "min"_x = nb::none(), "max"_x = nb::none(), "x, but at least `min` and at most `max`.");
  c.def(
      "conj", [](const Array& a) { return unlocked([&, w = user_line()] {
                                     return conj({a, w});
                                   }); },
      "The complex conjugate.");
  c.def(
      "conjugate", [](const Array& a) { return unlocked([&, w = user_line()] {
                                          return conj({a, w});
                                        }); },
      "The complex conjugate.");
  c.def_prop_ro("real", [](const Array& a) { return unlocked([&, w = user_line()] { return real({a, w}); }); });
  c.def_prop_ro("imag", [](const Array& a) { return unlocked([&, w = user_line()] { return imag({a, w}); }); });

  bind_close(m, "isclose", &isclose, "Whether |a - b| <= atol + rtol |b|.");
  bind_close(m, "allclose", &allclose, "Whether all elements are close.");
  m.def(
      "array_equal",
      [](nb::handle a1, nb::handle a2, Flag equal_nan) {
        const SourceLocation where = user_line();
        const Operand x(array_of_any(a1, std::nullopt, Sharing::kConstant), where);
        const Operand y(array_of_any(a2, std::nullopt, Sharing::kConstant), where);
        return unlocked([&] {
          const Caller caller("array_equal", where);
          return convert(array_equal(x, y, equal_nan), bool_);
        });
      },
      "a1"_x, "a2"_x, "equal_nan"_x = false, "Whether shapes and all elements are equal.");
  m.def(
      "array_equiv",
      [](nb::handle a1, nb::handle a2) {
        const nb::object array = nb::module_::import_("shoal._core").attr("_array");
        const Operand x = operand(array(a1), "array_equiv", "a1");
        const Operand y = operand(array(a2), "array_equiv", "a2");
        return unlocked([&]() -> Array {
          try {
            return all({equal(x, y), x.where()});
          } catch (const InvalidArgument&) {
            return {full({}, {false, x.where()})};  // They do not broadcast.
          }
        });
      },
      "a1"_x, "a2"_x, "Whether all elements are equal after broadcasting.");
  m.def(
      "nan_to_num",
      [](nb::handle x, Flag copy, nb::handle nan, nb::handle posinf, nb::handle neginf) {
        static_cast<void>(copy);
        const Operand a = operand(x, "nan_to_num");
        const NanToNumOptions options{.nan = operand(nan, "nan_to_num", "nan"),
                                      .posinf = maybe_operand(posinf, "nan_to_num", "posinf"),
                                      .neginf = maybe_operand(neginf, "nan_to_num", "neginf")};
        return unlocked([&] { return nan_to_num(a, options); });
      },
      "x"_x, "copy"_x = true, "nan"_x = 0.0, "posinf"_x = nb::none(), "neginf"_x = nb::none(),
      "x with NaN and infinities replaced.");
}

}  // namespace shoal::python
