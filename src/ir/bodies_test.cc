#include "ir/bodies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/test_support.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// A "copy" that holds a graph, which holds another.
Graph nested() {
  return parse_graph(R"(graph "outer"(%0: f32[]) {
  %1: f32[] = copy(%0) {body = graph "inner"(%0: f32[]) {
      %1: f32[] = copy(%0) {body = graph "innermost"(%0: f32[]) {
          sink(%0)
          return %0
        }}
      return %1
    }}
  %2: f32[] = copy(%1)
  return %2
})",
                     test_support::find_op);
}

TEST(Bodies, EquationsAreVisitedBeforeThoseThatTheyHold) {
  const Graph graph = nested();
  std::vector<std::string> seen;
  for_each_eqn(graph, [&](const Eqn& eqn) {
    const auto bodies = bodies_of(eqn);
    const Graph* body = bodies.empty() ? nullptr : bodies[0];
    seen.push_back(std::string(eqn.op->name) + (body == nullptr ? "" : " of " + body->name));
  });
  EXPECT_THAT(seen, ElementsAre("copy of inner", "copy of innermost", "sink", "copy"));
}

TEST(Bodies, AnEquationIsFoundInTheInnermost) {
  const Graph graph = nested();
  EXPECT_TRUE(any_eqn(graph, [](const Eqn& eqn) { return eqn.op->name == "sink"; }));
  EXPECT_FALSE(any_eqn(graph, [](const Eqn& eqn) { return eqn.op->name == "swap"; }));
}

TEST(Bodies, ABodyIsReplaced) {
  Graph graph = nested();
  const auto renamed = [](const Graph& body) {
    Graph result = body;
    result.name = "other";
    return result;
  };
  map_bodies(graph.eqns[0], renamed);
  EXPECT_EQ(bodies_of(graph.eqns[0])[0]->name, "other");
  map_bodies(graph.eqns[1], renamed);
  EXPECT_TRUE(bodies_of(graph.eqns[1]).empty());
}

}  // namespace
}  // namespace shoal
