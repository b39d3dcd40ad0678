#include "shoal/debug.h"

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

std::string picture_of(const Array& array, debug::VisualizeOptions options = {}) {
  std::ostringstream out;
  options.out = &out;
  debug::visualize_array_sharding(array, options);
  return out.str();
}

TEST(Visualize, Vector) {
  EXPECT_EQ(picture_of(put(iota({4}), make_mesh({2}, {"i"}), P("i"))),
            "┌───────┬───────┐\n"
            "│ CPU 0 │ CPU 1 │\n"
            "└───────┴───────┘\n");
}

TEST(Visualize, DevicesThatHoldTheSame) {
  EXPECT_THAT(picture_of(put(iota({8, 8}), mesh_4x2(), P(none, "y"))),
              testing::AllOf(testing::HasSubstr("CPU 0,2,4,6"), testing::HasSubstr("CPU 1,3,5,7")));
}

TEST(Visualize, OfAShape) {
  std::ostringstream out;
  debug::visualize_sharding({8, 8}, NamedSharding(mesh_4x2(), P("y", "x")), {.out = &out});
  EXPECT_EQ(out.str(), picture_of(put(iota({8, 8}), mesh_4x2(), P("y", "x"))));
}

TEST(Visualize, Options) {
  const Array x = put(iota({8, 8}), mesh_4x2(), P("x"));
  EXPECT_THAT(picture_of(x), testing::Not(testing::HasSubstr("\x1b["))) << "a stream is no terminal";
  EXPECT_THAT(picture_of(x, {.use_color = true}), testing::HasSubstr("\x1b["));
  EXPECT_GT(picture_of(x, {.scale = 3.0}).size(), picture_of(x).size());
}

}  // namespace
}  // namespace shoal::test
