#include "shoal/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "frontend/array/term.h"
#include "frontend/functions/indexing.h"
#include "frontend/functions/products.h"
#include "shoal/lax.h"

namespace shoal {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_half(Dtype dtype) { return is_floating(dtype) && size_of(dtype) < size_of(float32); }

Term dtype_as(const Term& x, Dtype dtype) { return {convert(x.array(), dtype, false, x.where()), x.where()}; }

// ---- Quantiles.

// The elements with the dimensions that are reduced joined to one, the last.
struct Lines {
  Term elements;
  Dims kept;
  Dims reduced;

  std::int64_t extent() const { return elements.array().shape().back(); }
};

Lines lines_of(std::string_view function, const Array& array, const Axes& axis, SourceLocation where) {
  const Dims reduced = canonical_axes(function, axis, array.ndim(), where);
  Dims kept;
  Shape shape;
  std::int64_t extent = 1;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(array.ndim()); ++d) {
    const std::int64_t n = array.shape()[static_cast<std::size_t>(d)];
    if (std::find(reduced.begin(), reduced.end(), d) != reduced.end()) {
      extent *= n;
    } else {
      kept.push_back(d);
      shape.push_back(n);
    }
  }
  Dims order = kept;
  order.insert(order.end(), reduced.begin(), reduced.end());
  shape.push_back(extent);
  const Array moved = std::is_sorted(order.begin(), order.end()) ? array : transpose({array, where}, order);
  return {Term(reshape({moved, where}, shape), where), kept, reduced};
}

// What lies at a position between two neighbours, or on one of them.
Term between(const std::string& method, const Term& low, const Term& high, const Term& weight) {
  if (method == "lower") return low;
  if (method == "higher") return high;
  if (method == "nearest") return select(Term(less_equal(weight, weight.number(0.5)), weight.where()), low, high);
  if (method == "midpoint") return (low + high) * 0.5;
  return low * (1.0 - weight) + high * weight;
}

Array quantiles(std::string_view function, const Operand& a, const Operand& q, double scale,
                const QuantileOptions& options, bool skip_nan) {
  const SourceLocation where = a.where();
  static constexpr std::array kMethods = {"linear", "lower", "higher", "nearest", "midpoint"};
  if (std::find(kMethods.begin(), kMethods.end(), options.method) == kMethods.end()) {
    throw InvalidArgument(
        fmt::format("{}: method \"{}\"; it is \"linear\", \"lower\", \"higher\", \"nearest\" or \"midpoint\"", function,
                    options.method),
        where);
  }
  if (q.number() != nullptr) {
    const double given = to_scalar(*q.number(), float64, function, where).as<double>();
    if (!(given >= 0 && given <= scale)) {
      throw InvalidArgument(fmt::format("{}: q is {}; it must be 0 to {}", function, given, scale), where);
    }
  }
  auto [values, fractions] = promote_dtypes(function, a, q);
  if (is_complex(values.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(values)), where);
  }
  if (fractions.ndim() > 1) {
    throw InvalidArgument(fmt::format("{}: q is {}; it must be a number or a vector", function, type_of(fractions)),
                          where);
  }
  const bool is_vector = fractions.ndim() == 1;
  const Dtype result_dtype = is_floating(values.dtype()) ? values.dtype() : float32;
  const Dtype dtype = is_half(result_dtype) ? float32 : result_dtype;
  const Lines lines = lines_of(function, convert(values, dtype, false, where), options.axis, where);
  const Term is_nan = lines.elements.then(isnan);
  const ReduceOptions along{.axis = -1, .keepdims = true};
  const Term sorted = lines.elements.then(sort, SortOptions{});
  // Positions among the sorted elements, of which NaN are the last.
  const Term numbers = dtype_as(is_nan.then(logical_not).then(sum, along), dtype);
  const Term all(full(Shape(lines.elements.array().ndim(), 1), {lines.extent(), where}, {.dtype = dtype}), where);
  const Term last = (skip_nan ? numbers : all) - 1.0;
  const Term wanted = dtype_as(Term(ravel({fractions, where}), where), dtype) / scale * last;
  const Term low = wanted.then(floor);
  const Term high = wanted.then(ceil);
  const auto item = [&](const Term& position) {
    const Term inside = at_least(Term(minimum(position, last), where), 0);
    return Term(take_along_axis(sorted, {convert(inside.array(), int32, false, where), where}, -1), where);
  };
  Term result = between(options.method, item(low), item(high), wanted - low);
  if (!skip_nan) result = Term(shoal::where(Operand(is_nan.then(any, along)), result.number(kNaN), result), where);
  // The dimension of q comes first.
  Term first(moveaxis(result, -1, 0), where);
  if (options.keepdims) {
    Dims units;
    for (std::int64_t d : lines.reduced) units.push_back(d + 1);
    first = Term(expand_dims(first, units), where);
  }
  return convert(is_vector ? first.array() : squeeze(first, 0), result_dtype, false, where);
}

QuantileOptions in_the_middle(const MedianOptions& options) {
  return {.axis = options.axis, .keepdims = options.keepdims, .method = "midpoint"};
}

// The options with a mask of what is a number.
VarianceOptions of_numbers(std::string_view function, const Operand& x, const VarianceOptions& options) {
  VarianceOptions result = options;
  const Term numbers = Term(to_array(x), x.where()).then(isnan).then(logical_not);
  if (options.where) {
    broadcast_shapes(function, numbers.array().shape(), options.where->shape(), x.where());
    result.where = logical_and(numbers, {*options.where, x.where()});
  } else {
    result.where = numbers.array();
  }
  return result;
}

}  // namespace

Array quantile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  return quantiles("quantile", a, q, 1, options, false);
}
Array percentile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  return quantiles("percentile", a, q, 100, options, false);
}
Array median(const Operand& a, const MedianOptions& options) {
  return quantiles("median", a, {0.5, a.where()}, 1, in_the_middle(options), false);
}
Array nanquantile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  return quantiles("nanquantile", a, q, 1, options, true);
}
Array nanpercentile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  return quantiles("nanpercentile", a, q, 100, options, true);
}
Array nanmedian(const Operand& a, const MedianOptions& options) {
  return quantiles("nanmedian", a, {0.5, a.where()}, 1, in_the_middle(options), true);
}
Array nanvar(const Operand& x, const VarianceOptions& options) { return var(x, of_numbers("nanvar", x, options)); }
Array nanstd(const Operand& x, const VarianceOptions& options) { return std_(x, of_numbers("nanstd", x, options)); }

// ---- Histograms.

namespace {

// The operand as a vector of floats.
Term flat_floats(std::string_view function, const Operand& x) {
  const Array array = to_array(x);
  if (is_complex(array.dtype())) {
    throw TypeMismatch(fmt::format("{}: complex numbers have no order; got {}", function, type_of(array)), x.where());
  }
  const Term flat(ravel({array, x.where()}), x.where());
  return is_floating(array.dtype()) ? flat : dtype_as(flat, float32);
}

Term edges_of(std::string_view function, const Term& x, const Bins& bins, const HistogramOptions& options) {
  const SourceLocation where = x.where();
  const Dtype dtype = x.array().dtype();
  if (bins.edges() != nullptr) {
    if (bins.edges()->ndim() != 1) {
      throw InvalidArgument(
          fmt::format("{}: the edges of bins are {}; they must be a vector", function, type_of(*bins.edges())), where);
    }
    return {convert(*bins.edges(), dtype, false, where), where};
  }
  if (*bins.count() < 1) {
    throw InvalidArgument(fmt::format("{}: the number of bins is {}; it must be at least 1", function, *bins.count()),
                          where);
  }
  const auto bound = [&](double value) { return Term(full({}, {value, where}, {.dtype = dtype}), where); };
  // Of nothing, bins from 0 to 1.
  const bool is_given = options.range.has_value() || x.array().size() == 0;
  const auto [from, to] = options.range.value_or(std::pair(0.0, 1.0));
  const Term low = is_given ? bound(from) : x.then(min, ReduceOptions{});
  const Term high = is_given ? bound(to) : x.then(max, ReduceOptions{});
  const Term is_point(equal(low, high), where);
  return {linspace(select(is_point, low - 0.5, low), select(is_point, high + 0.5, high), *bins.count() + 1), where};
}

}  // namespace

Array histogram_bin_edges(const Operand& a, const Bins& bins, const HistogramOptions& options) {
  return edges_of("histogram_bin_edges", flat_floats("histogram_bin_edges", a), bins, options).array();
}

Histogram histogram(const Operand& a, const Bins& bins, const HistogramOptions& options) {
  const SourceLocation where = a.where();
  const Shape shape = to_array(a).shape();
  Term x = flat_floats("histogram", a);
  if (options.weights && options.weights->shape() != shape) {
    throw InvalidArgument(fmt::format("histogram: the weights {} must have the shape of {}", type_of(*options.weights),
                                      type_of(to_array(a))),
                          where);
  }
  Term weights(options.weights ? ravel({*options.weights, where}) : ones_like(x), where);
  const auto [values, factors] = promote_dtypes("histogram", x, weights);
  x = Term(values, where);
  const Term edges = edges_of("histogram", x, bins, options);
  const std::int64_t last = edges.array().size() - 1;
  // Bin 0 is before the first edge.
  const Term above(searchsorted(edges, x, {.side = Side::kRight}), where);
  const Term greatest(lax::slice_in_dim(edges, last, last + 1), where);
  const Term is_last(equal(x, greatest), where);
  const Term number(shoal::where(is_last, Operand(last, where), above), where);
  const Array all = bincount(number, {.weights = factors, .length = last + 1});
  Term counts(lax::slice_in_dim({all, where}, 1, last + 1), where);
  if (options.density) {
    const Term upper(lax::slice_in_dim(edges, 1, last + 1), where);
    const Term lower(lax::slice_in_dim(edges, 0, last), where);
    counts = counts / (upper - lower) / counts.then(sum, ReduceOptions{});
  }
  return {counts.array(), edges.array()};
}

Array digitize(const Operand& x, const Operand& bins, bool right) {
  const SourceLocation where = x.where();
  const Array edges = to_array(bins);
  const Array values = to_array(x);
  if (edges.ndim() != 1) {
    throw InvalidArgument(fmt::format("digitize: bins are {}; they must be a vector", type_of(edges)), where);
  }
  const SearchOptions side{.side = right ? Side::kLeft : Side::kRight};
  if (edges.size() == 0) return zeros_like({values, where}, {.dtype = int32});
  const std::int64_t n = edges.size();
  const Operand ascending(searchsorted({edges, where}, {values, where}, side), where);
  const Operand reversed(flip({edges, where}), where);
  const Operand behind(searchsorted(reversed, {values, where}, side), where);
  const Array first = lax::slice_in_dim({edges, where}, 0, 1);
  const Array last = lax::slice_in_dim({edges, where}, n - 1, n);
  const Operand ascends(squeeze({greater_equal({last, where}, {first, where}), where}), where);
  return shoal::where(ascends, ascending, {subtract({n, where}, behind), where});
}

// ---- Correlations.

namespace {

// Variables as rows.
Term variables(std::string_view function, const Array& given, bool rowvar, SourceLocation where) {
  if (given.ndim() > 2) {
    throw InvalidArgument(fmt::format("{}: {} has more than 2 dimensions", function, type_of(given)), where);
  }
  if (given.ndim() < 2) return {reshape({given, where}, {1, -1}), where};
  return {rowvar ? given : transpose({given, where}), where};
}

// A vector of one weight for each observation.
Term weights_of(std::string_view function, const char* name, const Array& weights, std::int64_t observations,
                SourceLocation where) {
  if (weights.ndim() == 1 && weights.size() == observations) return Term(weights, where).then(abs);
  throw InvalidArgument(fmt::format("{}: {} {} must be a vector of {}, the number of observations", function, name,
                                    type_of(weights), observations),
                        where);
}

// The covariances as a matrix, also of one variable.
Term covariances(std::string_view function, const Operand& m, const CovOptions& options) {
  const SourceLocation where = m.where();
  Array first = to_array(m);
  std::optional<Array> second = options.y;
  if (second) {
    auto [a, b] = promote_dtypes(function, {first, where}, {*second, where});
    first = a;
    second = b;
  }
  Term x = variables(function, first, options.rowvar, where);
  if (second) {
    const Term y = variables(function, *second, options.rowvar, where);
    if (x.array().shape()[1] != y.array().shape()[1]) {
      throw InvalidArgument(fmt::format("{}: variables {} and {} must have as many observations", function,
                                        type_of(first), type_of(*second)),
                            where);
    }
    x = Term(concatenate(Operands({x, y}, where), 0), where);
  }
  if (!is_floating(x.array().dtype()) && !is_complex(x.array().dtype())) x = dtype_as(x, float32);
  const std::int64_t observations = x.array().shape()[1];
  const double ddof = static_cast<double>(options.ddof.value_or(options.bias ? 0 : 1));
  std::optional<Term> weights;
  std::optional<Term> importance;
  if (options.fweights) {
    if (!is_integer(options.fweights->dtype())) {
      throw TypeMismatch(fmt::format("{}: fweights {} must be integers", function, type_of(*options.fweights)), where);
    }
    weights = weights_of(function, "fweights", *options.fweights, observations, where);
  }
  if (options.aweights) {
    importance = weights_of(function, "aweights", *options.aweights, observations, where);
    weights = weights ? *weights * *importance : *importance;
  }
  const ReduceOptions along{.axis = 1, .keepdims = true};
  if (!weights) {
    const Term centred = x - x.then(mean, along);
    const Term products(matmul(centred, transpose({conj(centred), where})), where);
    return products / (static_cast<double>(observations) - ddof);
  }
  const Term total = weights->then(sum, ReduceOptions{});
  const Term centred = x - (x * *weights).then(sum, along) / total;
  const Term products(matmul(centred, transpose({conj(centred * *weights), where})), where);
  if (!importance) return products / (total - ddof);
  return products / (total - ddof * (*weights * *importance).then(sum, ReduceOptions{}) / total);
}

}  // namespace

Array cov(const Operand& m, const CovOptions& options) {
  const Term matrix = covariances("cov", m, options);
  return matrix.array().size() == 1 ? reshape(matrix, Dims{}) : matrix.array();
}

Array corrcoef(const Operand& x, const CorrcoefOptions& options) {
  const SourceLocation where = x.where();
  const Term c = covariances("corrcoef", x, {.y = options.y, .rowvar = options.rowvar});
  if (c.array().size() == 1) return reshape(c / c, Dims{});
  const Term variances(diag(c.then(real)), where);
  const Term deviations = variances.then(sqrt);
  const Term rows(expand_dims(deviations, std::int64_t{1}), where);
  const Term result = c / rows / deviations;
  const auto within = [](const Term& part) { return at_most(at_least(part, -1), 1); };
  if (!is_complex(c.array().dtype())) return within(result).array();
  return lax::complex(within(result.then(real)), within(result.then(imag)));
}

}  // namespace shoal
