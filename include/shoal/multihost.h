// Functions that all processes of a job call together, for data that each of them has.
//
// All processes call these functions in the same order, as they call programs. A process that is alone gets the same
// results as one of many would. If the processes disagree, all of them get an error, and the job goes on.
//
// @param tree A tree of arrays.
// @param number A number.
// @param is_source Whether this process is the one that has the values; default: process 0.
// @param tiled Whether arrays are concatenated along their first dimension, not stacked.
// @param message What the error says.
// @param mesh The mesh of all processes.
// @param specs How arrays are split over it: one spec for all, or a prefix of the tree.
// @param signal The number of the signal.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
std::vector<Array> leaves_to_host(const std::vector<Array>& leaves, const TreeDef& tree, std::int64_t chunk_bytes,
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

/// The tree of one process, in all of them: of process 0, or of the one whose `is_source` is true. The others pass a
/// tree of the same structure, shapes and dtypes. The result lies on the default device of each process. Throws
/// InvalidArgument in all processes unless the trees agree in these, and one process is the source.
template <class Tree>
Tree broadcast_one_to_all(const Tree& tree, std::optional<bool> is_source = {},
                          SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::broadcast_leaves(leaves, def, is_source, where);
  });
}

template <ScalarLike T>
Array broadcast_one_to_all(const T& number, std::optional<bool> is_source = {},
                           SourceLocation where = SourceLocation::current()) {
  return broadcast_one_to_all(Array(number, where), is_source, where);
}

/// Returns when all processes have called it. Throws InvalidArgument in all processes unless they pass the same name.
/// @param name A name for this place of the program.
void sync_global_devices(std::string_view name, SourceLocation where = SourceLocation::current());

/// The arrays of all processes. Arrays that each process has for itself, of equal shapes and dtypes, are stacked along
/// a new first dimension or, if `tiled`, concatenated along their first dimension, if they have one. For an array that
/// spans processes the result is the whole array, as in to_host; `tiled` must be true then. The result lies on the
/// default device of each process. Throws InvalidArgument in all processes if shapes, dtypes or structures differ.
template <class Tree>
Tree process_allgather(const Tree& tree, bool tiled = false, SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::gather_leaves(leaves, def, tiled, where);
  });
}

template <ScalarLike T>
Array process_allgather(const T& number, bool tiled = false, SourceLocation where = SourceLocation::current()) {
  return process_allgather(Array(number, where), tiled, where);
}

struct ToHostOptions {
  /// The most bytes of each array that are in transit at a time.
  std::int64_t chunk_bytes = std::int64_t{16} << 20;
};

/// The tree with each array whole, on the default device of each process that has devices of it; all of these must call
/// this. Beside the result, a process needs memory for one chunk that it receives, and for one chunk for each process
/// that reads from it; processes of one host need neither. Throws InvalidArgument if a chunk holds no element, and
/// InvalidState for an array of which this process has no device.
template <class Tree>
Tree to_host(const Tree& tree, const ToHostOptions& options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::leaves_to_host(leaves, def, options.chunk_bytes, where);
  });
}

/// Throws InvalidArgument in all processes, with `message`, unless all pass trees of equal structure, shapes, dtypes
/// and elements. Bits are compared: NaN equals itself, and 0 is not -0.
template <class Tree>
void assert_equal(const Tree& tree, std::string_view message = {}, SourceLocation where = SourceLocation::current()) {
  TreeDef def;
  const std::vector<Array> leaves = tree::flatten(tree, &def);
  detail::check_equal_leaves(leaves, def, message, where);
}

template <ScalarLike T>
void assert_equal(const T& number, std::string_view message = {}, SourceLocation where = SourceLocation::current()) {
  assert_equal(Array(number, where), message, where);
}

/// Arrays over `mesh`, put together from the parts that the processes pass: along each dimension, what the devices of
/// the process hold under `specs`. Parts that no axis splits are assumed to be equal in all processes. Throws as
/// make_array_from_process_local_data.
template <class Tree>
Tree host_local_array_to_global_array(const Tree& tree, const Mesh& mesh, const SpecTree& specs,
                                      SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::to_global_leaves(leaves, def, mesh, specs, where);
  });
}

/// The reverse: of arrays that are sharded over `mesh` by `specs`, the part that devices of this process hold, as
/// arrays over the mesh of these devices. Arrays with other shardings are moved first. Throws InvalidArgument if the
/// devices of this process are not a grid within the mesh.
template <class Tree>
Tree global_array_to_host_local_array(const Tree& tree, const Mesh& mesh, const SpecTree& specs,
                                      SourceLocation where = SourceLocation::current()) {
  return detail::map_leaves(tree, [&](const std::vector<Array>& leaves, const TreeDef& def) {
    return detail::to_local_leaves(leaves, def, mesh, specs, where);
  });
}

/// A mesh in which the devices of each process form a grid of `inner` sizes, and the processes a grid of `outer` sizes.
/// Axis i has outer[i] * inner[i] devices, those of one process adjacent; so collectives along an axis with outer[i] =
/// 1 stay within processes. There are as many sizes as names. Throws InvalidArgument unless the number of processes
/// that have some of the devices is that of `outer`, and each has as many of them as `inner` says.
/// @param inner The sizes of the grid of the devices of a process.
/// @param outer The sizes of the grid of processes.
/// @param axis_names The names of the axes.
Mesh make_hybrid_mesh(const Shape& inner, const Shape& outer, const std::vector<std::string>& axis_names,
                      const MakeMeshOptions& options = {}, SourceLocation where = SourceLocation::current());

// ---- Processes that end before the others.

struct LiveDevicesOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< How long to wait for a live process.
};

/// Calls body(live) with those of `devices` whose processes are alive, in order of id. All processes that have some of
/// `devices` call this; the live ones wait for each other, so that all get the same list, and again after `body`. So
/// either `body` has returned in all of them, or all throw: ProcessFailed, which names the devices, if a process has
/// failed meanwhile; else the exception of `body` here, or DistributedError if `body` has thrown in another process.
/// Process 0, which runs the coordination service, must be alive. Throws InvalidArgument if this process has none of
/// `devices`, and DeadlineExceeded if a live process does not come in time.
/// @param devices The devices.
/// @param body The function that is called.
void live_devices(const std::vector<Device>& devices, const std::function<void(const std::vector<Device>& live)>& body,
                  const LiveDevicesOptions& options = {}, SourceLocation where = SourceLocation::current());

/// While it exists, a signal to any process, SIGTERM by default, is a notice that this process will be ended soon, as
/// cluster managers send it; the signal does not end the process. All processes make a watch, in the same place, and
/// call reached_preemption_sync_point at each step. A second signal, and signals after the watch is gone, are handled
/// as before. The watch has a thread, which looks for notices of other processes ten times a second.
class PreemptionWatch {
 public:
  /// Throws InvalidState if there is one already, and InvalidArgument for a signal that cannot be caught.
  explicit PreemptionWatch(int signal = SIGTERM, SourceLocation where = SourceLocation::current());
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

  /// Gives a notice that came in another way.
  void notify();

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// After a notice in any process, returns true once, at the same step in all: the first step that no process had
/// reached when all had learned of it. All can save their state there. Call it at every step, with increasing steps
/// that are equal in all processes. It waits while the processes agree on the step. Returns false in a process that is
/// alone and has no PreemptionWatch; throws InvalidState in one of several that has none. Throws DeadlineExceeded,
/// naming them, if processes do not answer within a minute, and as distributed::Client.
/// @param step The number of the step.
bool reached_preemption_sync_point(std::int64_t step, SourceLocation where = SourceLocation::current());

}  // namespace multihost
}  // namespace shoal
