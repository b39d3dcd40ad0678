// Differences, integrals, interpolation and polynomials.
#include <fmt/format.h>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

// ---- Polynomials: vectors of coefficients, the highest power first.

Array vector_of(nb::handle x, const char* name, const char* argument) {
  const Array array = to_array(x, name, argument);
  if (array.ndim() > 1) value_error(fmt::format("{}: {} must be a vector of coefficients", name, argument));
  const SourceLocation where = user_line();
  return array.ndim() == 0 ? reshape({array, where}, {1}) : array;
}

// Zeros for the highest powers up to a length.
Operand extended(const Array& p, std::int64_t length, SourceLocation where) {
  return {pad({p, where}, {{length - p.size(), 0}}, {.constant_values = Operand(0, where)}), where};
}

Array combined(nb::handle a1, nb::handle a2, const char* name, Array (*f)(const Operand&, const Operand&)) {
  const Array first = vector_of(a1, name, "a1");
  const Array second = vector_of(a2, name, "a2");
  const SourceLocation where = user_line();
  const std::int64_t length = std::max(first.size(), second.size());
  return unlocked([&] { return f(extended(first, length, where), extended(second, length, where)); });
}

Array polymul(nb::handle a1, nb::handle a2, Flag trim_leading_zeros) {
  if (trim_leading_zeros) not_implemented("jnp.polymul: trim_leading_zeros=True is not supported");
  const Operand first(vector_of(a1, "polymul", "a1"), user_line());
  const Operand second(vector_of(a2, "polymul", "a2"), user_line());
  return unlocked([&] { return convolve(first, second, "full"); });
}

// Division with a rest, one power after the other.
nb::object polydiv(nb::handle u, nb::handle v, Flag trim_leading_zeros) {
  if (trim_leading_zeros) not_implemented("jnp.polydiv: trim_leading_zeros=True is not supported");
  const Operand dividend(vector_of(u, "polydiv", "u"), user_line());
  const Operand divisor(vector_of(v, "polydiv", "v"), user_line());
  const SourceLocation where = dividend.where();
  const std::pair<Array, Array> parts = unlocked([&] {
    const Dtype dtype = inexact_dtype(promote_types(type_of_operand(dividend), type_of_operand(divisor)).dtype);
    Array rest = astype(dividend, dtype);
    const Operand by(astype(divisor, dtype), where);
    const std::int64_t length = by.array()->size();
    const std::int64_t count = rest.size() - length + 1;
    const Operand first(lax::slice_in_dim(by, 0, 1), where);
    std::vector<Operand> quotient;
    for (std::int64_t k = 0; k < count; ++k) {
      const Operand factor(divide({lax::slice_in_dim({rest, where}, k, k + 1), where}, first), where);
      quotient.push_back(factor);
      const Operand part(
          pad({multiply(factor, by), where}, {{k, rest.size() - length - k}}, {.constant_values = Operand(0, where)}),
          where);
      rest = subtract({rest, where}, part);
    }
    const Array whole = quotient.empty() ? zeros({1}, {.dtype = dtype}, where) : concatenate({quotient, where});
    return std::pair(whole, rest);
  });
  return nb::make_tuple(parts.first, parts.second);
}

Array polyder(nb::handle p, nb::handle m) {
  const Operand x(vector_of(p, "polyder", "p"), user_line());
  const std::int64_t times = integer(m, "'m' argument of jnp.polyder");
  if (times < 0) value_error("Order of derivative must be positive");
  const SourceLocation where = x.where();
  return unlocked([&] {
    Operand result = in_dtype(x, inexact_dtype(x.array()->dtype()));
    for (std::int64_t i = 0; i < times && result.array()->size() > 0; ++i) {
      const std::int64_t degree = result.array()->size() - 1;
      const Operand powers(lax::rev({lax::iota(int32, degree, where), where}, {0}), where);
      const Operand factors(astype({add(powers, {1, where}), where}, result.array()->dtype()), where);
      result = Operand(multiply({lax::slice_in_dim(result, 0, degree), where}, factors), where);
    }
    return shoal::to_array(result);
  });
}

Array polyint(nb::handle p, nb::handle m, nb::handle k) {
  const Operand x(vector_of(p, "polyint", "p"), user_line());
  const std::int64_t times = integer(m, "'m' argument of jnp.polyint");
  if (times < 0) value_error("Order of integral must be positive");
  const SourceLocation where = x.where();
  std::optional<Array> constants;
  if (!k.is_none()) {
    constants = vector_of(k, "polyint", "k");
    if (constants->size() != 1 && constants->size() != times) {
      value_error("k must be a scalar or a rank-1 array of length 1 or m.");
    }
  }
  return unlocked([&] {
    Operand result = in_dtype(x, inexact_dtype(x.array()->dtype()));
    const Dtype dtype = result.array()->dtype();
    for (std::int64_t i = 0; i < times; ++i) {
      const std::int64_t size = result.array()->size();
      const Operand powers(lax::rev({lax::iota(int32, size, where), where}, {0}), where);
      const Operand factors(astype({add(powers, {1, where}), where}, dtype), where);
      Operand constant(zeros({1}, {.dtype = dtype}, where), where);
      if (constants) {
        const std::int64_t place = constants->size() == 1 ? 0 : i;
        constant = Operand(astype({lax::slice_in_dim({*constants, where}, place, place + 1), where}, dtype), where);
      }
      result = Operand(concatenate({{divide(result, factors), where}, constant}), where);
    }
    return shoal::to_array(result);
  });
}

Array roots_of(nb::handle p, Flag strip_zeros) {
  const SourceLocation where = user_line();
  const Operand given = operand(p, "roots", "p");
  if (!strip_zeros) return unlocked([&] { return roots(given); });
  return unlocked([&] {
    const Caller caller("roots", where);
    const Array coefficients = shoal::to_array(given);
    if (coefficients.ndim() != 1) return roots(given);
    const Operand is_zero(astype({equal(coefficients, 0), where}, int32), where);
    const auto leading = sum({cumprod(is_zero), where}).item<std::int32_t>(where);
    return roots({lax::slice_in_dim(given, leading, coefficients.size()), where});
  });
}

// The product of (x - zero) over zeros.
Array poly(nb::handle seq_of_zeros) {
  const Operand zeros_of(vector_of(seq_of_zeros, "poly", "seq_of_zeros"), user_line());
  const SourceLocation where = zeros_of.where();
  return unlocked([&] {
    const Dtype dtype = inexact_dtype(zeros_of.array()->dtype());
    Operand result(ones({1}, {.dtype = dtype}, where), where);
    for (std::int64_t i = 0; i < zeros_of.array()->size(); ++i) {
      const Operand zero(astype({lax::slice_in_dim(zeros_of, i, i + 1), where}, dtype), where);
      const Operand factor(concatenate({{ones({1}, {.dtype = dtype}, where), where}, {negative(zero), where}}), where);
      result = Operand(convolve(result, factor, "full"), where);
    }
    return shoal::to_array(result);
  });
}

// The coefficients of least squares: those of the powers of x, each column scaled to length 1.
nb::object polyfit(nb::handle x, nb::handle y, nb::handle deg, nb::handle rcond, Flag full, nb::handle w,
                   nb::handle cov) {
  if (!cov.is_none() && (PyUnicode_Check(cov.ptr()) || PyObject_IsTrue(cov.ptr()) == 1)) {
    not_implemented("jnp.polyfit: cov=True is not supported");
  }
  const Operand positions = operand(x, "polyfit");
  const Operand values = operand(y, "polyfit", "y");
  std::optional<Operand> weights = maybe_operand(w, "polyfit", "w");
  const std::int64_t degree = integer(deg, "'deg' argument of jnp.polyfit");
  const std::optional<double> cut = maybe_number(rcond, "polyfit: rcond");
  if (degree < 0) value_error("expected deg >= 0");
  if (shoal::to_array(positions).ndim() != 1) type_error("expected 1D vector for x");
  if (shoal::to_array(positions).size() == 0) type_error("expected non-empty vector for x");
  const std::size_t rank = shoal::to_array(values).ndim();
  if (rank < 1 || rank > 2) type_error("expected 1D or 2D array for y");
  if (shoal::to_array(values).shape()[0] != shoal::to_array(positions).size()) {
    type_error("expected x and y to have same length");
  }
  const SourceLocation where = positions.where();
  std::optional<Array> scale_out;
  const linalg::LstsqResult result = unlocked([&] {
    const Caller caller("polyfit", where);
    const Operand floats = in_dtype(positions, inexact_dtype(type_of_operand(positions).dtype));
    Operand left(vander(floats, {.N = degree + 1}), where);
    Operand right = values;
    if (weights) {
      const Operand column(expand_dims(*weights, 1), where);
      left = Operand(multiply(left, column), where);
      right = Operand(multiply(right, rank == 2 ? column : *weights), where);
    }
    const Operand scale(sqrt({sum({multiply(left, left), where}, {.axis = 0}), where}), where);
    const double epsilon = size_of(left.array()->dtype()) == 8 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    const double limit = cut.value_or(static_cast<double>(shoal::to_array(positions).size()) * epsilon);
    linalg::LstsqResult fit = linalg::lstsq({divide(left, scale), where}, right, limit);
    const Operand column(rank == 2 ? expand_dims(scale, 1) : *scale.array(), where);
    fit.x = divide({fit.x, where}, column);
    return fit;
  });
  if (!full) return nb::cast(result.x);
  const double limit = cut.value_or(0);
  return nb::make_tuple(result.x, result.residuals, result.rank, result.s, limit);
}

// ---- Differences and integrals.

nb::object gradient_of(nb::handle f, nb::args varargs, nb::handle axis, nb::handle edge_order) {
  if (!edge_order.is_none()) not_implemented("The 'edge_order' argument to jnp.gradient is not supported.");
  const Operand x = operand(f, "gradient", "f");
  GradientOptions options{.axis = axes(axis, "gradient: axis")};
  for (nb::handle spacing : varargs) options.spacing.push_back(operand(spacing, "gradient", "varargs"));
  std::vector<Array> all = unlocked([&] { return gradient(x, options); });
  if (all.size() == 1) return nb::cast(all.front());
  return list_of(std::move(all));
}

Array interp_of(nb::handle x, nb::handle xp, nb::handle fp, nb::handle left, nb::handle right, nb::handle period) {
  const Operand at = operand(x, "interp");
  const Operand positions = operand(xp, "interp", "xp");
  const Operand values = operand(fp, "interp", "fp");
  refuse_complex("interp", {&at, &positions});
  InterpOptions options{.period = maybe_operand(period, "interp", "period")};
  const auto side = [](nb::handle value, std::optional<Operand>& constant, bool& extrapolate) {
    if (!PyUnicode_Check(value.ptr())) {
      constant = maybe_operand(value, "interp", "left or right");
      return;
    }
    const auto name = nb::cast<std::string>(value);
    if (name != "extrapolate") {
      value_error(fmt::format("the only valid string value of `left` and `right` is 'extrapolate', but got: {}", name));
    }
    extrapolate = true;
  };
  side(left, options.left, options.extrapolate_left);
  side(right, options.right, options.extrapolate_right);
  return unlocked([&] { return interp(at, positions, values, options); });
}

// Jumps of more than half a period are made small ones by adding periods.
Array unwrapped(nb::handle p, nb::handle discont, nb::handle axis, nb::handle period) {
  const Operand x = operand(p, "unwrap", "p");
  refuse_complex("unwrap", {&x});
  const std::optional<Operand> jump = maybe_operand(discont, "unwrap", "discont");
  const std::int64_t along = integer(axis, "unwrap: axis");
  const Operand whole = operand(period, "unwrap", "period");
  const SourceLocation where = x.where();
  return unlocked([&] {
    const Array given = shoal::to_array(x);
    const Caller caller("unwrap", where);
    const std::int64_t d = canonical_axis(along, given.ndim());
    const Operand steps(diff(x, {.axis = d}), where);
    // Integers and a whole period stay integers.
    const bool is_whole = is_integer(given.dtype()) && is_integer(shoal::to_array(whole).dtype());
    const Operand half(is_whole ? floor_divide(whole, {2, where}) : divide(whole, {2, where}), where);
    const Operand minus_half(negative(half), where);
    const Operand shifted(add(steps, half), where);
    const Operand moved(subtract({remainder(shifted, whole), where}, half), where);
    // A jump of exactly half a period, if that is a number of the dtype, keeps its direction.
    Operand is_edge(logical_and({equal(moved, minus_half), where}, {greater(steps, {0, where}), where}), where);
    if (is_whole) {
      const Operand is_even(equal({remainder(whole, {2, where}), where}, {0, where}), where);
      is_edge = Operand(logical_and(is_edge, is_even), where);
    }
    const Operand small(shoal::where(is_edge, half, moved), where);
    const Operand least = jump ? *jump : half;
    const Operand correction(
        shoal::where({less({abs(steps), where}, least), where}, {0, where}, {subtract(small, steps), where}), where);
    const Operand sums(cumsum(correction, {.axis = d}), where);
    Shape first = given.shape();
    first[static_cast<std::size_t>(d)] = std::min<std::int64_t>(1, first[static_cast<std::size_t>(d)]);
    const Operand begin(zeros(first, {.dtype = sums.array()->dtype()}, where), where);
    return add(x, {concatenate({begin, sums}, d), where});
  });
}

}  // namespace

void bind_numpy_polynomials(nb::module_& m) {
  m.def(
      "diff",
      [](nb::handle a, nb::handle n, nb::handle axis, nb::handle prepend, nb::handle append) {
        const Operand x = operand(a, "diff", "a");
        const DiffOptions options{.n = integer(n, "'n' argument of jnp.diff"),
                                  .axis = integer(axis, "'axis' argument of jnp.diff"),
                                  .prepend = maybe_array(prepend, "diff", "prepend"),
                                  .append = maybe_array(append, "diff", "append")};
        return unlocked([&] { return diff(x, options); });
      },
      "a"_x, "n"_x = 1, "axis"_x = -1, "prepend"_x = nb::none(), "append"_x = nb::none(),
      "The differences of neighbours.");
  m.def(
      "ediff1d",
      [](nb::handle ary, nb::handle to_end, nb::handle to_begin) {
        const Operand x = operand(ary, "ediff1d", "ary");
        const Ediff1dOptions options{.to_end = maybe_array(to_end, "ediff1d", "to_end"),
                                     .to_begin = maybe_array(to_begin, "ediff1d", "to_begin")};
        return unlocked([&] { return ediff1d(x, options); });
      },
      "ary"_x, "to_end"_x = nb::none(), "to_begin"_x = nb::none(), "The differences of neighbours, flattened.");
  m.def("gradient", &gradient_of, "f"_x, "varargs"_a, nb::kw_only(), "axis"_x = nb::none(), "edge_order"_x = nb::none(),
        "The derivative along each dimension.");
  m.def(
      "trapezoid",
      [](nb::handle y, nb::handle x, nb::handle dx, nb::handle axis) {
        const Operand values = operand(y, "trapezoid", "y");
        const TrapezoidOptions options{.x = maybe_array(x, "trapezoid", "x"),
                                       .dx = operand(dx, "trapezoid", "dx"),
                                       .axis = integer(axis, "trapezoid: axis")};
        return unlocked([&] { return trapezoid(values, options); });
      },
      "y"_x, "x"_x = nb::none(), "dx"_x = 1.0, "axis"_x = -1, "The integral by trapezoids.");
  m.def("interp", &interp_of, "x"_x, "xp"_x, "fp"_x, "left"_x = nb::none(), "right"_x = nb::none(),
        "period"_x = nb::none(), "The values of the lines through points.");
  m.def("unwrap", &unwrapped, "p"_x, "discont"_x = nb::none(), "axis"_x = -1, "period"_x = 6.283185307179586,
        "Without jumps of more than half a period.");
  m.def(
      "polyval",
      [](nb::handle p, nb::handle x, nb::handle unroll) {
        static_cast<void>(unroll);
        const Operand coefficients = operand(p, "polyval", "p");
        const Operand at = operand(x, "polyval");
        return unlocked([&] { return polyval(coefficients, at); });
      },
      "p"_x, "x"_x, nb::kw_only(), "unroll"_x = 16, "The values of a polynomial.");
  m.def(
      "polyadd", [](nb::handle a1, nb::handle a2) { return combined(a1, a2, "polyadd", &add); }, "a1"_x, "a2"_x,
      "The sum of polynomials.");
  m.def(
      "polysub", [](nb::handle a1, nb::handle a2) { return combined(a1, a2, "polysub", &subtract); }, "a1"_x, "a2"_x,
      "The difference of polynomials.");
  m.def("polymul", &polymul, "a1"_x, "a2"_x, nb::kw_only(), "trim_leading_zeros"_x = false,
        "The product of polynomials.");
  m.def("polydiv", &polydiv, "u"_x, "v"_x, nb::kw_only(), "trim_leading_zeros"_x = false,
        "The quotient and the rest of polynomials.");
  m.def("polyder", &polyder, "p"_x, "m"_x = 1, "The derivative of a polynomial.");
  m.def("polyint", &polyint, "p"_x, "m"_x = 1, "k"_x = nb::none(), "The integral of a polynomial.");
  m.def("roots", &roots_of, "p"_x, nb::kw_only(), "strip_zeros"_x = true,
        "The roots of a polynomial, complex. Without strip_zeros those of leading zeros are NaN, and come last.");
  m.def("poly", &poly, "seq_of_zeros"_x, "The polynomial with these zeros.");
  m.def("polyfit", &polyfit, "x"_x, "y"_x, "deg"_x, "rcond"_x = nb::none(), "full"_x = false, "w"_x = nb::none(),
        "cov"_x = false, "The polynomial of a degree that is nearest to points.");
  m.def(
      "vander",
      [](nb::handle x, nb::handle N, Flag increasing) {
        const Operand a = operand(x, "vander");
        const VanderOptions options{.N = maybe_integer(N, "'N' argument of jnp.vander"), .increasing = increasing};
        return unlocked([&] { return vander(a, options); });
      },
      "x"_x, "N"_x = nb::none(), "increasing"_x = false, "The powers of each element, as rows.");
}

}  // namespace shoal::python
