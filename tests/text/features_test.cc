// docs/features.md names tests that exist, gives a reason where it names none, and counts its rows right.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "markdown.h"
#include "ops/table.h"

namespace shoal::text_test {
namespace {

std::vector<std::smatch> all_matches_of(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), {}};
}

// All tests as the page names them: "frontend.Jit.Results" below src, "error JitError.OtherTree" below tests.
std::set<std::string> all_tests() {
  const std::regex pattern(R"(\nTEST(?:_F|_P)?\((\w+), (\w+)\))");
  std::set<std::string> tests;
  for (const auto& [root, separator] : {std::pair{"src", "."}, {"tests", " "}}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.path().string().ends_with("_test.cc")) continue;
      const std::string folder = std::next(entry.path().begin())->string() + separator;
      const std::string source = read_file(entry.path().string());
      for (const auto& test : all_matches_of(source, pattern)) tests.insert(folder + test.str(1) + "." + test.str(2));
    }
  }
  return tests;
}

const std::regex kName(R"(`(?:parity EveryOp/(\w+)|(\w+[. ]\w+\.\w+))`)");

TEST(Features, NamesTestsThatExist) {
  const std::set<std::string> tests = all_tests();
  const std::string page = read_file("docs/features.md");
  for (const auto& name : all_matches_of(page, kName)) {
    EXPECT_TRUE(name[1].matched ? find_op(name.str(1)) != nullptr : tests.contains(name.str(2))) << name.str();
  }
}

TEST(Features, CountsItsRowsAndGivesReasons) {
  const std::regex row(R"(\| (\d+) \| [^|]+ \| ([^|]+) \|)");
  const std::regex count(R"(\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|)");
  std::map<std::string, std::array<int, 4>> given;
  std::map<std::string, std::array<int, 4>> counted;
  std::istringstream page(read_file("docs/features.md"));
  std::string group;
  int last = 0;
  std::smatch cells;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) group = line.substr(3);
    if (std::regex_match(line, cells, count)) {
      for (std::size_t i = 0; i < 4; ++i) given[cells.str(1)][i] = std::stoi(cells.str(i + 2));
    } else if (std::regex_match(line, cells, row)) {
      EXPECT_EQ(std::stoi(cells.str(1)), last + 1);
      last = std::stoi(cells.str(1));
      const bool left_out = cells.str(2).starts_with("Left out: ");
      const std::size_t missing = cells.str(2).find("Missing: ");
      const std::size_t kind = left_out ? 2 : missing == 0 ? 3 : missing == std::string::npos ? 0 : 1;
      EXPECT_TRUE(kind >= 2 || std::regex_search(line, kName)) << line;
      ++counted[group][kind];
      ++counted["all"][kind];
    }
  }
  EXPECT_EQ(last, 271);
  EXPECT_EQ(given, counted);
}

}  // namespace
}  // namespace shoal::text_test
