// docs/errors.md speaks of every exception class, and the messages it explains are those of the sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "markdown.h"

namespace shoal::text_test {
namespace {

// Every match of the first group.
std::vector<std::string> matches_of(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The string literals of all sources, joined where they follow each other, with "…" for what is filled in.
std::string messages_of_the_sources() {
  std::string messages;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("src")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".cc" || path.ends_with("_test.cc")) continue;
    const std::string joined = std::regex_replace(read_file(path), std::regex("\"\\s*\n\\s*\""), "");
    messages += replaced(replaced(replaced(joined, "{{}}", "\1"), "{}", "…"), "\1", "{}");
  }
  return messages;
}

TEST(Errors, ThePageHasEveryClass) {
  const std::vector<std::string> classes = matches_of(
      read_file("include/shoal/error.h") + read_file("include/shoal/elastic.h"), std::regex("\nclass (\\w+) : public"));
  ASSERT_GE(classes.size(), 10U);
  EXPECT_THAT(matches_of(read_file("docs/errors.md"), std::regex("\n## (\\w+)\n")),
              testing::UnorderedElementsAreArray(classes));
}

TEST(Errors, TheMessagesAreReal) {
  const std::string sources = messages_of_the_sources();
  const std::vector<std::string> messages = matches_of(read_file("docs/errors.md"), std::regex("\n\\| `([^|]*)` \\|"));
  ASSERT_GE(messages.size(), 30U);
  for (const std::string& message : messages) {
    // What throws for the user's call leaves the function's name to the Caller.
    const std::string text = message.substr(message.find(": ") + 2);
    EXPECT_TRUE(sources.find(message) != std::string::npos || sources.find('"' + text) != std::string::npos)
        << "no source says: " << message;
  }
}

}  // namespace
}  // namespace shoal::text_test
