// Schedules: partitioned graphs made ready to run on the shards of this process.
//
// A step is a loop over the tiles of the distinct shards of its results: what devices share exists once and is computed
// once, and no step waits for another device. All that does not depend on data is decided here: shapes, tiles, which
// shard goes where, where values lie (runtime/memory_plan.h), and when processes begin to send what others need. A
// launch (runtime/launch.h) runs the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "base/function_ref.h"
#include "base/profiler.h"
#include "comm/collectives/collective.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/shard_set.h"
#include "comm/record/communicator.h"
#include "ir/graph.h"
#include "runtime/memory_plan.h"

namespace shoal {

/// Computes shards by a kernel of the back end.
struct KernelStep {
  /// Shards of equal shapes that begin at equal places.
  struct Variant {
    Work work;
    std::size_t first_view;  ///< The first of the views of its operands and then results, in Schedule::views.
  };

  std::shared_ptr<const Kernel> kernel;  ///< That of all equations that are alike.
  std::int64_t shards = 1;               ///< The number of shards of the results that this process computes.
  const std::int32_t* held = nullptr;    ///< The numbers of these shards; null if they are all, in order.
  std::vector<Variant> variants;         ///< At least one, unless there are no shards.
  std::vector<std::int32_t> variant_of;  ///< The variant of each shard; empty if there is one for all.
  std::int64_t tiles = 1;                ///< The most tiles of a shard.
  std::int32_t copied = -1;              ///< The input that tiles only copy to the output, or -1.
  bool merges = false;                   ///< Whether tiles cost less if one thread computes many at once.
  bool finishes_long = false;            ///< Whether shards are finished on all threads.
  std::int64_t wave = 1;                 ///< How many shards run at a time.
  std::size_t scratch = 0;               ///< The offset of the scratch memory in the arena of the device.
  std::size_t scratch_stride = 0;        ///< The bytes of it that each shard of a wave gets.

  const Variant& variant(std::int64_t shard) const {
    return variants[variant_of.empty() ? 0 : static_cast<std::size_t>(variant_of[static_cast<std::size_t>(shard)])];
  }
};

/// What a step gives to other processes and gets from them.
struct StepExchanges {
  /// One for each round that exchanges, and null where this process neither sends nor receives anything. Empty if the
  /// program runs in one process.
  std::vector<std::unique_ptr<Exchange>> rounds;
  /// The number of the first of them among all that the program has; equal in all processes.
  std::uint32_t number = 0;
  /// Whether the first begins before this step.
  bool starts_early = false;
  /// Whether that is in the trip before, but for the first trip of a loop.
  bool starts_trip_ahead = false;
};

/// Moves data between shards.
struct CollectiveStep {
  collectives::CollectivePtr collective;
  StepExchanges exchanges;
  bool runs = true;  ///< Whether there is more to do here than to give others what they need.
  std::vector<std::int32_t>
      made;                 ///< Over several processes, of a collective without rounds: the shards it makes here.
  std::int32_t zeros = -1;  ///< The storage that is filled with zeros first; -1 if there is none.
  std::size_t scratch = 0;  ///< The offset of the scratch memory in the arena of the device.
  std::size_t extras = 0;   ///< The first pointer to the collective's extras.
};

/// Calls the user's program.
struct EffectStep {
  /// A shard of a result that another process gives, and this one holds.
  struct Given {
    std::size_t pointer;
    std::size_t bytes;
  };

  /// One round brings operands to where the calls are made, a second what they gave to the others.
  StepExchanges exchanges;
  std::vector<std::int64_t> calls;  ///< The position of the device that each call is made for.
  std::vector<Given> given;
};

struct Schedule;

/// Runs graphs in loops and branches. Where a body's arguments, yields and results vary over the same atoms, they are
/// the same memory; a carry that no step may write over has a second buffer. Carries that change places change buffers.
struct ControlStep {
  /// Memory for some pieces of a storage of a body.
  struct Room {
    std::int32_t storage;
    std::vector<std::size_t> offsets;  ///< Of each piece in the step's scratch memory.
  };
  /// Where a yield of a body goes.
  struct Yield {
    enum class Way : std::uint8_t {
      kCopied,   ///< It is copied to where the result is.
      kMade,     ///< It is made there: in `storage` of the body.
      kInPlace,  ///< The same, and the argument that it takes the place of is there, too.
      kStays,    ///< That argument is yielded as it is.
      kPassed,  ///< Another carry, which has the number `storage`, is yielded as it came: their memories change places.
    };
    Way way = Way::kCopied;
    std::int32_t storage = -1;
    std::vector<std::int32_t> shard_of;  ///< For each shard of the result, that of the yield.
    std::vector<std::size_t> spare =
        {};  ///< Of a carry with two buffers: where each shard's other one is in the scratch.
  };
  struct Body {
    std::shared_ptr<const Schedule> schedule;
    std::vector<Yield> yields;
    std::vector<Room> rooms;  ///< For outputs that are not made in memory of this graph.
  };

  /// A loop that a kernel runs whole. It has no bodies.
  struct Whole {
    std::shared_ptr<const RepeatedKernel> kernel;
    AtomSet varying;                     ///< All that any value of the loop varies over.
    std::int64_t shards = 0;             ///< Of the loop.
    const std::int32_t* held = nullptr;  ///< Of a process: the numbers of those it runs; null if of all.
    std::vector<std::size_t> bytes;      ///< Of a trip: of each argument, then of each yield.
    std::vector<bool> shared;            ///< Of each carry: whether several shards have one result.

    std::int64_t number_of(std::int64_t shard) const { return held == nullptr ? shard : held[shard]; }
  };

  Control control;
  /// For each result the argument whose place it may take in every body, or -1: of a loop those are the carries.
  std::vector<std::int32_t> places;
  std::optional<Whole> whole = {};
  /// The atoms along which devices go different ways: one goes on, another does not; or they take other branches. Then
  /// all compute what any of them does, and each keeps what is its own.
  AtomSet apart;
  std::vector<Body> bodies;
  std::size_t scratch = 0;        ///< The offset of the scratch memory in the arena of the device.
  std::size_t scratch_bytes = 0;  ///< It begins with the arena of the body that runs.
  std::size_t scratch_bytes_of_shard = 0;
  bool exchanges = false;  ///< Whether processes exchange anything in bodies.
  /// If so, the position among what they exchange here, which is the same in all of them, whatever else each computes
  /// again or in another order.
  std::uint32_t number = 0;
};

/// What is done for one equation. Steps of all kinds have the fields before `work`.
struct Step {
  /// One operand or result: the pointers to its shards, in the list of pointers to all shards that a launch has.
  struct Operand {
    std::size_t first;             ///< The pointer to the value's first shard.
    const std::int32_t* shard_of;  ///< The value's shard for each shard of the step; null if they are the same.

    std::size_t at(std::int64_t shard) const {
      return first + static_cast<std::size_t>(shard_of == nullptr ? shard : shard_of[shard]);
    }
  };

  const Eqn* eqn = nullptr;
  std::int32_t number = 0;             ///< The number of the equation in the graph.
  std::vector<Operand> operands;       ///< The equation's inputs; then its outputs.
  std::size_t bytes = 0;               ///< How many bytes it reads and writes. Few are worth no second thread.
  std::vector<std::int32_t> starts;    ///< The steps whose first exchange begins before this step.
  std::vector<std::int32_t> births;    ///< The output storages that get their buffers before this step.
  std::vector<std::int32_t> releases;  ///< The inputs that no later step needs.
  std::variant<KernelStep, CollectiveStep, EffectStep, ControlStep> work;
};

/// Immutable once made: any number of launches may run it at once. It may be moved before that, but not copied.
struct Schedule {
  /// A pointer to be set when a storage gets its buffers, to a place in one of its pieces.
  struct Binding {
    std::size_t pointer;
    std::int32_t piece;
    std::size_t offset;
  };
  /// Where a shard of an output is found.
  struct Source {
    std::int32_t storage;  ///< -1 for a shard that no device of this process holds.
    std::int32_t piece;
    bool last;  ///< Whether no later output is found there too.
  };

  const ShardShapes& shapes_of(ValueId id) const { return shapes[slot(id)]; }
  AddressSpace& space_of(MemoryKind kind) const;
  /// Whether a piece of a storage has memory in this process.
  bool is_held(const MemoryPlan::Storage& storage, std::int64_t piece) const;
  /// Calls use(pointer, place) for each pointer to what lies in a storage here.
  void for_each_place(FunctionRef<void(std::size_t pointer, const MemoryPlan::Place& place)> use) const;

  explicit Schedule(GraphPtr of) : kept(std::move(of)), graph(*kept) {}

  GraphPtr kept;  ///< The graph, which others may keep, too.
  const Graph& graph;
  bool is_body = false;  ///< Whether whoever runs it says where inputs and outputs lie.
  const Backend* backend = nullptr;
  Digest digest;                           ///< Tells the program from others, in messages.
  Communicator* communicator = nullptr;    ///< That of the processes; null if there is one.
  std::vector<ShardShapes> shapes;         ///< Of each value.
  std::vector<Step> steps;                 ///< Those that have something to do, in the order of their equations.
  MemoryPlan plan;                         ///< Its steps are the equations.
  std::vector<std::size_t> first_pointer;  ///< For each value, the pointer to its first shard.
  std::size_t num_pointers = 0;
  std::vector<TensorView> views;               ///< Of all variants of kernels, without data.
  std::vector<std::vector<Binding>> bindings;  ///< For each storage, unless it lies in an arena.
  std::vector<std::size_t> first_buffer;       ///< For each output storage, the buffer that is its first piece.
  std::size_t num_buffers = 0;
  std::vector<std::int32_t> last_writes;     ///< For each storage, the last equation that writes there.
  std::vector<std::vector<Source>> outputs;  ///< For each output, those of its shards.
  std::int64_t kernels = 0;                  ///< How many kernels a launch runs: one for each shard.
  std::int64_t made = 0;                     ///< How many shards they make in memory that holds no operand.
  std::int64_t collectives = 0;              ///< How many collectives a launch runs.
  bool exchanges = false;                    ///< Whether processes may exchange anything.
  std::vector<std::int32_t> trip_ahead;      ///< Of a loop's body: the steps whose exchanges begin a trip ahead,
  std::int32_t trip_ahead_before = -1;       ///< and the step before which they do; -1 if there are none.
  /// For each shard of a value that varies over the first set of atoms, that of one that varies over the second.
  /// Operands point here.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::int32_t>> shard_maps;
  /// What launches took while a trace was recorded: each step, and then all of them. Launches add to it.
  std::unique_ptr<profiler::Tally[]> tallies;

  profiler::Tally& tally_of(const Step& step) const { return tallies[static_cast<std::size_t>(&step - steps.data())]; }
  profiler::Tally& tally() const { return tallies[steps.size()]; }
};

/// The schedule of a partitioned graph. Outputs are computed into the memory of inputs as `reuses` say, where the types
/// are equal, nobody else holds the memory, and the step that first writes the output needs the input no more, or
/// element by element.
///
/// Bodies of control equations get schedules of their own, inside the steps of these.
///
/// If devices are of several processes, `digest` must tell the program from others, and be the same in all processes.
/// Throws Unsupported for an op that the back end has not.
Schedule make_schedule(GraphPtr graph, const Backend& backend, const std::vector<Reuse>& reuses, const Digest& digest);

}  // namespace shoal
