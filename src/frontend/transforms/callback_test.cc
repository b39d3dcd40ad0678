#include "shoal/callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/pmap.h"
#include "shoal/shard_map.h"

namespace shoal::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<int>;

const ShapeDtypeStruct kFour{{4}, float32};

Array twice(const Array& x) { return x * 2; }

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Mesh line(std::int64_t devices) { return make_mesh({devices}, {"x"}); }

TEST(PureCallback, GivesWhatTheFunctionGivesForWholeArrays) {
  std::atomic<int> calls = 0;
  const auto f = pure_callback(
      [&](const Array& x) {
        ++calls;
        EXPECT_EQ(x.shape(), Shape({4}));
        return x * 2 + 1;
      },
      kFour);
  const Array x = array({1.0f, 2.0f, 3.0f, 4.0f});
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(3, 5, 7, 9));  // At once.
  const auto g = jit([&](const Array& y) { return f(y + 1) * 10; });
  EXPECT_THAT(g(x).to_vector<float>(), ElementsAre(50, 70, 90, 110));
  EXPECT_THAT(g(device_put(x, NamedSharding(line(4), P("x")))).to_vector<float>(), ElementsAre(50, 70, 90, 110));
  EXPECT_EQ(calls, 3);
}

TEST(PureCallback, TakesAndGivesTrees) {
  using Tree = std::map<std::string, std::pair<Array, Array>>;
  const Tree results{{"a", {ShapeDtypeStruct{{2}, int32}, ShapeDtypeStruct{{}, float32}}}};
  const auto f = pure_callback(
      [](const std::vector<Array>& xs, const Array& y) {
        return Tree{{"a", {xs[0] + xs[1], astype(sum(y), float32)}}};
      },
      results);
  const Tree tree = jit([&](const Array& x) { return f(std::vector<Array>{x, x + 1}, x); })(array({1, 2}));
  EXPECT_THAT(tree.at("a").first.to_vector<int>(), ElementsAre(3, 5));
  EXPECT_EQ(tree.at("a").second.item<float>(), 3.0f);
}

TEST(PureCallback, IsCalledForWhatIsNeededAlone) {
  std::atomic<int> calls = 0;
  const auto f = pure_callback(
      [&](const Array& x) {
        ++calls;
        return x;
      },
      kFour);
  const Array x = ones({4});
  jit([&](const Array& y) {
    static_cast<void>(f(y));
    return y;
  })(x)
      .block_until_ready();
  EXPECT_EQ(calls, 0);
}

TEST(IoCallback, IsCalledInOrderWhetherItsResultIsNeeded) {
  Ints seen;
  const auto f = io_callback([&](const Array& x) { seen.push_back(x.item<int>()); });
  const auto next = io_callback(
      [&] {
        seen.push_back(-1);
        return array(7);
      },
      ShapeDtypeStruct{{}, int32});
  const auto g = jit([&](const Array& x) {
    f(x);
    f(x + 1);
    next();
    const Array y = next();
    f(y);
    return x;
  });
  g(array(1)).block_until_ready();
  EXPECT_THAT(seen, ElementsAre(1, 2, -1, -1, 7));
}

TEST(Callbacks, RunInEveryTripOfALoop) {
  int count = 0;
  const auto next = io_callback([&](const Array& x) { return x + ++count; }, ShapeDtypeStruct{{}, int32});
  const auto g = jit([&](const Array& x) {
    return lax::fori_loop(
        0, 5, [&](const Array&, const Array& value) { return next(value); }, x);
  });
  EXPECT_EQ(g(array(100)).item<int>(), 115);
  EXPECT_EQ(g(array(0)).item<int>(), 6 + 7 + 8 + 9 + 10);
  const auto half = pure_callback([](const Array& x) { return x / 2.0f; }, ShapeDtypeStruct{{}, float32});
  const auto halved = jit([&](const Array& x) {
    return lax::while_loop([](const Array& y) { return y > 1.0f; }, [&](const Array& y) { return half(y); }, x);
  });
  EXPECT_EQ(halved(array(100.0f)).item<float>(), 0.78125f);
  const auto chosen = jit([&](const Array& x) {
    return lax::cond(
        x > 0.0f, [&](const Array& y) { return half(y); }, [](const Array& y) { return y; }, x);
  });
  EXPECT_EQ(chosen(array(8.0f)).item<float>(), 4.0f);
  EXPECT_EQ(chosen(array(-8.0f)).item<float>(), -8.0f);
}

TEST(Callbacks, OfShardMapAreCalledForEachDevice) {
  const Mesh mesh = line(4);
  const Array x = arange(8);
  Ints firsts;
  const auto f = io_callback(
      [&](const Array& shard) {
        EXPECT_EQ(shard.shape(), Shape({2}));
        firsts.push_back(shard[0].item<int>());
        return shard * 10 + static_cast<int>(firsts.size());
      },
      ShapeDtypeStruct{{2}, int32});
  const auto g = shard_map([&](const Array& shard) { return f(shard); },
                           {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P("x")}});
  for (const bool compiled : {false, true}) {
    firsts.clear();
    const Array y = compiled ? jit(g)(x) : g(x);
    EXPECT_THAT(y.to_vector<int>(), ElementsAre(1, 11, 22, 32, 43, 53, 64, 74));
    EXPECT_THAT(firsts, ElementsAre(0, 2, 4, 6));
  }
  // What differs is in the type: a sum over devices of what a pure function gives for equal operands is of equal ones.
  const auto one = pure_callback([](const Array& y) { return y; }, ShapeDtypeStruct{{}, int32});
  const auto total = shard_map([&](const Array& shard) { return lax::psum(one(sum(shard)), "x"); },
                               {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P()}});
  EXPECT_EQ(jit(total)(x).item<int>(), 28);
  EXPECT_THAT(error_of([&] {
                shard_map([&](const Array& shard) { return f(shard); },
                          {.mesh = mesh, .in_specs = {P()}, .out_specs = {P()}})(arange(2));
              }),
              HasSubstr("x"));
}

TEST(Callbacks, OfPmapAreCalledForEachDevice) {
  const auto f = pure_callback(twice, ShapeDtypeStruct{{3}, float32});
  const Array x = reshape(iota({12}), {4, 3});
  EXPECT_TRUE(same(pmap([&](const Array& y) { return f(y) + 1.0f; })(x), x * 2 + 1));
}

TEST(Callbacks, AreMadeWhereTheyAreAsked) {
  const Array x = device_put(ones({4}), NamedSharding(line(4), P("x")));
  const auto on = [&](std::size_t device) {
    return jit([=](const Array& y) { return pure_callback(twice, kFour, {.device = devices()[device]})(y); });
  };
  EXPECT_THAT(on(2)(x).to_vector<float>(), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(error_of([&] { on(7)(x); }),
              HasSubstr("pure_callback: device 7 is to make the call, but the program runs on devices 0, 1, 2, 3"));
  const auto inside =
      shard_map([&](const Array& y) { return pure_callback(twice, kFour, {.device = devices()[1]})(y); },
                {.mesh = line(2), .in_specs = {P()}, .out_specs = {P()}});
  EXPECT_THAT(error_of([&] { inside(ones({4})); }), HasSubstr("inside shard_map each device makes a call"));
}

TEST(Callbacks, TellWhatDoesNotFit) {
  const Array x = ones({4});
  const auto text = [&](auto f) {
    return error_of([&] { jit([&](const Array& y) { return pure_callback(f, kFour)(y); })(x).block_until_ready(); });
  };
  EXPECT_THAT(text([](const Array& y) { return astype(y, int32); }),
              HasSubstr("pure_callback: the function gives int32[4] for result 0, but float32[4] is promised"));
  EXPECT_THAT(text([](const Array& y) { return sum(y); }),
              HasSubstr("gives float32[] for result 0, but float32[4] is promised"));
  EXPECT_THAT(text([](const Array&) { return Array(); }), HasSubstr("a result of the function"));
  EXPECT_THAT(text([](const Array&) -> Array { throw std::runtime_error("mine"); }), HasSubstr("mine"));
  const auto more = pure_callback([](const Array& y) { return std::vector<Array>{y, y}; }, std::vector<Array>{kFour});
  EXPECT_THAT(error_of([&] { jit([&](const Array& y) { return more(y); })(x)[0].block_until_ready(); }),
              HasSubstr("the function gives 2 arrays, but 1 are promised"));
}

}  // namespace
}  // namespace shoal::test
