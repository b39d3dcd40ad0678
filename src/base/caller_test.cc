#include "base/caller.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/misuse.h"

namespace shoal {
namespace {

TEST(Caller, IsTheOutermostFunctionUntilThatReturns) {
  EXPECT_EQ(Caller::function_or("none"), "none");
  EXPECT_EQ(Caller::line().line(), 0U);
  const SourceLocation here = SourceLocation::current();
  {
    const Caller outer("median", here);
    {
      const Caller inner("sort", SourceLocation::current());
      EXPECT_EQ(Caller::function_or("none"), "median");
      EXPECT_EQ(Caller::line().line(), here.line());
    }
    EXPECT_EQ(Caller::function_or("none"), "median");
  }
  EXPECT_EQ(Caller::function_or("none"), "none");
}

TEST(Caller, FunctionsOfTheUserBeginAnew) {
  const Caller outer("jit", SourceLocation::current());
  {
    const Caller::Pause pause;
    EXPECT_EQ(Caller::function_or("none"), "none");
    const Caller inner("sort", SourceLocation::current());
    EXPECT_EQ(Caller::function_or("none"), "sort");
  }
  EXPECT_EQ(Caller::function_or("none"), "jit");
}

TEST(Caller, IsGoneAfterAnException) {
  try {
    const Caller outer("jit", SourceLocation::current());
    const Caller::Pause pause;
    const Caller inner("sort", SourceLocation::current());
    throw misuse<InvalidArgument>("stops");
  } catch (const InvalidArgument&) {
    EXPECT_EQ(Caller::function_or("none"), "none");
  }
}

TEST(Caller, IsOfOneThread) {
  const Caller caller("sort", SourceLocation::current());
  std::string elsewhere;
  std::thread([&] { elsewhere = Caller::function_or("none"); }).join();
  EXPECT_EQ(elsewhere, "none");
}

TEST(Misuse, NamesTheFunctionAndTheUsersLine) {
  const SourceLocation here = SourceLocation::current();
  const Caller caller("sort", here);
  const OutOfRange error = misuse<OutOfRange>("axis {} of {}", 3, "x");
  EXPECT_EQ(std::string(error.what()), "sort: axis 3 of x\n  at " + to_string(here));
  ASSERT_TRUE(error.where().has_value());
  EXPECT_EQ(error.where()->line(), here.line());
}

TEST(Misuse, HasNoLineWhereThereIsNone) {
  EXPECT_STREQ(misuse<InvalidState>("an Array without a value").what(), "an Array without a value");
  const Caller caller("bool", SourceLocation());
  const InvalidState error = misuse<InvalidState>("an Array without a value");
  EXPECT_STREQ(error.what(), "bool: an Array without a value");
  EXPECT_FALSE(error.where().has_value());
}

}  // namespace
}  // namespace shoal
