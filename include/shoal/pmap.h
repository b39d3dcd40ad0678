// pmap: a function run on several devices, each with its own slice of the arguments.
//
// pmap(f)(x) calls f on x[0], x[1], … on a device each, and stacks the results. It is shard_map over a mesh of one axis
// per pmap, with one slice on each device: inside, lax:: collectives communicate along axis_name, and results are
// ordinary arrays with a NamedSharding over that mesh.
//
// In a job of several processes each passes the slices of its own devices, and gets theirs of the results; collectives
// communicate over the devices of all.
//
// @param f The function of one device's slices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/device.h"
#include "shoal/jit.h"
#include "shoal/tree.h"

namespace shoal {

/// The dimension that is mapped, for each argument or result or for whole trees of them; counted from the end if
/// negative. none: every device gets the whole argument, or has the same result.
using AxisTree = Prefix<std::optional<std::int64_t>>;

struct PmapOptions {
  std::string axis_name = {};  ///< For collectives. Without it the axis is named by its depth: "pmap_axis_0".
  AxisTree in_axes = 0;        ///< The dimension along which each argument is cut into slices.
  AxisTree out_axes = 0;       ///< Where the results are stacked.
  /// The number of slices, in all processes together; needed if no argument is mapped.
  std::optional<std::int64_t> axis_size = {};
  /// The devices to use, the same in all processes that have some of them; those of the job in order of id if not
  /// given. Only for an outermost pmap.
  std::optional<std::vector<Device>> devices = {};
  /// Positions of arguments that the caller gives away, as of jit. Arrays that have to be moved to the devices first
  /// are kept.
  std::vector<int> donate_argnums = {};
};

namespace detail {
struct PmapCache;
std::shared_ptr<PmapCache> make_pmap_cache(const PmapOptions& options, SourceLocation where);
CallResults call_cached(PmapCache& cache, const FunctionCall& call, Exemplar& exemplar, MaybeLocation where);
std::shared_ptr<LoweredImpl> lower_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                                          const TracedFunction& function, MaybeLocation where);
std::vector<Array> eval_cached(const std::shared_ptr<PmapCache>& cache, const CallArguments& arguments,
                               const TracedFunction& function, std::any& exemplar, MaybeLocation where);
std::size_t program_count(PmapCache& cache);
void give_up_programs(PmapCache& cache);
}  // namespace detail

/// A mapped function; made by pmap(). Copies share its cache. May be called from any thread, with trees of arrays;
/// numbers may stand for arrays that are not mapped.
template <class F>
class Pmapped : public detail::CachedFunction<F, detail::PmapCache> {
 public:
  Pmapped(F f, const PmapOptions& options, SourceLocation where)
      : detail::CachedFunction<F, detail::PmapCache>(std::move(f), detail::make_pmap_cache(options, where)) {}
};

/// f on slices, compiled once for each kind of arguments, as jit does. Arguments that hold no arrays are
/// static.
///
/// pmaps nest to any depth, with jit and shard_map between them: each takes an axis of one mesh, the outermost being
/// the most major, and collectives may name any of these axes. Inside shard_map a pmap takes axes that are left to the
/// compiler. f is traced again for each level of nesting that the outermost pmap finds inside it.
///
/// In a job of several processes, a call passes a slice for each device that this process has of `devices`, and all
/// processes that have some of them make it. Mapped arguments and results are arrays of this process alone, and
/// processes may have different numbers of slices. What is not mapped is equal in all processes: arrays that are not
/// committed are compared when processes exchange something, others are taken to be. A pmap inside others, and what is
/// lowered, has the slices of all processes. Inside jit, where arrays are whole too, a pmap without `devices` is over
/// those of this process.
///
/// Calls throw InvalidArgument if mapped arguments disagree in size, none is mapped and axis_size is not given, in_axes
/// or out_axes is no prefix of the trees, a result differs between devices where out_axes says none, axis_name is bound
/// already, there are fewer devices than slices, or slices do not take all devices that this process has where there
/// are several; and OutOfRange for a dimension that an array has not.
/// @param f The function of one device's slices.
/// @return The function of all slices.
/// @example pmap([](const Array& x) { return x * 2; })(ones({1, 3}))
/// @python jax.pmap(lambda x: x * 2)(jnp.ones((1, 3)))
///   [[2. 2. 2.]]
template <class F>
Pmapped<F> pmap(F f, const PmapOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return Pmapped<F>(std::move(f), options, where);
}

}  // namespace shoal
