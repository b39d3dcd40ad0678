// The interface of a back end: it turns equations of partitioned graphs into kernels and owns the memories of its
// devices. docs/design/0003 reviews it with CUDA in mind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "comm/collectives/collective.h"
#include "core/buffer.h"
#include "ir/graph.h"

namespace shoal {

/// How a kernel's work on one shard is divided.
struct Work {
  std::int64_t tiles = 1;         ///< Pieces that may run at the same time, in any order.
  std::size_t scratch_bytes = 0;  ///< Memory for all of them together, aligned to 64 and not initialised.
  bool merges = false;            ///< Tiles, of several shards too, take less time if one thread computes them at once.
  bool finishes_long = false;     ///< finish() takes time enough for several shards to be finished at once.
};

/// The tiles begin … end - 1 of a shard.
struct ShardTiles {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::byte* scratch;
  std::int64_t begin;
  std::int64_t end;
};

/// One step's computation on one shard. Immutable: any number of threads may run it at once.
///
/// Shapes are those of the shard at hand, which need not be those the kernel was compiled for. The same shapes always
/// give the same tiles, and results do not depend on who runs them or when.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Asked once for the shapes of a shard, when a program is made: the views have no data.
  virtual Work work(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const;
  /// Computes one tile of the results. All tiles of a shard get the same scratch memory.
  virtual void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
                   std::int64_t tile) const = 0;
  /// Computes the tiles begin … end - 1, with the same results: one after the other, unless there is a faster way.
  virtual void run_tiles(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
                         std::int64_t begin, std::int64_t end) const;
  /// Computes tiles of several shards, with the same results: one shard after the other, unless there is a faster way.
  virtual void run_shards(std::span<const ShardTiles> shards) const;
  /// What is left to do after all tiles of the shard. Shards may be finished at the same time.
  virtual void finish(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                      std::byte* scratch) const;
  /// Whether an output may lie in the memory of an input of its dtype and shape: each element is read before it is
  /// overwritten, by the same tile, and not after.
  virtual bool may_overwrite(std::size_t input, std::size_t output) const;
  /// The input that tiles do no more than copy to the only output: they are left out where it lies there already.
  virtual std::optional<std::size_t> copied_input() const { return std::nullopt; }
};

/// The body of a loop as one piece of code that goes round by itself. Immutable, as kernels are.
class RepeatedKernel {
 public:
  /// Where something lies in the first trip, and by how many bytes it moves from one trip to the next.
  struct Operand {
    std::byte* data;
    std::int64_t step;
  };

  virtual ~RepeatedKernel() = default;
  /// The arguments of the body, then the yields that are no carries. What a trip yields for a carry lies where its
  /// argument does. Returns the number of trips: fewer if the condition has ended the loop. Trips that take long ask
  /// from time to time whether they are to end: if so, the run ends at once, and its results are arbitrary.
  virtual std::int64_t run(std::span<const Operand> operands, std::int64_t trips,
                           FunctionRef<bool()> is_to_end) const = 0;
  /// Trips that take up to kMillisecondsAtOnce, unless some of them may take any time.
  virtual std::int64_t trips_at_once() const = 0;
  virtual bool may_take_any_time() const { return false; }

  static constexpr double kMillisecondsAtOnce = 2;
};

/// Runs all of a kernel's work in the caller's thread.
void run_kernel(const Kernel& kernel, std::span<const TensorView> inputs, std::span<const TensorView> outputs);

/// Objects live as long as the process; the functions may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Where values of a memory kind live on a device. Devices that share a space share buffers.
  virtual AddressSpace& address_space(const Device& device, MemoryKind kind) const = 0;
  /// What equations are put together for: to take as little time, or as little memory at a time.
  enum class FusionGoal { kTime, kMemory };
  /// The partitioned graph rewritten for this back end: equations that it computes together become one.
  virtual Graph fuse(Graph graph, FusionGoal /*goal*/) const { return graph; }
  Graph fuse(Graph graph) const { return fuse(std::move(graph), FusionGoal::kTime); }
  /// A kernel for a compute op of a partitioned graph. Throws Unsupported for an op that the back end has not.
  virtual std::unique_ptr<Kernel> compile(const Graph& graph, const Eqn& eqn) const = 0;
  /// What computes a collective that `fuse` has made of a computation and what follows it (CollectiveFacts::computes),
  /// on shards of these shapes. The devices are those of one process. Throws InternalError for an op it has not.
  virtual collectives::CollectivePtr compile_collective(const Graph& graph, const Eqn& eqn,
                                                        std::span<const ShardShapes> shapes) const;
  /// A kernel for a fused body whose first `carries` yields are its first arguments in the next trip; nullptr if it is
  /// better run equation by equation. If there is a condition, a graph with the same arguments, it is asked before each
  /// trip. `trips` are as many as are known.
  virtual std::unique_ptr<RepeatedKernel> compile_repeated(const Graph& /*body*/, const Graph* /*condition*/,
                                                           std::size_t /*carries*/, std::int64_t /*trips*/) const {
    return nullptr;
  }
};

/// The back end that interprets each op's reference: slow, obvious, and the oracle of every test.
const Backend& reference_backend();
/// The back end that fuses and compiles.
const Backend& cpu_backend();

/// The back end of programs made from now on: `cpu`, or what SHOAL_BACKEND names. Throws InvalidArgument if that names
/// none.
const Backend& current_backend();

/// Makes another back end the current one of this thread, for as long as it lives. For tests that compare them.
class BackendScope {
 public:
  explicit BackendScope(const Backend& backend);
  ~BackendScope();
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;

 private:
  const Backend* before_;
};

}  // namespace shoal
