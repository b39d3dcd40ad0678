// Derivatives in reverse of loops that end when their values say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

// A float array, an integer and a scalar; the body uses an array from outside.
using LoopState = std::tuple<Array, Array, Array>;

LoopState next_state(const Array& w, const LoopState& state) {
  const auto& [x, i, s] = state;
  return {sin(x) * w + s, i + 1, s * 0.5F + max(x)};
}

Array checkpointed(const Array& n, const Array& w, const Array& x, std::int64_t most) {
  const auto goes_on = [&](const LoopState& s) { return std::get<1>(s) < n; };
  const auto [last, i, s] = lax::while_loop(goes_on, [&](const LoopState& at) { return next_state(w, at); },
                                            LoopState(x, Array(0), x[0]), {.max_checkpoints = most});
  return sum(last * last) * s;
}

Array scanned(std::int64_t n, const Array& w, const Array& x) {
  const auto [last, i, s] = lax::fori_loop(
      0, n, [&](const Array&, const LoopState& at) { return next_state(w, at); }, LoopState(x, Array(0), x[0]));
  return sum(last * last) * s;
}

const Array& loop_weights() {
  static const Array& made = *new Array(array({0.5F, -1.25F, 0.75F}));
  return made;
}
const Array& loop_start() {
  static const Array& made = *new Array(array({0.1F, 0.7F, -0.3F}));
  return made;
}

// However few states are kept, the gradient has the bits of that of a loop which keeps all.
TEST(CheckpointedLoop, GradientIsThatOfAScan) {
  for (const std::int64_t n : {0, 1, 2, 3, 8, 33, 100}) {
    const auto [dw, dx] =
        grad<0, 1>([&](const Array& w, const Array& x) { return scanned(n, w, x); })(loop_weights(), loop_start());
    for (const std::int64_t most : {1, 2, 3, 7, 40, 200}) {
      SCOPED_TRACE(testing::Message() << n << " trips, " << most << " checkpoints");
      const auto f = [&](const Array& w, const Array& x) { return checkpointed(Array(n), w, x, most); };
      EXPECT_EQ(floats(reshape(f(loop_weights(), loop_start()), {1})),
                floats(reshape(scanned(n, loop_weights(), loop_start()), {1})));
      const auto [ew, ex] = grad<0, 1>(f)(loop_weights(), loop_start());
      EXPECT_EQ(floats(ew), floats(dw));
      EXPECT_EQ(floats(ex), floats(dx));
      const auto [jw, jx] = jit(grad<0, 1>(f))(loop_weights(), loop_start());
      EXPECT_EQ(floats(jw), floats(dw));
      EXPECT_EQ(floats(jx), floats(dx));
    }
  }
}

TEST(CheckpointedLoop, OfNumberedTripsAndUnderVmap) {
  const auto numbered = [](const Array& x) {
    return lax::fori_loop(0, 9, [](const Array& i, const Array& v) { return sin(v) * (1 + 0.1F * i.astype(float32)); },
                          x, {.max_checkpoints = 2});
  };
  const auto plain = [](const Array& x) {
    return lax::fori_loop(
        0, 9, [](const Array& i, const Array& v) { return sin(v) * (1 + 0.1F * i.astype(float32)); }, x);
  };
  EXPECT_EQ(floats(grad([&](const Array& x) { return sum(numbered(x)); })(loop_start())),
            floats(grad([&](const Array& x) { return sum(plain(x)); })(loop_start())));
  // The places of a mapped loop end at different times.
  const auto doubled = [](const Array& x) {
    return lax::while_loop([](const Array& v) { return v < 1.0F; }, [](const Array& v) { return v * 2.0F + v * v; }, x,
                           {.max_checkpoints = 2});
  };
  const Array many = array({0.03F, 2.0F, 0.4F, 0.001F});
  std::vector<float> one_by_one;
  for (int i = 0; i < 4; ++i) one_by_one.push_back(grad(doubled)(many[i]).item<float>());
  EXPECT_EQ(floats(vmap(grad(doubled))(many)), one_by_one);
}

// Carries may begin weakly typed, as numbers do.
TEST(CheckpointedLoop, OfNumbers) {
  const auto power = [](const Array& n, const Array& x) {
    return lax::fori_loop(0, n, [&](const Array& i, const Array& y) { return y * x + 0.0 * i; }, Array(1.0),
                          {.max_checkpoints = 3});
  };
  const auto slope = [&](const Array& n, const Array& x) { return grad<1>(power)(n, x); };
  for (const int n : {0, 1, 7, 40}) {
    EXPECT_NEAR(slope(Array(n), array(1.125F)).item<float>(), n * std::pow(1.125, n - 1), 2e-3) << n;
    EXPECT_NEAR(jit(slope)(Array(n), array(1.125F)).item<float>(), n * std::pow(1.125, n - 1), 2e-3) << n;
    EXPECT_NEAR(slope(Array(n), Array(1.125)).item<float>(), n * std::pow(1.125, n - 1), 2e-3) << n;
  }
  const auto fifth = [&](const Array& x) { return power(Array(5), x); };
  EXPECT_EQ(floats(vmap(grad(fifth))(array({0.5F, 2.0F}))), (std::vector<float>{0.3125F, 80}));
}

// What a loop keeps does not grow with its trips, and what it computes again grows slowly.
TEST(CheckpointedLoop, KeepsFewStatesAndRunsFewTripsAgain) {
  std::int64_t trips = 0;
  const auto loop = [&](const Array& n, const Array& x, std::int64_t most) {
    using Counted = std::pair<Array, Array>;
    return sum(lax::while_loop([&](const Counted& c) { return c.first < n; },
                               [&](const Counted& c) {
                                 debug::callback([&](const std::vector<Array>&) { ++trips; }, {c.first});
                                 return Counted(c.first + 1, sin(c.second));
                               },
                               Counted(Array(0), x), {.max_checkpoints = most})
                   .second);
  };
  const auto run_again = [&](std::int64_t n, std::int64_t most) {
    trips = 0;
    grad([&](const Array& x) { return loop(Array(n), x, most); })(loop_start()).block_until_ready();
    return trips - 2 * n;  // Beyond the loop itself and what the derivative of each trip computes.
  };
  EXPECT_EQ(run_again(20, 64), 0);
  EXPECT_LE(run_again(400, 64), 400);
  EXPECT_LE(run_again(400, 20), 3 * 400);
  EXPECT_LE(run_again(3000, 20), 5 * 3000);
  EXPECT_EQ(run_again(30, 1), 30 * 29 / 2);
  const auto gradient =
      jit([&](const Array& n, const Array& x) { return grad([&](const Array& v) { return loop(n, v, 6); })(x); });
  const auto analysis = gradient.lower(Array(5), zeros({1000}, {.dtype = float32})).compile().memory_analysis();
  EXPECT_LE(analysis.temp_size, 20 * 4000);
}

TEST(CheckpointedLoop, OverDevices) {
  const Mesh mesh = make_mesh({8}, {"i"});
  const Array x = reshape(arange(24.0F, {.dtype = float32}), {8, 3}) * 0.05F;
  const Array wide = ones({8, 3}) * loop_weights();
  const auto loss = [&](const Array& w, const Array& v) {
    const auto [last, i] = lax::while_loop(
        [](const std::pair<Array, Array>& s) { return s.second < 12; },
        [&](const std::pair<Array, Array>& s) { return std::pair(sin(s.first) * w + 0.25F, s.second + 1); },
        std::pair(v, Array(0)), {.max_checkpoints = 3});
    return last;
  };
  const auto total = [&](const Array& w, const Array& v) { return sum(square(loss(w, v))); };
  const auto [dw, dx] = grad<0, 1>(total)(wide, x);
  const Array split = device_put(x, NamedSharding(mesh, P("i")));
  const Array split_w = device_put(wide, NamedSharding(mesh, P("i")));
  const auto [sw, sx] = jit(grad<0, 1>(total))(split_w, split);
  EXPECT_EQ(floats(sw), floats(dw));
  EXPECT_EQ(floats(sx), floats(dx));
  EXPECT_EQ(sx.sharding(), split.sharding());
  const auto mapped = shard_map(loss, {.mesh = mesh, .in_specs = {P("i"), P("i")}, .out_specs = P("i")});
  const auto [mw, mx] =
      grad<0, 1>([&](const Array& w, const Array& v) { return sum(square(mapped(w, v))); })(split_w, split);
  EXPECT_EQ(floats(mw), floats(dw));
  EXPECT_EQ(floats(mx), floats(dx));
}

}  // namespace
}  // namespace shoal::test
