// Arrays made of parts and taken apart, and whole trees of arrays moved at once.
//
// @param shape The extents of the whole array.
// @param sharding How it lies.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <vector>

#include "shoal/array.h"
#include "shoal/jit.h"
#include "shoal/tree.h"

namespace shoal {

struct MakeArrayOptions {
  std::optional<Dtype> dtype = {};  ///< What the parts must be of; that of the parts when not given.
};

/// An array whose shards are what `data` gives for their indices. `data` is called once for each distinct index that a
/// device of this process holds, in the order of the mesh, and returns an array of the shard's shape that may lie
/// anywhere. Throws InvalidArgument or IndivisibleError if the sharding cannot hold the shape, InvalidArgument for a
/// part of another shape than that of its shard, and TypeMismatch for parts of different dtypes.
/// @param data The function from the index of a shard to its elements.
/// @return An array of the dtype of the parts.
Array make_array_from_callback(const Shape& shape, const Sharding& sharding,
                               const std::function<Array(const ShardIndex& index)>& data,
                               const MakeArrayOptions& options = {}, SourceLocation where = SourceLocation::current());

/// An array put together from arrays of one device each, one for every device of the sharding that this process has, in
/// any order. No data is moved. Waits for the parts. Throws InvalidArgument unless there is one part for each of these
/// devices, of the shard's shape,
/// in the sharding's memory, and equal to the others that hold the same index; and TypeMismatch for parts of different
/// dtypes.
/// @param arrays The parts.
/// @return An array that shares the memory of the parts.
Array make_array_from_single_device_arrays(const Shape& shape, const Sharding& sharding,
                                           const std::vector<Array>& arrays, const MakeArrayOptions& options = {},
                                           SourceLocation where = SourceLocation::current());

/// An array put together from the data that each process has. Along each dimension, the data of a process has the
/// extent of the whole array, of which its devices take their parts, or that of the parts of its devices, in their
/// order. Without `global_shape` it is the latter, and the extent of the whole array follows from how many devices
/// split it. Waits for the data. Throws InvalidArgument if the data has another extent, and as device_put.
/// @param local_data The data of this process.
/// @param global_shape The extents of the whole array.
/// @return An array of the dtype of the data.
Array make_array_from_process_local_data(const Sharding& sharding, const Operand& local_data,
                                         const std::optional<Shape>& global_shape = {});

namespace detail {
std::vector<Array> put_leaves(const std::vector<Array>& leaves, const TreeDef& tree, const ShardingTree& shardings,
                              const DevicePutOptions& options, SourceLocation where);
std::vector<Array> put_leaves(const std::vector<Array>& leaves, const TreeDef& tree,
                              const std::vector<std::optional<Sharding>>& wanted, const DevicePutOptions& options,
                              SourceLocation where);
std::vector<Array> get_leaves(const std::vector<Array>& leaves, SourceLocation where);
}  // namespace detail

/// The tree with all arrays moved, as device_put moves one: to one sharding for all, or to those of a prefix of the
/// tree. None leaves arrays where they are. Throws as device_put, and InvalidArgument if it is no prefix.
/// @param tree A tree of arrays.
/// @param shardings The shardings.
template <class Tree>
requires(!std::convertible_to<const Tree&, Operand>) Tree
    device_put(const Tree& tree, const ShardingTree& shardings, const DevicePutOptions& options = {},
               SourceLocation where = SourceLocation::current()) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  Tree moved = tree;
  tree::assign(moved, detail::put_leaves(leaves, def, shardings, options, where));
  return moved;
}

/// The tree with each array whole on the default device, uncommitted. Waits for them.
/// @param tree A tree of arrays.
template <class Tree>
Tree device_get(const Tree& tree, SourceLocation where = SourceLocation::current()) {
  Tree fetched = tree;
  tree::assign(fetched, detail::get_leaves(tree::flatten(tree), where));
  return fetched;
}

}  // namespace shoal
