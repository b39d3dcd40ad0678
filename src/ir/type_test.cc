#include "ir/type.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(Type, PrintsShortly) {
  EXPECT_EQ(to_string(Type{.dtype = float32, .shape = {4, 8}, .weak = false, .memory = {}, .varying = {}}), "f32[4,8]");
  EXPECT_EQ(to_string(Type{.dtype = bool_, .shape = {}, .weak = true, .memory = {}, .varying = {}}), "~bool[]");
  EXPECT_EQ(to_string(Type{
                .dtype = bfloat16, .shape = {0}, .weak = false, .memory = kPinnedHostMemory, .varying = {"x", "y"}}),
            "bf16<pinned_host>[0]{V:x,y}");
}

TEST(Type, PrintsForUsersAsJaxDoes) {
  EXPECT_EQ(user_string(Type{.dtype = float32, .shape = {4, 8}, .weak = true, .memory = {}, .varying = {"x"}}),
            "float32[4,8]{V:x}");
  EXPECT_EQ(user_string(Type{.dtype = float32, .shape = {4}, .weak = false, .memory = {}, .varying = {"x", "y"}}),
            "float32[4]{V:(x,y)}");
  EXPECT_EQ(user_string(Type{.dtype = complex128, .shape = {}, .weak = false, .memory = {}, .varying = {}}),
            "complex128[]");
}

// A value on devices that are manual over x and y, where axes u to w of another mesh are Explicit.
Type summed_type() {
  const Mesh mesh = AbstractMesh({2, 2, 2}, {"u", "v", "w"}, std::vector<AxisType>(3, AxisType::kExplicit));
  return {.dtype = float32,
          .shape = {8, 4},
          .varying = {"x", "y"},
          .explicit_axes = ExplicitAxes{.mesh = mesh, .dims = {{"u"}, {}}, .unreduced = {"v"}, .reduced = {"w"}},
          .summands = {"y"},
          .reduced = {"z"}};
}

TEST(Type, PrintsWhatIsToBeSummed) {
  const Type type = summed_type();
  EXPECT_EQ(to_string(type), "f32[8@u,4]{V:x}{U:(v,y)}{R:(w,z)}");
  EXPECT_EQ(user_string(type), "float32[8@u,4]{V:x, U:(v,y), R:(w,z)}");
  EXPECT_EQ(user_string(Type{.dtype = float32, .shape = {4}, .reduced = {"x"}}), "float32[4]{R:x}");
  EXPECT_EQ(user_string(Type{.dtype = float32, .shape = {4}, .varying = {"x"}, .summands = {"x"}}), "float32[4]{U:x}");
}

TEST(Type, OfCotangentsIsSummedTheOtherWayRound) {
  const Type type = summed_type();
  const Type made = cotangent_type(type);
  EXPECT_EQ(to_string(made), "f32[8@u,4]{V:x}{U:(w,z)}{R:(v,y)}");
  EXPECT_EQ(made.varying, (AxisNames{"x", "z"}));
  EXPECT_EQ(cotangent_type(made), type);
  const Type plain{.dtype = float32, .shape = {4}, .varying = {"x"}};
  EXPECT_EQ(cotangent_type(plain), plain);
}

TEST(Type, ComparesAllItHas) {
  const Type type{.dtype = float32, .shape = {2}, .weak = false, .memory = {}, .varying = {}};
  EXPECT_EQ(type, type);
  const auto differs = [&](auto&& change) {
    Type other = type;
    change(other);
    return !(other == type);
  };
  EXPECT_TRUE(differs([](Type& other) { other.dtype = float64; }));
  EXPECT_TRUE(differs([](Type& other) { other.shape = {3}; }));
  EXPECT_TRUE(differs([](Type& other) { other.weak = true; }));
  EXPECT_TRUE(differs([](Type& other) { other.memory = kPinnedHostMemory; }));
  EXPECT_TRUE(differs([](Type& other) { other.varying = {"x"}; }));
  EXPECT_TRUE(differs([](Type& other) { other.summands = {"x"}; }));
  EXPECT_TRUE(differs([](Type& other) { other.reduced = {"x"}; }));
}

TEST(AxisNames, AreSets) {
  EXPECT_EQ(union_of({"a", "c"}, {"b", "c"}), (AxisNames{"a", "b", "c"}));
  EXPECT_EQ(union_of({}, {"b"}), (AxisNames{"b"}));
  EXPECT_EQ(difference_of({"a", "b", "c"}, {"b", "d"}), (AxisNames{"a", "c"}));
  EXPECT_EQ(difference_of({}, {"b"}), AxisNames{});
}

TEST(AxisEnv, KnowsBoundAxes) {
  AxisEnv env;
  EXPECT_TRUE(env.empty());
  env.bind("x", 8);
  env.bind("y", 3);
  EXPECT_EQ(env.size_of("x"), 8);
  EXPECT_EQ(env.size_of("y"), 3);
  EXPECT_EQ(env.size_of("z"), std::nullopt);
  EXPECT_EQ(env.size_of(""), std::nullopt);
  EXPECT_FALSE(env.empty());
}

TEST(AxisEnv, TheInnermostBindingWins) {
  AxisEnv env;
  env.bind("x", 8);
  env.bind("x", 2);
  EXPECT_EQ(env.size_of("x"), 2);
}

TEST(AxisEnv, KnowsSubAxes) {
  AxisEnv env;
  env.bind("x", 8);
  EXPECT_EQ(env.size_of("x:(1)2"), 2);
  EXPECT_EQ(env.size_of("x:(2)4"), 4);
  EXPECT_EQ(env.size_of("y:(1)2"), std::nullopt);
  for (const char* malformed : {"x:(", "x:(2", "x:(2)", "x:(2)y", "x:(2)4y"}) {
    EXPECT_EQ(env.size_of(malformed), std::nullopt) << malformed;
  }
}

}  // namespace
}  // namespace shoal
