// Files and folders that the pages name must be there.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "markdown.h"

namespace shoal::text_test {
namespace {

// Whether a page means any file of a folder: `src/passes/name.h`, `src/**/x_test.cc`, `fuzz/<name>.cc`.
bool is_pattern(const std::string& path) {
  return path.find_first_of("*<") != std::string::npos || std::filesystem::path(path).stem() == "name";
}

std::vector<std::filesystem::path> all_pages() {
  std::vector<std::filesystem::path> pages = {"README.md", "HACKING.md"};
  for (const char* folder : {"docs", "docs/guide"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
  }
  return pages;
}

TEST(Pages, NameFilesThatExist) {
  const std::regex path("`((?:src|include|tests|tools|docs|python|examples|benchmarks|fuzz|cmake|licenses)/[^`\\s]*)`");
  int found = 0;
  for (const std::filesystem::path& page : all_pages()) {
    const std::string text = read_file(page);
    for (std::sregex_iterator it(text.begin(), text.end(), path), end; it != end; ++it) {
      const std::string named = (*it)[1];
      if (is_pattern(named)) continue;
      EXPECT_TRUE(std::filesystem::exists(named)) << page << " names " << named;
      ++found;
    }
  }
  EXPECT_GT(found, 50) << "the pages name many files; the pattern finds few";
}

TEST(Pages, LinkToFilesThatExist) {
  const std::regex link(R"(\]\(([^():#]+\.md)\))");
  int found = 0;
  for (const std::filesystem::path& page : all_pages()) {
    const std::string text = read_file(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / (*it)[1].str())) << page << " links to " << (*it)[1];
      ++found;
    }
  }
  EXPECT_GT(found, 20) << "the pages of the guide link to each other; the pattern finds few";
}

}  // namespace
}  // namespace shoal::text_test
