// The stages of a program, from the graph of a traced function to the one that an executable runs, in one list.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/function_ref.h"
#include "ir/graph.h"
#include "spmd/place.h"

namespace shoal {

/// A graph that stages hand on: the next one takes it, unless somebody keeps it.
class HandedGraph {
 public:
  HandedGraph(GraphPtr kept) : graph_(std::move(kept)) {}
  HandedGraph(Graph made) {
    std::shared_ptr<Graph> own = std::make_shared<Graph>(std::move(made));
    own_ = own.get();
    graph_ = std::move(own);
  }

  const Graph& operator*() const { return *graph_; }
  const Graph* operator->() const { return graph_.get(); }
  const GraphPtr& kept() const { return graph_; }
  /// The graph, to be changed; this holds none then, until it is given another.
  Graph take() {
    const GraphPtr graph = std::move(graph_);
    if (own_ != nullptr && graph.use_count() == 1) return std::move(*own_);
    return *graph;
  }

 private:
  GraphPtr graph_;
  Graph* own_ = nullptr;  // The same, if it was made for this.
};

/// A program on its way.
struct Compilation {
  HandedGraph graph;  ///< That of the last stage.
  Placing placing = {};
  /// If the graph is a body whose arguments are shards that lie somewhere already. `placing` needs no more than the
  /// grid then.
  std::optional<ManualRegion> region = {};
  /// What the back end makes of a partitioned graph. The stages up to there do without.
  std::function<Graph(Graph)> fuse = {};
};

/// A function from graph to graph.
struct Stage {
  std::string_view name;
  std::string_view result;  ///< The name of the graph after it; empty for a step on the way to one.
  void (*run)(Compilation& program);
};

/// All of them, in order.
std::span<const Stage> all_stages();

/// Runs those from `first` to `last`, which are stages' names. `watch` gets to see the graph after each.
void run_stages(Compilation& program, std::string_view first, std::string_view last,
                FunctionRef<void(const Stage&, const GraphPtr&)> watch);
void run_stages(Compilation& program, std::string_view first, std::string_view last);

}  // namespace shoal
