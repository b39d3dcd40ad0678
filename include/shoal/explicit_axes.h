// Explicit mesh axes: how arrays are split over them is part of their type, as "float32[8@x,4]", and every operation
// derives it from its operands. Axes are Explicit where the mesh says so (MeshOptions::axis_types); arrays that lie on
// such a mesh carry them by themselves. Operands that do not agree are an error, ShardingTypeError; nothing is moved
// unasked.
//
// @param f The function, of trees of arrays.
// @param x The array.
// @param sharding How the result lies.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/jit.h"
#include "shoal/mesh_context.h"
#include "shoal/tree.h"

namespace shoal {

/// x split as `sharding` says, also where Explicit axes split it in another way now. What is unreduced is added up
/// along the axes over which `sharding` does not leave it so; what becomes unreduced is a sum of x on the first device
/// along an axis and of zeros on the others. Throws InvalidArgument or IndivisibleError if the sharding cannot hold x.
Array reshard(const Operand& x, const NamedSharding& sharding);

/// How the type of an array says that it is split, over the axes without their devices, with an entry for each
/// dimension. Along axes that are not Explicit it says nothing.
NamedSharding type_sharding(const Array& x);

struct AutoAxesOptions {
  Prefix<PartitionSpec> out_sharding;  ///< How the results are split, for each or for whole trees of them.
  std::vector<std::string> axes = {};  ///< Those left to the compiler; all Explicit ones when empty.
};

struct ExplicitAxesOptions {
  Prefix<PartitionSpec> in_sharding;   ///< How the arguments are split, for each or for whole trees of them.
  std::vector<std::string> axes = {};  ///< Those that become Explicit; all Auto ones when empty.
};

namespace detail {

/// The arrays with their types no longer saying how these axes split them.
std::vector<Array> relax(const std::vector<Array>& leaves, const std::vector<std::string>& axes, SourceLocation where);
/// The arrays of a tree split by specs over the mesh of set_mesh, with these axes of it Explicit, or as they are.
std::vector<Array> split_by(const std::vector<Array>& leaves, const TreeDef& tree, const Prefix<PartitionSpec>& specs,
                            const Mesh& mesh, std::string_view what, SourceLocation where);
/// The mesh that Explicit axes of the arrays speak of, or that of set_mesh. Throws InvalidState if there is none.
Mesh mesh_of(const std::vector<Array>& leaves, std::string_view function, SourceLocation where);
/// The mesh with these axes, or all that are Auto, Explicit.
Mesh with_auto(const Mesh& mesh, const std::vector<std::string>& axes, std::string_view function, SourceLocation where);
Mesh with_explicit(const Mesh& mesh, const std::vector<std::string>& axes, std::string_view function,
                   SourceLocation where);

template <class T, class F>
T with_changed_leaves(T tree, F&& change) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  tree::assign(tree, change(leaves, def));
  return tree;
}

}  // namespace detail

/// f, in whose body the compiler chooses how Explicit axes split values. Its results are split as out_sharding says.
/// Takes and returns trees of arrays.
template <class F>
auto auto_axes(F f, AutoAxesOptions options, SourceLocation where = SourceLocation::current()) {
  return jit(
      [f, options, where](auto... args) {
        const std::vector<Array> given = tree::flatten(std::tuple(args...));
        const Mesh mesh = detail::mesh_of(given, "auto_axes", where);
        const auto relaxed = [&](const std::vector<Array>& leaves, const TreeDef&) {
          return detail::relax(leaves, options.axes, where);
        };
        auto result = [&] {
          const use_abstract_mesh inside(detail::with_auto(mesh, options.axes, "auto_axes", where));
          return std::apply(f, detail::with_changed_leaves(std::tuple(args...), relaxed));
        }();
        return detail::with_changed_leaves(
            std::move(result), [&](const std::vector<Array>& leaves, const TreeDef& tree) {
              return detail::split_by(leaves, tree, options.out_sharding, mesh, "auto_axes: out_sharding", where);
            });
      },
      {.name = "auto_axes"}, where);
}

/// f, in whose body Auto axes are Explicit. Its arguments are split as in_sharding says; how its results are split is
/// up to the compiler again. Takes and returns trees of arrays.
template <class F>
auto explicit_axes(F f, ExplicitAxesOptions options, SourceLocation where = SourceLocation::current()) {
  return jit(
      [f, options, where](auto... args) {
        const std::vector<Array> given = tree::flatten(std::tuple(args...));
        const Mesh outer = detail::mesh_of(given, "explicit_axes", where);
        const Mesh mesh = detail::with_explicit(outer, options.axes, "explicit_axes", where);
        const auto split = [&](const std::vector<Array>& leaves, const TreeDef& tree) {
          return detail::split_by(leaves, tree, options.in_sharding, mesh, "explicit_axes: in_sharding", where);
        };
        auto result = [&] {
          const use_abstract_mesh inside(mesh);
          return std::apply(f, detail::with_changed_leaves(std::tuple(args...), split));
        }();
        return detail::with_changed_leaves(std::move(result), [&](const std::vector<Array>& leaves, const TreeDef&) {
          return detail::relax(leaves, options.axes, where);
        });
      },
      {.name = "explicit_axes"}, where);
}

}  // namespace shoal
