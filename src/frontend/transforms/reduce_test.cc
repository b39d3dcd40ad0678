// Reductions by functions: values against plain loops, outside jit and inside, split over devices and in manual
// regions.
#include "shoal/reduce.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "frontend/recorded_numbers.h"
#include "frontend/test_support.h"
#include "shoal/control_flow.h"

namespace shoal::test {
namespace {

using test_support::Collectives;
using test_support::collectives_in;
using Two = std::pair<Array, Array>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of pairs of a value and its position the first greatest.
Two greater_one(const Two& a, const Two& b) {
  const Array first = a.first >= b.first;
  return {where(first, a.first, b.first), where(first, a.second, b.second)};
}

// Of x -> a x + b, one function after the other: it matters which comes first.
Two composed(const Two& f, const Two& g) { return {f.first * g.first, f.second * g.first + g.second}; }

// An operation that the library does not know as one.
Array greatest_size(const Array& a, const Array& b) { return maximum(abs(a), abs(b)); }

TEST(Reduce, ByAnyFunctionInOrder) {
  for (const std::int64_t n : {0, 1, 2, 3, 5, 8, 13}) {
    std::vector<int> factors;
    std::vector<int> terms;
    int factor = 1;
    int term = 0;
    for (int i = 0; i < static_cast<int>(n); ++i) {
      factors.push_back(i % 3 - 1);
      terms.push_back(i + 2);
      factor *= factors.back();
      term = term * factors.back() + terms.back();
    }
    const Two given(array(factors).astype(int32), array(terms).astype(int32));
    const auto f = [](const Two& x) { return lax::reduce(x, Two(Array(1), Array(0)), composed, {0}); };
    for (const Two& got : {f(given), jit(f)(given)}) {
      EXPECT_EQ(got.first.item<int>(), factor) << n;
      EXPECT_EQ(got.second.item<int>(), term) << n;
    }
  }
}

TEST(Reduce, OfSeveralDimensionsGoesRowByRow) {
  // Digits one after the other: a number and ten to the power of how many digits it has.
  const auto joined = [](const Two& a, const Two& b) { return Two(a.first * b.second + b.first, a.second * b.second); };
  const Array digits = iota({2, 2, 3}).astype(int32) % 10;
  const Two given(digits, full_like(digits, 10));
  const Two none_yet(Array(0), Array(1));
  EXPECT_EQ(ints(lax::reduce(given, none_yet, joined, {0, 2}).first), (std::vector<int>{12678, 345901}));
  EXPECT_EQ(ints(lax::reduce(given, none_yet, joined, {-1, 0}).first), (std::vector<int>{12678, 345901}));
  EXPECT_EQ(ints(lax::reduce(given, none_yet, joined, {1}).first), (std::vector<int>{3, 14, 25, 69, 70, 81}));
  EXPECT_TRUE(same(lax::reduce(given, none_yet, joined, {}).first, digits));
}

TEST(Reduce, KnowsWhatTheLibraryReducesBy) {
  const Array x = M({6, 8});
  const auto text = [&](auto function) {
    const auto f = [function](const Array& a) { return lax::reduce(a, 0.0, function, {1}); };
    return to_string(jit(f).lower(x).as_text());
  };
  EXPECT_THAT(text([](const Array& a, const Array& b) { return a + b; }), testing::HasSubstr("reduce_sum"));
  EXPECT_THAT(text([](const Array& a, const Array& b) { return maximum(b, a); }), testing::HasSubstr("reduce_max"));
  EXPECT_THAT(text(jit([](const Array& a, const Array& b) { return a * b; })), testing::HasSubstr("reduce_prod"));
  EXPECT_THAT(text([](const Array& a, const Array&) { return a + a; }), testing::Not(testing::HasSubstr("reduce_sum")));
  EXPECT_TRUE(same(lax::reduce(x, 2.0, add, {0}), 2 + sum(x, {.axis = 0})));
  const Array bits = iota({3, 4}).astype(uint8);
  EXPECT_EQ(ints(lax::reduce(bits, 0, bitwise_or, {1}).astype(int32)), (std::vector<int>{3, 7, 11}));
  EXPECT_EQ(ints(lax::reduce(bits, 255, bitwise_and, {1}).astype(int32)), (std::vector<int>{0, 4, 8}));
  EXPECT_EQ(ints(lax::reduce(bits, 1, bitwise_xor, {1}).astype(int32)), (std::vector<int>{1, 1, 1}));
  const Array flags = bits > 7;
  EXPECT_TRUE(same(lax::reduce(flags, false, add, {1}), any(flags, {.axis = 1})));
  EXPECT_TRUE(same(lax::reduce(flags, true, minimum, {1}), all(flags, {.axis = 1})));
}

TEST(Reduce, BranchesAndCaptures) {
  const Array x = array({3, -7, 5, -2});
  const Array limits = array({4, 100});
  const auto f = [](const Array& a, const Array& bounds) {
    const Array limit = bounds[0];
    const auto further = [&](const Array& p, const Array& q) {
      return lax::cond(
          abs(p) > abs(q), [](const Array& u, const Array&) { return u; },
          [&](const Array&, const Array& v) { return minimum(v, limit); }, p, q);
    };
    return lax::reduce(a, 0, further, {0});
  };
  EXPECT_EQ(f(x, limits).item<int>(), -7);
  EXPECT_EQ(f(-x, limits).item<int>(), jit(f)(-x, limits).item<int>());
  EXPECT_EQ(f(array({9}), limits).item<int>(), 4);
}

TEST(Reduce, ThePartsOfDevices) {
  const Mesh mesh = mesh_4x2();
  const Array x = M({8, 16, 4});
  const Array at = iota({8, 16, 4}).astype(int32);
  const auto f = [](const Array& a, const Array& i, const Dims& dims) {
    return lax::reduce(Two(a, i), Two(Array(-kInfinity), Array(-1)), greater_one, dims);
  };
  for (const Dims& dims : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 1}, Dims{0, 1, 2}}) {
    const Two want = f(x, at, dims);
    EXPECT_TRUE(same(want.first, max(x, {.axis = dims})));
    for (const auto& spec : {P("x", "y"), P(none, std::vector<std::string>{"x", "y"}), P("y", none, "x")}) {
      const auto reduced = jit([&](const Array& a, const Array& i) { return f(a, i, dims); });
      const Two got = reduced(put(x, mesh, spec), put(at, mesh, spec));
      EXPECT_TRUE(same(got.first, want.first) && same(got.second, want.second));
      const Two eager = f(put(x, mesh, spec), put(at, mesh, spec), dims);
      EXPECT_TRUE(same(eager.first, want.first) && same(eager.second, want.second));
    }
  }
  // Dimensions that stay need no exchange.
  const auto rows = [](const Array& a) { return lax::reduce(a, 0.0, greatest_size, {1}); };
  EXPECT_EQ(collectives_in(jit(rows).lower(put(x, mesh, P("x", none, "y"))).compile().as_text()), Collectives());
}

TEST(Reduce, InManualRegions) {
  const Array x = M({8, 6});
  const auto f = [](const Array& a) { return lax::pmax(lax::reduce(a, 0.0, greatest_size, {0}), "i"); };
  const auto mapped = shard_map(f, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  const Array want = max(abs(x), {.axis = 0});
  EXPECT_TRUE(same(mapped(x), want));
  EXPECT_TRUE(same(jit(mapped)(x), want));
}

// ---- Windows

// By the definition, for integers.
std::vector<int> windows_of(const std::vector<int>& x, int init, const std::function<int(int, int)>& f,
                            std::int64_t window, const lax::ReduceWindowOptions& options) {
  const auto or_1 = [](const Dims& dims) { return dims.empty() ? 1 : dims[0]; };
  const auto [low, high] = (*options.padding.pairs())[0];
  std::vector<std::optional<int>> spread(static_cast<std::size_t>(low));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i > 0) spread.resize(spread.size() + static_cast<std::size_t>(or_1(options.base_dilation) - 1));
    spread.emplace_back(x[i]);
  }
  spread.resize(spread.size() + static_cast<std::size_t>(high));
  const std::int64_t last = (window - 1) * or_1(options.window_dilation);
  std::vector<int> results;
  for (std::int64_t at = 0; at + last < static_cast<std::int64_t>(spread.size()); at += or_1(options.window_strides)) {
    int value = init;
    for (std::int64_t k = 0; k < window; ++k) {
      const std::optional<int>& one = spread[static_cast<std::size_t>(at + k * or_1(options.window_dilation))];
      if (one) value = f(value, *one);
    }
    results.push_back(value);
  }
  return results;
}

TEST(ReduceWindow, ByAnyFunction) {
  std::vector<int> x;
  for (int i = 0; i < 29; ++i) x.push_back((i * 7 + 3) % 11 - 5);
  const auto larger = [](const Array& a, const Array& b) { return maximum(abs(a), abs(b)); };
  const auto plain = [](int a, int b) { return std::max(std::abs(a), std::abs(b)); };
  for (const std::int64_t window : {1, 2, 3, 7, 8, 13, 40}) {
    for (const std::int64_t stride : {1, 2, 5}) {
      for (const std::int64_t gap : {1, 3}) {
        for (const std::int64_t base : {1, 2}) {
          for (const auto& padding : {std::pair{0, 0}, std::pair{2, 3}}) {
            const lax::ReduceWindowOptions options = {
                .window_strides = {stride}, .padding = {padding}, .base_dilation = {base}, .window_dilation = {gap}};
            const Array got = lax::reduce_window(array(x), 1, larger, {window}, options);
            EXPECT_EQ(ints(got), windows_of(x, 1, plain, window, options))
                << window << " " << stride << " " << gap << " " << base << " " << padding.first;
          }
        }
      }
    }
  }
}

TEST(ReduceWindow, InOrderAndOverTrees) {
  const auto joined = [](const Two& a, const Two& b) { return Two(a.first * b.second + b.first, a.second * b.second); };
  const Array digits = iota({3, 3}).astype(int32);
  const Two given(digits, full_like(digits, 10));
  const auto f = [&](const Two& x) {
    return lax::reduce_window(x, Two(Array(9), Array(10)), joined, {2, 2}, {.padding = "SAME"}).first;
  };
  const std::vector<int> want = {90134, 91245, 925, 93467, 94578, 958, 967, 978, 98};
  EXPECT_EQ(ints(f(given)), want);
  EXPECT_EQ(ints(jit(f)(given)), want);
  const Array more = iota({8, 4}).astype(int32) % 10;
  const Array tens = full_like(more, 10);
  for (const auto& spec : {P("x"), P(none, "x"), P("x", "y")}) {
    EXPECT_TRUE(same(f(Two(put(more, mesh_4x2(), spec), tens)), f(Two(more, tens))));
  }
}

TEST(ReduceWindow, PadsAsMuchAsTheArrayNeedsWithoutGaps) {
  const Array x = array({1, 2, 3});
  const auto sum = [](const lax::ReduceWindowOptions& options, const Array& a) {
    return ints(lax::reduce_window(a, 0, add, {2}, options));
  };
  EXPECT_EQ(sum({.window_strides = {2}, .padding = "SAME", .base_dilation = {2}}, array({1, 2, 3, 4})),
            (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(sum({.padding = {{-1, 1}}}, x), (std::vector<int>{5, 3}));
  EXPECT_EQ(sum({.padding = {{-3, 0}}}, x), (std::vector<int>{}));
}

TEST(ReduceWindow, OfPlacesThatStayMovesNothing) {
  const Array x = M({8, 6, 4});
  const auto f = [](const Array& a) {
    return lax::reduce_window(a, 0.0, greatest_size, {1, 2, 1}, {.window_strides = {1, 2, 1}});
  };
  const Array split = put(x, mesh_4x2(), P("x", none, "y"));
  EXPECT_EQ(collectives_in(jit(f).lower(split).compile().as_text()), Collectives());
  EXPECT_TRUE(same(f(split), f(x)));
}

}  // namespace
}  // namespace shoal::test
