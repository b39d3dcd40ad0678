// Executables: partitioned graphs ready to run on the shards of this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "comm/shard_set.h"
#include "ir/graph.h"

namespace shoal {

/// What executables have done in this process so far. Tests count with it.
struct ExecutionCounters {
  std::atomic<std::int64_t> kernels{0};      ///< Kernel runs: one per distinct shard of each compute step.
  std::atomic<std::int64_t> buffers{0};      ///< Buffers that compute steps have made.
  std::atomic<std::int64_t> collectives{0};  ///< Collective steps.
};
ExecutionCounters& execution_counters();

/// An input of a graph whose memory may hold an output, as numbers in the lists of both.
struct Reuse {
  std::size_t input;
  std::size_t output;
};

/// Runs a partitioned graph step by step. A step is a loop over the distinct shards of its results on the thread pool:
/// what devices share exists once and is computed once, and no thread ever waits for another device.
/// Immutable; any number of threads may run it.
class Executable {
 public:
  /// Outputs are computed into the memory of inputs as `reuses` say, where the types are equal, nobody else holds the
  /// memory, and the step that makes the output needs the input no more, or element by element.
  Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses = {});

  const Graph& graph() const { return graph_; }

  /// The outputs for these inputs. Inputs may vary over fewer atoms than the graph's inputs do. Each buffer is released
  /// after its last use. Throws what a kernel throws, and OutOfMemory with the op and the user's line.
  std::vector<ShardSet> run(std::vector<ShardSet> inputs) const;

 private:
  struct Step {
    const Eqn* eqn;
    std::unique_ptr<Kernel> kernel;  // Of compute ops.
    std::vector<ValueId> last_uses;  // Values that no later step needs.
    std::vector<ValueId> memory;     // For each result, the value whose memory it may take, or -1.
  };

  void plan_reuse(ValueId input, ValueId output);
  std::vector<ShardSet> run_step(const Step& step, const std::vector<ShardSet>& values) const;
  std::vector<ShardSet> run_kernel(const Step& step, const std::vector<ShardSet>& values) const;
  void run_effect(const Eqn& eqn, const std::vector<ShardSet>& values) const;
  ShardSet run_collective(const Eqn& eqn, const std::vector<ShardSet>& values) const;
  AddressSpace& space_of(MemoryKind kind) const;
  Shape shard_shape(const Value& value, std::int64_t position) const;

  Graph graph_;
  const Backend& backend_;
  std::vector<Step> steps_;
};

}  // namespace shoal
