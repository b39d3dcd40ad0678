// Random graphs give the oracle's values whatever the mesh, the constraints and the shardings.
//
// SHOAL_PARITY_SEED is the first seed (default 1) and SHOAL_PARITY_ROUNDS multiplies the number of graphs, for long
// runs.
#include "random_graphs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "base/env.h"
#include "ir/bodies.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

// A failure shrinks to one of the same kind: another value, or the same sort of exception.
std::string kind_of(const std::optional<std::string>& failure) {
  constexpr std::size_t kLength = 24;
  return failure ? failure->substr(0, failure->starts_with("exception") ? kLength : 6) : "";
}

// What the graphs of a run are made of, so that a test fails if they do not try any more what they should.
class Coverage {
 public:
  void add(const Case& test) {
    ++graphs_;
    equations_ += static_cast<std::int64_t>(test.graph.eqns.size());
    std::string mesh = to_string(test.mesh);
    for (const Device& device : test.mesh.devices()) mesh += fmt::format(" {}", device.id);
    meshes_.insert(std::move(mesh));
    const int depth = depth_of(test.graph);
    ++of_depth_[depth];
    // To see what carries become takes another compilation.
    if (depth > 0 && test.mesh.devices().size() > 1 && ++with_bodies_ % kPartitionedEach == 0) add_carries(test);
  }

  void check() const {
    std::int64_t with_bodies = 0;
    for (const auto& [depth, graphs] : of_depth_) with_bodies += depth > 0 ? graphs : 0;
    std::cout << fmt::format("{} graphs with {} equations on {} meshes; {} with bodies, {} of them two deep or more\n",
                             graphs_, equations_, meshes_.size(), with_bodies, graphs_deeper_than(1));
    for (const auto& [trips, loops] : of_trips_) std::cout << fmt::format("{} loops of {} trips\n", loops, trips);
    std::cout << fmt::format("{} of {} graphs whose carries were looked at have partial ones\n", partial_,
                             partitioned_);
    EXPECT_GE(3 * with_bodies, graphs_) << "fewer than a third of the graphs have bodies";
    EXPECT_GE(100 * graphs_deeper_than(1), graphs_) << "bodies are hardly ever in bodies";
    EXPECT_GE(100 * partial_, kPartialOfHundred * partitioned_) << "carries are hardly ever summands";
    EXPECT_GE(meshes_.size(), 6U);
    for (const std::int64_t trips : {0, 1, 2, 7}) {
      const auto found = of_trips_.find(trips);
      EXPECT_TRUE(found != of_trips_.end() && 100 * found->second >= graphs_)
          << "hardly a loop has " << trips << " trips";
    }
  }

 private:
  static constexpr std::int64_t kPartitionedEach = 8;
  static constexpr std::int64_t kPartialOfHundred = 5;

  std::int64_t graphs_deeper_than(int depth) const {
    std::int64_t graphs = 0;
    for (const auto& [of, count] : of_depth_) graphs += of > depth ? count : 0;
    return graphs;
  }

  // How deep loops and branches of the graph hold each other.
  int depth_of(const Graph& graph) {
    int deepest = 0;
    for (const Eqn& eqn : graph.eqns) {
      const bool is_control = eqn.op->op_class == OpClass::kControl;
      if (is_control) {
        const Control control = eqn.op->control(eqn.attrs);
        if (control.loops && control.trips) ++of_trips_[*control.trips];
      }
      for (const Graph* body : bodies_of(eqn)) deepest = std::max(deepest, depth_of(*body) + (is_control ? 1 : 0));
    }
    return deepest;
  }

  void add_carries(const Case& test) {
    ++partitioned_;
    try {
      if (has_partial_carry(partitioned(test))) ++partial_;
    } catch (const std::exception&) {
      // The test itself tells of it.
    }
  }

  static bool has_partial_carry(const Graph& graph) {
    return any_eqn(graph, [](const Eqn& eqn) {
      if (eqn.op->op_class != OpClass::kControl) return false;
      const Control control = eqn.op->control(eqn.attrs);
      const Graph& body = *bodies_of(eqn).back();
      for (std::size_t k = 0; control.loops && k < control.carries; ++k) {
        const Value& carry = body.value(body.inputs[k]);
        if (carry.global && !carry.global->placement.partial.empty()) return true;
      }
      return false;
    });
  }

  std::int64_t graphs_ = 0;
  std::int64_t equations_ = 0;
  std::int64_t with_bodies_ = 0;
  std::int64_t partitioned_ = 0;
  std::int64_t partial_ = 0;
  std::map<int, std::int64_t> of_depth_;
  std::map<std::int64_t, std::int64_t> of_trips_;
  std::set<std::string> meshes_;
};

TEST(RandomGraphs, GiveTheValuesOfTheOracle) {
  const auto first = static_cast<std::uint64_t>(env_int("SHOAL_PARITY_SEED", 0, 1'000'000'000).value_or(1));
  const std::int64_t count = 2'000 * env_int("SHOAL_PARITY_ROUNDS", 1, 1'000'000).value_or(1);
  Coverage coverage;
  int failures = 0;
  for (std::int64_t i = 0; i < count && failures < 3; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const Case test = random_case(seed);
    coverage.add(test);
    EXPECT_TRUE(graphs_equal(parse_graph(to_text(test.graph), find_op), test.graph)) << "seed " << seed;
    const std::string kind = kind_of(failure_of(test));
    if (kind.empty()) continue;
    ++failures;
    const Case small = shrink(test, [&](const Case& one) { return kind_of(failure_of(one)) == kind; });
    ADD_FAILURE() << "seed " << seed << ": " << failure_of(small).value_or("") << "\n" << to_text(small);
  }
  std::cout << fmt::format("seeds from {}\n", first);
  if (failures == 0) coverage.check();
}

}  // namespace
}  // namespace shoal::parity
