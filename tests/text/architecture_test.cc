// docs/architecture.md shows one program after every stage of the compiler: both must be the real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../../examples/stages.h"
#include "markdown.h"

namespace shoal::text_test {
namespace {

TEST(Architecture, ShowsTheProgramOfTheExample) {
  const std::string source = read_file("examples/stages.h");
  for (const Block& block : blocks_of(read_file("docs/architecture.md"))) {
    if (block.heading != "One program, stage by stage") continue;
    EXPECT_THAT(source, testing::HasSubstr(block.text));
    return;
  }
  FAIL() << "the page shows no program";
}

TEST(Architecture, ShowsTheTextOfEveryStage) {
  set_num_cpu_devices(8);
  const std::vector<std::pair<std::string, std::string>> stages = stages::all();
  std::vector<std::pair<std::string, std::string>> shown;
  for (const Block& block : blocks_of(read_file("docs/architecture.md"))) {
    for (const auto& [name, text] : stages) {
      if (block.heading == name) shown.emplace_back(block.heading, block.text);
    }
  }
  ASSERT_EQ(shown.size(), stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(shown[i].first, stages[i].first);
    EXPECT_EQ(shown[i].second, stages[i].second + '\n') << "after the stage " << stages[i].first;
  }
}

}  // namespace
}  // namespace shoal::text_test
