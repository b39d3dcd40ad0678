// Runs the tutorial and compares the output of every cell with what the same tutorial printed in JAX.
#include "../../examples/tutorial_cells.h"
#include "cells.h"

namespace seeds {
namespace {

const std::map<int, ErrorCell> kErrorsOfTutorial{
    {21, {"ValueError", "InvalidArgument", {{"out_specs is P()", "out_specs P()"}, {"mesh axis 'x'", "axis 'x'"}}}},
    {22,
     {"ValueError",
      "IndivisibleError",
      {{"args[0]", "argument [0]"},
       {"int32[30]", "int32[30]"},
       {"P('x',)", "P('x',)"},
       {"axis 0 (of size 30)", "dimension 0 has extent 30"},
       {"mesh axis 'x' (of size 8)", "8 devices along (x)"}}}},
    {23,
     {"IndivisibleError",
      "IndivisibleError",
      {{"device_put", "device_put"},
       {"P('x',)", "P('x',)"},
       {"(30,)", "(30,)"},
       {"axis 0 is partitioned 8 times", "multiple of 8"},
       {"size is 30", "dimension 0 of shape (30,) has size 30"}}}},
};

TEST(SameOutput, TakesNumbersThatDifferInTheLastDigit) {
  EXPECT_TRUE(same_output("[0.8931118  0.59891957]", "[0.89311183 0.59891954]"));
  EXPECT_TRUE(same_output("[ 1.        -0.513605 ]", "[ 1.         -0.51360506]"));
  EXPECT_TRUE(same_output("[0.02138916]", "[0.02138915]"));
}

TEST(SameOutput, RejectsEverythingElse) {
  EXPECT_FALSE(same_output("[0.8931118]", "[0.8931121]"));
  EXPECT_FALSE(same_output("[0.02138916]", "[0.02138914]"));
  EXPECT_FALSE(same_output("[1.]", "[2.]"));
  EXPECT_FALSE(same_output("[1. 2.]", "[1.  2.]"));
  EXPECT_FALSE(same_output("[1. 2.]", "[1. 2. 3.]"));
  EXPECT_FALSE(same_output("[0.8931118, 1.]", "[0.89311183 1.]"));
  EXPECT_FALSE(same_output("[1 2]", "[1 3]"));
  EXPECT_FALSE(same_output("[1.]", ""));
}

TEST(HasWord, FindsWholeWordsOnly) {
  EXPECT_TRUE(has_word("8 does not divide 30", "8"));
  EXPECT_FALSE(has_word("18 does not divide 30", "8"));
  EXPECT_TRUE(has_word("out_specs is P(),", "P()"));
}

TEST(Tutorial, EveryCellPrintsWhatJaxPrints) {
  const std::map<int, Cell> recorded = recorded_cells("seed004_auto.txt");
  ASSERT_EQ(recorded.size(), 31u);
  const std::map<int, Cell> shown = shown_cells([](std::ostream& out) { examples::run_tutorial(out); });
  EXPECT_EQ(shown.size(), recorded.size());
  for (const auto& [number, expected] : recorded) {
    SCOPED_TRACE("cell " + std::to_string(number));
    const auto cell = shown.find(number);
    if (cell == shown.end()) {
      ADD_FAILURE() << "missing";
      continue;
    }
    EXPECT_FALSE(cell->second.source.empty());
    const std::string& output = cell->second.output;
    if (const auto error = kErrorsOfTutorial.find(number); error != kErrorsOfTutorial.end()) {
      expect_same_error(error->second, "tutorial_cells.h", expected.output, output);
    } else {
      EXPECT_TRUE(same_output(expected.output, output)) << "recorded:\n" << expected.output << "\nhere:\n" << output;
    }
  }
}

}  // namespace
}  // namespace seeds
