// README.md shows the first example and what it prints: both must be the real ones.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "markdown.h"
#include "run.h"

namespace shoal::text_test {
namespace {

constexpr const char* kHeading = "The first program";

std::vector<Block> blocks_of_readme() {
  std::vector<Block> blocks;
  for (Block& block : blocks_of(read_file("README.md"))) {
    if (block.heading == kHeading) blocks.push_back(std::move(block));
  }
  return blocks;
}

TEST(Readme, ShowsTheFirstExample) {
  const std::vector<Block> blocks = blocks_of_readme();
  ASSERT_EQ(blocks.size(), 2U) << "one for the program, one for its output";
  EXPECT_EQ(blocks[0].text, read_file("examples/first.cc"));
}

TEST(Readme, ShowsWhatTheFirstExamplePrints) {
  const std::filesystem::path program = binary("first");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "this build has no examples";
  const std::vector<Block> blocks = blocks_of_readme();
  ASSERT_EQ(blocks.size(), 2U) << "one for the program, one for its output";
  EXPECT_EQ(blocks[1].text, output_of(program.string()));
}

}  // namespace
}  // namespace shoal::text_test
