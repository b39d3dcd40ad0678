// Quantiles, histograms, correlations, convolutions.
#include <fmt/format.h>

#include "base/caller.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion.h"
#include "shoal/special.h"

namespace shoal::python {
namespace {

using Quantile = Array (*)(const Operand&, const Operand&, const QuantileOptions&);
using Median = Array (*)(const Operand&, const MedianOptions&);

void bind_quantile(nb::module_& m, const char* name, Quantile f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle q, nb::handle axis, nb::handle out, Flag overwrite_input,
                const std::string& method, Flag keepdims, nb::handle weights, nb::handle interpolation) {
        refuse_out(name, out);
        if (overwrite_input) not_implemented(fmt::format("jax.numpy.{} does not support overwrite_input=True", name));
        refuse(name, "weights", weights);
        const Operand x = operand(a, name, "a");
        const Operand fractions = operand(q, name, "q");
        refuse_complex(name, {&x});
        const QuantileOptions options{
            .axis = axes(axis, fmt::format("{}: axis", name)),
            .keepdims = keepdims,
            .method = interpolation.is_none() ? method : nb::cast<std::string>(nb::str(interpolation))};
        // The fractions do not make the result wider.
        return unlocked([&] {
          const Array result = f(x, fractions, options);
          const Dtype wanted = inexact_dtype(type_of_operand(x).dtype);
          return result.dtype() != wanted ? astype({result, x.where()}, wanted) : result;
        });
      },
      "a"_x, "q"_x, "axis"_x = nb::none(), "out"_x = nb::none(), "overwrite_input"_x = false, "method"_x = "linear",
      "keepdims"_x = false, nb::kw_only(), "weights"_x = nb::none(), "interpolation"_x = nb::none(), doc);
}

void bind_median(nb::module_& m, const char* name, Median f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle axis, nb::handle out, Flag overwrite_input, Flag keepdims) {
        refuse_out(name, out);
        if (overwrite_input) not_implemented(fmt::format("jax.numpy.{} does not support overwrite_input=True", name));
        const Operand x = operand(a, name, "a");
        refuse_complex(name, {&x});
        const MedianOptions options{.axis = axes(axis, fmt::format("{}: axis", name)), .keepdims = keepdims};
        return unlocked([&] { return f(x, options); });
      },
      "a"_x, "axis"_x = nb::none(), "out"_x = nb::none(), "overwrite_input"_x = false, "keepdims"_x = false, doc);
}

// ---- Histograms.

Bins bins_of(nb::handle bins) {
  if (PyUnicode_Check(bins.ptr())) {
    not_implemented("histogram: the number of bins cannot be chosen by name; give a number or the edges");
  }
  if (PyLong_Check(bins.ptr())) return integer(bins, "bins");
  const Array array = to_array(bins, "histogram", "bins");
  if (array.ndim() == 0) return integer(bins, "bins");
  return array;
}

HistogramOptions histogram_options(nb::handle range, nb::handle weights, nb::handle density) {
  HistogramOptions options{.weights = maybe_array(weights, "histogram", "weights"),
                           .density = !density.is_none() && PyObject_IsTrue(density.ptr()) == 1};
  if (!range.is_none()) {
    if (PySequence_Check(range.ptr()) == 0 || nb::len(range) != 2) value_error("histogram: range must be a pair");
    options.range = {operand(range[0], "histogram", "range"), operand(range[1], "histogram", "range")};
  }
  return options;
}

// Of several vectors: what each element counts is added to the bin that it is in along every dimension.
nb::object histogram_of_many(const std::vector<Operand>& samples, const std::vector<Bins>& bins,
                             const std::vector<HistogramOptions>& ranges, const std::optional<Array>& weights,
                             bool density, SourceLocation where, std::vector<Array>& edges) {
  const Array counts = unlocked([&] {
    const Caller caller("histogramdd", where);
    Operand place(0, where);
    Operand inside(true, where);
    Shape shape;
    for (std::size_t d = 0; d < samples.size(); ++d) {
      edges.push_back(histogram_bin_edges(samples[d], bins[d], ranges[d]));
      const Operand edge(edges.back(), where);
      const std::int64_t count = edges.back().size() - 1;
      const Operand last(squeeze({lax::slice_in_dim(edge, count, count + 1), where}), where);
      const Operand found(subtract({searchsorted(edge, samples[d], {.side = Side::kRight}), where}, {1, where}), where);
      const Operand bin(shoal::where({equal(samples[d], last), where}, {count - 1, where}, found), where);
      inside = Operand(
          logical_and(inside, {logical_and({greater_equal(bin, {0, where}), where}, {less(bin, {count, where}), where}),
                               where}),
          where);
      place = Operand(add({multiply(place, {count, where}), where}, bin), where);
      shape.push_back(count);
    }
    // Those outside fall behind the last bin, and are cut off.
    const std::int64_t size = num_elements(shape);
    const Operand which(shoal::where(inside, place, {size, where}), where);
    const Array flat = bincount(which, {.weights = weights, .length = size + 1});
    Operand result(reshape({lax::slice_in_dim({flat, where}, 0, size), where}, shape), where);
    if (density) {
      const Operand total(sum(result), where);
      result = Operand(divide(result, total), where);
      for (std::size_t d = 0; d < shape.size(); ++d) {
        Shape along(shape.size(), 1);
        along[d] = shape[d];
        result = Operand(divide(result, {reshape({diff({edges[d], where}), where}, along), where}), where);
      }
    }
    return shoal::to_array(result);
  });
  return nb::cast(counts);
}

nb::object histogram2d(nb::handle x, nb::handle y, nb::handle bins, nb::handle range, nb::handle weights,
                       nb::handle density) {
  const std::vector<Operand> samples = {operand(x, "histogram2d"), operand(y, "histogram2d", "y")};
  std::vector<Bins> numbers;
  std::vector<HistogramOptions> ranges;
  const bool pair = (PyList_Check(bins.ptr()) || PyTuple_Check(bins.ptr())) && nb::len(bins) == 2;
  for (std::size_t d = 0; d < 2; ++d) {
    numbers.push_back(pair ? bins_of(bins[d]) : bins_of(bins));
    const nb::object own = range.is_none() ? nb::none() : nb::object(range[d]);
    ranges.push_back(histogram_options(own, nb::none(), nb::none()));
  }
  std::vector<Array> edges;
  const nb::object counts =
      histogram_of_many(samples, numbers, ranges, maybe_array(weights, "histogram2d", "weights"),
                        !density.is_none() && PyObject_IsTrue(density.ptr()) == 1, user_line(), edges);
  return nb::make_tuple(counts, edges[0], edges[1]);
}

nb::object histogramdd(nb::handle sample, nb::handle bins, nb::handle range, nb::handle weights, nb::handle density) {
  const Array table = to_array(sample, "histogramdd", "sample");
  const SourceLocation where = user_line();
  if (table.ndim() != 2) value_error("histogramdd: sample must be a matrix with a row for each observation");
  const std::int64_t count = table.shape()[1];
  std::vector<Operand> samples;
  std::vector<Bins> numbers;
  std::vector<HistogramOptions> ranges;
  const bool each = PyList_Check(bins.ptr()) || PyTuple_Check(bins.ptr());
  if (each && static_cast<std::int64_t>(nb::len(bins)) != count) {
    value_error("should be a bin for each dimension.");
  }
  for (std::int64_t d = 0; d < count; ++d) {
    samples.emplace_back(squeeze({lax::slice_in_dim({table, where}, d, d + 1, 1, 1), where}, 1), where);
    numbers.push_back(each ? bins_of(bins[d]) : bins_of(bins));
    const nb::object own = range.is_none() ? nb::none() : nb::object(range[d]);
    ranges.push_back(histogram_options(own, nb::none(), nb::none()));
  }
  std::vector<Array> edges;
  const nb::object counts = histogram_of_many(samples, numbers, ranges, maybe_array(weights, "histogramdd", "weights"),
                                              !density.is_none() && PyObject_IsTrue(density.ptr()) == 1, where, edges);
  return nb::make_tuple(counts, list_of(std::move(edges)));
}

Array bincount_of(nb::handle x, nb::handle weights, nb::handle minlength, nb::handle length, nb::handle out_sharding) {
  Operand a = operand(x, "bincount");
  if (type_of_operand(a).dtype == bool_) a = Operand(astype(a, int32), a.where());
  const BincountOptions options{.weights = maybe_array(weights, "bincount", "weights"),
                                .minlength = integer(minlength, "'minlength' argument of jnp.bincount"),
                                .length = maybe_integer(length, "'length' argument of jnp.bincount"),
                                .out_sharding = python::out_sharding(out_sharding)};
  const Array counts = unlocked([&] { return bincount(a, options); });
  return options.weights ? counts : counted(counts);
}

// ---- Convolutions.

using Convolve = Array (*)(const Operand&, const Operand&, const std::string&);
void bind_convolve(nb::module_& m, const char* name, Convolve f, const char* mode_by_default, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle a, nb::handle v, const std::string& mode, nb::handle precision,
                nb::handle preferred_element_type) {
        static_cast<void>(precision);
        const Operand x = operand(a, name, "a");
        const Operand y = operand(v, name, "v");
        const std::optional<Dtype> wanted = maybe_dtype(preferred_element_type);
        return unlocked([&] { return shoal::to_array(in_dtype({f(x, y, mode), x.where()}, wanted)); });
      },
      "a"_x, "v"_x, "mode"_x = mode_by_default, nb::kw_only(), "precision"_x = nb::none(),
      "preferred_element_type"_x = nb::none(), doc);
}

// ---- Windows: their formulas are NumPy's.

using Window = Array (*)(std::int64_t size, SourceLocation where);

Operand phases(std::int64_t size, double turns, SourceLocation where) {
  const Operand n(lax::iota(default_float(), size, where), where);
  const double pi = 3.14159265358979323846;
  return {multiply(n, {2 * pi * turns / static_cast<double>(size - 1), where}), where};
}
Array cosine_window(std::int64_t size, double mean, double first, double second, SourceLocation where) {
  if (size <= 1) return ones({std::max<std::int64_t>(size, 0)}, {.dtype = default_float()}, where);
  const Operand one(multiply({first, where}, {cos(phases(size, 1, where)), where}), where);
  Operand sum(subtract({mean, where}, one), where);
  if (second != 0)
    sum = Operand(add(sum, {multiply({second, where}, {cos(phases(size, 2, where)), where}), where}), where);
  return shoal::to_array(sum);
}
Array blackman(std::int64_t size, SourceLocation where) { return cosine_window(size, 0.42, 0.5, 0.08, where); }
Array hamming(std::int64_t size, SourceLocation where) { return cosine_window(size, 0.54, 0.46, 0, where); }
Array hanning(std::int64_t size, SourceLocation where) { return cosine_window(size, 0.5, 0.5, 0, where); }
Array bartlett(std::int64_t size, SourceLocation where) {
  if (size <= 1) return ones({std::max<std::int64_t>(size, 0)}, {.dtype = default_float()}, where);
  const Operand n(lax::iota(default_float(), size, where), where);
  const double half = static_cast<double>(size - 1) / 2;
  const Operand off(abs({subtract({divide(n, {half, where}), where}, {1, where}), where}), where);
  return subtract({1, where}, off);
}

// Of Bessel functions: exp keeps the quotient of the two finite.
Array kaiser(std::int64_t size, const Operand& beta, SourceLocation where) {
  if (size <= 1) return ones({std::max<std::int64_t>(size, 0)}, {.dtype = default_float()}, where);
  const Caller caller("kaiser", where);
  const double half = static_cast<double>(size - 1) / 2;
  const Array place = lax::iota(default_float(), size) / half - 1.0;
  const Array width = convert(shoal::to_array(beta), default_float());
  const Array argument = width * sqrt(1.0 - place * place);
  return special::i0e(argument) / special::i0e(width) * exp(abs(argument) - abs(width));
}

void bind_window(nb::module_& m, const char* name, Window f, const char* doc) {
  m.def(
      name,
      [f, name](nb::handle M) {
        const std::int64_t size = integer(M, fmt::format("M argument of jnp.{}", name));
        return unlocked([&, where = user_line()] { return f(size, where); });
      },
      "M"_x, doc);
}

}  // namespace

void bind_numpy_statistics(nb::module_& m) {
  bind_quantile(m, "quantile", &quantile, "The number below which a fraction of the elements lie.");
  bind_quantile(m, "percentile", &percentile, "The number below which a percentage of the elements lie.");
  bind_quantile(m, "nanquantile", &nanquantile, "The quantile of the elements that are not NaN.");
  bind_quantile(m, "nanpercentile", &nanpercentile, "The percentile of the elements that are not NaN.");
  bind_median(m, "median", &median, "The element in the middle.");
  bind_median(m, "nanmedian", &nanmedian, "The element in the middle of those that are not NaN.");
  m.def(
      "histogram",
      [](nb::handle a, nb::handle bins, nb::handle range, nb::handle weights, nb::handle density) {
        const Operand x = operand(a, "histogram", "a");
        const Bins edges = bins_of(bins);
        const HistogramOptions options = histogram_options(range, weights, density);
        const Histogram result = unlocked([&] { return histogram(x, edges, options); });
        return nb::make_tuple(result.counts, result.edges);
      },
      "a"_x, "bins"_x = 10, "range"_x = nb::none(), "weights"_x = nb::none(), "density"_x = nb::none(),
      "How many elements are in each bin, and the bins' edges.");
  m.def(
      "histogram_bin_edges",
      [](nb::handle a, nb::handle bins, nb::handle range, nb::handle weights) {
        const Operand x = operand(a, "histogram_bin_edges", "a");
        const Bins edges = bins_of(bins);
        const HistogramOptions options = histogram_options(range, weights, nb::none());
        return unlocked([&] { return histogram_bin_edges(x, edges, options); });
      },
      "a"_x, "bins"_x = 10, "range"_x = nb::none(), "weights"_x = nb::none(), "The edges of bins.");
  m.def("histogram2d", &histogram2d, "x"_x, "y"_x, "bins"_x = 10, "range"_x = nb::none(), "weights"_x = nb::none(),
        "density"_x = nb::none(), "How many pairs are in each bin of a plane, and the bins' edges.");
  m.def("histogramdd", &histogramdd, "sample"_x, "bins"_x = 10, "range"_x = nb::none(), "weights"_x = nb::none(),
        "density"_x = nb::none(), "How many rows are in each bin of a space, and the bins' edges.");
  m.def("bincount", &bincount_of, "x"_x, "weights"_x = nb::none(), "minlength"_x = 0, nb::kw_only(),
        "length"_x = nb::none(), "out_sharding"_x = nb::none(), "How often each number from 0 on occurs.");
  m.def(
      "cov",
      [](nb::handle x, nb::handle y, Flag rowvar, Flag bias, nb::handle ddof, nb::handle fweights, nb::handle aweights,
         nb::handle dtype) {
        const Operand a = operand(x, "cov", "m");
        const CovOptions options{.y = maybe_array(y, "cov", "y"),
                                 .rowvar = rowvar,
                                 .bias = bias,
                                 .ddof = maybe_integer(ddof, "cov: ddof"),
                                 .fweights = maybe_array(fweights, "cov", "fweights"),
                                 .aweights = maybe_array(aweights, "cov", "aweights")};
        const std::optional<Dtype> wanted = maybe_dtype(dtype);
        return unlocked([&] { return cov(in_dtype(a, wanted), options); });
      },
      "m"_x, "y"_x = nb::none(), "rowvar"_x = true, "bias"_x = false, "ddof"_x = nb::none(), "fweights"_x = nb::none(),
      "aweights"_x = nb::none(), "dtype"_x = nb::none(), "The covariances of variables.");
  m.def(
      "corrcoef",
      [](nb::handle x, nb::handle y, Flag rowvar, nb::handle dtype) {
        const Operand a = operand(x, "corrcoef");
        const CorrcoefOptions options{.y = maybe_array(y, "corrcoef", "y"), .rowvar = rowvar};
        const std::optional<Dtype> wanted = maybe_dtype(dtype);
        return unlocked([&] { return corrcoef(in_dtype(a, wanted), options); });
      },
      "x"_x, "y"_x = nb::none(), "rowvar"_x = true, "dtype"_x = nb::none(), "The correlations of variables.");
  bind_convolve(m, "convolve", &convolve, "full", "The convolution of two vectors.");
  bind_convolve(m, "correlate", &correlate, "valid", "The sums of products of a with v, moved along it.");
  bind_window(m, "bartlett", &bartlett, "A triangle, 0 at its ends.");
  bind_window(m, "blackman", &blackman, "The window of Blackman.");
  bind_window(m, "hamming", &hamming, "The window of Hamming.");
  m.def(
      "kaiser",
      [](nb::handle M, nb::handle beta) {
        const std::int64_t size = integer(M, "M argument of jnp.kaiser");
        const Operand shape = operand(beta, "kaiser", "beta");
        refuse_complex("kaiser", {&shape});
        return unlocked([&, where = shape.where()] { return kaiser(size, shape, where); });
      },
      "M"_x, "beta"_x, "The window of Kaiser.");
  bind_window(m, "hanning", &hanning, "The window of von Hann.");
}

}  // namespace shoal::python
