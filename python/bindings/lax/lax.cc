// shoal.lax: what its functions demand of operands, and its elementwise functions.
#include "bindings/lax/lax.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/caller.h"
#include "bindings/core/tree.h"
#include "bindings/numpy/complex_order.h"
#include "shoal/custom_derivatives.h"
#include "shoal/special.h"

namespace shoal::python {
namespace {

using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);

// "integer, floating" of kinds.
std::string kinds_text(Kinds kinds) {
  std::string text;
  const auto add = [&](int kind, const char* name) {
    if ((kinds & kind) == 0) return;
    if (!text.empty()) text += ", ";
    text += name;
  };
  add(kIntegerKind, "integer");
  add(kFloatKind, "floating");
  add(kComplexKind, "complexfloating");
  add(kBoolKind, "bool");
  return text;
}

// ---- Functions that jax.lax has and the library has in another form.

// What is left of x, with its sign. Of a division by the integer 0 that is x.
Array rem(const Operand& x, const Operand& y) {
  if (kind_of(dtype_of(x)) != kIntegerKind) return fmod(x, y);
  const SourceLocation where = x.where();
  return shoal::where({equal(y, {0, where}), where}, x, {fmod(x, y), where});
}

// The quotient of integers, rounded towards zero; -1 of a division by 0.
Array div(const Operand& x, const Operand& y) {
  if (kind_of(dtype_of(x)) != kIntegerKind) return divide(x, y);
  return floor_divide({subtract(x, {rem(x, y), x.where()}), x.where()}, y);
}

Array integer_pow(const Operand& x, std::int64_t y) {
  if (kind_of(dtype_of(x)) == kIntegerKind && y < 0) {
    throw TypeMismatch(fmt::format("Integers cannot be raised to negative powers, got integer_pow({}, {})",
                                   type_of(shoal::to_array(x)), y),
                       x.where());
  }
  return power(x, {y, x.where()});
}

// Ties away from zero. The difference is exact, which x + 0.5 is not.
Array round_away(const Operand& x) {
  const SourceLocation where = x.where();
  const Array whole = trunc(x);
  const Array rest = abs({subtract(x, {whole, where}), where});
  return shoal::where({greater_equal({rest, where}, {0.5, where}), where},
                      {add({whole, where}, {sign(x), where}), where}, {whole, where});
}

// Bits that come in are those of the sign, also of unsigned numbers.
Array shift_right_arithmetic(const Operand& x, const Operand& y) {
  const Dtype dtype = dtype_of(x);
  if (is_signed(dtype)) return right_shift(x, y);
  const auto as_signed = [&](const Operand& operand) {
    const Dtype type = dtype == uint8 ? int8 : dtype == uint16 ? int16 : dtype == uint32 ? int32 : int64;
    return Operand(lax::bitcast_convert_type(operand, type), operand.where());
  };
  return lax::bitcast_convert_type({right_shift(as_signed(x), as_signed(y)), x.where()}, dtype);
}

// The upper half of the product of integers, which are of up to 32 bits.
Array mulhi(const Operand& x, const Operand& y) {
  const Dtype dtype = dtype_of(x);
  const auto bits = static_cast<std::int64_t>(8 * size_of(dtype));
  if (bits > 32) throw Unsupported("mulhi: numbers of 64 bits are not offered", x.where());
  const Operand product(multiply({astype(x, int64), x.where()}, {astype(y, int64), y.where()}), x.where());
  return astype({right_shift(product, {bits, x.where()}), x.where()}, dtype);
}

Array conj_complex(const Operand& x) {
  if (is_complex(dtype_of(x))) return conj(x);
  return lax::complex(x, {negative({zeros_like(x), x.where()}), x.where()});
}

Array log2_of(const Operand& x) { return is_complex_operand(x) ? complex_log2(x) : log2(x); }
Array exp2_of(const Operand& x) { return is_complex_operand(x) ? complex_exp2(x) : exp2(x); }
Array one_minus_square(const Operand& x) { return subtract({1, x.where()}, {square(x), x.where()}); }
Array greater_one(const Operand& x, const Operand& y) {
  return is_complex_operand(x) ? ordered_choice(x, y, true) : maximum(x, y);
}
Array lesser_one(const Operand& x, const Operand& y) {
  return is_complex_operand(x) ? ordered_choice(x, y, false) : minimum(x, y);
}

Array select_n(const Operand& which, const std::vector<Operand>& cases) {
  const SourceLocation where = which.where();
  const Dtype dtype = dtype_of(which);
  if (dtype != bool_ && dtype != int32) {
    throw TypeMismatch(fmt::format("select `which` must be boolean or integer type, got {}.", name_of(dtype)), where);
  }
  if (cases.empty()) throw InvalidArgument("select must have at least one case", where);
  if (dtype == bool_ && cases.size() > 2) {
    throw TypeMismatch(fmt::format("select with boolean `which` cannot have > 2 cases, got {}", cases.size()), where);
  }
  for (const Operand& x : cases) {
    if (shape_of(x) == shape_of(cases[0])) continue;
    throw TypeMismatch(fmt::format("select cases must have the same shapes, got {} and {}.",
                                   to_string(shape_of(cases[0])), to_string(shape_of(x))),
                       where);
  }
  if (!shape_of(which).empty() && shape_of(which) != shape_of(cases[0])) {
    throw TypeMismatch(fmt::format("select `which` must be scalar or have the same shape as cases, got `which` shape "
                                   "{} but case shape {}.",
                                   to_string(shape_of(which)), to_string(shape_of(cases[0]))),
                       where);
  }
  Array result = shoal::to_array(cases.back());
  for (std::size_t i = cases.size() - 1; i-- > 0;) {
    const Array later = dtype == bool_ ? shoal::to_array(which) : greater(which, {static_cast<std::int64_t>(i), where});
    result = shoal::where({later, where}, {result, where}, cases[i]);
  }
  return result;
}

// x with fewer bits of exponent and fraction: to the nearest number, ties to even. What becomes too great is infinite,
// what is too small for a normal number is zero.
Array rounded(const Operand& given, int exponent_bits, int mantissa_bits) {
  const SourceLocation where = given.where();
  const auto on = [&](const Array& array) { return Operand(array, where); };
  const Dtype dtype = dtype_of(given);
  const bool is_double = dtype == float64;
  const Array x = is_double || dtype == float32 ? shoal::to_array(given) : astype(given, float32);
  const Dtype bits_type = is_double ? uint64 : uint32;
  const int fraction = is_double ? 52 : 23;
  const int exponent = is_double ? 11 : 8;
  const auto number = [&](std::uint64_t value) { return on(full({}, {value, where}, {.dtype = bits_type})); };
  const std::uint64_t sign_bit = std::uint64_t{1} << (fraction + exponent);
  Array bits = lax::bitcast_convert_type(on(x), bits_type);
  if (const int dropped = fraction - mantissa_bits; dropped > 0) {
    const Array odd = bitwise_and(on(shift_right_logical(on(bits), number(dropped))), number(1));
    const Array half = add(on(odd), number((std::uint64_t{1} << (dropped - 1)) - 1));
    bits = bitwise_and(on(add(on(bits), on(half))), number(~((std::uint64_t{1} << dropped) - 1) & (2 * sign_bit - 1)));
  }
  if (exponent_bits < exponent) {
    const std::uint64_t bias = (std::uint64_t{1} << (exponent - 1)) - 1;
    const std::uint64_t reduced = (std::uint64_t{1} << (exponent_bits - 1)) - 1;
    const std::uint64_t all_ones = (std::uint64_t{1} << exponent) - 1;
    const Array field = bitwise_and(on(shift_right_logical(on(bits), number(fraction))), number(all_ones));
    const Array sign = bitwise_and(on(bits), number(sign_bit));
    const Array infinite = bitwise_or(on(sign), number(all_ones << fraction));
    bits = shoal::where(on(greater(on(field), number(bias + reduced))), on(infinite), on(bits));
    bits = shoal::where(on(less_equal(on(field), number(bias - reduced))), on(sign), on(bits));
  }
  const Array kept = lax::bitcast_convert_type(on(bits), x.dtype());
  return astype(on(shoal::where(on(isnan(on(x))), on(x), on(kept))), dtype);
}

// Tangents and cotangents are rounded as x is.
Array reduce_precision(const Operand& given, int exponent_bits, int mantissa_bits) {
  const SourceLocation where = given.where();
  const auto round = [=](const Array& x) { return rounded({x, where}, exponent_bits, mantissa_bits); };
  const auto rule = [=](const std::tuple<Array>& x, const std::tuple<Array>& tangent) {
    const auto same = [=](std::tuple<>, const Array& t) { return round(t); };
    return std::pair(round(std::get<0>(x)), linear_call(same, same, std::tuple<>(), std::get<0>(tangent), where));
  };
  return shoal::custom_jvp(round, rule, where)(shoal::to_array(given));
}

// ---- Binding.

template <Unary f>
void unary(nb::module_& m, const char* name, Kinds kinds, const char* doc) {
  m.def(
      name,
      [name, kinds](nb::handle x) {
        const Operand given = operand(x, name);
        check_kind(name, given, kinds);
        return unlocked([&] { return f(given); });
      },
      "x"_a.none(), doc);
}

// With the keyword `accuracy`, which asks for less than is always given.
template <Unary f>
void accurate(nb::module_& m, const char* name, Kinds kinds, const char* doc) {
  m.def(
      name,
      [name, kinds](nb::handle x, nb::handle) {
        const Operand given = operand(x, name);
        check_kind(name, given, kinds);
        return unlocked([&] { return f(given); });
      },
      "x"_a.none(), nb::kw_only(), "accuracy"_a = nb::none(), doc);
}

template <Binary f>
void binary(nb::module_& m, const char* name, Kinds kinds, const char* similar, const char* doc) {
  m.def(
      name,
      [name, kinds, similar](nb::handle x, nb::handle y) {
        const Operand first = operand(x, name, "x");
        const Operand second = operand(y, name, "y");
        const Operand* const both[] = {&first, &second};
        check_dtypes(name, both, similar);
        check_kind(name, first, kinds, 0);
        check_shapes(name, both);
        return unlocked([&] { return f(first, second); });
      },
      "x"_a.none(), "y"_a.none(), doc);
}

void bind_unary(nb::module_& m) {
  unary<&negative>(m, "neg", kNumbers, doc_of("negative"));
  unary<&abs>(m, "abs", kNumbers, doc_of("abs"));
  unary<&sign>(m, "sign", kNumbers, doc_of("sign"));
  unary<&square>(m, "square", kNumbers, doc_of("square"));
  unary<&reciprocal>(m, "reciprocal", kFractions, doc_of("reciprocal"));
  accurate<&exp>(m, "exp", kFractions, doc_of("exp"));
  accurate<&exp2_of>(m, "exp2", kFractions, doc_of("exp2"));
  accurate<&expm1>(m, "expm1", kFractions, doc_of("expm1"));
  accurate<&log>(m, "log", kFractions, doc_of("log"));
  accurate<&log1p>(m, "log1p", kFractions, doc_of("log1p"));
  accurate<&sqrt>(m, "sqrt", kFractions, doc_of("sqrt"));
  accurate<&rsqrt>(m, "rsqrt", kFractions, doc_of("rsqrt"));
  accurate<&cbrt>(m, "cbrt", kFloats, doc_of("cbrt"));
  accurate<&sin>(m, "sin", kFractions, doc_of("sin"));
  accurate<&cos>(m, "cos", kFractions, doc_of("cos"));
  accurate<&tan>(m, "tan", kFractions, doc_of("tan"));
  accurate<&tanh>(m, "tanh", kFractions, doc_of("tanh"));
  accurate<&logistic>(m, "logistic", kFractions, doc_of("logistic"));
  unary<&arcsin>(m, "asin", kFractions, doc_of("arcsin"));
  unary<&arccos>(m, "acos", kFractions, doc_of("arccos"));
  unary<&arctan>(m, "atan", kFractions, doc_of("arctan"));
  unary<&sinh>(m, "sinh", kFractions, doc_of("sinh"));
  unary<&cosh>(m, "cosh", kFractions, doc_of("cosh"));
  unary<&arcsinh>(m, "asinh", kFractions, doc_of("arcsinh"));
  unary<&arccosh>(m, "acosh", kFractions, doc_of("arccosh"));
  unary<&arctanh>(m, "atanh", kFractions, doc_of("arctanh"));
  unary<&erf>(m, "erf", kFloats, doc_of("erf"));
  accurate<&erfc>(m, "erfc", kFloats, doc_of("erfc"));
  unary<&erf_inv>(m, "erf_inv", kFloats, doc_of("erf_inv"));
  unary<&lgamma>(m, "lgamma", kFloats, doc_of("lgamma"));
  unary<&digamma>(m, "digamma", kFloats, doc_of("digamma"));
  unary<&special::i0e>(m, "bessel_i0e", kFloats, "exp(-|x|) times the modified Bessel function of order 0.");
  unary<&special::i1e>(m, "bessel_i1e", kFloats, "exp(-|x|) times the modified Bessel function of order 1.");
  accurate<&log2_of>(m, "log2", kFractions, doc_of("log2"));
  unary<&one_minus_square>(m, "one_minus_square", kNumbers, "1 - x * x.");
  unary<&floor>(m, "floor", kFloats, doc_of("floor"));
  unary<&ceil>(m, "ceil", kFloats, doc_of("ceil"));
  unary<&isfinite>(m, "is_finite", kFloats, doc_of("isfinite"));
  unary<&bitwise_not>(m, "bitwise_not", kBits, doc_of("bitwise_not"));
  unary<&population_count>(m, "population_count", Kinds{kIntegerKind}, doc_of("population_count"));
  unary<&clz>(m, "clz", Kinds{kIntegerKind}, doc_of("clz"));
  unary<&real>(m, "real", Kinds{kComplexKind}, doc_of("real"));
  unary<&imag>(m, "imag", Kinds{kComplexKind}, doc_of("imag"));
  unary<&conj_complex>(m, "conj", kFractions, doc_of("conj"));
}

void bind_binary(nb::module_& m) {
  binary<&add>(m, "add", kNumbers, "add", doc_of("add"));
  binary<&subtract>(m, "sub", kNumbers, "subtract", doc_of("subtract"));
  binary<&div>(m, "div", kNumbers, "divide", "x / y; of integers, rounded towards 0.");
  binary<&rem>(m, "rem", kReals, "remainder", "x - y * trunc(x / y), with the sign of x; x for an integer y of 0.");
  binary<&greater_one>(m, "max", kAny, "maximum", doc_of("maximum"));
  binary<&lesser_one>(m, "min", kAny, "minimum", doc_of("minimum"));
  binary<&special::gammainc>(m, "igamma", kFloats, "", "The share of the gamma function's integral below y.");
  binary<&special::gammaincc>(m, "igammac", kFloats, "", "The share of the gamma function's integral above y.");
  binary<&special::igamma_grad_a>(m, "igamma_grad_a", kFloats, "", "The derivative of igamma by a.");
  binary<&special::random_gamma_grad>(m, "random_gamma_grad", kFloats, "",
                                      "The derivative of a sample y of the gamma distribution by its shape x.");
  binary<&special::polygamma>(m, "polygamma", kFloats, "", "The x-th derivative of digamma at y.");
  binary<&special::zeta>(m, "zeta", kFloats, "", "The zeta function of Hurwitz: the sum of (y + n)^-x over n >= 0.");
  binary<&arctan2>(m, "atan2", kFloats, "arctan2", doc_of("arctan2"));
  binary<&nextafter>(m, "nextafter", kFloats, "nextafter", doc_of("nextafter"));
  binary<&bitwise_and>(m, "bitwise_and", kBits, "bitwise_and", doc_of("bitwise_and"));
  binary<&bitwise_or>(m, "bitwise_or", kBits, "bitwise_or", doc_of("bitwise_or"));
  binary<&bitwise_xor>(m, "bitwise_xor", kBits, "bitwise_xor", doc_of("bitwise_xor"));
  binary<&left_shift>(m, "shift_left", Kinds{kIntegerKind}, "left_shift", doc_of("left_shift"));
  binary<&shift_right_arithmetic>(m, "shift_right_arithmetic", Kinds{kIntegerKind}, "right_shift",
                                  doc_of("right_shift"));
  binary<&shift_right_logical>(m, "shift_right_logical", Kinds{kIntegerKind}, "", doc_of("shift_right_logical"));
  binary<&mulhi>(m, "mulhi", Kinds{kIntegerKind}, "", "The upper half of the product of integers.");
  binary<&equal>(m, "eq", kAny, "equal", doc_of("equal"));
  binary<&not_equal>(m, "ne", kAny, "not_equal", doc_of("not_equal"));
  binary<&less>(m, "lt", kOrdered, "less", doc_of("less"));
  binary<&less_equal>(m, "le", kOrdered, "less_equal", doc_of("less_equal"));
  binary<&greater>(m, "gt", kOrdered, "greater", doc_of("greater"));
  binary<&greater_equal>(m, "ge", kOrdered, "greater_equal", doc_of("greater_equal"));
  binary<&lax::complex>(m, "complex", kFloats, "", "The complex numbers with these parts.");
  m.def(
      "mul",
      [](nb::handle x, nb::handle y, nb::handle out_dtype) {
        const Operand first = operand(x, "mul", "x");
        const Operand second = operand(y, "mul", "y");
        const Operand* const both[] = {&first, &second};
        check_dtypes("mul", both, "multiply");
        check_kind("mul", first, kNumbers, 0);
        check_shapes("mul", both);
        const std::optional<Dtype> wanted = maybe_dtype(out_dtype);
        return unlocked([&] {
          if (!wanted) return multiply(first, second);
          return multiply({astype(first, *wanted), first.where()}, {astype(second, *wanted), second.where()});
        });
      },
      "x"_a.none(), "y"_a.none(), nb::kw_only(), "out_dtype"_a = nb::none(), doc_of("multiply"));
  m.def(
      "pow",
      [](nb::handle x, nb::handle y) {
        const Operand base = operand(x, "pow", "x");
        const Operand exponent = operand(y, "pow", "y");
        const Operand* const both[] = {&base, &exponent};
        check_kind("pow", base, kFractions, 0);
        if (!is_integer(dtype_of(exponent))) check_dtypes("pow", both, "power");
        check_shapes("pow", both);
        return unlocked([&] { return power(base, exponent); });
      },
      "x"_a.none(), "y"_a.none(), doc_of("power"));
  m.def(
      "integer_pow",
      [](nb::handle x, nb::handle y) {
        const Operand base = operand(x, "integer_pow", "x");
        check_kind("integer_pow", base, kNumbers);
        const std::optional<double> number = maybe_number(y, "integer_pow: y");
        if (!number || *number != static_cast<double>(static_cast<std::int64_t>(*number))) {
          type_error("integer_pow: y must be an integer");
        }
        return unlocked([&] { return integer_pow(base, static_cast<std::int64_t>(*number)); });
      },
      "x"_a.none(), "y"_a.none(), "x to the power of an integer that is known.");
}

void bind_choices(nb::module_& m) {
  m.def(
      "select",
      [](nb::handle pred, nb::handle on_true, nb::handle on_false) {
        const Operand which = operand(pred, "select", "pred");
        const std::vector<Operand> cases{operand(on_false, "select", "on_false"),
                                         operand(on_true, "select", "on_true")};
        const Operand* const both[] = {&cases[0], &cases[1]};
        check_dtypes("select", both, "where");
        return unlocked([&] { return select_n(which, cases); });
      },
      "pred"_a.none(), "on_true"_a.none(), "on_false"_a.none(), "on_true where pred holds, on_false elsewhere.");
  m.def(
      "select_n",
      [](nb::handle which, nb::args cases) {
        const Operand index = operand(which, "select_n", "which");
        std::vector<Operand> list;
        std::vector<const Operand*> pointers;
        for (nb::handle x : cases) list.push_back(operand(x, "select_n", "cases"));
        for (const Operand& x : list) pointers.push_back(&x);
        check_dtypes("select_n", pointers, "select");
        return unlocked([&] { return select_n(index, list); });
      },
      "which"_a.none(), "cases"_a, "For each element the one of the case that `which` numbers.");
  m.def(
      "betainc",
      [](nb::handle a, nb::handle b, nb::handle x) {
        const Operand first = operand(a, "betainc", "a");
        const Operand second = operand(b, "betainc", "b");
        const Operand third = operand(x, "betainc", "x");
        const Operand* const all[] = {&first, &second, &third};
        check_dtypes("betainc", all);
        check_shapes("betainc", all);
        check_kind("betainc", first, kFloats, 0);
        return unlocked([&] { return special::betainc(first, second, third); });
      },
      "a"_a.none(), "b"_a.none(), "x"_a.none(), "The share of the beta function's integral below x.");
  m.def(
      "clamp",
      [](nb::handle low, nb::handle x, nb::handle high) {
        const Operand least = operand(low, "clamp", "min");
        const Operand value = operand(x, "clamp", "x");
        const Operand greatest = operand(high, "clamp", "max");
        const Operand* const all[] = {&least, &value, &greatest};
        check_dtypes("clamp", all, "clip");
        for (const auto& [bound, name] : {std::pair(&least, "min"), std::pair(&greatest, "max")}) {
          if (shape_of(*bound).empty() || shape_of(*bound) == shape_of(value)) continue;
          type_error(
              fmt::format("clamp requires {0}.shape == operand.shape or {0}.shape == (), got {0}.shape={1}, "
                          "operand.shape={2}.",
                          name, to_string(shape_of(*bound)), to_string(shape_of(value))));
        }
        return unlocked([&] { return lax::clamp(least, value, greatest); });
      },
      "min"_a.none(), "x"_a.none(), "max"_a.none(), "x, but at least min and at most max.");
}

void bind_conversions(nb::module_& m) {
  m.def(
      "_round",
      [](nb::handle x, Flag to_even) {
        const Operand given = operand(x, "round");
        check_kind("round", given, kFloats);
        return unlocked([&] { return to_even ? round(given) : round_away(given); });
      },
      "x"_a.none(), "to_even"_a);
  m.def(
      "dtype", [](nb::handle x) { return dtype_object(dtype_of(operand(x, "dtype"))); }, "x"_a.none(),
      "The dtype that an array or number has.");
  m.def(
      "convert_element_type",
      [](nb::handle x, nb::handle new_dtype) {
        if (new_dtype.is_none()) value_error("convert_element_type: dtype must be specified.");
        const Dtype wanted = dtype(new_dtype);
        const Operand given = operand_for(wanted, x, "convert_element_type", "operand");
        return unlocked([&] { return astype(given, wanted); });
      },
      "operand"_a.none(), "new_dtype"_a.none(), "The elements in another dtype.");
  m.def(
      "bitcast_convert_type",
      [](nb::handle x, nb::handle new_dtype) {
        const Operand given = operand(x, "bitcast_convert_type", "operand");
        const Dtype wanted = dtype(new_dtype);
        return typed([&] { return lax::bitcast_convert_type(given, wanted); });
      },
      "operand"_a.none(), "new_dtype"_a, "The same bytes as elements of another dtype.");
  m.def(
      "reduce_precision",
      [](nb::handle x, nb::handle exponent_bits, nb::handle mantissa_bits) {
        const Operand given = operand(x, "reduce_precision", "operand");
        check_kind("reduce_precision", given, kFloats);
        const std::int64_t exponent = integer(exponent_bits, "reduce_precision: exponent_bits");
        const std::int64_t mantissa = integer(mantissa_bits, "reduce_precision: mantissa_bits");
        if (exponent < 1)
          value_error(fmt::format("reduce_precision: exponent_bits must be positive; got {}", exponent));
        if (mantissa < 0)
          value_error(fmt::format("reduce_precision: mantissa_bits must not be negative; got {}", mantissa));
        return unlocked([&] {
          return reduce_precision(given, static_cast<int>(std::min<std::int64_t>(exponent, 64)),
                                  static_cast<int>(std::min<std::int64_t>(mantissa, 64)));
        });
      },
      "operand"_a.none(), "exponent_bits"_a, "mantissa_bits"_a,
      "The elements rounded to fewer bits, in their own dtype.");
}

}  // namespace

const char* doc_of(std::string_view op) {
#define SHOAL_UNARY(name, kinds, result, doc, ...) \
  if (op == #name) return doc;
#define SHOAL_BINARY(...) SHOAL_UNARY(__VA_ARGS__)
#include "shoal/elementwise.def"
#undef SHOAL_UNARY
#undef SHOAL_BINARY
  return "";
}

Dtype dtype_of(const Operand& x) {
  const Caller caller("lax", x.where());
  return element_of(x).dtype;
}

const Shape& shape_of(const Operand& x) {
  static const Shape scalar;
  return x.array() != nullptr ? x.array()->shape() : scalar;
}

void check_kind(std::string_view function, const Operand& x, Kinds kinds, int position) {
  const Dtype dtype = dtype_of(x);
  if ((kinds & kind_of(dtype)) != 0) return;
  const std::string at = position < 0 ? "" : fmt::format(" at position {}", position);
  throw TypeMismatch(fmt::format("{} does not accept dtype {}{}. Accepted dtypes{} are subtypes of {}.", function,
                                 name_of(dtype), at, at, kinds_text(kinds)),
                     x.where());
}

void check_dtypes(std::string_view function, std::span<const Operand* const> operands, std::string_view similar) {
  bool equal = true;
  std::string list;
  for (const Operand* x : operands) {
    equal = equal && dtype_of(*x) == dtype_of(*operands[0]);
    if (!list.empty()) list += ", ";
    list += name_of(dtype_of(*x));
  }
  if (equal) return;
  const std::string tip =
      similar.empty()
          ? ""
          : fmt::format(" (Tip: jnp.{} is a similar function that does automatic type promotion on inputs).", similar);
  throw TypeMismatch(fmt::format("lax.{} requires arguments to have the same dtypes, got {}.{}", function, list, tip),
                     operands[0]->where());
}

void check_shapes(std::string_view function, std::span<const Operand* const> operands) {
  const Shape* first = nullptr;
  for (const Operand* x : operands) {
    const Shape& shape = shape_of(*x);
    if (shape.empty()) continue;
    if (first == nullptr) {
      first = &shape;
      continue;
    }
    if (shape.size() != first->size()) {
      throw TypeMismatch(fmt::format("{}: arrays must have the same number of dimensions, got shapes {} and {}.",
                                     function, to_string(*first), to_string(shape)),
                         x->where());
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == (*first)[i] || shape[i] == 1 || (*first)[i] == 1) continue;
      throw TypeMismatch(fmt::format("{} got incompatible shapes for broadcasting: {}, {}.", function,
                                     to_string(*first), to_string(shape)),
                         x->where());
    }
  }
}

void check_precision(nb::handle precision, std::string_view function) {
  if (precision.is_none() || !PyUnicode_Check(precision.ptr())) return;
  const auto name = nb::cast<std::string>(precision);
  for (const std::string_view known :
       {"default", "fastest", "bfloat16", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32"}) {
    if (name == known) return;
  }
  if (name.find('_') != std::string::npos) return;  // A preset of an algorithm.
  value_error(
      fmt::format("{}: precision must be 'default', 'high' or 'highest', one of lax.Precision, or a pair of "
                  "these; got '{}'",
                  function, name));
}

Dims dim_list(nb::handle x, std::string_view what) {
  if (PyUnicode_Check(x.ptr()) || PySequence_Check(x.ptr()) == 0 ||
      (array_of(x) != nullptr && array_of(x)->ndim() != 1)) {
    type_error(fmt::format("{} must be a sequence of integers, got {}", what, type_text(x)));
  }
  Dims list;
  for (nb::handle item : x) list.push_back(integer(item, what));
  return list;
}

lax::WindowPadding window_padding(nb::handle padding, std::string_view function) {
  if (PyUnicode_Check(padding.ptr())) {
    auto name = nb::cast<std::string>(padding);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    if (name != "SAME" && name != "SAME_LOWER" && name != "VALID") {
      runtime_error(fmt::format("{}: Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {}.",
                                function, nb::cast<std::string>(padding)));
    }
    return {name};
  }
  const nb::object iterator = nb::steal(PyObject_GetIter(padding.ptr()));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    type_error(
        fmt::format("{}: padding must be 'VALID', 'SAME', 'SAME_LOWER' or a sequence of pairs (low, high), got {}",
                    function, type_text(padding)));
  }
  std::vector<lax::WindowPadding::Pair> pairs;
  for (nb::handle item : iterator) {
    const Dims pair = dim_list(item, fmt::format("{}: padding", function));
    if (pair.size() != 2) value_error(fmt::format("{}: padding must consist of pairs (low, high)", function));
    pairs.emplace_back(pair[0], pair[1]);
  }
  return {pairs};
}

std::pair<std::int64_t, std::int64_t> pads_of(const lax::WindowPadding& padding, std::int64_t size, std::int64_t window,
                                              std::int64_t stride, std::size_t dim, std::size_t rank,
                                              SourceLocation where) {
  if (padding.pairs() != nullptr) {
    if (padding.pairs()->size() == rank) return (*padding.pairs())[dim];
    throw InvalidArgument(
        fmt::format("padding must have a pair for each of {} dimensions, got {}", rank, padding.pairs()->size()),
        where);
  }
  const std::string& name = *padding.name();
  if (name == "VALID") return {0, 0};
  if (name != "SAME" && name != "SAME_LOWER") {
    throw InvalidArgument(fmt::format("padding must be 'SAME', 'SAME_LOWER' or 'VALID', got '{}'", name), where);
  }
  const std::int64_t places = (size + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((places - 1) * stride + window - size, 0);
  const std::int64_t low = name == "SAME" ? total / 2 : total - total / 2;
  return {low, total - low};
}

Dims reduced_axes(nb::handle axes, const Operand& x, std::string_view function) {
  const Dims list = dim_list(axes, fmt::format("{}: axes", function));
  const auto rank = static_cast<std::int64_t>(shape_of(x).size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] < 0 || list[i] >= rank) {
      value_error(fmt::format("{}: axes {} contains out-of-bounds indices for {}.", function, to_string(list),
                              type_of(shoal::to_array(x))));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (list[i] == list[j]) value_error(fmt::format("{}: duplicate value in axes: {}", function, to_string(list)));
    }
  }
  return list;
}

void bind_lax_elementwise(nb::module_& m) {
  bind_unary(m);
  bind_binary(m);
  bind_choices(m);
  bind_conversions(m);
}

void bind_lax(nb::module_& m) {
  bind_lax_elementwise(m);
  bind_lax_movement(m);
  bind_lax_reductions(m);
  bind_lax_contractions(m);
  bind_lax_collectives(m);
  bind_lax_linalg(m);
  bind_lax_control_flow(m);
  bind_lax_derivatives(m);
  bind_lax_checkpoint(m);
  bind_lax_custom_rules(m);
  bind_lax_vmap(m);
}

}  // namespace shoal::python
