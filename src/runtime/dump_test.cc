#include "runtime/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "ops/table.h"
#include "runtime/program.h"

namespace shoal {
namespace {

constexpr std::string_view kTraced = R"(graph "twice"(%0: f32[2]) {
  %1: f32[2] = jit(%0) {body = graph "inner"(%0: f32[2]) {
      %1: f32[2] = negative(%0)
      return %1
    }}
  %2: f32[2] = sin(%1)
  %3: f32[2] = sin(%1)
  %4: f32[2] = negative(%3)
  %5: f32[2] = negative(%4)
  %6: f32[2] = add(%2, %5)
  return %6
})";

// Compiles kTraced; gives the dumped texts by the end of their file's name.
std::map<std::string, std::string> dumped() {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "shoal_dump_test";
  std::filesystem::remove_all(folder);
  setenv("SHOAL_DUMP", folder.c_str(), 1);
  const Program program(parse_graph(kTraced, find_op), {{}}, {{}}, {});
  unsetenv("SHOAL_DUMP");
  const Program quiet(parse_graph(kTraced, find_op), {{}}, {{}}, {});
  std::map<std::string, std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::string name = entry.path().filename().string();
    name = name.substr(name.find("_twice_") + 1);
    texts[name] = {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::remove_all(folder);
  return texts;
}

TEST(Dump, HasAFileForEveryPassAndStage) {
  const std::map<std::string, std::string> texts = dumped();
  std::vector<std::string> names;
  for (const auto& [name, text] : texts) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("twice_0_traced.txt", "twice_1_inline_calls.txt", "twice_2_simplify.txt",
                                          "twice_3_cse.txt", "twice_4_hoist.txt", "twice_5_simplified.txt",
                                          "twice_6_placed.txt", "twice_7_propagated.txt", "twice_8_partitioned.txt",
                                          "twice_9_fused.txt"));
  EXPECT_EQ(texts.at("twice_0_traced.txt"), std::string(kTraced) + "\n");
  EXPECT_EQ(texts.at("twice_5_simplified.txt"), R"(graph "twice"(%0: f32[2]) {
  %1: f32[2] = negative(%0)
  %2: f32[2] = sin(%1)
  %3: f32[2] = add(%2, %2)
  return %3
}
)");
}

TEST(Dump, NamesTheVariableIfTheFolderCannotBeMade) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "shoal_dump_test_file";
  std::ofstream(file) << "no folder";
  setenv("SHOAL_DUMP", (file / "below").c_str(), 1);
  EXPECT_THAT([] { Program(parse_graph(kTraced, find_op), {{}}, {{}}, {}); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("SHOAL_DUMP: cannot make the folder")));
  unsetenv("SHOAL_DUMP");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shoal
