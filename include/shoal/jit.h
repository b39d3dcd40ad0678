// jit: a function traced once for each kind of arguments, partitioned over their devices, and run from then on.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal {

/// A sharding for each argument or result, or for whole trees of them; none leaves the choice to the array that is
/// passed, or to the compiler.
using ShardingTree = Prefix<std::optional<Sharding>>;

struct JitOptions {
  ShardingTree in_shardings = {};
  ShardingTree out_shardings = {};
  std::string name = "fn";  ///< In messages and in the text of graphs.
};

namespace detail {

/// How an argument of a traced function is passed: scalars become arrays.
template <class T>
using ArgumentOf = std::conditional_t<ScalarLike<std::decay_t<T>>, Array, std::decay_t<T>>;

/// The flattened arguments of a call.
struct CallArguments {
  std::vector<Array> leaves;
  TreeDef tree;  // A tuple of the arguments.
};

/// What the traced function returned.
struct TracedResult {
  std::vector<Array> leaves;
  TreeDef tree;
  std::any exemplar;  // The user's result type with empty arrays, to be filled in after each call.
};

using TracedFunction = std::function<TracedResult(const std::vector<Array>& leaves)>;

class JitCache;
struct LoweredImpl;
struct CompiledImpl;

std::shared_ptr<JitCache> make_jit_cache(const JitOptions& options, SourceLocation where);
/// Runs the function on the arguments: compiled, or, inside a trace, as an equation of it.
std::vector<Array> call_jit(JitCache& cache, const CallArguments& arguments, const TracedFunction& function,
                            std::any& exemplar);
std::shared_ptr<LoweredImpl> lower_jit(const std::shared_ptr<JitCache>& cache, const CallArguments& arguments,
                                       const TracedFunction& function);
std::string lowered_text(const LoweredImpl& lowered);
std::shared_ptr<CompiledImpl> compile_lowered(const LoweredImpl& lowered);
std::string compiled_text(const CompiledImpl& compiled, std::string_view stage);
std::vector<Sharding> compiled_shardings(const CompiledImpl& compiled, bool of_inputs);
std::vector<Array> call_compiled(const CompiledImpl& compiled, const CallArguments& arguments, std::any& exemplar);

template <class Tuple>
CallArguments flatten_arguments(const Tuple& arguments) {
  CallArguments flat;
  flat.leaves = tree::flatten(arguments, &flat.tree);
  return flat;
}

/// A function on leaves, for a function on trees.
template <class R, class F, class Tuple>
TracedFunction on_leaves(F& f, const Tuple& arguments) {
  return [&f, arguments](const std::vector<Array>& leaves) {
    Tuple traced = arguments;
    tree::assign(traced, leaves);
    R result = std::apply(f, std::move(traced));
    TracedResult flat;
    flat.leaves = tree::flatten(result, &flat.tree);
    flat.exemplar = tree::map([](const Array&) { return Array(); }, std::move(result));
    return flat;
  };
}

template <class R>
R unflatten(const std::any& exemplar, const std::vector<Array>& leaves) {
  R result = std::any_cast<const R&>(exemplar);
  tree::assign(result, leaves);
  return result;
}

}  // namespace detail

/// A compiled program for arguments of one kind. Calls with other types, trees or shardings throw.
template <class R>
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<detail::CompiledImpl> impl) : impl_(std::move(impl)) {}

  template <class... Args>
  R operator()(const Args&... args) const {
    const std::tuple<detail::ArgumentOf<Args>...> arguments(args...);
    std::any exemplar;
    const std::vector<Array> leaves = detail::call_compiled(*impl_, detail::flatten_arguments(arguments), exemplar);
    return detail::unflatten<R>(exemplar, leaves);
  }
  /// The graph after a stage: "traced", "simplified", "placed", "propagated" or "partitioned".
  std::string as_text(std::string_view stage = "partitioned") const { return detail::compiled_text(*impl_, stage); }
  std::vector<Sharding> input_shardings() const { return detail::compiled_shardings(*impl_, true); }
  std::vector<Sharding> output_shardings() const { return detail::compiled_shardings(*impl_, false); }

 private:
  std::shared_ptr<detail::CompiledImpl> impl_;
};

/// A traced function.
template <class R>
class Lowered {
 public:
  explicit Lowered(std::shared_ptr<detail::LoweredImpl> impl) : impl_(std::move(impl)) {}
  /// The traced graph.
  std::string as_text() const { return detail::lowered_text(*impl_); }
  Compiled<R> compile() const { return Compiled<R>(detail::compile_lowered(*impl_)); }

 private:
  std::shared_ptr<detail::LoweredImpl> impl_;
};

/// A jitted function; made by jit(). Copies share its cache. May be called from any thread.
template <class F>
class Jit {
 public:
  Jit(F f, const JitOptions& options, SourceLocation where)
      : f_(std::make_shared<F>(std::move(f))), cache_(detail::make_jit_cache(options, where)) {}

  /// Calls the function on trees of arrays; scalars may stand for arrays.
  template <class... Args>
  auto operator()(const Args&... args) const {
    using R = ResultOf<Args...>;
    const std::tuple<detail::ArgumentOf<Args>...> arguments(args...);
    std::any exemplar;
    const std::vector<Array> leaves =
        detail::call_jit(*cache_, detail::flatten_arguments(arguments), detail::on_leaves<R>(*f_, arguments), exemplar);
    return detail::unflatten<R>(exemplar, leaves);
  }

  /// Traces the function for arguments like these without running it.
  template <class... Args>
  auto lower(const Args&... args) const {
    using R = ResultOf<Args...>;
    const std::tuple<detail::ArgumentOf<Args>...> arguments(args...);
    return Lowered<R>(
        detail::lower_jit(cache_, detail::flatten_arguments(arguments), detail::on_leaves<R>(*f_, arguments)));
  }

 private:
  template <class... Args>
  using ResultOf = std::decay_t<std::invoke_result_t<F&, detail::ArgumentOf<Args>...>>;
  std::shared_ptr<F> f_;
  std::shared_ptr<detail::JitCache> cache_;
};

/// f, compiled. It is traced once for each combination of argument trees, types and shardings, partitioned over the
/// devices of its arguments, and cached. f must depend on its arguments alone, and on arrays that it captures.
template <class F>
Jit<F> jit(F f, const JitOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return Jit<F>(std::move(f), options, where);
}

}  // namespace shoal
