// Runs the tour of transformations and compares the output of every cell with what the same cells printed in JAX 0.4
// (tools/record_transformation_cells.py).
#include "../../examples/transformation_cells.h"
#include "cells.h"

namespace seeds {
namespace {

// How JAX names what is printed.
std::string named_as_here(const std::string& text) {
  return std::regex_replace(text, std::regex("PartitionSpec\\('x',\\)"), "P('x',)");
}

TEST(Transformations, EveryCellPrintsWhatJaxPrints) {
  const std::map<int, Cell> recorded = recorded_cells("transformations.txt");
  const std::map<int, Cell> shown = shown_cells([](std::ostream& out) { examples::run_transformations(out); });
  ASSERT_EQ(recorded.size(), 12U);
  ASSERT_EQ(shown.size(), 12U);
  for (const auto& [number, cell] : shown) {
    SCOPED_TRACE("cell " + std::to_string(number));
    EXPECT_FALSE(cell.source.empty());
    const std::string expected = named_as_here(recorded.at(number).output);
    EXPECT_TRUE(same_output(expected, cell.output)) << "recorded:\n" << expected << "\nhere:\n" << cell.output;
  }
}

}  // namespace
}  // namespace seeds
