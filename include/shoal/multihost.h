// What the processes of a job do together with data that each has for itself.
//
// All processes call these functions in the same order, as they call programs. A process that is alone gets the same
// results as one of many would. What they disagree on is an error in all of them, after which the job goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "shoal/array.h"
#include "shoal/jit.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"
#include "shoal/tree.h"

namespace shoal {

/// A partition spec for each array of a tree, or for all arrays of a part of it.
using SpecTree = Prefix<PartitionSpec>;

namespace multihost {
namespace detail {
std::vector<Array> broadcast_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                                    std::optional<bool> is_source, SourceLocation where);
std::vector<Array> gather_leaves(const std::vector<Array>& leaves, const TreeDef& tree, bool tiled,
                                 SourceLocation where);
void check_equal_leaves(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view message,
                        SourceLocation where);
std::vector<Array> to_global_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const Mesh& mesh,
                                    const SpecTree& specs, SourceLocation where);
std::vector<Array> to_local_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const Mesh& mesh,
                                   const SpecTree& specs, SourceLocation where);

template <class Tree, class F>
Tree map_leaves(const Tree& tree, F&& f) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  Tree result = tree;
  tree::assign(result, f(leaves, def));
  return result;
}
}  // namespace detail

/// The tree of one process, in all of them: of process 0, or of the one whose `is_source` is true. The others give a
/// tree of the same structure, shapes and dtypes. The result lies on the default device of each process.
/// Throws InvalidArgument in all processes unless they agree in that, and one of them is the source.
template <class Tree>
Tree broadcast_one_to_all(const Tree& tree, std::optional<bool> is_source = {},
                          SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::broadcast_leaves(leaves, def, is_source, where);
  });
}

/// Returns when all processes have called it. Throws InvalidArgument in all processes unless they give one name.
void sync_global_devices(std::string_view name, SourceLocation where = SourceLocation::current());

/// The arrays of all processes. Of arrays that each process has for itself, with equal shapes and dtypes, the result
/// has one more dimension in front, for the processes; if it is `tiled`, they are concatenated along their first
/// dimension. Of an array that spans processes the result is the whole of it; `tiled` must be true then. The result
/// lies on the default device of each process. Throws InvalidArgument in all processes if shapes, dtypes or structures
/// differ, and for a scalar if it is `tiled`.
template <class Tree>
Tree process_allgather(const Tree& tree, bool tiled = false, SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::gather_leaves(leaves, def, tiled, where);
  });
}

/// Throws InvalidArgument in all processes, with `message`, unless all give trees of equal structure, shapes, dtypes
/// and elements. Bits are compared: NaN equals itself, and 0 is not -0.
template <class Tree>
void assert_equal(const Tree& tree, std::string_view message = {}, SourceLocation where = SourceLocation::current()) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  detail::check_equal_leaves(leaves, def, message, where);
}

/// Arrays over `mesh` put together from what each process has: along each dimension, the part that its devices hold as
/// `specs` say. What no axis splits is taken to be equal in all processes.
/// Throws as make_array_from_process_local_data.
template <class Tree>
Tree host_local_array_to_global_array(const Tree& tree, const Mesh& mesh, const SpecTree& specs,
                                      SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::to_global_leaves(leaves, def, mesh, specs, where);
  });
}

/// The reverse: of arrays that lie on `mesh` as `specs` say, the part that devices of this process hold, as arrays over
/// the mesh of these devices. Arrays that lie otherwise are moved first.
/// Throws InvalidArgument if the devices of this process are not a grid within the mesh.
template <class Tree>
Tree global_array_to_host_local_array(const Tree& tree, const Mesh& mesh, const SpecTree& specs,
                                      SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::to_local_leaves(leaves, def, mesh, specs, where);
  });
}

}  // namespace multihost
}  // namespace shoal
