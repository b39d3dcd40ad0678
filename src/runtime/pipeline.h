// The stages (spmd/stages.h) of one program as they run: each graph is verified, dumped, timed and kept.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/compile_report.h"
#include "runtime/dump.h"
#include "spmd/stages.h"

namespace shoal {

class Pipeline {
 public:
  /// A graph on the way, by the name of the stage that gave it.
  struct Result {
    Result(std::string stage, GraphPtr made) : name(std::move(stage)), kept(std::move(made)) {}

    std::string name;
    GraphPtr kept;
    const Graph& graph = *kept;
  };

  /// Of the program of that name.
  explicit Pipeline(std::string_view program) : dump_(program) {}

  /// Keeps a graph that no stage gave: what was traced or read, or came after the last one.
  void keep(std::string name, GraphPtr graph);
  void keep(std::string name, Graph graph);

  /// Runs the stages from `first` to `last`, and keeps their results, unless they are only steps on the way to one.
  void run(Compilation& program, std::string_view first, std::string_view last, CompileReport* report = nullptr);

  const std::vector<Result>& results() const { return results_; }
  /// The graph of that name. Throws InvalidArgument if there is none.
  const Graph& graph(std::string_view name) const;
  const Graph& last() const { return results_.back().graph; }
  const GraphPtr& last_kept() const { return results_.back().kept; }

 private:
  void look_at(const Graph& graph, std::string_view name);

  Dump dump_;
  std::vector<Result> results_;
};

}  // namespace shoal
