#include "shoal/shape.h"

#include <gtest/gtest.h>

#include <sstream>

#include "shoal/error.h"

namespace shoal {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST(Shape, NumElements) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({4, 8}), 32);
  EXPECT_EQ(num_elements({4, 0, 8}), 0);
  EXPECT_EQ(num_elements({kHuge, 4}), 4 * kHuge);
}

TEST(Shape, TooManyElementsIsAnErrorThatNamesTheShape) {
  try {
    num_elements({kHuge, kHuge});
    FAIL() << "did not throw";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("(1099511627776, 1099511627776)"), std::string::npos) << error.what();
  }
  EXPECT_EQ(num_elements({kHuge, kHuge, 0}), 0);
}

TEST(Shape, RowMajorStrides) {
  EXPECT_EQ(row_major_strides({}), Dims());
  EXPECT_EQ(row_major_strides({5}), Dims({1}));
  EXPECT_EQ(row_major_strides({2, 3, 4}), Dims({12, 4, 1}));
  EXPECT_EQ(row_major_strides({0, 3}), Dims({3, 1}));
}

TEST(Shape, PrintsAsATuple) {
  EXPECT_EQ(to_string(Shape()), "()");
  EXPECT_EQ(to_string(Shape({4})), "(4,)");
  EXPECT_EQ(to_string(Shape({4, 8, -1})), "(4, 8, -1)");
  std::ostringstream out;
  out << Shape({1, 2});
  EXPECT_EQ(out.str(), "(1, 2)");
}

}  // namespace
}  // namespace shoal
