// Carries of loops that take each other's values: buffers change places, and nothing is copied.
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <chrono>
#include <tuple>
#include <vector>

namespace shoal {
namespace {

using Three = std::tuple<Array, Array, Array>;

// Products, so that the loop is no single kernel.
Array next_of(const Array& x) { return matmul(x, x) * 0.5F + 1; }

std::vector<float> values_of(const Three& three) {
  std::vector<float> values;
  for (const Array* one : {&std::get<0>(three), &std::get<1>(three), &std::get<2>(three)}) {
    const std::vector<float> more = one->to_vector<float>();
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

Three begin() {
  const Array x = arange(16.0F).reshape({4, 4}) / 16;
  return {x, x + 1, x - 2};
}

template <class F>
void expect_as_steps(F body) {
  for (const int trips : {0, 1, 2, 3, 7, 8}) {
    Three expected = begin();
    for (int i = 0; i < trips; ++i) expected = body(expected);
    const auto [a, b, c] = begin();
    const auto counted = jit([&](Array x, Array y, Array z) {
      return lax::fori_loop(
          0, trips, [&](Array, Three s) { return body(s); }, Three(x, y, z));
    });
    EXPECT_EQ(values_of(counted(a, b, c)), values_of(expected)) << trips;
    const auto asked = jit([&](Array n, Array x, Array y, Array z) {
      const auto last = lax::while_loop(
          [](std::tuple<Array, Three> s) { return std::get<0>(s) > 0; },
          [&](std::tuple<Array, Three> s) { return std::tuple(std::get<0>(s) - 1, body(std::get<1>(s))); },
          std::tuple(n, Three(x, y, z)));
      return std::get<1>(last);
    });
    EXPECT_EQ(values_of(asked(array(trips), a, b, c)), values_of(expected)) << trips;
    EXPECT_EQ(values_of(begin()), values_of({a, b, c})) << "the arguments are as they were";
  }
}

TEST(PassedCarries, ChangePlaces) {
  expect_as_steps([](const Three& s) { return Three(std::get<1>(s), std::get<0>(s), std::get<2>(s)); });
  expect_as_steps([](const Three& s) { return Three(std::get<1>(s), std::get<2>(s), std::get<0>(s)); });
}

TEST(PassedCarries, TakeWhatAnotherWas) {
  expect_as_steps([](const Three& s) { return Three(std::get<1>(s), std::get<2>(s), next_of(std::get<0>(s))); });
  expect_as_steps(
      [](const Three& s) { return Three(std::get<1>(s), next_of(std::get<0>(s) + std::get<1>(s)), std::get<0>(s)); });
  expect_as_steps([](const Three& s) { return Three(next_of(std::get<2>(s)), std::get<0>(s), std::get<0>(s)); });
  expect_as_steps(
      [](const Three& s) { return Three(next_of(std::get<1>(s)), next_of(std::get<0>(s)), std::get<0>(s)); });
}

TEST(PassedCarries, OfWhichOneStays) {
  expect_as_steps([](const Three& s) { return Three(std::get<1>(s), std::get<1>(s), next_of(std::get<0>(s))); });
  expect_as_steps([](const Three& s) { return Three(std::get<1>(s), std::get<1>(s), std::get<0>(s)); });
}

// Two arrays of 4 MiB that change places 4,000 times: 64 GiB, if they were copied.
TEST(PassedCarries, AreNotCopied) {
  const Array a = zeros({1024, 1024});
  const Array b = ones({1024, 1024});
  const auto swap = jit([](Array x, Array y) {
    using Two = std::tuple<Array, Array>;
    return lax::fori_loop(
        0, 4001, [](Array, Two s) { return Two(std::get<1>(s), std::get<0>(s)); }, Two(x, y));
  });
  const auto wait = [&] {
    const auto [x, y] = swap(a, b);
    EXPECT_EQ(x.sum().item<float>(), 1024.0F * 1024);
    EXPECT_EQ(y.sum().item<float>(), 0);
  };
  wait();
  const auto start = std::chrono::steady_clock::now();
  wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1);
}

}  // namespace
}  // namespace shoal
