#include "runtime/region_program.h"

#include <utility>

#include "backend/backend.h"
#include "ir/graph_digest.h"
#include "runtime/lane.h"

namespace shoal {

RegionProgram::RegionProgram(Graph body, GridPtr grid, ManualRegion region, SourceLocation where) {
  Pipeline pipeline(body.name);
  CompileReport report(body, where);
  const std::size_t devices = grid->devices().size();
  const bool is_local = grid->is_local();
  const Backend& backend = current_backend();
  pipeline.keep("traced", std::move(body));
  Compilation program{.graph = pipeline.last_kept(),
                      .placing = {.where = where, .grid = std::move(grid)},
                      .region = std::move(region),
                      .fuse = [&](Graph graph) { return backend.fuse(std::move(graph)); }};
  pipeline.run(program, "inline_calls", "partition", &report);
  // Of what is partitioned, as fusion may depend on the processor.
  const Digest digest = is_local ? Digest() : make_digest(*program.graph).digest;
  pipeline.run(program, "fuse", "fuse", &report);
  executable_ = std::make_unique<Executable>(program.graph.kept(), backend, std::vector<Reuse>(), digest);
  report.end_stage("make kernels");
  report.finish(devices);
}

std::vector<ShardSet> RegionProgram::run(std::vector<ShardSet> arguments) const {
  std::vector<ShardSet> results;
  run_on_lane([&] { results = executable_->run(std::move(arguments)); });
  return results;
}

}  // namespace shoal
