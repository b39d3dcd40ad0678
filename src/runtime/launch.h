// Launches: runs of a schedule, and the memory that they need.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/profiler.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/shard_set.h"
#include "comm/record/communicator.h"
#include "core/buffer.h"
#include "runtime/schedule.h"

namespace shoal {

/// What launches have done in this process so far. Tests count with it.
struct ExecutionCounters {
  std::atomic<std::int64_t> kernels{0};      ///< Kernel runs: one per distinct shard of each compute step.
  std::atomic<std::int64_t> buffers{0};      ///< Shards that compute steps made in memory which held no operand.
  std::atomic<std::int64_t> collectives{0};  ///< Collective steps.
};
ExecutionCounters& execution_counters();

/// Runs a schedule as often as one likes, one run after the other: the memory of values that are no outputs, and all
/// pointers to it, are made once. A run allocates its outputs and nothing else.
class Launch {
 public:
  /// `schedule` outlives it. Throws OutOfMemory with the op and the user's line.
  explicit Launch(const Schedule& schedule) : Launch(schedule, nullptr) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// The outputs for these inputs, which may vary over fewer atoms than the graph's inputs do. Each buffer is released
  /// after its last use. Throws what a kernel throws, and OutOfMemory with the op and the user's line.
  ///
  /// If devices are of several processes, each of them runs this, and exchanges what collectives need with the others;
  /// `lineage` tells where the inputs come from, and is the same in all. Throws Disagreement, DeadlineExceeded or
  /// ProcessFailed if not all do the same in time; as after any other error of such a run, their communicator has
  /// failed. `call` is that of the communicator.
  std::vector<ShardSet> run(std::vector<ShardSet> inputs, const Digest& lineage, const LaunchCall& call);

  /// Lets go of inputs and outputs that a run has left.
  void clear();

  /// Whether other processes may still be reading its memory, as after a failed run: it stays as it is for good.
  bool may_be_read() const { return may_be_read_; }

 private:
  // That of a body, whose arena lies at `arena`.
  Launch(const Schedule& schedule, std::byte* arena);

  // One block of memory of an address space.
  class Arena {
   public:
    Arena() = default;
    Arena(AddressSpace& space, std::size_t bytes) : space_(&space), bytes_(bytes), data_(space.allocate(bytes)) {}
    Arena(Arena&& other) noexcept { *this = std::move(other); }
    Arena& operator=(Arena&& other) noexcept {
      std::swap(space_, other.space_);
      std::swap(bytes_, other.bytes_);
      std::swap(data_, other.data_);
      return *this;
    }
    ~Arena() {
      if (data_ != nullptr) space_->deallocate(data_, bytes_);
    }

    std::byte* data() const { return static_cast<std::byte*>(data_); }

   private:
    AddressSpace* space_ = nullptr;
    std::size_t bytes_ = 0;
    void* data_ = nullptr;
  };

  void make_arenas();
  void point_into_arenas();
  void make_bodies();
  std::byte* arena(std::size_t kind) const { return kind == 0 && arena_ != nullptr ? arena_ : arenas_[kind].data(); }

  // launch.cc: the way through the steps, and kernels.
  void run_steps();
  void take_inputs();
  std::int64_t give_birth(std::int32_t number);
  void run_step(const Step& step);
  void run_kernel(const Step& step, const KernelStep& work);
  bool lies_in_result(const Step& step, const KernelStep& work, std::int64_t first, std::int64_t shards) const;
  std::vector<ShardSet> outputs();
  const Buffer& input_piece(std::int32_t input, std::int64_t piece) const;
  Buffer& output_piece(std::int32_t storage, std::int64_t piece);
  // Steps that touch no more bytes are done before another thread has woken up.
  static constexpr std::size_t kInlineKernelBytes = std::size_t{32} << 10;
  // Ranges of tiles per thread, to even out those that take longer.
  static constexpr std::int64_t kRangesPerThread = 16;
  static void for_each_range(std::int64_t count, std::int64_t ranges_per_thread,
                             FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

  // launch_control.cc: bodies.
  class ControlRun;
  void run_control(const Step& step, const ControlStep& work, profiler::ProfileScope& event);
  std::int64_t run_whole(const Step& step, const Control& control, const ControlStep::Whole& whole);
  void enter_body(const Launch& outer, const Step& step, std::int64_t run, std::optional<std::int64_t> trip);
  void run_body(Launch& outer, const Step& step, std::int64_t run, std::optional<std::int64_t> trip = {});
  void note_way(const ControlStep& work, std::int64_t way);
  bool is_on_way(std::int64_t position) const;
  bool may_part() const;
  std::vector<bool> shards_on_way(AtomSet varying) const;
  template <class PointerAt>
  void point(std::int32_t storage, PointerAt&& pointer_at);
  void abandon_exchanges();

  // launch_collectives.cc: collectives, effects, and what they exchange with other processes.
  void fill_with_zeros(std::int32_t number);
  void run_collective(const Step& step, const CollectiveStep& work);
  void run_rounds(const Step& step, const CollectiveStep& work, std::size_t first, std::size_t last);
  template <class TileAt>
  void run_tiles(const Step& step, const CollectiveStep& work, std::int64_t tiles, TileAt&& tile_at) const;
  void run_effect(const Step& step, const EffectStep& work);
  void take_results(const Step& step, std::int64_t position, const std::vector<Buffer>& results) const;
  void leave_results(const Step& step, std::int64_t position) const;
  Buffer whole_operand(const Step& step, std::size_t operand, std::int64_t position);
  void start(const Step& step);
  void start_trip_ahead();
  Exchange::Run begin_exchange(const Step& step, const StepExchanges& exchanges, std::size_t round);
  template <class F>
  void exchange(const Step& step, const StepExchanges& exchanges, std::size_t round, F&& use, bool is_ahead = false);
  static std::size_t pointer_to(const Step& step, std::int32_t operand, std::int32_t shard);
  const Buffer* buffer_of(const Step& step, std::int32_t operand, std::int32_t shard);
  void wait_until_read();

  const Schedule& schedule_;
  std::byte* arena_ = nullptr;                                           // Of a body: of the device memory.
  std::map<std::int32_t, std::vector<std::unique_ptr<Launch>>> bodies_;  // By the number of their equation.
  std::vector<std::byte*> pointers_;                                     // To the shards of all values.
  std::vector<TensorView> views_;                                        // Of the variants of all kernels.
  std::vector<ShardSet> inputs_;
  std::vector<Buffer> buffers_;          // The pieces of output storages.
  std::array<Arena, 3> arenas_;          // Of each kind of memory.
  MessageTag tag_;                       // Of what is exchanged with other processes.
  std::uint64_t trip_ = 0;               // Of a body: that of the innermost loop, from 1 on.
  const Launch* outer_ = nullptr;        // Of a body: that around it.
  AtomSet apart_;                        // Of a body: the atoms along which devices go different ways,
  std::vector<bool> on_way_;             // and which of these ways lead through it, of those that are known here.
  ControlRun* loop_ = nullptr;           // Of a loop's body: the loop that runs it.
  bool is_ahead_ = false;                // Whether what begins a trip ahead has begun.
  std::deque<Exchange::Run> under_way_;  // Exchanges of steps that have not come, in the order of the steps.
  std::vector<Exchange::Run> unread_;    // What others may still be reading where a later step writes.
  bool may_be_read_ = false;
};

}  // namespace shoal
