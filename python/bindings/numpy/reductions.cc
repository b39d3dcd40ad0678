// Reductions and cumulative sums.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/caller.h"
#include "bindings/numpy/complex_order.h"
#include "bindings/numpy/numpy.h"

namespace shoal::python {
namespace {

using Reduce = Array (*)(const Operand&, const ReduceOptions&);
using Variance = Array (*)(const Operand&, const VarianceOptions&);
using Arg = Array (*)(const Operand&, const ArgOptions&);
using Cumulate = Array (*)(const Operand&, const CumulativeOptions&);

ReduceOptions reduce_options(const char* name, nb::handle axis, bool keepdims, nb::handle initial = nb::none(),
                             nb::handle where = nb::none()) {
  return {.axis = axes(axis, fmt::format("{}: axis", name)),
          .keepdims = keepdims,
          .where = maybe_array(where, name, "where"),
          .initial = maybe_array(initial, name, "initial")};
}

// What a sum is computed in.
std::optional<Dtype> summed(Dtype dtype, bool promote_integers) {
  if (!promote_integers) return dtype;
  return python::summed(dtype);
}

// Results of reductions are never weak.
Array strong(const Array& result, SourceLocation where) {
  const Caller caller("convert", where);
  return convert(result, result.dtype());
}

// Binds f as a function and, for an array class, as a method.
template <class F, class... Extra>
void bind_both(nb::module_& m, ArrayClass* c, const char* name, const F& f, const Extra&... extra) {
  m.def(name, f, "a"_x, extra...);
  if (c != nullptr) c->def(name, f, extra...);
}

// sum, prod and their kin: with a dtype and an initial value.
void bind_sum(nb::module_& m, ArrayClass* c, const char* name, Reduce f, const char* doc) {
  const auto reduce = [f, name](nb::handle x, nb::handle axis, nb::handle dtype, nb::handle out, Flag keepdims,
                                nb::handle initial, nb::handle where, Flag promote_integers) {
    refuse_out(name, out);
    const Operand a = operand(x, name, "a");
    const ReduceOptions options = reduce_options(name, axis, keepdims, initial, where);
    const std::optional<Dtype> wanted = maybe_dtype(dtype);
    return unlocked([&] {
      const Dtype given = type_of_operand(a).dtype;
      const std::optional<Dtype> computed = wanted ? wanted : summed(given, promote_integers);
      const Array result = f(in_dtype(a, computed == given ? std::nullopt : computed), options);
      // The library widens integers by itself.
      return computed && result.dtype() != *computed ? astype({result, a.where()}, *computed)
                                                     : strong(result, a.where());
    });
  };
  bind_both(m, c, name, reduce, "axis"_x = nb::none(), "dtype"_x = nb::none(), "out"_x = nb::none(),
            "keepdims"_x = false, "initial"_x = nb::none(), "where"_x = nb::none(), "promote_integers"_x = true, doc);
}

// max, min and their kin: with an initial value, without a dtype.
void bind_max(nb::module_& m, ArrayClass* c, const char* name, Reduce f, const char* doc) {
  const auto reduce = [f, name](nb::handle x, nb::handle axis, nb::handle out, Flag keepdims, nb::handle initial,
                                nb::handle where) {
    refuse_out(name, out);
    const Operand a = operand(x, name, "a");
    const ReduceOptions options = reduce_options(name, axis, keepdims, initial, where);
    return unlocked([&] {
      if (is_complex_operand(a)) {
        const bool greatest = f == static_cast<Reduce>(&max) || f == static_cast<Reduce>(&nanmax);
        const bool skips_nan = f == static_cast<Reduce>(&nanmax) || f == static_cast<Reduce>(&nanmin);
        return strong(skips_nan ? ordered_number_extreme(a, options, greatest) : ordered_extreme(a, options, greatest),
                      a.where());
      }
      return strong(f(a, options), a.where());
    });
  };
  bind_both(m, c, name, reduce, "axis"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false,
            "initial"_x = nb::none(), "where"_x = nb::none(), doc);
}

void bind_any(nb::module_& m, ArrayClass& c, const char* name, Reduce f, const char* doc) {
  define(
      m, c, name,
      [f, name](nb::handle x, nb::handle axis, nb::handle out, Flag keepdims, nb::handle where) {
        refuse_out(name, out);
        const Operand a = operand(x, name, "a");
        const ReduceOptions options = reduce_options(name, axis, keepdims, nb::none(), where);
        return unlocked([&] { return strong(f(a, options), a.where()); });
      },
      "a"_x, "axis"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false, nb::kw_only(), "where"_x = nb::none(),
      doc);
}

void bind_mean(nb::module_& m, ArrayClass* c, const char* name, Reduce f, const char* doc) {
  bind_both(
      m, c, name,
      [f, name](nb::handle x, nb::handle axis, nb::handle dtype, nb::handle out, Flag keepdims, nb::handle where) {
        refuse_out(name, out);
        const Operand a = operand(x, name, "a");
        const ReduceOptions options = reduce_options(name, axis, keepdims, nb::none(), where);
        const std::optional<Dtype> wanted = maybe_dtype(dtype);
        return unlocked([&] {
          const Array result = f(in_dtype(a, wanted), options);
          return wanted && result.dtype() != *wanted ? astype({result, a.where()}, *wanted) : strong(result, a.where());
        });
      },
      "axis"_x = nb::none(), "dtype"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false, nb::kw_only(),
      "where"_x = nb::none(), doc);
}

void bind_var(nb::module_& m, ArrayClass* c, const char* name, Variance f, const char* doc) {
  bind_both(
      m, c, name,
      [f, name](nb::handle x, nb::handle axis, nb::handle dtype, nb::handle out, nb::handle ddof, Flag keepdims,
                nb::handle where, nb::handle mean, nb::handle correction) {
        refuse_out(name, out);
        refuse(name, "mean", mean);
        const Operand a = operand(x, name, "a");
        VarianceOptions options{.axis = axes(axis, fmt::format("{}: axis", name)),
                                .keepdims = keepdims,
                                .ddof = operand(ddof, name, "ddof"),
                                .where = maybe_array(where, name, "where")};
        if (!correction.is_none()) {
          const bool is_given = !PyLong_Check(ddof.ptr()) || nb::cast<int>(ddof) != 0;
          if (is_given) value_error("ddof and correction can't be provided simultaneously.");
          options.ddof = operand(correction, name, "correction");
        }
        const std::optional<Dtype> wanted = maybe_dtype(dtype);
        return unlocked([&] {
          const Array result = f(in_dtype(a, wanted), options);
          return wanted && result.dtype() != *wanted ? astype({result, a.where()}, *wanted) : strong(result, a.where());
        });
      },
      "axis"_x = nb::none(), "dtype"_x = nb::none(), "out"_x = nb::none(), "ddof"_x = 0, "keepdims"_x = false,
      nb::kw_only(), "where"_x = nb::none(), "mean"_x = nb::none(), "correction"_x = nb::none(), doc);
}

void bind_arg(nb::module_& m, ArrayClass* c, const char* name, Arg f, const char* doc) {
  bind_both(
      m, c, name,
      [f, name](nb::handle x, nb::handle axis, nb::handle out, nb::handle keepdims) {
        refuse_out(name, out);
        const Operand a = operand(x, name, "a");
        const ArgOptions options{.axis = maybe_integer(axis, fmt::format("{}: axis", name)),
                                 .keepdims = !keepdims.is_none() && PyObject_IsTrue(keepdims.ptr()) == 1};
        const Array positions = unlocked([&] { return f(a, options); });
        return counted(positions);
      },
      "axis"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = nb::none(), doc);
}

CumulativeOptions cumulative_options(const char* name, const Operand& a, nb::handle axis, nb::handle dtype) {
  CumulativeOptions options{.axis = maybe_integer(axis, fmt::format("{}: axis", name)), .dtype = maybe_dtype(dtype)};
  if (!options.dtype && type_of_operand(a).dtype == bool_) options.dtype = default_int();
  return options;
}

void bind_cumulative(nb::module_& m, ArrayClass* c, const char* name, Cumulate f, const char* doc) {
  bind_both(
      m, c, name,
      [f, name](nb::handle x, nb::handle axis, nb::handle dtype, nb::handle out) {
        refuse_out(name, out);
        const Operand a = operand(x, name, "a");
        const CumulativeOptions options = cumulative_options(name, a, axis, dtype);
        return unlocked([&] { return strong(f(a, options), a.where()); });
      },
      "axis"_x = nb::none(), "dtype"_x = nb::none(), "out"_x = nb::none(), doc);
}

// x with a number where it is NaN.
Operand without_nan(const Operand& x, double number) {
  const SourceLocation where = x.where();
  const Dtype dtype = type_of_operand(x).dtype;
  if (!is_floating(dtype) && !is_complex(dtype)) return x;
  return {shoal::where({isnan(x), where}, {number, where}, x), where};
}

Array nancumsum(const Operand& x, const CumulativeOptions& options) { return cumsum(without_nan(x, 0), options); }
Array nancumprod(const Operand& x, const CumulativeOptions& options) { return cumprod(without_nan(x, 1), options); }

// The position among the elements that are no NaN; -1 where all are.
Array nan_position(const Operand& x, const ArgOptions& options, Arg f, double last) {
  const SourceLocation where = x.where();
  const Array positions = f(without_nan(x, last), options);
  Axes reduced;
  if (options.axis) reduced = Axes(Dims{*options.axis});
  const Array none_left = all({isnan(x), where}, {.axis = reduced, .keepdims = options.keepdims});
  return shoal::where({none_left, where}, {-1, where}, {positions, where});
}
Array nanargmax(const Operand& x, const ArgOptions& options) {
  return nan_position(x, options, &argmax, -std::numeric_limits<double>::infinity());
}
Array nanargmin(const Operand& x, const ArgOptions& options) {
  return nan_position(x, options, &argmin, std::numeric_limits<double>::infinity());
}

nb::object average_of(nb::handle x, nb::handle axis, nb::handle weights, Flag returned, Flag keepdims) {
  Operand a = operand(x, "average", "a");
  const ReduceOptions options = reduce_options("average", axis, keepdims);
  const std::optional<Operand> weight = maybe_operand(weights, "average", "weights");
  const Array mean = unlocked([&] { return weight ? average(a, *weight, options) : average(a, options); });
  if (!returned) return nb::cast(mean);
  const SourceLocation where = a.where();
  const Array total = unlocked([&]() -> Array {
    Operand counts = weight ? *weight : Operand(ones_like({shoal::to_array(a), where}, {.dtype = mean.dtype()}), where);
    const Array given = shoal::to_array(counts);
    if (given.ndim() == 1 && shoal::to_array(a).ndim() > 1) {
      return broadcast_to({sum(counts), where}, mean.shape());
    }
    return broadcast_to({astype({sum(counts, options), where}, mean.dtype()), where}, mean.shape());
  });
  return nb::make_tuple(mean, total);
}

// The Array API's cumulative functions: with an axis unless there is one dimension, and perhaps a first element.
void bind_cumulative_api(nb::module_& m, const char* name, Cumulate f, int first, const char* doc) {
  m.def(
      name,
      [f, name, first](nb::handle x, nb::handle axis, nb::handle dtype, Flag include_initial) {
        const Operand a = operand(x, name);
        const std::size_t rank = shoal::to_array(a).ndim();
        if (rank == 0) value_error(fmt::format("The input must be non-scalar to take a cumulative {}.", name + 11));
        if (axis.is_none() && rank != 1) {
          value_error(
              fmt::format("The input array has rank {}, however axis was not set to an explicit value. The "
                          "axis argument is only optional for one-dimensional arrays.",
                          rank));
        }
        CumulativeOptions options{.axis = maybe_integer(axis, fmt::format("{}: axis", name)).value_or(0),
                                  .dtype = maybe_dtype(dtype)};
        if (!options.dtype) options.dtype = summed(type_of_operand(a).dtype, true);
        const SourceLocation where = a.where();
        return unlocked([&] {
          Array result = f(a, options);
          if (!include_initial) return result;
          Shape shape = result.shape();
          const Caller caller(name, where);
          const std::int64_t d = canonical_axis(*options.axis, rank);
          shape[static_cast<std::size_t>(d)] = 1;
          const Operand begin(full(shape, {first, where}, {.dtype = result.dtype()}), where);
          return concatenate({begin, {result, where}}, d);
        });
      },
      positional(), nb::kw_only(), "axis"_x = nb::none(), "dtype"_x = nb::none(), "include_initial"_x = false, doc);
}

}  // namespace

void bind_numpy_reductions(nb::module_& m, ArrayClass& c) {
  bind_sum(m, &c, "sum", &sum, "The sum over dimensions.");
  bind_sum(m, &c, "prod", &prod, "The product over dimensions.");
  bind_sum(m, nullptr, "nansum", &nansum, "The sum of the elements that are not NaN.");
  bind_sum(m, nullptr, "nanprod", &nanprod, "The product of the elements that are not NaN.");
  bind_max(m, &c, "max", &max, "The greatest element over dimensions.");
  bind_max(m, &c, "min", &min, "The least element over dimensions.");
  bind_max(m, nullptr, "nanmax", &nanmax, "The greatest element that is not NaN.");
  bind_max(m, nullptr, "nanmin", &nanmin, "The least element that is not NaN.");
  m.attr("amax") = m.attr("max");
  m.attr("amin") = m.attr("min");
  bind_any(m, c, "any", &any, "Whether any element is true.");
  bind_any(m, c, "all", &all, "Whether all elements are true.");
  bind_mean(m, &c, "mean", &mean, "The mean over dimensions.");
  bind_mean(m, nullptr, "nanmean", &nanmean, "The mean of the elements that are not NaN.");
  bind_var(m, &c, "var", &var, "The mean of |x - mean(x)|^2.");
  bind_var(m, &c, "std", &std_, "The square root of var.");
  bind_var(m, nullptr, "nanvar", &nanvar, "The variance of the elements that are not NaN.");
  bind_var(m, nullptr, "nanstd", &nanstd, "The standard deviation of the elements that are not NaN.");
  bind_arg(m, &c, "argmax", &argmax, "The position of the first greatest element.");
  bind_arg(m, &c, "argmin", &argmin, "The position of the first least element.");
  bind_arg(m, nullptr, "nanargmax", &nanargmax, "The position of the first greatest element that is not NaN.");
  bind_arg(m, nullptr, "nanargmin", &nanargmin, "The position of the first least element that is not NaN.");
  bind_cumulative(m, &c, "cumsum", &cumsum, "The sums of the elements up to each.");
  bind_cumulative(m, &c, "cumprod", &cumprod, "The products of the elements up to each.");
  bind_cumulative(m, nullptr, "nancumsum", &nancumsum, "The sums of the elements up to each, NaN counting as 0.");
  bind_cumulative(m, nullptr, "nancumprod", &nancumprod, "The products of the elements up to each, NaN counting as 1.");
  bind_cumulative_api(m, "cumulative_sum", &cumsum, 0, "The sums of the elements up to each along an axis.");
  bind_cumulative_api(m, "cumulative_prod", &cumprod, 1, "The products of the elements up to each along an axis.");

  bind_both(
      m, &c, "ptp",
      [](nb::handle x, nb::handle axis, nb::handle out, Flag keepdims) {
        refuse_out("ptp", out);
        const Operand a = operand(x, "ptp", "a");
        const ReduceOptions options = reduce_options("ptp", axis, keepdims);
        return unlocked([&] {
          if (!is_complex_operand(a)) return strong(ptp(a, options), a.where());
          const Operand greatest(ordered_extreme(a, options, true), a.where());
          return subtract(greatest, {ordered_extreme(a, options, false), a.where()});
        });
      },
      "axis"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false, "The greatest element less the least.");
  m.def(
      "minmax",
      [m](nb::handle a, nb::handle axis, nb::handle out, Flag keepdims, nb::handle initial, nb::handle where) {
        const bool both = PyTuple_Check(initial.ptr()) && nb::len(initial) == 2;
        const nb::object first = both ? nb::object(initial[0]) : nb::borrow(initial);
        const nb::object second = both ? nb::object(initial[1]) : nb::borrow(initial);
        return nb::make_tuple(m.attr("min")(a, axis, out, keepdims.value, first, where),
                              m.attr("max")(a, axis, out, keepdims.value, second, where));
      },
      "a"_x, "axis"_x = nb::none(), "out"_x = nb::none(), "keepdims"_x = false, "initial"_x = nb::none(),
      "where"_x = nb::none(), "The least element over dimensions, and the greatest.");
  m.def(
      "count_nonzero",
      [](nb::handle x, nb::handle axis, Flag keepdims) {
        const Operand a = operand(x, "count_nonzero", "a");
        const ReduceOptions options = reduce_options("count_nonzero", axis, keepdims);
        const Array count = unlocked([&] { return count_nonzero(a, options); });
        return counted(count);
      },
      "a"_x, "axis"_x = nb::none(), "keepdims"_x = false, "The number of elements that are not 0.");
  m.def("average", &average_of, "a"_x, "axis"_x = nb::none(), "weights"_x = nb::none(), "returned"_x = false,
        "keepdims"_x = false, "The mean, perhaps weighted.");
}

}  // namespace shoal::python
