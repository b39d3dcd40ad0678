// Equations whose solutions are known, and what JAX 0.12 computes.
#include "shoal/ode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/derivatives.h"
#include "shoal/linalg.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;
using Oscillator = std::pair<Array, Array>;

double error_between(const Array& a, const Array& b) { return max(abs(a - b)).item<double>(); }

Array number(double value) { return full({}, value, {.dtype = float64}); }
Array times() { return linspace(0.0, 2.0, 9, {.dtype = float64}); }

TEST(Odeint, FindsKnownSolutions) {
  const Array t = times();
  const Array y0 = array({1.0, 2.0}).astype(float64);
  const Array decay = ode::odeint([](const Array& y, const Array&) { return -3.0 * y; }, y0, t);
  EXPECT_EQ(decay.shape(), (Shape{9, 2}));
  EXPECT_LE(error_between(decay, outer(exp(-3.0 * t), y0)), 1e-7);
  // What changes with the time alone: the quartic between the steps is exact here.
  const Array quadratic =
      ode::odeint([](const Array&, const Array& time) { return 3.0 * time * time; }, Array(0.5), t.astype(float32));
  EXPECT_LE(error_between(quadratic, 0.5 + t * t * t), 1e-5);
  const auto [x, v] = ode::odeint([](const Oscillator& s, const Array&) { return Oscillator(s.second, -s.first); },
                                  Oscillator(number(1), number(0)), t);
  EXPECT_LE(error_between(x, cos(t)), 1e-7);
  EXPECT_LE(error_between(v, -sin(t)), 1e-7);
  const Array turn = ode::odeint([](const Array& z, const Array&) { return z * std::complex<double>(0, 1); },
                                 number(1).astype(complex128), t);
  EXPECT_LE(error_between(real(turn), cos(t)), 1e-7);
  EXPECT_LE(error_between(imag(turn), sin(t)), 1e-7);
}

TEST(Odeint, TolerancesAndStepsAreTheUsers) {
  const Array t = array({0.0, 10.0}).astype(float64);
  int calls = 0;
  const auto error = [&](const ode::OdeintOptions& options) {
    const Array y = ode::odeint([](const Array& x, const Array& time) { return x * cos(time); }, number(1), t, options);
    ++calls;
    return error_between(y, exp(sin(t)));
  };
  EXPECT_LE(error({.rtol = 1e-11, .atol = 1e-11}), 1e-9);
  EXPECT_GE(error({.rtol = 1e-3, .atol = 1e-3}), 1e-6);
  EXPECT_LE(error({.rtol = 1e-3, .atol = 1e-3, .hmax = 0.02}), 1e-9);
  // Two steps do not go that far, and the last is continued.
  EXPECT_GE(error({.mxstep = 2}), 1e-2);
  EXPECT_EQ(calls, 4);
}

TEST(Odeint, HasDerivatives) {
  const Array t = times();
  const Array rate = array({0.5, -1.0}).astype(float64);
  // y0 exp(rate t), and its sum over all times.
  const auto total = [](const Array& y0, const Array& of, const Array& at) {
    return sum(ode::odeint([&](const Array& y, const Array&) { return of * y; }, y0, at));
  };
  const Array y0 = array({1.0, 2.0}).astype(float64);
  const auto [of_y0, of_rate, of_t] = grad<0, 1, 2>(total)(y0, rate, t);
  const Array values = exp(outer(t, rate));
  EXPECT_LE(error_between(of_y0, sum(values, {.axis = 0})), 1e-6);
  EXPECT_LE(error_between(of_rate, y0 * sum(values * expand_dims(t, 1), {.axis = 0})), 1e-6);
  // Times are told from the first, so that all change with it.
  const Array by_t = sum(values * (rate * y0), {.axis = 1});
  EXPECT_LE(error_between(of_t[{range(1)}], by_t[{range(1)}]), 1e-6);
  EXPECT_LE(error_between(of_t[0], -sum(by_t[{range(1)}])), 1e-6);
  // In jit, and of what a lambda captures.
  const auto [jitted_y0, jitted_rate] =
      jit(grad<0, 1>([&](const Array& y, const Array& r) { return total(y, r, t); }))(y0, rate);
  EXPECT_LE(error_between(jitted_y0, of_y0), 1e-7);
  EXPECT_LE(error_between(jitted_rate, of_rate), 1e-7);
  // The gradient has a gradient.
  const Array second =
      grad([&](const Array& r) { return sum(grad([&](const Array& q) { return total(y0, q, t); })(r)); })(rate);
  EXPECT_LE(error_between(second, y0 * sum(values * expand_dims(t * t, 1), {.axis = 0})), 1e-5);
}

TEST(Odeint, InManyPlacesAndOverDevices) {
  const Array t = times();
  const auto solve = [&](const Array& y0) {
    return ode::odeint([](const Array& y, const Array& time) { return -y * y + 0.1 * time; }, y0, t);
  };
  const Array starts = linspace(0.5, 2.0, 8, {.dtype = float64});
  const Array all = vmap(solve)(starts);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_LE(error_between(all[i], solve(starts[i])), 1e-9) << i;
  const Array split = put(starts, mesh_8(), P("i"));
  EXPECT_LE(error_between(jit(solve)(split), solve(starts)), 1e-12);
  const std::string text = jit(solve).lower(split).compile().as_text();
  EXPECT_THAT(text, testing::HasSubstr("all_reduce"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_gather")));
}

TEST(Odeint, HasNoDerivativeForward) {
  const auto solve = [](const Array& y0) {
    return ode::odeint([](const Array& y, const Array&) { return -y; }, y0, array({0.0, 1.0}));
  };
  EXPECT_THAT(message_of<TypeMismatch>([&] { jvp(solve, std::tuple(array(1.0)), std::tuple(array(1.0))); }),
              testing::HasSubstr("a function with custom_vjp has a derivative in reverse alone"));
}

TEST(Odeint, EndsWhereItIsLost) {
  const Array lost = ode::odeint([](const Array& y, const Array&) { return log(y); }, array(-1.0), array({0.0, 1.0}));
  EXPECT_EQ(lost[0].item<double>(), -1.0);
  EXPECT_TRUE(isnan(lost[1]).item<bool>());
}

}  // namespace
}  // namespace shoal::test
