// Transposition of long graphs: it recurs into nothing but bodies, and what it makes is as long as what it is given.
#include "transform/transpose.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "transform/linearize.h"

namespace shoal {
namespace {

// A chain of `count` operations that each use the result before, and some of them one from long before.
Graph chain(std::size_t count) {
  Graph graph;
  graph.name = "chain";
  const ValueId x = graph.add_input({.dtype = float32, .shape = {4}});
  Builder build(graph, {});
  std::vector<ValueId> values = {x};
  while (graph.eqns.size() < count) {
    const ValueId last = values.back();
    switch (values.size() % 4) {
      case 0:
        values.push_back(build.elementwise("sin", {last}));
        break;
      case 1:
        values.push_back(build.multiply(last, values[values.size() / 2]));
        break;
      case 2:
        values.push_back(build.add(last, x));
        break;
      default:
        values.push_back(build.elementwise("negative", {last}));
    }
  }
  graph.outputs = {values.back()};
  return graph;
}

struct Sizes {
  std::size_t linear;
  std::size_t transposed;
  std::size_t values;
};

Sizes sizes_for(std::size_t count) {
  const Graph graph = chain(count);
  const Linearized parts = linearize(graph, {true}, {true});
  const Graph turned = transpose(parts.tangent, parts.num_residuals, {}, false);
  EXPECT_EQ(turned.outputs.size(), 1U);
  return {.linear = parts.tangent.eqns.size(), .transposed = turned.eqns.size(), .values = turned.values.size()};
}

TEST(Transpose, IsLinearInTheNumberOfEquations) {
  const Sizes few = sizes_for(10'000);
  const Sizes many = sizes_for(100'000);
  EXPECT_GE(few.linear, 10'000U);
  EXPECT_LE(few.transposed, 3 * few.linear);
  const auto is_ten_times = [](std::size_t a, std::size_t b) { return b <= 10 * a + 100 && a * 10 <= b + 100; };
  EXPECT_TRUE(is_ten_times(few.linear, many.linear)) << few.linear << ' ' << many.linear;
  EXPECT_TRUE(is_ten_times(few.transposed, many.transposed)) << few.transposed << ' ' << many.transposed;
  EXPECT_TRUE(is_ten_times(few.values, many.values)) << few.values << ' ' << many.values;
}

}  // namespace
}  // namespace shoal
