// Programs that run on shards as they lie: the equations of a shard_map outside jit, which runs as it is written.
#pragma once

#include <memory>
#include <vector>

#include "comm/collectives/shard_set.h"
#include "ir/graph.h"
#include "runtime/executable.h"
#include "runtime/pipeline.h"

namespace shoal {

/// A compiled body of a region. Immutable; runs may come from any thread.
class RegionProgram {
 public:
  /// Runs the stages. All devices of `grid` take part. Throws as Program does.
  RegionProgram(Graph body, GridPtr grid, ManualRegion region, SourceLocation where);

  /// The shards of the results, for those of the arguments. Returns when they are made, in the order of the launch
  /// lane.
  std::vector<ShardSet> run(std::vector<ShardSet> arguments) const;

 private:
  std::unique_ptr<Executable> executable_;
};

}  // namespace shoal
