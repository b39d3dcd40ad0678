// docs/tutorial.md is what the tutorial writes.
#include <gtest/gtest.h>

#include <filesystem>

#include "markdown.h"
#include "run.h"

namespace shoal::text_test {
namespace {

TEST(Tutorial, ThePageIsWhatTheProgramWrites) {
  const std::filesystem::path program = binary("tutorial");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "this build has no examples";
  EXPECT_EQ(read_file("docs/tutorial.md"), output_of(program.string() + " --markdown"));
}

}  // namespace
}  // namespace shoal::text_test
