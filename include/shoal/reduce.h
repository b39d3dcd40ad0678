// Reductions by a function of the user: lax::reduce over dimensions, lax::reduce_window in each place of a window.
//
// The function combines two elements, or two trees of them, and is associative. It is traced once, on scalars, and what
// it does then is done to arrays: elementwise operations, and branches of them. Where it is one operation that the
// library reduces by (a sum, product, maximum, minimum, and, or), that runs.
//
// @param operands An array, or a tree of arrays of one shape.
// @param init_values A scalar, or a tree of scalars: what changes nothing.
// @param computation The function of two elements, or of two trees of them.
#pragma once

#include <any>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/control_flow.h"
#include "shoal/convolution.h"

namespace shoal::lax {

struct ReduceWindowOptions {
  Dims window_strides = {};  ///< Default: 1.
  /// "VALID", "SAME", "SAME_LOWER", or the number of elements before and after each dimension.
  WindowPadding padding = "VALID";
  Dims base_dilation = {};    ///< One more than the number of gaps between the elements; default: 1.
  Dims window_dilation = {};  ///< The same of the window.
};

}  // namespace shoal::lax

namespace shoal::detail {

std::vector<Array> call_reduce(const CallArguments& operands, const CallArguments& init_values,
                               const TracedFunction& computation, const Dims& dimensions, std::any& exemplar,
                               SourceLocation where);
std::vector<Array> call_reduce_window(const CallArguments& operands, const CallArguments& init_values,
                                      const TracedFunction& computation, const Dims& window_dimensions,
                                      const lax::ReduceWindowOptions& options, std::any& exemplar,
                                      SourceLocation where);

/// call(operands, init_values, computation, exemplar) for trees and a function of two of their elements.
template <class T, class I, class F, class Call>
auto with_trees(const T& operands, const I& init_values, F& computation, Call&& call) {
  const std::tuple<ArgumentOf<T>> arrays(keep(operands));
  const std::tuple<ArgumentOf<I>> inits(keep(init_values));
  const std::tuple<ArgumentOf<I>, ArgumentOf<I>> pair(std::get<0>(inits), std::get<0>(inits));
  using R = ResultOf<F, std::decay_t<decltype(pair)>>;
  return with_exemplar<R>([&](std::any& exemplar) {
    return call(flatten_arguments(arrays), flatten_arguments(inits), on_leaves<R>(computation, pair), exemplar);
  });
}

/// The same. A function of operands is called with the line of the reduction.
template <class T, class I, class F, class Call>
auto with_reduced(const T& operands, const I& init_values, F& computation, SourceLocation where, Call&& call) {
  if constexpr (std::is_same_v<F, Array (*)(const Operand&, const Operand&)>) {
    auto with_line = [&](const Array& x, const Array& y) { return computation({x, where}, {y, where}); };
    return with_reduced(operands, init_values, with_line, where, std::forward<Call>(call));
  } else {
    return with_trees(operands, init_values, computation, std::forward<Call>(call));
  }
}

}  // namespace shoal::detail

namespace shoal::lax {

/// The elements along `dimensions` combined by `computation`, in their order, each result after init_values: an array
/// and a scalar, or trees of arrays of one shape and of scalars. Which of them are combined first is open, but always
/// the same. Throws TypeMismatch for scalars or results of other dtypes than the arrays', InvalidArgument for shapes
/// and structures that differ, and Unsupported for a computation that does more with its arguments than elementwise
/// operations and branches do.
/// @param dimensions The dimensions.
/// @return The arrays without the dimensions.
template <class T, class I, class F>
auto reduce(const T& operands, const I& init_values, F computation, const Dims& dimensions,
            SourceLocation where = SourceLocation::current()) {
  return detail::with_reduced(operands, init_values, computation, where,
                              [&](const auto& arrays, const auto& inits, const auto& traced, std::any& exemplar) {
                                return detail::call_reduce(arrays, inits, traced, dimensions, exemplar, where);
                              });
}

/// The same of the elements in each place of a window, row by row; gaps and what surrounds the arrays count nothing.
/// Throws as reduce does, and InvalidArgument for extents that do not fit.
/// @param window_dimensions The extents of the window, for each dimension.
/// @return Arrays with an element for each place of the window.
template <class T, class I, class F>
auto reduce_window(const T& operands, const I& init_values, F computation, const Dims& window_dimensions,
                   const ReduceWindowOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::with_reduced(operands, init_values, computation, where,
                              [&](const auto& arrays, const auto& inits, const auto& traced, std::any& exemplar) {
                                return detail::call_reduce_window(arrays, inits, traced, window_dimensions, options,
                                                                  exemplar, where);
                              });
}

}  // namespace shoal::lax
