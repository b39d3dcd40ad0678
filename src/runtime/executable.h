// Executables: partitioned graphs ready to run on the shards of this process.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "comm/collectives/shard_set.h"
#include "comm/record/communicator.h"
#include "ir/graph.h"
#include "runtime/launch.h"
#include "runtime/memory_plan.h"
#include "runtime/memory_report.h"
#include "runtime/schedule.h"

namespace shoal {

/// A schedule, and launches that are kept to run it again. Immutable to its users: any number of threads may run it,
/// each with a launch of its own.
class Executable {
 public:
  /// Takes what make_schedule() takes, and throws what that throws.
  Executable(GraphPtr graph, const Backend& backend, const std::vector<Reuse>& reuses = {}, const Digest& digest = {});
  Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses = {}, const Digest& digest = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const Graph& graph() const { return schedule_.graph; }
  const GraphPtr& kept_graph() const { return schedule_.kept; }
  const MemoryPlan& memory_plan() const { return schedule_.plan; }
  const Schedule& schedule() const { return schedule_; }

  /// What a launch takes of the host's memory, as runtime/memory_report.h says.
  std::size_t argument_bytes() const { return shoal::argument_bytes(schedule_); }
  std::size_t output_bytes() const { return shoal::output_bytes(schedule_); }
  std::size_t launch_bytes() const { return shoal::launch_bytes(schedule_); }

  /// Runs a launch: gives and throws what Launch::run() does.
  std::vector<ShardSet> run(std::vector<ShardSet> inputs, const Digest& lineage = {},
                            const LaunchCall& call = {}) const;

 private:
  class Borrowed;

  const Schedule schedule_;
  // Launches that are over, to be used again: one at hand, and the others.
  mutable std::atomic<Launch*> spare_{nullptr};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Launch>> spares_;
};

}  // namespace shoal
