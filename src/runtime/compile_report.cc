#include "runtime/compile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "ir/type.h"

namespace shoal {
namespace {

constexpr std::size_t kInputsToName = 4;

std::string name_inputs(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < std::min(graph.inputs.size(), kInputsToName); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(graph.type(graph.inputs[i]));
  }
  const std::size_t others = graph.inputs.size() - std::min(graph.inputs.size(), kInputsToName);
  return others == 0 ? text : fmt::format("{} and {} more", text, others);
}

double milliseconds(profiler::Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

}  // namespace

CompileReport::CompileReport(const Graph& traced, SourceLocation where)
    : recording_(profiler::current_recording.load(std::memory_order_relaxed)),
      logging_(log_enabled(LogTopic::kCompile)),
      where_(where) {
  if (recording_ == 0 && !logging_) return;
  program_ = traced.name;
  if (logging_) inputs_ = name_inputs(traced);
  begin_ = stage_begin_ = profiler::Clock::now();
}

void CompileReport::end_stage(std::string_view stage) {
  if (recording_ == 0 && !logging_) return;
  const auto now = profiler::Clock::now();
  profiler::add_event(recording_, profiler::Category::kCompile, stage, stage_begin_, now, {.program = program_});
  if (logging_)
    stages_ += fmt::format("{}{} {:.3f}", stages_.empty() ? "" : ", ", stage, milliseconds(now - stage_begin_));
  stage_begin_ = profiler::Clock::now();
}

void CompileReport::finish(std::size_t devices) {
  if (recording_ == 0 && !logging_) return;
  const auto now = profiler::Clock::now();
  profiler::add_event(recording_, profiler::Category::kCompile, "compile", begin_, now,
                      {.program = program_, .where = where_});
  if (!logging_) return;
  const std::string line = to_string(where_);
  log_info(LogTopic::kCompile, fmt::format("{}({}): compiled in {:.3f} ms for {} device{}{}: {}", program_, inputs_,
                                           milliseconds(now - begin_), devices, devices == 1 ? "" : "s",
                                           line.empty() ? "" : ", called at " + line, stages_));
}

}  // namespace shoal
