// Quantiles, histograms and correlations, as in NumPy.
//
// @param a An array or a number.
// @param q Numbers in their range: a scalar or a vector.
// @param axis Dimensions, from the end if negative; all together when not given.
// @param keepdims Reduced dimensions stay, with extent 1.
// @param bins How many bins of one width, or the edges of bins.
// @param x An array or a number.
// @param rowvar Whether rows are variables and columns observations.
// @param count How many bins.
// @param edges The edges of bins, a vector.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "shoal/numpy.h"

namespace shoal {

// ---- Quantiles. Each line of elements along the given dimensions is sorted; what is split along other dimensions
// stays where it is. Results are floats; those of f16 and bf16 are computed in f32. The dimension of `q`, if it has
// one, comes first. TypeMismatch for complex numbers; InvalidArgument for a q of more dimensions, for a number outside
// its range and for an unknown method.

struct QuantileOptions {
  Axes axis = {};         ///< Default: all dimensions together.
  bool keepdims = false;  ///< Reduced dimensions stay, with extent 1.
  /// What is taken where a quantile lies between two elements: "linear": the point between them, "lower", "higher",
  /// "nearest": one of them, "midpoint": their mean.
  std::string method = "linear";
};
/// The number below which a fraction q, 0 to 1, of the elements lie. NaN where there is a NaN, or no element.
/// @return An array without the dimensions that are reduced, after that of q.
/// @example quantile(array({1.0f, 2.0f, 3.0f, 4.0f}), 0.5f)
///   2.5
Array quantile(const Operand& a, const Operand& q, const QuantileOptions& options = {});
/// The same for q from 0 to 100.
Array percentile(const Operand& a, const Operand& q, const QuantileOptions& options = {});

struct MedianOptions {
  Axes axis = {};
  bool keepdims = false;
};
/// The element in the middle, or the mean of the two there.
/// @return An array without the dimensions that are reduced.
/// @example median(array({3.0f, 1.0f, 2.0f}))
///   2.0
Array median(const Operand& a, const MedianOptions& options = {});

// Without the elements that are NaN. NaN where all are.
/// quantile of the elements that are not NaN; NaN if all are.
Array nanquantile(const Operand& a, const Operand& q, const QuantileOptions& options = {});
/// percentile of the elements that are not NaN; NaN if all are.
Array nanpercentile(const Operand& a, const Operand& q, const QuantileOptions& options = {});
/// median of the elements that are not NaN; NaN if all are.
Array nanmedian(const Operand& a, const MedianOptions& options = {});
/// var of the elements that are not NaN; NaN if all are.
Array nanvar(const Operand& x, const VarianceOptions& options = {});
/// The root of nanvar.
Array nanstd(const Operand& x, const VarianceOptions& options = {});

// ---- Histograms.

/// How many bins of one width, or their edges.
class Bins {
 public:
  Bins(std::int64_t count) : value_(count) {}
  Bins(int count) : value_(std::int64_t{count}) {}
  Bins(Array edges) : value_(std::move(edges)) {}
  const std::int64_t* count() const { return std::get_if<std::int64_t>(&value_); }
  const Array* edges() const { return std::get_if<Array>(&value_); }

 private:
  std::variant<std::int64_t, Array> value_;
};
struct HistogramOptions {
  std::optional<std::pair<Operand, Operand>> range = {};  ///< Of bins of one width; default: from min(a) to max(a).
  std::optional<Array> weights = {};                      ///< What each element counts, in the shape of a; default: 1.
  bool density = false;  ///< Divide by the width of each bin and by the total, so that the integral is 1.
};
struct Histogram {
  Array counts;  ///< Floats.
  Array edges;   ///< One more than bins. Elements at an edge are above it, but for those at the last one.
};
/// How many elements are in each bin; those in no bin count nowhere. Throws InvalidArgument for edges that are no
/// vector, for a negative count, and for weights of another shape.
/// @example histogram(array({1.0f, 2.0f, 2.0f, 4.0f}), 3).counts
/// @python jnp.histogram(jnp.array([1.0, 2.0, 2.0, 4.0]), 3)[0]
///   [1. 2. 1.]
Histogram histogram(const Operand& a, const Bins& bins = 10, const HistogramOptions& options = {});
/// The edges of the bins that histogram would have.
/// @return A vector.
Array histogram_bin_edges(const Operand& a, const Bins& bins = 10, const HistogramOptions& options = {});
/// The number of the bin that each element of x is in: 0 is before the first edge. Edges ascend or descend; at one of
/// them the bin above counts, or with `right` the one below. i32. Throws InvalidArgument for bins that are no vector.
/// @param bins The edges, a vector.
/// @param right Whether the bin below counts at an edge.
/// @return An array of the shape of x, i32.
/// @example digitize(array({0.5f, 1.5f}), array({0.0f, 1.0f, 2.0f}))
///   [1 2]
Array digitize(const Operand& x, const Operand& bins, bool right = false);

// ---- Ranks.

struct RankOptions {
  /// Of elements that are equal: "average", "min", "max" of the places that they take together; "ordinal": each has its
  /// own, in their order; "dense": the places of different elements alone.
  std::string method = "average";
  std::optional<std::int64_t> axis = {};  ///< When not given, of the flattened array.
};
/// The place of each element in its line, in ascending order, from 1 on: f32. NaN for all of a line that has a NaN.
/// Throws InvalidArgument for another method.
Array rankdata(const Operand& a, const RankOptions& options = {});

struct ModeOptions {
  std::optional<std::int64_t> axis = 0;  ///< When not given, of the flattened array.
  bool keepdims = false;                 ///< The dimension stays, with extent 1.
};
struct ModeResult {
  Array mode;
  Array count;  ///< i32.
};
/// The element that occurs most often in a line, the least if there are several, and how often it does. NaN counts as
/// one number, the greatest. Of a line without elements NaN and 0.
ModeResult mode(const Operand& a, const ModeOptions& options = {});

// ---- Correlations.

struct CovOptions {
  std::optional<Array> y = {};  ///< More variables.
  bool rowvar = true;           ///< Rows are variables and columns observations; otherwise the other way round.
  bool bias = false;            ///< Divide by the number of observations, not by one less.
  std::optional<std::int64_t> ddof = {};  ///< Divide by the number of observations less this.
  std::optional<Array> fweights = {};     ///< How often each observation was made: integers.
  std::optional<Array> aweights = {};     ///< How much each observation counts.
};
/// The covariances of each variable with each; a scalar if there is one. Throws InvalidArgument for more than two
/// dimensions and for weights that are no vector of the observations.
/// @param m A vector of observations, or a matrix of variables and observations.
Array cov(const Operand& m, const CovOptions& options = {});
struct CorrcoefOptions {
  std::optional<Array> y = {};  ///< More variables.
  bool rowvar = true;
};
/// The same divided by the deviations of both variables.
Array corrcoef(const Operand& x, const CorrcoefOptions& options = {});

}  // namespace shoal
