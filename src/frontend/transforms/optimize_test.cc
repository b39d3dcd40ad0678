// Functions whose least values are known.
#include "shoal/optimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;

Array rosenbrock(const Array& x) {
  const Array head = x[{range(none, -1)}];
  const Array tail = x[{range(1)}];
  return sum(100.0 * square(tail - square(head)) + square(1.0 - head));
}

double distance(const Array& a, const Array& b) { return max(abs(a - b)).item<double>(); }

TEST(Optimize, FindsWhatIsLeast) {
  for (const std::int64_t size : {2, 5, 8}) {
    const Array x0 = zeros({size}, {.dtype = float64});
    const optimize::OptimizeResults made = optimize::minimize(rosenbrock, x0);
    EXPECT_LE(distance(made.x, ones({size}, {.dtype = float64})), 1e-5) << size;
    EXPECT_TRUE(made.success.item<bool>()) << size;
    EXPECT_EQ(made.status.item<int>(), 0) << size;
    EXPECT_LE(max(abs(made.jac)).item<double>(), 1e-5) << size;
    EXPECT_EQ(str(made.fun), str(rosenbrock(made.x))) << size;
    EXPECT_GT(made.nfev.item<int>(), made.nit.item<int>()) << size;
    // In jit the same trips, to roundings.
    const auto jitted = jit([](const Array& x) { return optimize::minimize(rosenbrock, x); })(x0);
    EXPECT_LE(distance(jitted.x, made.x), 1e-6) << size;
  }
}

TEST(Optimize, KnowsTheInverseOfTheHessian) {
  const Array a = reshape(array({3.0, 1.0, 1.0, 2.0}), {2, 2});
  const auto f = [&](const Array& x) { return dot(x, dot(a, x)) / 2.0 - sum(x); };
  const auto made = optimize::minimize(f, array({5.0, -7.0}), {.gtol = 1e-10});
  EXPECT_LE(distance(dot(a, made.x), ones({2}, {.dtype = float64})), 1e-9);
  EXPECT_LE(distance(dot(a, made.hess_inv), eye(2, {.dtype = float64})), 1e-4);
}

TEST(Optimize, InManyPlacesAtOnce) {
  const Array starts = reshape(array({0.0, 0.0, -1.2, 1.0, 2.0, 2.0}), {3, 2});
  const Array x = vmap([](const Array& start) { return optimize::minimize(rosenbrock, start).x; })(starts);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_LE(distance(x[i], optimize::minimize(rosenbrock, starts[i]).x), 1e-6) << i;
    EXPECT_LE(distance(x[i], ones({2}, {.dtype = float64})), 1e-5) << i;
  }
}

TEST(Optimize, SaysWhyItEnds) {
  const auto once = optimize::minimize(rosenbrock, array({-1.2, 1.0}), {.maxiter = 1});
  EXPECT_EQ(once.status.item<int>(), 1);
  EXPECT_EQ(once.nit.item<int>(), 1);
  EXPECT_FALSE(once.success.item<bool>());
  // There is nothing least.
  const auto lost = optimize::minimize([](const Array& x) { return sum(x); }, array({1.0, 2.0}));
  EXPECT_EQ(lost.status.item<int>(), 5);
  // It begins where it ends.
  const auto there = optimize::minimize(rosenbrock, array({1.0, 1.0}));
  EXPECT_EQ(there.nit.item<int>(), 0);
  EXPECT_TRUE(there.success.item<bool>());
}

TEST(Optimize, SaysWhatIsWrong) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              optimize::minimize(rosenbrock, ones({2, 2}));
            }),
            "minimize: x0 is float32[2,2], and should be a vector");
  EXPECT_EQ(message_of<TypeMismatch>([] {
              optimize::minimize(rosenbrock, array({1, 2}));
            }),
            "minimize: x0 is int32[2], and should be of floats");
  EXPECT_EQ(message_of<TypeMismatch>([] { optimize::minimize([](const Array& x) { return x; }, ones({2})); }),
            "minimize: the function returns float32[2], and only scalars have gradients; sum it, or use vjp");
}

}  // namespace
}  // namespace shoal::test
