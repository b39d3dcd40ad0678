// Executables: partitioned graphs ready to run on the shards of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/local_collectives.h"
#include "comm/collectives/shard_set.h"
#include "comm/record/communicator.h"
#include "ir/graph.h"
#include "runtime/memory_plan.h"

namespace shoal {

/// What executables have done in this process so far. Tests count with it.
struct ExecutionCounters {
  std::atomic<std::int64_t> kernels{0};      ///< Kernel runs: one per distinct shard of each compute step.
  std::atomic<std::int64_t> buffers{0};      ///< Shards that compute steps made in memory which held no operand.
  std::atomic<std::int64_t> collectives{0};  ///< Collective steps.
};
ExecutionCounters& execution_counters();

/// Runs a partitioned graph step by step. A step is a loop over the tiles of the distinct shards of its results on the
/// thread pool: what devices share exists once and is computed once, and no thread ever waits for another device.
///
/// All that does not depend on data is decided when it is made: shapes, tiles, which shard goes where, and where values
/// lie (runtime/memory_plan.h). A launch allocates its outputs and nothing else. Immutable; any number of threads may
/// run it, each with an arena of its own, which the executable keeps.
class Executable {
 public:
  /// Outputs are computed into the memory of inputs as `reuses` say, where the types are equal, nobody else holds the
  /// memory, and the step that first writes the output needs the input no more, or element by element.
  ///
  /// If devices are of several processes, `digest` must tell the program from others, and be the same in all processes.
  Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses = {}, const Digest& digest = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const Graph& graph() const { return graph_; }
  const MemoryPlan& memory_plan() const { return plan_; }

  /// The memory of the host that all arguments of a launch take; that its outputs take, where no donated memory holds
  /// them; and all that it takes beside the arguments until it is over. Sizes are those of the allocator's blocks.
  std::size_t argument_bytes() const;
  std::size_t output_bytes() const;
  std::size_t launch_bytes() const;

  /// The outputs for these inputs. Inputs may vary over fewer atoms than the graph's inputs do. Each buffer is released
  /// after its last use. Throws what a kernel throws, and OutOfMemory with the op and the user's line.
  ///
  /// If devices are of several processes, each of them runs this, and exchanges what collectives need with the others;
  /// `lineage` tells where the inputs come from, and is the same in all. Throws Disagreement, DeadlineExceeded or
  /// ProcessFailed if not all do the same in time; as after any other error of such a run, their communicator has
  /// failed. `call` is that of the communicator.
  std::vector<ShardSet> run(std::vector<ShardSet> inputs, const Digest& lineage = {},
                            const LaunchCall& call = {}) const;

 private:
  // What one operand or result of a step is: its shards, as numbers of pointers.
  struct Operand {
    std::size_t first;
    const std::int32_t* shard_of;  // For each shard of the step; in order if there is none.
    std::size_t at(std::int64_t shard) const {
      return first + static_cast<std::size_t>(shard_of == nullptr ? shard : shard_of[shard]);
    }
  };
  // Shards of equal shapes that begin at equal places.
  struct Variant {
    Work work;
    std::size_t first_view;  // Of the operands, then the results.
  };
  struct Step {
    const Eqn* eqn = nullptr;
    std::unique_ptr<Kernel> kernel;
    local::CollectivePtr collective;
    // With other processes; null where there is nothing to be sent or received. One for each round that exchanges.
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::uint32_t number = 0;            // Of the first, among all that there may be.
    std::int32_t start = 0;              // The equation before which the first may begin; its own, or an earlier one.
    bool starts_early = false;           // It begins before this step.
    std::vector<std::int32_t> starts;    // Steps whose first exchange begins before this one.
    std::size_t extras = 0;              // The first pointer to what the collective calls so.
    bool runs = true;                    // Whether there is more to do here than to give others what they need.
    std::vector<std::int32_t> made;      // Of a collective over processes without rounds, the shards that it makes.
    std::vector<Operand> operands;       // Inputs, then outputs.
    std::int64_t shards = 1;             // That this process computes,
    const std::int32_t* held = nullptr;  // and which; all in order if there is none.
    std::vector<Variant> variants;
    std::vector<std::int32_t> variant_of;  // For each shard; the first if there is one variant.
    std::int64_t tiles = 1;                // The most of a shard.
    bool merges = false;                   // Tiles cost less if a thread computes many that follow each other.
    std::int64_t wave = 1;                 // Shards that run at a time.
    std::size_t scratch = 0;               // Offset in the arena,
    std::size_t scratch_stride = 0;        // and bytes of a shard.
    std::size_t bytes = 0;                 // That are read and written.
    std::int32_t zeros = -1;               // The storage to be filled with zeros.
    std::vector<std::int32_t> births;      // Output storages that get their buffers here.
    std::vector<std::int32_t> releases;    // Inputs that no later step needs.
  };
  // Where a pointer points: into a piece of a storage.
  struct Binding {
    std::size_t pointer;
    std::int32_t piece;
    std::size_t offset;
  };
  // Where a shard of an output is found.
  struct Source {
    std::int32_t storage;
    std::int32_t piece;
    bool last;  // No other output needs it.
  };
  struct Launch;
  class Borrowed;

  void find_shapes();
  void make_step(std::size_t number);
  local::CollectivePtr make_collective(const Eqn& eqn) const;
  void settle_kernel(Step& step);
  void add_exchanges(Step& step) const;
  void find_starts();
  void settle_starts();
  std::unique_ptr<Exchange> make_exchange(const Eqn& effect) const;
  template <class F>
  void for_each_place(F&& use) const;
  bool is_held(const MemoryPlan::Storage& storage, std::int64_t piece) const;
  std::int64_t slot_of(const MemoryPlan::Storage& storage, std::int64_t piece) const;
  Operand operand(ValueId id, AtomSet varying);
  void bind_pointers();
  void settle_steps();
  std::vector<TensorView> views_at(const Step& step, std::int64_t position) const;

  std::unique_ptr<Launch> make_launch() const;
  void run(Launch& launch) const;
  void take_inputs(Launch& launch) const;
  std::int64_t give_birth(Launch& launch, std::int32_t number) const;
  void run_step(const Step& step, Launch& launch) const;
  void run_kernel(const Step& step, Launch& launch) const;
  void fill_with_zeros(const Step& step, Launch& launch) const;
  template <class TileAt>
  void run_tiles(const Step& step, const Launch& launch, std::int64_t tiles, TileAt&& tile_at) const;
  static std::size_t rounds_before_exchange(const Step& step);
  void run_rounds(const Step& step, Launch& launch, std::size_t first, std::size_t last) const;
  void run_collective(const Step& step, Launch& launch) const;
  void start(const Step& step, Launch& launch) const;
  const Buffer& input_piece(const Launch& launch, std::int32_t input, std::int64_t piece) const;
  const Buffer* buffer_of(const Step& step, std::size_t operand, std::int64_t shard, const Launch& launch) const;
  Exchange::Run begin_exchange(const Step& step, std::size_t number, const Launch& launch) const;
  static std::size_t pointer_to(const Step& step, std::int32_t operand, std::int32_t shard);
  template <class F>
  void exchange(const Step& step, std::size_t number, Launch& launch, F&& use) const;
  void run_effect(const Step& step, Launch& launch) const;
  std::vector<ShardSet> outputs_of(Launch& launch) const;
  std::size_t buffer_bytes(const MemoryPlan::Storage& storage) const;
  std::string held_at(std::int32_t step) const;
  Shape shard_shape(const Value& value, std::int64_t position) const;
  AddressSpace& space_of(MemoryKind kind) const;

  Graph graph_;
  const Backend& backend_;
  Digest digest_;
  Communicator* communicator_ = nullptr;  // Of the processes, if there are several.
  std::vector<ShardShapes> shapes_;       // Of each value.
  std::vector<Step> steps_;
  MemoryPlan plan_;
  std::vector<std::size_t> first_pointer_;  // Of each value.
  std::size_t num_pointers_ = 0;
  std::vector<std::vector<Binding>> bindings_;  // Of each storage of inputs and outputs, by piece.
  std::vector<std::size_t> first_buffer_;       // Of each output storage.
  std::vector<std::int32_t> last_writes_;       // The last step that writes each storage.
  std::vector<std::vector<Source>> outputs_;    // Of each output.
  std::vector<TensorView> views_;               // Of all variants, without data.
  std::int64_t kernels_ = 0;                    // That a launch runs,
  std::int64_t made_ = 0;                       // shards that they make in memory of their own,
  std::int64_t collectives_ = 0;                // and collectives.
  // For each shard of a value that varies over the first set, that of one that varies over the second.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::int32_t>> shard_maps_;

  // Launches that are over, to be used again: one at hand, and the others.
  mutable std::atomic<Launch*> spare_{nullptr};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Launch>> spares_;
};

}  // namespace shoal
