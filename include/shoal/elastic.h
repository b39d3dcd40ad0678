// Jobs that go on when they lose some of their processes.
//
//   const auto make = [&](const elastic::World& world) {      // Once for each set of processes.
//     auto state = init(world.mesh);                          // A tree of arrays, which says how they lie.
//     auto step = jit(…);
//     auto loader = std::make_shared<data::DataLoader<Read>>(…, NamedSharding(world.mesh, P("data")));
//     return elastic::Program<State>{state, [=](State state, std::int64_t i) {
//       const std::int64_t batches = loader->batches_per_epoch();
//       loader->seek({i / batches, i % batches});             // The data goes on with the step.
//       return step(std::move(state), loader->next().data);
//     }};
//   };
//   State state = elastic::run({.steps = 10000, .mesh_shape = {2, 4}, .axis_names = {"data", "model"},
//                               .data_axes = {"data"}, .copy_every = 10}, make);
//
// When a process is lost, the others agree on who is left, make a smaller mesh, on which they call `make` again, fetch
// the state from the copies that they keep in memory for each other, or from the last checkpoint, and go on from its
// step. That takes them a second or two, whichever process is lost, the first as well. Programs that jit compiles for
// the smaller mesh add their time.
//
// @param options What is to be done.
// @param make The function from a World to a Program.
// @param world The processes and the mesh.
// @param state The state before the step.
// @param i The number of the step.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/distributed.h"
#include "shoal/mesh.h"
#include "shoal/tree.h"

namespace shoal::elastic {

/// The other processes have gone on without this one, because it was silent for too long: it was stopped, or the
/// network to it was down. It has written nothing since, and ends (Python: RuntimeError).
class Fenced : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

/// The processes that work together until one is lost, or one comes back.
struct World {
  Mesh mesh;
  /// Their numbers, ascending. A process keeps its number, process_index(), as long as it lives, and its devices keep
  /// their ids; so there may be gaps.
  std::vector<int> processes;
  /// Whether this is the one of them that prints and writes for all.
  bool is_first = true;
  std::int64_t generation = 0;  ///< How often the job has gone on with other processes.
};

struct Options {
  std::int64_t steps = 0;  ///< After so many steps the job is done.

  /// The mesh of all devices of the job, and its axes; default: one axis "data" over all devices.
  Shape mesh_shape = {};
  std::vector<std::string> axis_names = {};
  /// The axes that become shorter when there are fewer devices, the first of them first; others never do. The new
  /// length divides the old one, so that what could be split along the axis still can be; processes whose devices are
  /// not needed then are left behind (Fenced). Default: the first axis.
  std::vector<std::string> data_axes = {};
  /// With fewer processes the job does not go on.
  int min_processes = 1;

  /// After every so many steps processes give each other copies of the state, which they keep in memory; 0: never. What
  /// several processes hold need not be given; of what one alone holds a second one has a copy then. A process needs
  /// memory for the state that it holds and for the copy of its neighbour's, while copies are made twice.
  std::int64_t copy_every = 0;
  /// The folder of checkpoints, which all processes see; empty: none. If it has some, the job begins with the last.
  std::filesystem::path checkpoints = {};
  std::int64_t checkpoint_every = 0;                  ///< After every so many steps one is saved; 0: never.
  std::optional<std::int64_t> checkpoints_kept = {};  ///< How many are kept; default: all.
  /// After every so many steps processes that were started again are taken in; 0: never. Default: at copies.
  std::optional<std::int64_t> admit_every = {};

  /// How long processes that have lost one wait for others that are busy, or, below min_processes, for new ones.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
  distributed::InitializeOptions initialize = {};  ///< How processes find each other at the start.
};

/// What a job does on one mesh.
template <class State>
struct Program {
  State state;  ///< Its arrays at the start of the job; later only how they lie matters.
  /// The state after step number i, from 0 on.
  std::function<State(State state, std::int64_t i)> step;
};

namespace detail {

struct LeafProgram {
  std::vector<Array> leaves;
  TreeDef tree;
  std::function<std::vector<Array>(std::vector<Array> leaves, std::int64_t i)> step;
  /// Whether what was thrown ends the job, even if a process was lost at that time; none: it does not.
  std::function<bool(const std::exception_ptr& error)> ends_job = {};
};

std::vector<Array> run_leaves(const Options& options, const std::function<LeafProgram(const World& world)>& make,
                              SourceLocation where);

}  // namespace detail

/// Runs a job of options.steps steps in all of its processes, and returns the state at the end, on the mesh of that
/// time. It calls distributed::initialize() unless that was called; a program that is to be taken in again when it is
/// started again leaves that to it, and uses no device before. What runs on several processes in `make` and in steps
/// must be the same in all of them, and depend on the step's number and the state alone.
///
/// What makes a job go on: under `shoal run --elastic`, or another launcher that does not end a job when one of its
/// processes dies, processes that die (SIGKILL, a crash, an exception), are silent for longer than heartbeat_timeout,
/// or whose host cannot be reached. Nothing is done for a process that is merely slow. Of hosts that cannot reach each
/// other more than half of the processes go on, or the half with the lowest number.
///
/// If there is neither a complete copy nor a checkpoint, the job begins anew with its first step.
///
/// Throws Fenced in a process without which the others have gone on; ProcessFailed if fewer than min_processes are
/// left, and if the job was interrupted three times in a row and came no further; InvalidArgument for options that are
/// not allowed, or if no mesh can be made of the devices that are left; what `make` and steps throw, if no process was
/// lost; and as distributed::initialize.
/// @return The state after the last step.
template <class Make>
auto run(const Options& options, Make make, SourceLocation where = SourceLocation::current()) {
  using State = decltype(std::declval<Make&>()(std::declval<const World&>()).state);
  std::optional<State> exemplar;
  const std::vector<Array> leaves = detail::run_leaves(
      options,
      [&](const World& world) {
        Program<State> made = make(world);
        detail::LeafProgram program;
        program.leaves = tree::flatten(made.state, &program.tree);
        // It keeps the structure, and not the arrays.
        tree::assign(made.state, std::vector<Array>(program.leaves.size()));
        exemplar = made.state;
        program.step = [state = std::move(made.state), step = std::move(made.step)](std::vector<Array> given,
                                                                                    std::int64_t i) {
          State now = state;
          tree::assign(now, given);
          given.clear();
          return tree::flatten(step(std::move(now), i));
        };
        return program;
      },
      where);
  State state = std::move(*exemplar);
  tree::assign(state, leaves);
  return state;
}

}  // namespace shoal::elastic
