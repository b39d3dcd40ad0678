// README.md shows the first example and what it prints: both must be the real ones.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "markdown.h"

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

std::string output_of(const std::filesystem::path& program) {
  std::FILE* pipe = popen(program.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  std::array<char, 4096> part;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), size);
  EXPECT_EQ(pclose(pipe), 0) << program << " failed";
  return output;
}

TEST(Readme, ShowsTheFirstExample) {
  const std::vector<Block> blocks = blocks_of_readme();
  ASSERT_EQ(blocks.size(), 2U) << "one for the program, one for its output";
  EXPECT_EQ(blocks[0].text, read_file("examples/first.cc"));
}

TEST(Readme, ShowsWhatTheFirstExamplePrints) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "first";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "this build has no examples";
  const std::vector<Block> blocks = blocks_of_readme();
  ASSERT_EQ(blocks.size(), 2U) << "one for the program, one for its output";
  EXPECT_EQ(blocks[1].text, output_of(program));
}

}  // namespace
}  // namespace shoal::text_test
