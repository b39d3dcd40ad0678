#include "base/shared.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

TEST(Shared, HoldsAValueOrNothing) {
  Shared<std::string> text;
  EXPECT_FALSE(text.has_value());
  EXPECT_EQ(text, std::nullopt);
  text = std::string("abc");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "abc");
  EXPECT_EQ(text->size(), 3U);
  EXPECT_EQ(std::optional<std::string>(text), "abc");
  text.reset();
  EXPECT_FALSE(text);
  EXPECT_EQ(Shared<std::string>(std::optional<std::string>()), text);
}

TEST(Shared, IsComparedByValue) {
  const Shared<std::string> a(std::string("abc"));
  const Shared<std::string> b(std::string("abc"));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, Shared<std::string>(std::string("abd")));
  EXPECT_NE(a, Shared<std::string>());
}

TEST(Shared, CopiesHoldOneObjectUntilOneIsChanged) {
  const Shared<std::string> first(std::string("abc"));
  Shared<std::string> second = first;
  EXPECT_EQ(&*first, &*second);
  second.edit([](std::string& text) { text += "d"; });
  EXPECT_EQ(*first, "abc");
  EXPECT_EQ(*second, "abcd");
}

}  // namespace
}  // namespace shoal
