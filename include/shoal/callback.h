// Functions of the user's program that a traced function calls for their results while it runs: pure_callback and
// io_callback.
//
// @param f The function of the host, of arrays.
// @param results The types of what it returns.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/device.h"
#include "shoal/tree.h"

namespace shoal {

struct CallbackOptions {
  /// The device whose process calls f, outside shard_map and pmap. Default: the program's first device.
  std::optional<Device> device = {};
};

namespace detail {

using HostFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;
std::vector<Array> call_host(std::string_view name, HostFunction f, const std::vector<Array>& results,
                             const CallArguments& operands, const CallbackOptions& options, SourceLocation where);

/// The function on the host, in the form in which traced functions call it. R is a tree of arrays, whose types matter.
template <class F, class R>
class HostCallback {
 public:
  HostCallback(std::string_view name, F f, R results, CallbackOptions options, SourceLocation where)
      : name_(name), f_(std::move(f)), results_(std::move(results)), options_(std::move(options)), where_(where) {}

  template <class... Args>
  R operator()(const Args&... operands) const {
    const std::tuple<ArgumentOf<Args>...> arguments(keep(operands)...);
    const auto call = [f = f_, empty = tree::map([](const Array&) { return Array(); }, arguments)](
                          const std::vector<Array>& leaves) -> std::vector<Array> {
      auto given = empty;
      tree::assign(given, leaves);
      if constexpr (std::is_void_v<decltype(std::apply(f, given))>) {
        static_assert(std::is_same_v<R, std::tuple<>>, "a function without results is promised as std::tuple<>()");
        std::apply(f, given);
        return {};
      } else {
        static_assert(std::is_same_v<std::decay_t<decltype(std::apply(f, given))>, R>,
                      "the function returns the tree of arrays that is promised");
        return tree::flatten(std::apply(f, given));
      }
    };
    R results = results_;
    tree::assign(results,
                 call_host(name_, call, tree::flatten(results_), flatten_arguments(arguments), options_, where_));
    return results;
  }

 private:
  std::string_view name_;
  F f_;
  R results_;
  CallbackOptions options_;
  SourceLocation where_;
};

}  // namespace detail

/// A counterpart of f for traced functions. Called with trees of arrays, it calls f with their values, as arrays on the
/// default device, when the program gets there, and returns f's results. Under jit f gets whole arrays and is called
/// once, in one process; inside shard_map and pmap once for each device that gets there, in mesh order, with its
/// shards; elsewhere immediately. `results` is a tree of arrays like the one that f returns, of which only the types
/// matter: a ShapeDtypeStruct can stand for an array. f must be pure, and depend on its arguments only: calls whose
/// results are not used are dropped, and equal ones may be merged.
///
/// f may compute with arrays, but must not wait for results of calls that are made after the one that runs it.
/// Exceptions of f are thrown where a result of the program is read, as is TypeMismatch if f returns other types than
/// promised. Throws InvalidArgument if the program does not run on `options.device`, or if a device is given inside
/// shard_map.
template <class F, class T>
auto pure_callback(F f, const T& results, CallbackOptions options = {},
                   SourceLocation where = SourceLocation::current()) {
  return detail::HostCallback<F, detail::ArgumentOf<T>>("pure_callback", std::move(f), detail::keep(results),
                                                        std::move(options), where);
}

/// As pure_callback, for an f with effects: it is called even if its results are not used, one call at a time, in the
/// order of the program's lines and of the programs. Inside shard_map its results vary over all axes of the mesh.
template <class F, class T = std::tuple<>>
auto io_callback(F f, const T& results = {}, CallbackOptions options = {},
                 SourceLocation where = SourceLocation::current()) {
  return detail::HostCallback<F, detail::ArgumentOf<T>>("io_callback", std::move(f), detail::keep(results),
                                                        std::move(options), where);
}

}  // namespace shoal
