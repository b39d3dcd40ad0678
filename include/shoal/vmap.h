// vmap: a function of one applied to many at once.
//
// vmap(f)(x) gives f(x[0]), f(x[1]), … stacked, computed by operations on whole arrays: f is called once, on arrays
// that stand for what is in each place. It nests, in itself and in jit, grad, shard_map and pmap, and these in it.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/pmap.h"
#include "shoal/tree.h"

namespace shoal {

struct VmapOptions {
  AxisTree in_axes = 0;        ///< The dimension of each argument that is mapped; none: it is the same in all places.
  AxisTree out_axes = 0;       ///< Where the results have it; none: the result is the same in all places.
  std::string axis_name = {};  ///< For collectives.
  /// Axes of the mesh that the mapped dimension is split over, in constraints and shard_maps inside, major to minor.
  std::vector<std::string> spmd_axis_name = {};
  /// The number of places; needed if no argument is mapped.
  std::optional<std::int64_t> axis_size = {};
};

namespace detail {

std::vector<Array> call_vmap(const VmapOptions& options, const CallArguments& arguments, const TracedFunction& function,
                             std::any& exemplar, SourceLocation where);

/// What vmap returns.
template <class F>
class Vmapped {
 public:
  Vmapped(F f, VmapOptions options, SourceLocation where)
      : f_(std::move(f)), options_(std::move(options)), where_(where) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    const std::tuple<ArgumentOf<Args>...> arguments(keep(args)...);
    using R = ResultOf<F, std::decay_t<decltype(arguments)>>;
    std::any exemplar;
    std::vector<Array> leaves =
        call_vmap(options_, flatten_arguments(arguments), on_leaves<R>(f_, arguments), exemplar, where_);
    return unflatten<R>(exemplar, std::move(leaves));
  }

 private:
  F f_;
  VmapOptions options_;
  SourceLocation where_;
};

}  // namespace detail

/// f in all places of a dimension at once. Arguments are trees of arrays; numbers stand for arrays that are not mapped.
/// lax:: collectives over axis_name combine what is in the places. f's own `if` works on what is the same in all
/// places.
///
/// Calls throw InvalidArgument if mapped arguments disagree in size, none is mapped and axis_size is not given, in_axes
/// or out_axes is no prefix of the trees, or a result differs from place to place where out_axes says none; and
/// OutOfRange for a dimension that an array has not.
/// @param f The function of one.
/// @return The function of many.
/// @example vmap([](const Array& x) { return dot(x, x); })(array({{1, 2}, {3, 4}}))
/// @python jax.vmap(lambda x: jnp.dot(x, x))(jnp.array([[1, 2], [3, 4]]))
///   [ 5 25]
template <class F>
auto vmap(F f, VmapOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Vmapped<F>(std::move(f), std::move(options), where);
}

}  // namespace shoal
