#include "spmd/stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/bodies.h"
#include "ops/split_programs.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/hoist.h"
#include "passes/inline_calls.h"
#include "passes/open_keys.h"
#include "passes/simplify.h"
#include "passes/update_last.h"
#include "spmd/overlap.h"
#include "spmd/partition.h"
#include "spmd/propagate.h"

namespace shoal {
namespace {

template <Graph (*kPass)(Graph)>
void rewrite(Compilation& program) {
  program.graph = kPass(program.graph.take());
}

// Calls, and the keys of random numbers.
void open_all(Compilation& program) { program.graph = open_keys(inline_calls(*program.graph)); }

void place_all(Compilation& program) {
  Placing& placing = program.placing;
  if (program.region) {
    program.graph = place_in_region(*program.graph, placing.grid, *program.region);
    return;
  }
  Graph graph = give_devices(program.graph.take(), placing);
  choose_grid(graph, placing);
  program.graph = place(std::move(graph), placing);
}

// Makes calls of programs of equations whose matrices the propagated graph splits. Returns whether there are any.
bool call_split_programs(Graph& graph, const Graph& propagated) {
  std::vector<const Eqn*> made(propagated.values.size());
  for (const Eqn& eqn : propagated.eqns) {
    for (const ValueId id : eqn.outputs) made[slot(id)] = &eqn;
  }
  bool any = false;
  for (Eqn& eqn : graph.eqns) {
    if (eqn.outputs.empty()) continue;
    const Eqn* const found = made[slot(eqn.outputs[0])];
    SHOAL_CHECK(found != nullptr && found->op == eqn.op, "propagation does not change equations");
    const Eqn& same = *found;
    if (may_be_split(*eqn.op)) {
      const Value& matrix = propagated.value(same.inputs[0]);
      const bool is_split = std::ranges::any_of(matrix.placement->dims, [](const Atoms& dim) { return !dim.empty(); });
      if (!is_split || !matrix.manual.empty()) continue;
      const Type type = graph.type(eqn.inputs[0]);
      any = call_split_program(eqn, {&type, 1}) || any;
      continue;
    }
    const auto bodies = bodies_of(same);
    std::size_t number = 0;
    map_bodies(eqn, [&](const Graph& body) {
      Graph changed = body;
      if (call_split_programs(changed, *bodies[number++])) any = true;
      return changed;
    });
  }
  return any;
}

// Where an op is a program over devices that share its matrix, that program is propagated instead.
Graph propagated(Graph graph, const std::vector<std::optional<Placement>>& fixed) {
  bool may_split = false;
  for_each_eqn(graph, [&](const Eqn& eqn) { may_split = may_split || may_be_split(*eqn.op); });
  if (!may_split) return propagate(std::move(graph), fixed);
  Graph result = propagate(graph, fixed);
  if (!call_split_programs(graph, result)) return result;
  return propagate(inline_calls(std::move(graph)), fixed);
}

void propagate_all(Compilation& program) {
  if (program.region) {
    std::vector<std::optional<Placement>> open(program.graph->inputs.size());
    program.graph = propagated(program.graph.take(), open);
    return;
  }
  const std::vector<std::optional<Placement>> fixed = fixed_inputs(*program.graph, program.placing);
  Graph graph = propagated(program.graph.take(), fixed);
  settle_outputs(graph, program.placing);
  settle_inputs(graph, program.placing);
  report_shardings(graph, program.placing);
  program.graph = std::move(graph);
}

// Bodies that run under control are programs of their own to the back end.
Graph fused(const Compilation& program, Graph graph) {
  for (Eqn& eqn : graph.eqns) {
    if (eqn.op->op_class == OpClass::kControl) map_bodies(eqn, [&](const Graph& body) { return fused(program, body); });
  }
  return overlap(program.fuse(std::move(graph)));
}

void partition_all(Compilation& program) { program.graph = hoist_exchanges(partition(*program.graph)); }

// A region has kept passes from merging what it computes again with the first time. From here on it would only be one
// program more, and keep loops around it from being one kernel.
void fuse_all(Compilation& program) {
  program.graph = update_last(inline_calls_and_regions(fused(program, program.graph.take())));
}

constexpr Stage kStages[] = {
    {.name = "inline_calls", .result = "", .run = open_all},
    {.name = "simplify", .result = "", .run = rewrite<simplify>},
    {.name = "cse", .result = "", .run = rewrite<cse>},
    {.name = "hoist", .result = "", .run = rewrite<hoist>},
    {.name = "dce", .result = "simplified", .run = rewrite<dce>},
    {.name = "place", .result = "placed", .run = place_all},
    {.name = "propagate", .result = "propagated", .run = propagate_all},
    {.name = "partition", .result = "partitioned", .run = partition_all},
    {.name = "fuse", .result = "fused", .run = fuse_all},
};

const Stage* stage_named(std::string_view name) {
  const Stage* stage = std::ranges::find(kStages, name, &Stage::name);
  SHOAL_CHECK(stage != std::end(kStages), "a stage has this name");
  return stage;
}

}  // namespace

std::span<const Stage> all_stages() { return kStages; }

void run_stages(Compilation& program, std::string_view first, std::string_view last,
                FunctionRef<void(const Stage&, const GraphPtr&)> watch) {
  for (const Stage* stage = stage_named(first); stage <= stage_named(last); ++stage) {
    stage->run(program);
    watch(*stage, program.graph.kept());
  }
}

void run_stages(Compilation& program, std::string_view first, std::string_view last) {
  run_stages(program, first, last, [](const Stage&, const GraphPtr&) {});
}

}  // namespace shoal
