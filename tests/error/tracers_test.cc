// Mistakes with the abstract values inside traced functions.
#include <sstream>
#include <thread>

#include "misuse.h"

namespace shoal::test {
namespace {

// Runs `use` on a tracer of type float32[4] inside jit.
template <class F>
void in_jit(F&& use) {
  jit([&](const Array& x) {
    use(x);
    return x;
  })(ones({4}));
}

TEST(TracerError, ReadingUnderJit) {
  in_jit([](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("item", "f32[]", "'fn'", "traced"), x.sum().item<float>());
    EXPECT_MISUSE(InvalidState, ("to_vector", "f32[4]", "'fn'", "traced"), x.to_vector<float>());
    EXPECT_MISUSE(InvalidState, ("sharding", "f32[4]", "'fn'"), x.sharding());
    EXPECT_MISUSE(InvalidState, ("devices", "f32[4]"), x.devices());
    EXPECT_MISUSE(InvalidState, ("addressable_shards", "f32[4]"), x.addressable_shards());
    EXPECT_MISUSE(InvalidState, ("is_fully_replicated", "f32[4]"), x.is_fully_replicated());
    EXPECT_MISUSE(InvalidState, ("arange", "f32[]", "traced"), arange(x.sum()));
    EXPECT_MISUSE(InvalidState, ("sharding_svg", "f32[4]"), debug::sharding_svg(x));
  });
}

TEST(TracerError, TruthUnderJit) {
  in_jit([](const Array& x) {
    EXPECT_MISUSE_ANYWHERE(InvalidState, ("bool", "'fn'", "traced"), static_cast<bool>(x.sum() > 0));
    EXPECT_MISUSE_ANYWHERE(InvalidArgument, ("bool", "(4,)"), static_cast<bool>(x > 0));
  });
}

TEST(TracerError, NamesTheFunction) {
  jit(
      [](const Array& x) {
        EXPECT_MISUSE(InvalidState, ("item", "'step'"), x.item<float>());
        return x;
      },
      {.name = "step"})(1.0);
}

TEST(TracerError, PrintsItsType) {
  in_jit([](const Array& x) {
    std::ostringstream out;
    out << x;
    EXPECT_EQ(out.str(), "Tracer<float32[4]>");
  });
}

TEST(TracerError, UsedAfterItsCall) {
  Array leaked;
  in_jit([&](const Array& x) { leaked = x * 2; });
  EXPECT_MISUSE(InvalidState, ("add", "f32[4]", "'fn'"), leaked + 1);
  EXPECT_MISUSE(InvalidState, ("to_vector", "f32[4]", "'fn'"), leaked.to_vector<float>());
  EXPECT_MISUSE(InvalidState, ("device_put", "f32[4]", "'fn'"), device_put(leaked, devices()[0]));
  EXPECT_MISUSE(InvalidState, ("device_put", "f32[4]", "'fn'"), device_put(leaked));
}

TEST(TracerError, UsedInAnotherTrace) {
  Array leaked;
  in_jit([&](const Array& x) { leaked = x * 2; });
  in_jit([&](const Array& x) {
    EXPECT_MISUSE(InvalidState, ("f32[4]", "'fn'", "outside the call"), leaked + x);
    EXPECT_MISUSE(InvalidState, ("f32[4]", "'fn'", "outside the call"), x + leaked);
    EXPECT_MISUSE(InvalidState, ("f32[4]", "'fn'", "outside the call"), sin(leaked));
  });
}

TEST(TracerError, PassedToJitAfterItsCall) {
  Array leaked;
  in_jit([&](const Array& x) { leaked = x * 2; });
  const auto f = jit([](const Array& x) { return x; });
  EXPECT_MISUSE(InvalidState, ("argument [0]", "f32[4]", "'fn'"), f(leaked));
}

TEST(TracerError, ReturnedFromAnotherFunction) {
  Array leaked;
  in_jit([&](const Array& x) { leaked = x * 2; });
  const auto f = jit([&](const Array&) { return leaked; });
  EXPECT_MISUSE(InvalidState, ("f32[4]", "outside the call"), f(1.0));
}

TEST(TracerError, OfAnInnerFunctionInTheOuter) {
  in_jit([](const Array& x) {
    Array inner;
    jit([&](const Array& y) {
      inner = y + 1;
      return y;
    })(x);
    EXPECT_MISUSE(InvalidState, ("f32[4]", "outside the call"), inner + x);
  });
}

TEST(TracerError, OfShardMapAfterItsCall) {
  Array leaked;
  const auto f = shard_map(
      [&](const Array& x) {
        leaked = x * 2;
        return x;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  f(ones({8}));
  EXPECT_MISUSE(InvalidState, ("f32[1]", "'shard_map'"), leaked + 1);
  EXPECT_MISUSE(InvalidState, ("to_vector", "f32[1]"), leaked.to_vector<float>());
  std::ostringstream out;
  EXPECT_NO_THROW(out << leaked);
}

TEST(TracerError, UsedInAnotherThread) {
  in_jit([](const Array& x) {
    std::thread([&x] {
      EXPECT_MISUSE(InvalidState, ("add", "f32[4]", "'fn'", "thread"), x + 1);
      in_jit([&x](const Array& mine) { EXPECT_MISUSE(InvalidState, ("f32[4]", "'fn'"), mine + x); });
    }).join();
  });
}

TEST(TracerError, ValuesThatDifferBetweenDevicesHaveNoSingleValue) {
  const auto f = shard_map(
      [](const Array& x) {
        EXPECT_MISUSE(InvalidState, ("item", "f32[]{V:i}", "differs between the devices"), x.sum().item<float>());
        EXPECT_MISUSE(InvalidState, ("to_vector", "f32[1]{V:i}"), x.to_vector<float>());
        EXPECT_MISUSE_ANYWHERE(InvalidState, ("bool", "differs between the devices"), static_cast<bool>(x.sum() > 0));
        EXPECT_EQ(lax::psum(x.sum(), "i").item<float>(), 8.0F);
        return x;
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  f(ones({8}));
}

TEST(TracerError, FunctionThatThrowsLeavesNoTraceBehind) {
  const auto f = jit([](const Array& x) {
    if (x.ndim() == 1) throw std::runtime_error("mine");
    return x;
  });
  EXPECT_THROW(f(ones({4})), std::runtime_error);
  EXPECT_EQ((ones({2}) + 1).to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(f(2.0).item<float>(), 2.0F);
  const auto g = shard_map([](const Array&) -> Array { throw std::runtime_error("mine"); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_THROW(g(ones({8})), std::runtime_error);
  EXPECT_EQ((ones({2}) + 1).to_vector<float>(), (std::vector<float>{2, 2}));
}

}  // namespace
}  // namespace shoal::test
