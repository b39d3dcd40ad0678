// Tells the profiler, and who asked for the log topic "compile", how long each stage of a compilation takes.
#pragma once

#include <string>
#include <string_view>

#include "base/profiler.h"
#include "ir/graph.h"

namespace shoal {

class CompileReport {
 public:
  /// Begins the compilation of a traced graph, at the user's line.
  CompileReport(const Graph& traced, SourceLocation where);
  /// What was done since the last stage ended, or the compilation began, was this one.
  void end_stage(std::string_view stage);
  /// The program is compiled, for so many devices.
  void finish(std::size_t devices);

 private:
  std::uint32_t recording_;
  bool logging_;
  SourceLocation where_;
  profiler::Clock::time_point begin_, stage_begin_;
  std::string program_;  // Empty unless somebody listens, as the next two.
  std::string inputs_;
  std::string stages_;
};

}  // namespace shoal
