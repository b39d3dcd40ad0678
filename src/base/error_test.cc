#include "shoal/error.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace shoal {
namespace {

TEST(Error, MessageWithoutLocationStaysAsItIs) {
  const Error error("reshape: too many elements");
  EXPECT_STREQ(error.what(), "reshape: too many elements");
  EXPECT_FALSE(error.where().has_value());
}

TEST(Error, MessageEndsWithFileAndLineWithoutFolder) {
  const SourceLocation here = SourceLocation::current();
  const InvalidArgument error("bad axis", here);
  const std::string line = std::to_string(here.line());
  EXPECT_EQ(error.what(), "bad axis\n  at error_test.cc:" + line);
  ASSERT_TRUE(error.where().has_value());
  EXPECT_EQ(error.where()->line(), here.line());
}

TEST(Error, LocationWithoutFileCountsAsUnknown) {
  const Error error("bad axis", SourceLocation());
  EXPECT_STREQ(error.what(), "bad axis");
  EXPECT_FALSE(error.where().has_value());
  EXPECT_EQ(to_string(SourceLocation()), "");
}

TEST(Error, SpecificErrorsAreCaughtAsTheirCategory) {
  EXPECT_THROW(throw IndivisibleError("x"), InvalidArgument);
  EXPECT_THROW(throw UnboundAxisError("x"), InvalidArgument);
  EXPECT_THROW(throw InvalidState("x"), std::runtime_error);
}

TEST(Check, FailureNamesMessageConditionAndLine) {
  std::string text;
  unsigned line = 0;
  try {
    line = SourceLocation::current().line() + 1;
    SHOAL_CHECK(1 + 1 == 3, "sum is " + std::to_string(2));
  } catch (const InternalError& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "internal error: sum is 2 (failed check: 1 + 1 == 3)\n  at error_test.cc:" + std::to_string(line));
}

TEST(Check, MessageIsNotEvaluatedWhenTheConditionHolds) {
  int evaluations = 0;
  const auto message = [&] {
    ++evaluations;
    return std::string("unused");
  };
  SHOAL_CHECK(true, message());
  EXPECT_EQ(evaluations, 0);
}

TEST(Check, IsOneStatement) {
  bool reached_else = false;
  if (false)
    SHOAL_CHECK(true, "never reached");
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

}  // namespace
}  // namespace shoal
