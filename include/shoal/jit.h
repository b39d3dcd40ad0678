// jit: a function that is traced once for each kind of arguments, partitioned over their devices, and run from then on.
//
// @param impl What the library holds.
// @param f The function.
// @param stage "traced", "simplified", "placed", "propagated" or "partitioned".
// @param threshold From how many bytes on an array that is whole on several devices is marked.
// @param devices The devices, in the order of the mesh.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/tree.h"

namespace shoal {

/// A sharding for each argument or result, or for whole trees of them. nullopt: that of the array that is passed, or
/// the compiler's choice. Static arguments have no entry.
using ShardingTree = Prefix<std::optional<Sharding>>;

struct JitOptions {
  /// How arguments lie; arrays that lie otherwise are moved if they are uncommitted, and refused if not.
  ShardingTree in_shardings = {};
  ShardingTree out_shardings = {};  ///< How results lie.
  /// Positions, from the end if negative, of arguments to donate. If a result has the type and placement of an array in
  /// them, the call deletes the array, and the result may take its memory. Other arrays are kept, with a warning.
  /// Ignored where the call is part of another traced function.
  std::vector<int> donate_argnums = {};
  /// The same for arguments that are passed by name, as from Python. Names that a call does not have are ignored, and
  /// then positions that it does not have are, too.
  std::vector<std::string> donate_argnames = {};
  std::string name = "fn";  ///< In messages and in the text of graphs.
  /// The most memory, in bytes of this process, that a call may take beside its arguments, for its results and for all
  /// that it holds meanwhile. To fit, the program is reordered, and values are computed again instead of being kept;
  /// results are the same to the bit. A call throws OutOfMemory, with the smallest budget that was found, if it cannot
  /// fit. Default: what SHOAL_MEMORY_LIMIT leaves. Ignored where the call is part of another traced function.
  std::optional<std::int64_t> memory_budget = {};
};

/// The cost of one run of a program on one device, by a simple count.
struct CostAnalysis {
  double flops = 0;            ///< One for each element of an elementwise result; two for each product of a sum.
  double bytes_accessed = 0;   ///< Of the operands and results of all steps.
  double bytes_exchanged = 0;  ///< Bytes that the collectives send to other devices.
};

/// The memory that a program needs on one device, in bytes.
struct MemoryAnalysis {
  std::int64_t argument_size = 0;  ///< Captured arrays included.
  std::int64_t output_size = 0;
  std::int64_t alias_size = 0;  ///< Of outputs that take the memory of donated arguments.
  std::int64_t temp_size = 0;   ///< The most that all other values take at a time.
};

namespace detail {

class JitCache;
struct LoweredImpl;
struct CompiledImpl;

/// The line of a call; nullopt stands for the line of jit().
using MaybeLocation = std::optional<SourceLocation>;

std::shared_ptr<JitCache> make_jit_cache(const JitOptions& options, SourceLocation where);
/// Runs the function on the arguments: compiled, or, inside a trace, as an equation of it.
CallResults call_cached(JitCache& cache, const FunctionCall& call, Exemplar& exemplar, MaybeLocation where);
/// The same for arguments that are flat already.
std::vector<Array> call_cached(JitCache& cache, const CallArguments& arguments, const TracedFunction& function,
                               std::any& exemplar, MaybeLocation where);
std::shared_ptr<LoweredImpl> lower_cached(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                                          const TracedFunction& function, MaybeLocation where);
/// The types of the function's results, as arrays without elements.
std::vector<Array> eval_cached(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                               const TracedFunction& function, std::any& exemplar, MaybeLocation where);
/// The number of programs that calls have compiled and that are in the cache.
std::size_t program_count(JitCache& cache);
void give_up_programs(JitCache& cache);
std::string lowered_text(const LoweredImpl& lowered);
/// For each leaf of the arguments its type, as an array without elements, and whether it is donated.
std::vector<std::pair<Array, bool>> lowered_arguments(const LoweredImpl& lowered, SourceLocation where);
const TreeDef& lowered_in_tree(const LoweredImpl& lowered);
std::vector<Array> lowered_out_info(const LoweredImpl& lowered, std::any& exemplar);
std::shared_ptr<CompiledImpl> compile_lowered(const LoweredImpl& lowered, std::vector<Device> devices,
                                              SourceLocation where);
const LoweredImpl& lowered_of(const CompiledImpl& compiled);
std::string compiled_text(const CompiledImpl& compiled, std::string_view stage);
std::string explain_compiled(const CompiledImpl& compiled, std::int64_t threshold);
std::string explain_memory_of(const CompiledImpl& compiled);
std::vector<Sharding> compiled_shardings(const CompiledImpl& compiled, bool of_inputs);
std::vector<Array> compiled_out_info(const CompiledImpl& compiled, std::any& exemplar);
CostAnalysis compiled_cost(const CompiledImpl& compiled);
MemoryAnalysis compiled_memory(const CompiledImpl& compiled);
std::string serialize_compiled(const CompiledImpl& compiled, SourceLocation where);
CallResults call_compiled(const CompiledImpl& compiled, const FunctionCall& call, Exemplar& exemplar,
                          MaybeLocation where);

/// Gives Derived lower() and eval_shape() for the parameters, as Callable gives operator().
template <class Derived, class P>
class Lowerable {
 public:
  /// Traces the function for arguments like these without running it. Types can stand for arrays: see ShapeDtypeStruct.
  template <class... Args>
  auto lower(const Args&... args) const {
    return self().lower_call(std::nullopt, std::tuple<ArgumentOf<Args>...>(keep(args)...));
  }
  /// The result with types instead of elements: arrays that can be asked for shape and dtype.
  template <class... Args>
  auto eval_shape(const Args&... args) const {
    return self().eval_call(std::nullopt, std::tuple<ArgumentOf<Args>...>(keep(args)...));
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};
template <class Derived, class... P>
class Lowerable<Derived, Parameters<P...>> {
 public:
  auto lower(const GivenFor<P>&... args, SourceLocation where = SourceLocation::current()) const {
    return self().lower_call(where, std::tuple<KeptFor<P>...>(keep_for<P>(args)...));
  }
  auto eval_shape(const GivenFor<P>&... args, SourceLocation where = SourceLocation::current()) const {
    return self().eval_call(where, std::tuple<KeptFor<P>...>(keep_for<P>(args)...));
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace detail

/// A compiled program for arguments of one kind, and for the static arguments that it was compiled with, which are not
/// passed again. Calls with other types, trees or shardings throw TypeMismatch or InvalidArgument.
template <class R, class P = detail::UnknownParameters>
class Compiled : public detail::Callable<Compiled<R, P>, P> {
 public:
  explicit Compiled(std::shared_ptr<detail::CompiledImpl> impl) : impl_(std::move(impl)) {}

  /// The graph after a stage: "traced", "simplified", "placed", "propagated" or "partitioned".
  std::string as_text(std::string_view stage = "partitioned") const { return detail::compiled_text(*impl_, stage); }
  /// Says what each line of the program became: for every op of the partitioned program the user's line, the shardings
  /// of operands and results, the bytes that a collective moves to each device and to all of them, and the operations
  /// that each device does; with the seconds that these take at the speeds of the mesh (MeshSpeeds), and their share of
  /// the program's cost. Results of `threshold` bytes or more that are whole on each of several devices are marked
  /// REPLICATED, and attention by products and a softmax, WRITTEN OUT. If the program was launched while a trace was
  /// recorded (profiler::trace), a table follows of what its steps took in this process, beside what was estimated.
  std::string explain(std::int64_t threshold = 1 << 20) const { return detail::explain_compiled(*impl_, threshold); }
  std::vector<Sharding> input_shardings() const { return detail::compiled_shardings(*impl_, true); }
  std::vector<Sharding> output_shardings() const { return detail::compiled_shardings(*impl_, false); }
  /// The structure of the arguments.
  const TreeDef& in_tree() const { return detail::lowered_in_tree(detail::lowered_of(*impl_)); }
  /// The result with types and shardings instead of elements.
  R out_info() const {
    std::any exemplar;
    const std::vector<Array> leaves = detail::compiled_out_info(*impl_, exemplar);
    return detail::unflatten<R>(exemplar, leaves);
  }
  CostAnalysis cost_analysis() const { return detail::compiled_cost(*impl_); }
  MemoryAnalysis memory_analysis() const { return detail::compiled_memory(*impl_); }
  /// Lists the memory of this process that a run takes, for all of its devices, beside the arguments. For the step at
  /// which most is held, it gives each value with its bytes, its type on a device, the line that made it, its next use
  /// and, if it waits for that, the cost of computing it again; then the outputs. The sums are those of the plan, and
  /// the first line has the total.
  std::string explain_memory() const { return detail::explain_memory_of(*impl_); }
  /// The program as bytes, captured arrays included, for deserialize_and_load in this process or another. Throws
  /// Unsupported for a program that calls functions of this process while it runs: debug callbacks and custom kernels.
  std::string serialize(SourceLocation where = SourceLocation::current()) const {
    return detail::serialize_compiled(*impl_, where);
  }

 private:
  friend class detail::Callable<Compiled<R, P>, P>;
  template <class Kept>
  R call(detail::MaybeLocation where, Kept arguments) const {
    detail::Exemplar exemplar;
    detail::CallResults leaves = detail::call_compiled(*impl_, detail::CallWith<Kept>(arguments), exemplar, where);
    return detail::unflatten<R>(exemplar, std::move(leaves));
  }

  std::shared_ptr<detail::CompiledImpl> impl_;
};

/// A traced function.
template <class R, class P = detail::UnknownParameters>
class Lowered {
 public:
  explicit Lowered(std::shared_ptr<detail::LoweredImpl> impl) : impl_(std::move(impl)) {}
  /// The traced graph.
  std::string as_text() const { return detail::lowered_text(*impl_); }
  /// The structure of the arguments.
  const TreeDef& in_tree() const { return detail::lowered_in_tree(*impl_); }
  /// The result with types instead of elements, and with the shardings that out_shardings gives.
  R out_info() const {
    std::any exemplar;
    const std::vector<Array> leaves = detail::lowered_out_info(*impl_, exemplar);
    return detail::unflatten<R>(exemplar, leaves);
  }
  /// Compiles for the devices of the arguments' shardings. Throws InvalidArgument if these do not fit each other, or if
  /// all of them are over abstract meshes.
  Compiled<R, P> compile(SourceLocation where = SourceLocation::current()) const { return compile({}, where); }
  /// Compiles for these devices, in the order of the mesh; abstract meshes are taken to be over them. Throws
  /// InvalidArgument if other shardings have other devices.
  Compiled<R, P> compile(std::vector<Device> devices, SourceLocation where = SourceLocation::current()) const {
    return Compiled<R, P>(detail::compile_lowered(*impl_, std::move(devices), where));
  }

 private:
  std::shared_ptr<detail::LoweredImpl> impl_;
};

namespace detail {

/// A function that is traced, compiled and kept in a cache. The cache decides how: there are call_cached, lower_cached
/// and eval_cached for its type.
template <class F, class Cache>
class CachedFunction : public Callable<CachedFunction<F, Cache>, ParametersOf<F>>,
                       public Lowerable<CachedFunction<F, Cache>, ParametersOf<F>> {
 public:
  using CallParameters = ParametersOf<F>;

  CachedFunction(F f, std::shared_ptr<Cache> cache) : f_(std::make_shared<F>(std::move(f))), cache_(std::move(cache)) {}

  /// The number of programs that calls have compiled and that are in the cache.
  std::size_t cache_size() const { return program_count(*cache_); }
  /// Discards the programs that calls of this function have compiled, as clear_caches() does for all functions.
  void clear_cache() const { give_up_programs(*cache_); }

 private:
  friend class Callable<CachedFunction, CallParameters>;
  friend class Lowerable<CachedFunction, CallParameters>;

  template <class Kept>
  auto call(MaybeLocation where, Kept arguments) const {
    using R = ResultOf<F, Kept>;
    Exemplar exemplar;
    CallResults leaves = call_cached(*cache_, CallOf<R, F, Kept>(*f_, arguments), exemplar, where);
    return unflatten<R>(exemplar, std::move(leaves));
  }

  template <class Kept>
  auto lower_call(MaybeLocation where, const Kept& arguments) const {
    using R = ResultOf<F, Kept>;
    return Lowered<R, typename TracedParameters<CallParameters>::type>(
        lower_cached(cache_, flatten_arguments(arguments), on_leaves<R>(*f_, arguments), where));
  }

  template <class Kept>
  auto eval_call(MaybeLocation where, const Kept& arguments) const {
    using R = ResultOf<F, Kept>;
    std::any exemplar;
    const std::vector<Array> leaves =
        eval_cached(cache_, flatten_arguments(arguments), on_leaves<R>(*f_, arguments), exemplar, where);
    return unflatten<R>(exemplar, leaves);
  }

  std::shared_ptr<F> f_;
  std::shared_ptr<Cache> cache_;
};

}  // namespace detail

/// A jitted function; made by jit(). Copies share its cache. May be called from any thread, with trees of arrays;
/// numbers may stand for arrays.
template <class F>
class Jit : public detail::CachedFunction<F, detail::JitCache> {
 public:
  Jit(F f, const JitOptions& options, SourceLocation where)
      : detail::CachedFunction<F, detail::JitCache>(std::move(f), detail::make_jit_cache(options, where)) {}
};

/// f, compiled. It is traced once for each combination of argument trees, types, shardings and static arguments,
/// partitioned over the devices of its arguments, and cached. f must depend on its arguments alone, and on arrays that
/// it captures.
/// @param f The function, of trees of arrays and of arguments that are no arrays, which are static.
/// @return A function like f, whose calls from any thread share one cache.
/// @example jit([](const Array& x) { return x * 2 + 1; })(arange(3))
/// @python jax.jit(lambda x: x * 2 + 1)(jnp.arange(3))
///   [1 3 5]
template <class F>
Jit<F> jit(F f, const JitOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return Jit<F>(std::move(f), options, where);
}

/// Discards all programs that calls have compiled, including those of operations outside jit: the next calls trace and
/// compile again. What lowered and compiled functions hold remains, and so does machine code on disk. May be called
/// from any thread; the programs of functions that run at that time are discarded by the next clear_caches(), or
/// together with the functions.
void clear_caches();

/// The result that f would return for arguments like these, with types instead of elements: arrays that can be asked
/// for shape and dtype. Types can stand for arrays in the arguments: see ShapeDtypeStruct. f is traced, and nothing is
/// computed.
/// @param f The function.
/// @param args What it would be called with.
template <class F, class... Args>
auto eval_shape(F f, const Args&... args) {
  const auto jitted = jit(std::move(f), {}, SourceLocation());
  if constexpr (std::is_same_v<detail::ParametersOf<F>, detail::UnknownParameters>) {
    return jitted.eval_shape(args...);
  } else {
    return jitted.eval_shape(args..., SourceLocation());
  }
}

}  // namespace shoal
