#include "ir/eqn_classes.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace shoal {
namespace {

TEST(EqnClasses, AreEqualForWhatIsAlike) {
  const Graph graph = parse_graph(R"(graph "main"(%0: f32[4], %1: f32[4], %2: f32[8]) {
  %3: f32[4] = add(%0, %1)
  %4: f32[4] = add(%3, %3)
  %5: f32[4] = multiply(%3, %4)
  %6: f32[8] = add(%2, %2)
  %7: f32[] = reduce_sum(%3) {axes = (0)}
  %8: f32[] = reduce_sum(%5) {axes = (0)}
  return %6, %7, %8
})",
                                  find_op);
  EqnClasses classes(graph);
  EXPECT_EQ(classes.of(ValueId{0}), classes.of(ValueId{3}));
  EXPECT_NE(classes.of(ValueId{0}), classes.of(ValueId{2}));
  EXPECT_EQ(classes.of(graph.eqns[0]), classes.of(graph.eqns[1]));
  EXPECT_NE(classes.of(graph.eqns[0]), classes.of(graph.eqns[2])) << "another op";
  EXPECT_NE(classes.of(graph.eqns[0]), classes.of(graph.eqns[3])) << "other types";
  EXPECT_EQ(classes.of(graph.eqns[4]), classes.of(graph.eqns[5]));
}

TEST(EqnClasses, DifferByAttributes) {
  const Graph graph = parse_graph(R"(graph "main"(%0: f32[4,4]) {
  %1: f32[4] = reduce_sum(%0) {axes = (0)}
  %2: f32[4] = reduce_sum(%0) {axes = (1)}
  return %1, %2
})",
                                  find_op);
  EqnClasses classes(graph);
  EXPECT_NE(classes.of(graph.eqns[0]), classes.of(graph.eqns[1]));
}

}  // namespace
}  // namespace shoal
