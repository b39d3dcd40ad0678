#include "runtime/pipeline.h"

#include <fmt/format.h>

#include <utility>

#include "base/env.h"
#include "shoal/error.h"

namespace shoal {
namespace {

bool checks_graphs() {
#ifdef SHOAL_CHECKED
  return true;
#else
  static const bool checked = env_bool("SHOAL_CHECKED").value_or(false);
  return checked;
#endif
}

}  // namespace

void Pipeline::look_at(const Graph& graph, std::string_view name) {
  if (checks_graphs()) verify(graph, name);
  dump_.write(name, graph);
}

void Pipeline::keep(std::string name, GraphPtr graph) {
  look_at(*graph, name);
  results_.emplace_back(std::move(name), std::move(graph));
}

void Pipeline::keep(std::string name, Graph graph) {
  keep(std::move(name), std::make_shared<const Graph>(std::move(graph)));
}

void Pipeline::run(Compilation& program, std::string_view first, std::string_view last, CompileReport* report) {
  run_stages(program, first, last, [&](const Stage& stage, const GraphPtr& graph) {
    if (stage.result.empty()) {
      look_at(*graph, stage.name);
    } else {
      keep(std::string(stage.result), graph);
    }
    if (report != nullptr) report->end_stage(stage.name);
  });
}

const Graph& Pipeline::graph(std::string_view name) const {
  std::vector<std::string> names;
  for (const Result& result : results_) {
    if (result.name == name) return result.graph;
    names.push_back(result.name);
  }
  throw InvalidArgument(
      fmt::format("as_text: no stage is named '{}'; the stages are {}", name, fmt::join(names, ", ")));
}

}  // namespace shoal
