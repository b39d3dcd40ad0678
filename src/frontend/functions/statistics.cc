#include "shoal/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/contractions.h"
#include "frontend/functions/indexing.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_half(Dtype dtype) { return is_floating(dtype) && size_of(dtype) < size_of(float32); }

// ---- Quantiles.

// The elements with the dimensions that are reduced joined to one, the last.
struct Lines {
  Array elements;
  Dims kept;
  Dims reduced;

  std::int64_t extent() const { return elements.shape().back(); }
};

Lines lines_of(const Array& array, const Axes& axis) {
  const Dims reduced = canonical_axes(axis, array.ndim());
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
  const Array moved = std::is_sorted(order.begin(), order.end()) ? array : transpose(array, order);
  return {reshape(moved, shape), kept, reduced};
}

// What lies at a position between two neighbours, or on one of them.
Array between(const std::string& method, const Array& low, const Array& high, const Array& weight) {
  if (method == "lower") return low;
  if (method == "higher") return high;
  if (method == "nearest") return where(less_equal(weight, 0.5), low, high);
  if (method == "midpoint") return (low + high) * 0.5;
  return low * (1.0 - weight) + high * weight;
}

Array quantiles(const Operand& a, const Operand& q, double scale, const QuantileOptions& options, bool skip_nan) {
  static constexpr std::array kMethods = {"linear", "lower", "higher", "nearest", "midpoint"};
  if (std::find(kMethods.begin(), kMethods.end(), options.method) == kMethods.end()) {
    throw misuse<InvalidArgument>("method \"{}\"; it is \"linear\", \"lower\", \"higher\", \"nearest\" or \"midpoint\"",
                                  options.method);
  }
  if (q.number() != nullptr) {
    const double given = to_scalar(*q.number(), float64).as<double>();
    if (!(given >= 0 && given <= scale)) {
      throw misuse<InvalidArgument>("q is {}; it must be 0 to {}", given, scale);
    }
  }
  const Array given = to_array(a);
  const Array numeric = convert(given, inexact_dtype(given.dtype()), given.weak_type());
  auto [values, fractions] = promote_dtypes(numeric, q);
  check_ordered(values);
  if (fractions.ndim() > 1) {
    throw misuse<InvalidArgument>("q is {}; it must be a number or a vector", type_of(fractions));
  }
  const bool is_vector = fractions.ndim() == 1;
  const Dtype result_dtype = values.dtype();
  const Dtype dtype = is_half(result_dtype) ? float32 : result_dtype;
  const Lines lines = lines_of(convert(values, dtype), options.axis);
  const Array is_nan = isnan(lines.elements);
  const ReduceOptions along{.axis = -1, .keepdims = true};
  const Array sorted = sort(lines.elements, SortOptions{});
  // Positions among the sorted elements, of which NaN are the last.
  const Array numbers = convert(sum(logical_not(is_nan), along), dtype);
  const Array all = full(Shape(lines.elements.ndim(), 1), lines.extent(), {.dtype = dtype});
  const Array last = (skip_nan ? numbers : all) - 1.0;
  const Array wanted = convert(ravel(fractions), dtype) / scale * last;
  const Array low = floor(wanted);
  const Array high = ceil(wanted);
  const auto item = [&](const Array& position) {
    const Array inside = maximum(minimum(position, last), 0);
    return take_along_axis(sorted, convert(inside, int32), -1);
  };
  Array result = between(options.method, item(low), item(high), wanted - low);
  if (!skip_nan) result = where(Operand(any(is_nan, along)), kNaN, result);
  // The dimension of q comes first.
  Array first = moveaxis(result, -1, 0);
  if (options.keepdims) {
    Dims units;
    for (std::int64_t d : lines.reduced) units.push_back(d + 1);
    first = expand_dims(first, units);
  }
  return convert(is_vector ? first : squeeze(first, 0), result_dtype);
}

QuantileOptions in_the_middle(const MedianOptions& options) {
  return {.axis = options.axis, .keepdims = options.keepdims, .method = "midpoint"};
}

// The options with a mask of what is a number.
VarianceOptions of_numbers(const Operand& x, const VarianceOptions& options) {
  VarianceOptions result = options;
  const Array numbers = logical_not(isnan(to_array(x)));
  if (options.where) {
    broadcast_shapes(numbers.shape(), options.where->shape());
    result.where = logical_and(numbers, *options.where);
  } else {
    result.where = numbers;
  }
  return result;
}

}  // namespace

Array quantile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  const Caller caller("quantile", a.where());
  return quantiles(a, q, 1, options, false);
}
Array percentile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  const Caller caller("percentile", a.where());
  return quantiles(a, q, 100, options, false);
}
Array median(const Operand& a, const MedianOptions& options) {
  const Caller caller("median", a.where());
  return quantiles(a, 0.5, 1, in_the_middle(options), false);
}
Array nanquantile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  const Caller caller("nanquantile", a.where());
  return quantiles(a, q, 1, options, true);
}
Array nanpercentile(const Operand& a, const Operand& q, const QuantileOptions& options) {
  const Caller caller("nanpercentile", a.where());
  return quantiles(a, q, 100, options, true);
}
Array nanmedian(const Operand& a, const MedianOptions& options) {
  const Caller caller("nanmedian", a.where());
  return quantiles(a, 0.5, 1, in_the_middle(options), true);
}
Array nanvar(const Operand& x, const VarianceOptions& options) {
  const Caller caller("nanvar", x.where());
  return var(x, of_numbers(x, options));
}
Array nanstd(const Operand& x, const VarianceOptions& options) {
  const Caller caller("nanstd", x.where());
  return std_(x, of_numbers(x, options));
}

// ---- Histograms.

namespace {

// The operand as a vector of floats.
Array flat_floats(const Operand& x) {
  const Array array = to_array(x);
  check_ordered(array);
  const Array flat = ravel(array);
  return is_floating(array.dtype()) ? flat : convert(flat, inexact_dtype(array.dtype()));
}

Array edges_of(const Array& x, const Bins& bins, const HistogramOptions& options) {
  const Dtype dtype = x.dtype();
  if (bins.edges() != nullptr) {
    if (bins.edges()->ndim() != 1) {
      throw misuse<InvalidArgument>("the edges of bins are {}; they must be a vector", type_of(*bins.edges()));
    }
    return convert(*bins.edges(), dtype);
  }
  if (*bins.count() < 1) {
    throw misuse<InvalidArgument>("the number of bins is {}; it must be at least 1", *bins.count());
  }
  const auto bound = [&](const Operand& value) {
    const Array number = to_array(value);
    if (number.ndim() != 0) throw misuse<InvalidArgument>("a bound of range is {}, no number", type_of(number));
    return convert(number, dtype);
  };
  // Of nothing, bins from 0 to 1.
  const bool is_given = options.range.has_value() || x.size() == 0;
  const auto [from, to] = options.range.value_or(std::pair<Operand, Operand>(0.0, 1.0));
  const Array low = is_given ? bound(from) : min(x, ReduceOptions{});
  const Array high = is_given ? bound(to) : max(x, ReduceOptions{});
  const Array is_point = equal(low, high);
  return linspace(where(is_point, low - 0.5, low), where(is_point, high + 0.5, high), *bins.count() + 1);
}

}  // namespace

Array histogram_bin_edges(const Operand& a, const Bins& bins, const HistogramOptions& options) {
  const Caller caller("histogram_bin_edges", a.where());
  return edges_of(flat_floats(a), bins, options);
}

Histogram histogram(const Operand& a, const Bins& bins, const HistogramOptions& options) {
  const Caller caller("histogram", a.where());
  const Shape shape = to_array(a).shape();
  Array x = flat_floats(a);
  if (options.weights && options.weights->shape() != shape) {
    throw misuse<InvalidArgument>("the weights {} must have the shape of {}", type_of(*options.weights),
                                  type_of(to_array(a)));
  }
  Array factors = ones_like(x);
  if (options.weights) {
    // Integers together are floats of their common dtype.
    const auto [values, weights] = promote_dtypes(to_array(a), *options.weights);
    x = flat_floats(values);
    factors = ravel(is_floating(weights.dtype()) || is_complex(weights.dtype())
                        ? weights
                        : convert(weights, inexact_dtype(weights.dtype())));
  }
  const Array edges = edges_of(x, bins, options);
  const std::int64_t last = edges.size() - 1;
  // Bin 0 is before the first edge.
  const Array above = searchsorted(edges, x, {.side = Side::kRight});
  const Array greatest = lax::slice_in_dim(edges, last, last + 1);
  const Array is_last = equal(x, greatest);
  const Array number = where(is_last, last, above);
  const Array all = bincount(number, {.weights = factors, .length = last + 1});
  Array counts = lax::slice_in_dim(all, 1, last + 1);
  if (options.density) {
    const Array upper = lax::slice_in_dim(edges, 1, last + 1);
    const Array lower = lax::slice_in_dim(edges, 0, last);
    counts = counts / (upper - lower) / sum(counts, ReduceOptions{});
  }
  return {counts, edges};
}

Array digitize(const Operand& x, const Operand& bins, bool right) {
  const Caller caller("digitize", x.where());
  const Array edges = to_array(bins);
  const Array values = to_array(x);
  if (edges.ndim() != 1) {
    throw misuse<InvalidArgument>("bins are {}; they must be a vector", type_of(edges));
  }
  const SearchOptions side{.side = right ? Side::kLeft : Side::kRight};
  if (edges.size() == 0) return zeros_like(values, {.dtype = int32});
  const std::int64_t n = edges.size();
  const Array ascending = searchsorted(edges, values, side);
  const Array reversed = flip(edges);
  const Array behind = searchsorted(reversed, values, side);
  const Array first = lax::slice_in_dim(edges, 0, 1);
  const Array last = lax::slice_in_dim(edges, n - 1, n);
  const Array ascends = squeeze(greater_equal(last, first));
  return where(ascends, ascending, subtract(n, behind));
}

// ---- Ranks.

namespace {

// Where a run of equal elements begins, in lines that are sorted along the last dimension.
Array begins_run(const Array& sorted) {
  const std::int64_t n = sorted.shape().back();
  Shape one = sorted.shape();
  one.back() = 1;
  const Array before = lax::slice_in_dim(sorted, 0, n - 1, 1, -1);
  const Array after = lax::slice_in_dim(sorted, 1, n, 1, -1);
  Array differs = not_equal(before, after);
  if (is_floating(sorted.dtype()))
    differs = logical_and(differs, logical_not(logical_and(isnan(before), isnan(after))));
  return lax::concatenate({ones(one, {.dtype = bool_}), differs}, static_cast<std::int64_t>(sorted.ndim()) - 1);
}

// 0, 1, … along the last dimension of an array.
Array counted_along_last(const Array& like) {
  return lax::broadcasted_iota(int32, like.shape(), static_cast<std::int64_t>(like.ndim()) - 1);
}

// Of lines along the last dimension, i32, but for "average".
Array ranks_of(const Array& x, const std::string& method) {
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  const std::int64_t n = x.shape().back();
  const std::vector<Array> by_value = lax::sort({x, counted_along_last(x)}, {.dimension = last});
  const Array& sorted = by_value[0];
  const Array place = counted_along_last(sorted) + 1;
  Array ranks = place;
  if (method == "dense") {
    ranks = cumsum(convert(begins_run(sorted), int32), {.axis = last});
  } else if (method != "ordinal") {
    const Array begins = begins_run(sorted);
    const Array first = method == "max" ? place : lax::cummax(where(begins, place, 0), last);
    if (method == "min") {
      ranks = first;
    } else {
      // A run ends before the next one begins.
      Shape one = x.shape();
      one.back() = 1;
      const Array ends = lax::concatenate({lax::slice_in_dim(begins, 1, n, 1, -1), ones(one, {.dtype = bool_})}, last);
      const Array end = lax::cummin(where(ends, place, n), last, true);
      ranks = method == "max" ? end : first + end;
    }
  }
  // Back to where the elements were.
  return lax::sort({by_value[1], ranks}, {.dimension = last})[1];
}

}  // namespace

Array rankdata(const Operand& a, const RankOptions& options) {
  const Caller caller("rankdata", a.where());
  static constexpr std::array kMethods = {"average", "min", "max", "dense", "ordinal"};
  if (std::find(kMethods.begin(), kMethods.end(), options.method) == kMethods.end()) {
    throw misuse<InvalidArgument>(R"(method "{}"; it is "average", "min", "max", "dense" or "ordinal")",
                                  options.method);
  }
  const Array given = to_array(a);
  check_ordered(given);
  const std::int64_t axis = options.axis ? canonical_axis(*options.axis, given.ndim()) : 0;
  const Array x = options.axis ? moveaxis(given, axis, -1) : ravel(given);
  if (x.size() == 0) return zeros(options.axis ? given.shape() : x.shape(), {.dtype = float32});
  Array ranks = convert(ranks_of(x, options.method), float32);
  if (options.method == "average") ranks = ranks * 0.5;
  if (is_floating(x.dtype())) {
    ranks = where(Operand(any(isnan(x), {.axis = -1, .keepdims = true})), kNaN, ranks);
  }
  return options.axis ? moveaxis(ranks, -1, axis) : ranks;
}

ModeResult mode(const Operand& a, const ModeOptions& options) {
  const Caller caller("mode", a.where());
  Array given = to_array(a);
  check_ordered(given);
  if (given.ndim() == 0) given = reshape(given, Dims{1});
  const std::int64_t axis = options.axis ? canonical_axis(*options.axis, given.ndim()) : 0;
  const Array x = options.axis ? moveaxis(given, axis, -1) : ravel(given);
  const std::int64_t last = static_cast<std::int64_t>(x.ndim()) - 1;
  Array value;
  Array count;
  if (x.shape().back() == 0) {
    Shape one = x.shape();
    one.back() = 1;
    value = full(one, kNaN, {.dtype = float32});
    count = zeros(one, {.dtype = float32});
  } else {
    const Array sorted = sort(x, SortOptions{});
    const Array place = counted_along_last(sorted);
    const Array begin = lax::cummax(where(begins_run(sorted), place, 0), last);
    const Array length = place - begin + 1;
    // The first run of the greatest length ends there.
    const Array at = argmax(length, {.axis = last, .keepdims = true});
    value = take_along_axis(sorted, at, last);
    count = max(length, {.axis = Axes(Dims{last}), .keepdims = true});
  }
  const auto placed = [&](const Array& result) {
    if (!options.keepdims) return squeeze(result, Axes(Dims{last}));
    if (options.axis) return moveaxis(result, -1, axis);
    return reshape(result, Dims(given.ndim(), 1));
  };
  return {placed(value), placed(count)};
}

// ---- Correlations.

namespace {

// Variables as rows.
Array variables(const Array& given, bool rowvar) {
  if (given.ndim() > 2) {
    throw misuse<InvalidArgument>("{} has more than 2 dimensions", type_of(given));
  }
  if (given.ndim() < 2) return reshape(given, {1, -1});
  return rowvar ? given : transpose(given);
}

// A vector of one weight for each observation.
Array weights_of(const char* name, const Array& weights, std::int64_t observations) {
  if (weights.ndim() == 1 && weights.size() == observations) return abs(weights);
  throw misuse<InvalidArgument>("{} {} must be a vector of {}, the number of observations", name, type_of(weights),
                                observations);
}

// The covariances as a matrix, also of one variable.
Array covariances(const Operand& m, const CovOptions& options) {
  Array first = to_array(m);
  std::optional<Array> second = options.y;
  if (second) {
    auto [a, b] = promote_dtypes(first, *second);
    first = a;
    second = b;
  }
  Array x = variables(first, options.rowvar);
  if (second) {
    const Array y = variables(*second, options.rowvar);
    if (x.shape()[1] != y.shape()[1]) {
      throw misuse<InvalidArgument>("variables {} and {} must have as many observations", type_of(first),
                                    type_of(*second));
    }
    x = concatenate(Operands({x, y}), 0);
  }
  if (!is_floating(x.dtype()) && !is_complex(x.dtype())) x = convert(x, inexact_dtype(x.dtype()));
  const std::int64_t observations = x.shape()[1];
  const double ddof = static_cast<double>(options.ddof.value_or(options.bias ? 0 : 1));
  std::optional<Array> weights;
  std::optional<Array> importance;
  if (options.fweights) {
    if (!is_integer(options.fweights->dtype())) {
      throw misuse<TypeMismatch>("fweights {} must be integers", type_of(*options.fweights));
    }
    weights = weights_of("fweights", *options.fweights, observations);
  }
  if (options.aweights) {
    importance = weights_of("aweights", *options.aweights, observations);
    weights = weights ? *weights * *importance : *importance;
  }
  const ReduceOptions along{.axis = 1, .keepdims = true};
  if (!weights) {
    const Array centred = x - mean(x, along);
    const Array products = matmul(centred, transpose(conj(centred)));
    return products / (static_cast<double>(observations) - ddof);
  }
  const Array total = sum(*weights, ReduceOptions{});
  const Array centred = x - sum(x * *weights, along) / total;
  const Array products = matmul(centred, transpose(conj(centred * *weights)));
  if (!importance) return products / (total - ddof);
  return products / (total - ddof * sum(*weights * *importance, ReduceOptions{}) / total);
}

}  // namespace

Array cov(const Operand& m, const CovOptions& options) {
  const Caller caller("cov", m.where());
  const Array matrix = covariances(m, options);
  return matrix.size() == 1 ? reshape(matrix, Dims{}) : matrix;
}

Array corrcoef(const Operand& x, const CorrcoefOptions& options) {
  const Caller caller("corrcoef", x.where());
  const Array c = covariances(x, {.y = options.y, .rowvar = options.rowvar});
  if (c.size() == 1) return reshape(c / c, Dims{});
  const Array variances = diag(real(c));
  const Array deviations = sqrt(variances);
  const Array rows = expand_dims(deviations, std::int64_t{1});
  const Array result = c / rows / deviations;
  const auto within = [](const Array& part) { return minimum(maximum(part, -1), 1); };
  if (!is_complex(c.dtype())) return within(result);
  return lax::complex(within(real(result)), within(imag(result)));
}

}  // namespace shoal
