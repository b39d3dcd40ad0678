// shard_map: a function run on every device of a mesh, on its own shards.
//
// @param f The function of one device's shards.
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/callable.h"
#include "shoal/mesh.h"
#include "shoal/tree.h"

namespace shoal {

/// A partition spec for each argument or result, or for whole trees of them.
using SpecTree = Prefix<PartitionSpec>;

struct ShardMapOptions {
  Mesh mesh = {};          ///< That of set_mesh if not given.
  SpecTree in_specs = {};  ///< How arguments are split: the function sees one shard of each.
  SpecTree out_specs;      ///< How results are put together. An axis that is not named must not vary in the result.
  /// The axes that become manual; all of the mesh's when empty. The compiler goes on to place values over the others.
  std::vector<std::string> axis_names = {};
  /// Whether results are checked to be equal along the axes that out_specs does not name.
  bool check_vma = true;
  /// Instead of in_specs: arguments are split over the manual axes as their types say, or, along Auto axes, as they
  /// lie.
  bool infer_in_specs = false;
};

namespace detail {
std::vector<Array> call_shard_map(const ShardMapOptions& options, const CallArguments& arguments,
                                  const TracedFunction& function, std::any& exemplar, SourceLocation where);
}  // namespace detail

template <class F>
class ShardMapped : public detail::Callable<ShardMapped<F>, detail::ParametersOf<F>> {
 public:
  using CallParameters = detail::ParametersOf<F>;

  ShardMapped(F f, ShardMapOptions options, SourceLocation where)
      : f_(std::make_shared<F>(std::move(f))), options_(std::move(options)), where_(where) {}

 private:
  friend class detail::Callable<ShardMapped<F>, CallParameters>;

  template <class Kept>
  auto call(std::optional<SourceLocation> where, const Kept& arguments) const {
    using R = detail::ResultOf<F, Kept>;
    std::any exemplar;
    const std::vector<Array> leaves =
        detail::call_shard_map(options_, detail::flatten_arguments(arguments), detail::on_leaves<R>(*f_, arguments),
                               exemplar, where.value_or(where_));
    return detail::unflatten<R>(exemplar, leaves);
  }

  std::shared_ptr<F> f_;
  ShardMapOptions options_;
  SourceLocation where_;
};

/// f on shards. Inside, arrays have the shape of one device's shard, and lax:: collectives communicate along the mesh's
/// axes. Called outside jit, f runs at once, and values in it may be read and printed; inside jit it becomes part of
/// the program. Arrays that f captures are whole on every device. Throws InvalidArgument for specs that are no prefix
/// of the trees, name axes the mesh has not, are longer than an array's rank, or claim a replication that does not
/// hold, and IndivisibleError for arrays that do not divide.
/// @param f The function of one device's shards.
/// @return The function of whole arrays.
/// @example auto mesh = make_mesh({1}, {"x"})
/// @python mesh = jax.make_mesh((1,), ("x",))
/// @example auto total = [](const Array& x) { return lax::psum(sum(x), "x"); }
/// @python total = lambda x: lax.psum(jnp.sum(x), "x")
/// @example shard_map(total, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()})(arange(4))
/// @python jax.shard_map(total, mesh=mesh, in_specs=P("x"), out_specs=P())(jnp.arange(4))
///   6
template <class F>
ShardMapped<F> shard_map(F f, ShardMapOptions options, SourceLocation where = SourceLocation::current()) {
  return ShardMapped<F>(std::move(f), std::move(options), where);
}

}  // namespace shoal
