// Loops and branches: values against plain loops, outside jit and inside, split over devices and in manual regions.
#include "shoal/control_flow.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "frontend/test_support.h"
#include "shoal/callback.h"
#include "shoal/checkpoint.h"
#include "shoal/debug.h"
#include "shoal/derivatives.h"
#include "shoal/serialize.h"

namespace shoal::test {
namespace {

using Two = std::pair<Array, Array>;

// A running sum, and each term doubled.
const auto running = [](const Array& carry, const Array& x) { return Two(carry + x, x * 2); };

TEST(Scan, CarriesAndStacks) {
  const Array xs = iota({5, 3});
  for (const bool reverse : {false, true}) {
    const auto f = [&](const Array& init, const Array& stack) {
      return lax::scan([](const Array& carry, const Array& x) { return Two(carry * 0.5 + x, carry); }, init, stack,
                       {.reverse = reverse});
    };
    const auto [last, ys] = f(ones({3}), xs);
    const auto [last_jit, ys_jit] = jit(f)(ones({3}), xs);
    std::vector<float> carry(3, 1);
    std::vector<float> stacked(15);
    for (int trip = 0; trip < 5; ++trip) {
      const int at = reverse ? 4 - trip : trip;
      for (int i = 0; i < 3; ++i) {
        const auto place = static_cast<std::size_t>(i);
        stacked[static_cast<std::size_t>(at * 3 + i)] = carry[place];
        carry[place] = carry[place] * 0.5F + static_cast<float>(at * 3 + i);
      }
    }
    EXPECT_EQ(floats(last), carry);
    EXPECT_EQ(floats(ys), stacked);
    EXPECT_TRUE(same(last, last_jit) && same(ys, ys_jit));
  }
}

TEST(Scan, OverTreesCapturesAndNothing) {
  const Array w = iota({2, 2});
  const auto [last, ys] = lax::scan(
      [&](const Two& carry, const std::tuple<>&) {
        return std::pair(Two(carry.second, matmul(carry.first, w)), carry.first.sum());
      },
      Two(ones({2}), zeros({2})), std::tuple<>(), {.length = 4});
  EXPECT_EQ(ys.shape(), Shape{4});
  Array a = ones({2});
  Array b = zeros({2});
  std::vector<float> sums;
  for (int i = 0; i < 4; ++i) {
    sums.push_back(a.sum().item<float>());
    std::tie(a, b) = std::pair(b, matmul(a, w));
  }
  EXPECT_TRUE(same(last.first, a) && same(last.second, b));
  EXPECT_EQ(floats(ys), sums);
}

TEST(Scan, OfNoTripsAndOfOne) {
  for (const std::int64_t n : {0, 1}) {
    const auto [last, ys] = lax::scan(running, Array(7.0F), iota({n}));
    EXPECT_EQ(last.item<float>(), 7.0F);
    EXPECT_EQ(ys.shape(), Shape{n});
  }
}

// Carries that change places, are yielded as they are, are also stacked, or are one array twice.
TEST(Scan, CarriesThatAlias) {
  using Three = std::array<Array, 3>;
  const Array shared = iota({4});
  const auto f = [](const Array& x, const Array& captured) {
    return lax::scan(
        [&](const Three& c, const Array& t) {
          return std::pair(Three{c[1], c[0], c[2]}, std::array<Array, 4>{c[0], c[0], captured, t});
        },
        Three{x, x + 1, x}, captured.reshape(Shape{4, 1}));
  };
  for (const bool compiled : {false, true}) {
    const auto [last, ys] = compiled ? jit(f)(shared, shared) : f(shared, shared);
    EXPECT_TRUE(same(last[0], shared) && same(last[1], shared + 1) && same(last[2], shared));
    EXPECT_TRUE(same(ys[0], stack({shared, shared + 1, shared, shared + 1})));
    EXPECT_TRUE(same(ys[0], ys[1]));
    EXPECT_TRUE(same(ys[2], stack({shared, shared, shared, shared})));
    EXPECT_TRUE(same(ys[3], shared.reshape(Shape{4, 1})));
  }
}

TEST(Scan, UnrolledIsTheSame) {
  const Array xs = iota({7, 2});
  const auto f = [&](bool reverse, std::int64_t unroll) {
    return lax::scan([](const Array& c, const Array& x) { return Two(c * 0.75 + x, c); }, ones({2}), xs,
                     {.reverse = reverse, .unroll = unroll});
  };
  for (const bool reverse : {false, true}) {
    const auto [last, ys] = f(reverse, 1);
    for (const std::int64_t unroll : {2, 3, 7, 100}) {
      const auto [other, others] = f(reverse, unroll);
      EXPECT_TRUE(same(last, other) && same(ys, others)) << unroll;
    }
  }
}

TEST(Scan, AWeakCarryTakesTheTypeOfTheBody) {
  const Array x = ones({}, {.dtype = int16});
  const auto [last, ys] =
      lax::scan([&](const Array& c, const std::tuple<>&) { return Two(c + x, c); }, 0, std::tuple<>(), {.length = 3});
  EXPECT_EQ(last.dtype(), int16);
  EXPECT_EQ(last.item<std::int16_t>(), 3);
}

TEST(WhileLoop, RunsAsLongAsItsConditionHolds) {
  const auto collatz = [](const Array& n) {
    return lax::while_loop([](const Two& s) { return s.first != 1; },
                           [](const Two& s) {
                             return Two(where(s.first % 2 == 0, s.first / 2, s.first * 3 + 1).astype(int32),
                                        s.second + 1);
                           },
                           Two(n, zeros({}, {.dtype = int32})))
        .second;
  };
  EXPECT_EQ(collatz(full({}, 27, {.dtype = int32})).item<int>(), 111);
  EXPECT_EQ(jit(collatz)(full({}, 27, {.dtype = int32})).item<int>(), 111);
  EXPECT_EQ(collatz(full({}, 1, {.dtype = int32})).item<int>(), 0);
}

TEST(ForiLoop, BetweenNumbersAndBetweenArrays) {
  const auto add = [](const Array& i, const Array& x) { return x + i; };
  EXPECT_EQ(lax::fori_loop(2, 6, add, 0.0F).item<float>(), 14);
  EXPECT_EQ(lax::fori_loop(6, 2, add, 1.5F).item<float>(), 1.5F);
  EXPECT_EQ(lax::fori_loop(full({}, 2, {.dtype = int32}), 6, add, 0.0F).item<float>(), 14);
  const auto f = jit([&](const Array& n) { return lax::fori_loop(0, n, add, ones({3})); });
  EXPECT_EQ(floats(f(full({}, 4, {.dtype = int32}))), (std::vector<float>{7, 7, 7}));
}

TEST(Cond, RunsOneOfTwo) {
  const auto f = [](const Array& p, const Array& x) {
    return lax::cond(
        p, [](const Array& a) { return a + 1; }, [](const Array& a) { return a * 10; }, x);
  };
  for (const bool compiled : {false, true}) {
    const auto call = [&](const Array& p) { return floats(compiled ? jit(f)(p, iota({3})) : f(p, iota({3}))); };
    EXPECT_EQ(call(Array(true)), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(call(Array(false)), (std::vector<float>{0, 10, 20}));
    EXPECT_EQ(call(Array(std::nanf(""))), (std::vector<float>{1, 2, 3}));
  }
}

TEST(Switch, TakesTheNearestBranch) {
  const std::vector<std::function<Array(Array)>> branches = {[](const Array& x) { return x; },
                                                             [](const Array& x) { return x * x; },
                                                             [](const Array&) { return full({}, 9.0F); }};
  std::vector<float> got;
  for (const int index : {-5, 0, 1, 2, 3}) got.push_back(lax::switch_(index, branches, Array(3.0F)).item<float>());
  EXPECT_EQ(got, (std::vector<float>{3, 3, 9, 9, 9}));
}

TEST(Switch, BranchesUseArraysOfAnyTypesFromOutside) {
  const Array vector = iota({3}), matrix = ones({2, 2}), number = full({}, 5.0F);
  const std::vector<std::function<Array(Array)>> branches = {[&](const Array& x) { return x + sum(matrix); },
                                                             [&](const Array& x) { return x + sum(vector) + number; },
                                                             [&](const Array& x) { return x + number * sum(matrix); }};
  std::vector<float> got;
  for (const int index : {0, 1, 2}) got.push_back(lax::switch_(index, branches, Array(1.0F)).item<float>());
  EXPECT_EQ(got, (std::vector<float>{5, 9, 21}));
}

TEST(Map, OneAfterTheOther) {
  const Array x = iota({6, 4});
  EXPECT_TRUE(same(lax::map([](const Array& row) { return sort(-row) * 2; }, x), sort(-x, {.axis = 1}) * 2));
}

TEST(AssociativeScan, CombinesInAnyOrder) {
  for (const std::int64_t n : {0, 1, 2, 3, 7, 16, 33}) {
    const Array x = iota({n, 2}) + 1;
    EXPECT_TRUE(
        same(lax::associative_scan([](const Array& a, const Array& b) { return a + b; }, x), cumsum(x, {.axis = 0})));
    EXPECT_TRUE(
        same(lax::associative_scan([](const Array& a, const Array& b) { return maximum(a, b); }, -x, {.reverse = true}),
             flip(lax::cummax(flip(-x, 0), 0), 0)))
        << n;
  }
}

// Loops in branches in loops.
TEST(ControlFlow, Nests) {
  const auto f = jit([](const Array& x) {
    return lax::fori_loop(
        0, 4,
        [](const Array& i, const Array& outer) {
          return lax::cond(
              i % 2 == 0,
              [&](const Array& a) {
                return lax::scan([&](const Array& c, const Array& s) { return Two(c + s * i, c); }, a, a).first;
              },
              [](const Array& a) { return a * 0.5; }, outer);
        },
        x);
  });
  std::vector<float> want = {1, 2};
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) {
      const std::vector<float> before = want;
      for (float& c : want) {
        for (const float s : before) c += s * static_cast<float>(i);
      }
    } else {
      for (float& c : want) c *= 0.5F;
    }
  }
  EXPECT_EQ(floats(f(array({1.0F, 2.0F}))), want);
}

// Loops that are one piece of code give what their trips give one by one.
TEST(ControlFlow, WholeLoops) {
  const auto swaps = [](const Array& x) {
    return lax::fori_loop(
               0, 9,
               [](const Array& i, const Two& c) {
                 return Two(c.second, c.first + c.second * i.astype(c.first.dtype()));
               },
               Two(x, x + x))
        .first;
  };
  const auto stacks = [](const Array& xs) {
    return lax::scan([](const Array& c, const Array& x) { return Two(c + x, c); }, zeros_like(xs[0]), xs,
                     {.reverse = true});
  };
  const auto captures = [](const Array& x) {
    const Array scale = x * x;
    return lax::fori_loop(
        3, 40, [&](const Array& i, const Array& c) { return where(i % 2 == 0, c + scale, c - x); }, x);
  };
  const auto check = [&](const Array& x) {
    SCOPED_TRACE(to_string(x.shape()) + std::string(name_of(x.dtype())));
    const auto run = [&] {
      const Two stacked = jit(stacks)(x.ndim() == 0 ? x.reshape({1}) : x);
      return std::vector<Array>{jit(swaps)(x), jit(captures)(x), stacked.first, stacked.second};
    };
    const std::vector<Array> got = run();
    const BackendScope scope(reference_backend());
    const std::vector<Array> want = run();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(array_equal(got[i], want[i]).item<bool>()) << i << got[i] << want[i];
    }
  };
  for (const Dtype dtype : {int8, uint32, int64, float16, bfloat16, float32, float64, complex64}) {
    check((iota({}) + 3).astype(dtype));
    check((iota({5}) % 4).astype(dtype));
    check((iota({6, 7}) % 4).astype(dtype));
    check(put((iota({16}) % 4).astype(dtype), mesh_8(), P("i")));
    check(put((iota({4, 16}) % 4).astype(dtype), mesh_8(), P(none, "i")));
  }
  // Halved as long as it is even, and tripled: each device by itself, or all alike.
  const auto collatz = [](const Array& x) {
    return lax::while_loop([](const Two& s) { return s.first > 1; },
                           [](const Two& s) {
                             return Two(where(s.first % 2 == 0, floor_divide(s.first, 2), s.first * 3 + 1),
                                        s.second + 1);
                           },
                           Two(x, zeros_like(x)));
  };
  const auto each = shard_map([&](const Array& x) { return collatz(x[0]).second.reshape({1}); },
                              {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_EQ(floats(each(iota({8}).astype(int32) + 20).astype(float32)),
            (std::vector<float>{7, 7, 15, 15, 10, 23, 10, 111}));
  EXPECT_EQ(jit(collatz)(Array(27)).second.item<std::int32_t>(), 111);
  // Long enough to be compiled.
  const auto counts = jit([](const Array& x) {
    return lax::fori_loop(
        0, 1 << 20, [](const Array& i, const Array& c) { return c * 3 + i; }, x);
  });
  std::int32_t want = 1;
  for (std::uint32_t i = 0; i < 1U << 20U; ++i) {
    want = static_cast<std::int32_t>(static_cast<std::uint32_t>(want) * 3 + i);
  }
  EXPECT_EQ(counts(Array(1)).item<std::int32_t>(), want);
}

// So are loops of scalars that branch, go round within each other, and read and write elements at places that they
// compute, inside arrays and outside.
TEST(ControlFlow, WholeLoopsThatBranchAndReach) {
  using Branches = std::vector<std::function<Array(Array)>>;
  const auto branches = [](const Array& x) {
    return lax::fori_loop(
        0, 30,
        [](const Array& i, const Two& c) {
          const Array either = lax::cond(
              c.first > 3, [](const Array& a) { return a - 5; }, [](const Array& a) { return a + 2; }, c.first);
          const Branches ways = {
              [](const Array& a) { return a + 1; }, [](const Array& a) { return (a * a / (a - 1)).astype(a.dtype()); },
              [](const Array& a) { return sqrt(abs(a)).astype(a.dtype()) + sin(a).astype(a.dtype()); }};
          return Two(either, lax::switch_(i % 4 - 1, ways, c.second));
        },
        Two(x[0], x[1]));
  };
  const auto reaches = [](const Array& x) {
    return lax::fori_loop(
        -3, 40,
        [](const Array& i, const Two& c) {
          const Array read = c.second[i] + lax::dynamic_index_in_dim(c.second, i * 2 - 9, 0, false);
          const Array next = (c.first * 3 + read) % 11;
          const Array updated = c.second.at(i).set(next).at(i - 2).add(read).at(3).max(next);
          return Two(next, lax::cond(
                               i % 3 == 0, [&](const Array& a) { return a.at(i % 5).multiply(next); },
                               [](const Array& a) { return a; }, updated));
        },
        Two(x[0], x));
  };
  const auto nests = [](const Array& x) {
    return lax::scan(
        [&](const Two& c, const Array& step) {
          const auto [low, table] = lax::while_loop(
              [](const Two& s) { return s.first < 40; },
              [&](const Two& s) { return Two(s.first * 2 + 1, s.second.at(s.first.astype(int32) % 4).add(step)); }, c);
          const Array sum = lax::fori_loop(
              0, 4, [&](const Array& j, const Array& s) { return s * 3 + table[j]; }, low);
          return std::pair(Two(abs(sum) % 7, table), Two(sum, low));
        },
        Two(x[1], x), x);
  };
  const auto run_all = [&](const Array& x) {
    std::vector<Array> all;
    const auto add = [&](const Two& two) { all.insert(all.end(), {two.first, two.second}); };
    add(jit(branches)(x));
    add(jit(reaches)(x));
    const auto [carry, ys] = jit(nests)(x);
    add(carry);
    add(ys);
    return all;
  };
  const auto check = [&](const Array& x) {
    SCOPED_TRACE(to_string(x.shape()) + std::string(name_of(x.dtype())) + to_string(x.sharding()));
    const std::vector<Array> got = run_all(x);
    const BackendScope scope(reference_backend());
    const std::vector<Array> want = run_all(x);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(array_equal(got[i], want[i], true).item<bool>()) << i << got[i] << want[i];
    }
  };
  for (const Dtype dtype : {int8, uint8, uint32, int64, float16, bfloat16, float32, float64}) {
    const Array x = (iota({8}) % 5 + 1).astype(dtype);
    check(x);
    for (const PartitionSpec& spec : {P("i"), P()}) check(put(x, mesh_8(), spec));
  }
  // Each device by itself.
  const auto each = shard_map(
      [&](const Array& x) {
        const auto [last, table] = reaches(x[0]);
        return last.reshape({1}) + table.sum();
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const Array rows = (iota({8, 6}) % 7).astype(int32);
  const Array got = each(rows);
  for (int device = 0; device < 8; ++device) {
    const auto [last, table] = jit(reaches)(rows[device]);
    EXPECT_EQ(got[device].item<std::int32_t>(), (last + table.sum()).item<std::int32_t>()) << device;
  }
  // Long enough to be compiled at once.
  const auto sieve = jit([](const Array& x) {
    return lax::fori_loop(
        2, 1000,
        [](const Array& i, const Array& c) {
          const auto strike = [&](const Array& all) {
            return lax::fori_loop(
                Array(2), floor_divide(Array(1 << 16) + i - 1, i),
                [&](const Array& k, const Array& a) { return a.at(k * i).set(false); }, all);
          };
          return lax::cond(
              c[i], strike, [](const Array& all) { return all; }, c);
        },
        x);
  });
  EXPECT_EQ(sum(sieve(ones({1 << 16}, {.dtype = bool_})).astype(int32)).item<std::int32_t>(), 6542 + 2);
}

// However arrays are split, the bits are those of one device.
TEST(ControlFlow, SplitOverDevices) {
  const Mesh mesh = mesh_4x2();
  const Array xs = iota({6, 8, 4}) * 0.01;
  const Array w = iota({4, 4}) * 0.1;
  const auto rnn = jit([](const Array& init, const Array& x, const Array& weights) {
    return lax::scan(
        [&](const Array& h, const Array& one) {
          const Array next = tanh(matmul(h, weights) + one);
          return Two(next, next.sum());
        },
        init, x);
  });
  const auto [want, sums] = rnn(zeros({8, 4}), xs, w);
  for (const PartitionSpec& of_x : {P(), P(none, "x"), P(none, "x", "y"), P("y"), P("y", "x")}) {
    for (const PartitionSpec& of_h : {P(), P("x"), P("y", "x")}) {
      const auto [last, ys] = rnn(put(zeros({8, 4}), mesh, of_h), put(xs, mesh, of_x), put(w, mesh, P(none, "y")));
      EXPECT_TRUE(allclose(last, want, {.rtol = 1e-5}).item<bool>()) << to_string(of_x) << to_string(of_h);
      EXPECT_TRUE(allclose(ys, sums, {.rtol = 1e-5}).item<bool>());
    }
  }
}

// What is split along the dimension of the slices is moved before the loop, and what enters is resharded once.
TEST(ControlFlow, MovesNothingInTripsThatCanBeMovedBefore) {
  const Mesh mesh = mesh_8();
  const auto f = jit([](const Array& init, const Array& xs) { return lax::scan(running, init, xs); });
  const std::string text = f.lower(put(zeros({16}), mesh, P()), put(ones({8, 16}), mesh, P("i"))).compile().as_text();
  const std::size_t loop = text.find("scan(");
  ASSERT_NE(loop, std::string::npos);
  EXPECT_EQ(text.substr(loop).find("all_"), std::string::npos) << text;
}

// How many lines of a program's text have all these words, inside bodies and outside.
std::pair<int, int> inside_and_outside(const std::string& text, std::initializer_list<std::string_view> words) {
  std::pair<int, int> count;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool has_all = std::ranges::all_of(words, [&](auto word) { return line.find(word) != std::string::npos; });
    // Equations of the program itself are indented by two.
    if (has_all) ++(line[2] == '%' ? count.second : count.first);
  }
  return count;
}

// Two layers, whose gradients a scan over microbatches adds up, split over the data.
struct Microbatches {
  Dtype dtype = float32;
  Array xs = (iota({3, 8, 4}) % 5).astype(float32);
  Array weights = (iota({2, 4, 4}) % 3).astype(float32);

  // What a layer's gradient is made of is enough: products over the batch.
  static Array gradient(const Array& x, const Array& w) { return matmul(x.T(), tanh(matmul(x, w))); }

  // The layers as slices of a scan inside, whose gradients are its stacks.
  auto by_slices() const {
    return [](const Array& all, const Array& batches) {
      return lax::scan(
                 [&](const Array& sum, const Array& x) {
                   const auto layers = lax::scan(
                       [](const Array& h, const Array& w) { return Two(tanh(matmul(h, w)), gradient(h, w)); }, x, all);
                   return Two(sum + layers.second / 3, x.sum());
                 },
                 zeros_like(all), batches)
          .first;
    };
  }
  // The same weights in every layer: captured, with a carry that adds up their gradients.
  auto by_captures() const {
    return [](const Array& all, const Array& batches) {
      return lax::scan(
                 [&](const Array& sum, const Array& x) {
                   const Two layers = lax::fori_loop(
                       0, 2,
                       [&](const Array&, const Two& at) {
                         return Two(tanh(matmul(at.first, all[0])), at.second + gradient(at.first, all[0]));
                       },
                       Two(x, zeros_like(all[0])));
                   return Two(sum + layers.second / 3, x.sum());
                 },
                 zeros_like(all[0]), batches)
          .first;
    };
  }
};

// Weights that are captured are gathered once where they fit beside what the loop is given. Where layers follow each
// other, each with weights as large as that, one layer's are whole at a time.
TEST(ControlFlow, GathersCapturedWeightsOnceWhereTheyFit) {
  const Mesh mesh = mesh_8();
  const Array w = put(sin(iota({32, 32})), mesh, P("i"));
  const auto rnn = jit([](const Array& weights, const Array& xs) {
    return lax::scan(
               [&](const Array& h, const Array& x) { return std::pair(tanh(matmul(h, weights) + x), std::tuple<>()); },
               zeros({512, 32}), xs)
        .first;
  });
  const Array xs = put(cos(iota({8, 512, 32})), mesh, P(none, "i"));
  EXPECT_EQ(inside_and_outside(rnn.lower(w, xs).compile().as_text(), {"= all_gather("}), std::pair(0, 1));
  EXPECT_TRUE(allclose(rnn(w, xs), rnn(put(w, mesh, P()), xs), {.rtol = 1e-4, .atol = 1e-4}).item<bool>());
  const auto layers = jit([](const std::vector<Array>& weights, const Array& batches) {
    return lax::scan(
               [&](const Array& sum, const Array& x) {
                 Array h = x;
                 for (const Array& one : weights) h = tanh(matmul(h, one));
                 return std::pair(sum + h, std::tuple<>());
               },
               zeros({512, 32}), batches)
        .first;
  });
  std::vector<Array> different;
  for (int i = 0; i < 12; ++i) different.push_back(put(w + i, mesh, P("i")));
  EXPECT_EQ(inside_and_outside(layers.lower(different, xs[{range(0, 2)}]).compile().as_text(), {"= all_gather("}),
            std::pair(12, 0));
}

// Branches that leave an array or update it do so where it lies: the loop needs no second one. Those that read what
// they change, or exchange two arrays, get copies of their own.
TEST(ControlFlow, BranchesUpdateInPlace) {
  const Array x = iota({64, 32});
  const auto loop = [](const auto& body) {
    return jit([body](const Array& a) { return lax::fori_loop(0, 6, body, a); });
  };
  const auto set = [](const Array& i) { return [i](const Array& c) { return c.at(i).set(-1); }; };
  const auto leave = [](const Array& c) { return c; };
  const auto taken = loop([=](const Array& i, const Array& c) { return lax::cond(i % 2 == 0, set(i), leave, c); });
  EXPECT_LT(taken.lower(x).compile().memory_analysis().temp_size, 64 * 32 * 4);
  std::vector<float> want = floats(x);
  for (const std::size_t row : {0U, 2U, 4U})
    std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(row * 32), 32, -1.F);
  EXPECT_EQ(floats(taken(x)), want);
  EXPECT_EQ(floats(x), floats(iota({64, 32}))) << "an argument that is not donated keeps its values";

  // The old rows are read after the update, and the array is used again.
  const auto reads = jit([=](const Array& a, const Array& p) {
    const Array made = lax::cond(
        p, [](const Array& c) { return c.at(0).set(c[1] + c[0]); }, leave, a);
    return std::pair(made, a * 2);
  });
  for (const bool p : {true, false}) {
    const auto [made, twice] = reads(x, Array(p));
    EXPECT_EQ(made[0].to_vector<float>()[1], p ? 34.F : 1.F);
    EXPECT_EQ(floats(twice), floats(x * 2));
  }

  // Two arrays that change places in one branch.
  const auto swaps = jit([](const Array& a, const Array& b) {
    return lax::fori_loop(
        0, 3,
        [](const Array& i, const Two& c) {
          return lax::cond(
              i == 1, [](const Two& both) { return Two(both.second, both.first.at(0).set(7)); },
              [](const Two& both) { return Two(both.first.at(1).set(9), both.second); }, c);
        },
        Two(a, b));
  });
  const auto [first, second] = swaps(zeros({2}), ones({2}));
  EXPECT_EQ(floats(first), (std::vector<float>{1, 9}));
  EXPECT_EQ(floats(second), (std::vector<float>{7, 9}));
}

// The same for gradients that derivatives make, by every way to them, and where they are added in branches and inner
// loops.
TEST(ControlFlow, DerivativesOfMicrobatchesAreReducedOnce) {
  const Mesh mesh = mesh_8();
  const Array w = sin(iota({4, 4}));
  const Array xs = cos(iota({3, 16, 4}));
  const auto loss = [](const Array& weights, const Array& x) { return sum(square(tanh(matmul(x, weights)))); };
  const auto product = [](const Array& x) { return matmul(x.T(), x); };
  using Step = std::function<Array(const Array& g, const Array& x, const Array& weights)>;
  const std::vector<std::pair<std::string, Step>> steps = {
      {"grad", [=](const Array& g, const Array& x, const Array& weights) { return g + grad(loss)(weights, x); }},
      {"mean", [=](const Array& g, const Array& x, const Array& weights) { return g + grad(loss)(weights, x) / 3; }},
      {"checkpoint",
       [=](const Array& g, const Array& x, const Array& weights) {
         return g + grad([=](const Array& v) { return checkpoint(loss)(v, x); })(weights);
       }},
      {"vjp",
       [=](const Array& g, const Array& x, const Array& weights) {
         return g + vjp([=](const Array& v) { return loss(v, x); }, weights).second(Array(1.F));
       }},
      {"branch",
       [=](const Array& g, const Array& x, const Array&) {
         return lax::cond(
             sum(x) > 0, [=](const Array& c) { return c + product(x); }, [](const Array& c) { return c; }, g);
       }},
      {"inner loop",
       [=](const Array& g, const Array& x, const Array&) {
         return lax::fori_loop(
             0, 2, [=](const Array&, const Array& c) { return c + product(x); }, g);
       }},
  };
  for (const auto& [name, step] : steps) {
    SCOPED_TRACE(name);
    const auto f = jit([step = step](const Array& weights, const Array& stack) {
      return lax::scan([&](const Array& g, const Array& x) { return std::pair(step(g, x, weights), std::tuple<>()); },
                       zeros({4, 4}), stack)
          .first;
    });
    const Array split = put(xs, mesh, P(none, "i"));
    const std::string text = f.lower(put(w, mesh, P()), split).compile().as_text();
    const auto [inside, outside] = inside_and_outside(text, {"= all_reduce(", "f32[4,4]"});
    EXPECT_EQ(inside, 0) << text;
    EXPECT_EQ(outside, 1) << text;
    EXPECT_TRUE(allclose(f(put(w, mesh, P()), split), f(w, xs), {.rtol = 1e-4}).item<bool>());
  }
}

// Sums over devices are finished once, after all trips.
TEST(ControlFlow, GradientsOfMicrobatchesAreReducedOnce) {
  const Mesh mesh = mesh_8();
  const Microbatches of;
  const auto check = [&](const auto& function, Dtype dtype, double tolerance) {
    SCOPED_TRACE(name_of(dtype));
    const Array xs = of.xs.astype(dtype);
    const Array weights = of.weights.astype(dtype);
    const auto f = jit(function);
    const Array split = put(xs, mesh, P(none, "i"));
    const std::string text = f.lower(put(weights, mesh, P()), split).compile().as_text();
    const auto [inside, outside] = inside_and_outside(text, {"all_reduce("});
    EXPECT_EQ(outside, 1) << text;
    EXPECT_EQ(inside, 0) << text;
    const Array got = f(put(weights, mesh, P()), split);
    EXPECT_EQ(got.dtype(), dtype);
    const Array want = f(weights, xs);
    EXPECT_TRUE(allclose(got.astype(float32), want.astype(float32), {.rtol = tolerance}).item<bool>()) << got << want;
  };
  check(of.by_slices(), float32, 1e-5);
  check(of.by_captures(), float32, 1e-5);
  check(of.by_slices(), bfloat16, 0.05);
  check(of.by_captures(), bfloat16, 0.05);
}

// Also where a batch has fewer rows than a layer is wide, so that within one trip gathering rows moves less than adding
// up a gradient: over all trips it does not. Layers are slices, or taken by number from what is captured.
TEST(ControlFlow, GradientsOfSmallMicrobatchesAreReducedOnce) {
  const Mesh mesh = mesh_8();
  constexpr std::int64_t kLayers = 4;
  using Forward = std::function<Array(const Array& x, const Array& weights)>;
  const std::vector<std::pair<std::string, Forward>> forwards = {
      {"slices",
       [](const Array& x, const Array& weights) {
         const auto layer = [](const Array& h, const Array& w) {
           return std::pair(tanh(matmul(h, w)), std::tuple<>());
         };
         return lax::scan(layer, x, weights).first;
       }},
      {"one of a capture",
       [](const Array& x, const Array& weights) {
         return lax::fori_loop(
             0, kLayers, [&](const Array&, const Array& h) { return tanh(matmul(h, weights[1])); }, x);
       }},
      {"each of a capture",
       [](const Array& x, const Array& weights) {
         return lax::fori_loop(
             0, kLayers, [&](const Array& i, const Array& h) { return tanh(matmul(h, weights[i])); }, x);
       }},
  };
  for (const auto& [name, forward] : forwards) {
    for (const Dtype dtype : {float32, bfloat16}) {
      SCOPED_TRACE(name + " " + std::string(name_of(dtype)));
      const Array w = (sin(iota({kLayers, 32, 32})) / 8).astype(dtype);
      const Array xs = cos(iota({32, 16, 32})).astype(dtype);
      const auto step = jit([forward = forward](const Array& weights, const Array& batches) {
        const auto loss = [&](const Array& v, const Array& x) { return sum(square(forward(x, v).astype(float32))); };
        return lax::scan([&](const Array& sum,
                             const Array& x) { return std::pair(sum + grad(loss)(weights, x) / 32, std::tuple<>()); },
                         zeros_like(weights), batches)
            .first;
      });
      const Array split = put(xs, mesh, P(none, "i"));
      const std::string text = step.lower(put(w, mesh, P()), split).compile().as_text();
      EXPECT_EQ(inside_and_outside(text, {"= all_"}), std::pair(0, 1)) << text;
      EXPECT_EQ(inside_and_outside(text, {"= all_reduce(", "f32[4,32,32]"}), std::pair(0, 1)) << text;
      const Array got = step(put(w, mesh, P()), split).astype(float32);
      const Array want = step(w, xs).astype(float32);
      EXPECT_TRUE(allclose(got, want, {.rtol = 1e-4, .atol = dtype == float32 ? 1e-5 : 0.05}).item<bool>());
    }
  }
}

TEST(ControlFlow, InManualRegions) {
  const Mesh mesh = mesh_8();
  const auto body = [](const Array& x) {
    return lax::fori_loop(
        0, 3,
        [](const Array&, const Array& c) {
          return c + lax::ppermute(c, "i", lax::Permutation{{0, 1}, {1, 0}});
        },
        x);
  };
  const auto f = shard_map(body, {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  std::vector<float> want(8);
  std::iota(want.begin(), want.end(), 0.0F);
  for (int trip = 0; trip < 3; ++trip) {
    const float a = want[0];
    const float b = want[1];
    want[0] = a + b;
    want[1] = b + a;
  }
  EXPECT_EQ(floats(f(iota({8}))), want);
  EXPECT_EQ(floats(jit(f)(iota({8}))), want);
}

// What no device sends is zeros, also where a trip yields it.
TEST(ControlFlow, YieldsWhatNobodySends) {
  const auto shift = [](const Array& x) {
    return lax::scan(
        [](const Array& c, const std::tuple<>&) {
          const Array moved = lax::ppermute(c, "i", lax::Permutation{{0, 1}, {1, 2}, {5, 6}});
          return Two(moved, moved);
        },
        x, std::tuple<>(), {.length = 2});
  };
  const auto f = shard_map(shift, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = {P("i"), P(none, "i")}});
  const auto [last, all] = f(iota({8}) + 1);
  EXPECT_EQ(floats(last), (std::vector<float>{0, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(floats(all), (std::vector<float>{0, 1, 2, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(same(jit(f)(iota({8}) + 1).second, all));
}

// Each device goes round as often as its own data says, and takes its own branch.
TEST(ControlFlow, DevicesGoDifferentWays) {
  const Mesh mesh = mesh_8();
  const auto doubled = [](const Array& x) {
    return lax::while_loop([](const Array& c) { return c.sum() < 20; }, [](const Array& c) { return c * 2 + 1; }, x);
  };
  const auto chosen = [](const Array& x) {
    return lax::switch_(x.astype(int32)[0],
                        std::vector<std::function<Array(Array)>>{[](const Array& a) { return a - 1; },
                                                                 [](const Array& a) { return a * 10; },
                                                                 [](const Array& a) { return -a; }},
                        x);
  };
  std::vector<float> of_loop;
  std::vector<float> of_switch;
  for (int i = 0; i < 8; ++i) {
    auto c = static_cast<float>(i);
    while (c < 20) c = c * 2 + 1;
    of_loop.push_back(c);
    of_switch.push_back(i == 0 ? -1.0F : i == 1 ? 10.0F : static_cast<float>(-i));
  }
  const ShardMapOptions options{.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")};
  const Array x = iota({8});
  EXPECT_EQ(floats(shard_map(doubled, options)(x)), of_loop);
  EXPECT_EQ(floats(jit(shard_map(doubled, options))(x)), of_loop);
  EXPECT_EQ(floats(shard_map(chosen, options)(x)), of_switch);
  EXPECT_EQ(floats(jit(shard_map(chosen, options))(x)), of_switch);
}

// The program is called for the devices that come there, in their order, and for no other.
TEST(ControlFlow, CallsAreMadeForDevicesThatComeThere) {
  const ShardMapOptions options{.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")};
  const Array x = iota({8});
  std::vector<float> told;
  const auto tell = [&told](const Array& value) {
    debug::callback([&told](const std::vector<Array>& all) { told.push_back(all[0].to_vector<float>()[0]); }, {value});
  };
  const auto expect_told = [&](const std::function<Array(Array)>& f, const std::vector<float>& result,
                               const std::vector<float>& calls) {
    for (const bool jitted : {false, true}) {
      told.clear();
      const auto mapped = shard_map(f, options);
      EXPECT_EQ(floats(jitted ? jit(mapped)(x) : mapped(x)), result) << "jitted: " << jitted;
      EXPECT_EQ(told, calls) << "jitted: " << jitted;
    }
  };
  const auto told_and = [&](float factor) {
    return [&tell, factor](const Array& a) {
      tell(a);
      return a * factor;
    };
  };
  expect_told([&](const Array& a) { return lax::cond(a[0] > 5, told_and(2), told_and(-1), a); },
              {-0.0F, -1, -2, -3, -4, -5, 12, 14}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_told(
      [&](const Array& a) {
        return lax::cond(
            a[0] > 5, told_and(2), [](const Array& b) { return -b; }, a);
      },
      {-0.0F, -1, -2, -3, -4, -5, 12, 14}, {6, 7});
  const auto is_less = [&](const Array& c) {
    tell(c + 100);
    return c[0] < 6;
  };
  expect_told([&](const Array& a) { return lax::while_loop(is_less, told_and(3), a + 1); }, {9, 6, 9, 12, 15, 6, 7, 8},
              {101, 102, 103, 104, 105, 106, 107, 108, 1, 2, 3, 4, 5,  //
               103, 106, 109, 112, 115, 3,   109});
  // A loop in a branch, whose trips differ, and a branch in that.
  const auto of_even = [&](const Array&, const Array& c) {
    return lax::cond(
        remainder(c.astype(int32)[0], 2) == 0, told_and(1), [](const Array& b) { return b; }, c + 1);
  };
  expect_told(
      [&](const Array& a) {
        return lax::cond(
            a[0] > 4, [&](const Array& b) { return lax::fori_loop(0, b.astype(int32)[0] - 4, of_even, b); },
            [](const Array& b) { return b; }, a);
      },
      {0, 1, 2, 3, 4, 6, 8, 10}, {7, 9});
}

TEST(ControlFlow, ResultsOfCallsOnDifferentWays) {
  std::vector<float> given;
  const auto asked = io_callback(
      [&given](const Array& v) {
        given.push_back(v.to_vector<float>()[0]);
        return v + 10;
      },
      ShapeDtypeStruct{{1}, float32});
  const auto f = shard_map(
      [&](const Array& x) {
        return lax::cond(
            x[0] < 3,
            [&](const Array& a) {
              return lax::fori_loop(
                  0, 2, [&](const Array&, const Array& c) { return asked(c); }, a);
            },
            [](const Array& a) { return a * 2; }, lax::pvary(x, {"i"}));
      },
      {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  for (const bool jitted : {false, true}) {
    given.clear();
    EXPECT_EQ(floats(jitted ? jit(f)(iota({8})) : f(iota({8}))), (std::vector<float>{20, 21, 22, 6, 8, 10, 12, 14}));
    EXPECT_EQ(given, (std::vector<float>{0, 1, 2, 10, 11, 12}));
  }
}

// Of devices that take another branch, a loop would never end. One loop is a kernel as a whole, the other is not.
TEST(ControlFlow, DevicesThatHaveNotComeAreNotAsked) {
  for (const bool sorts : {false, true}) {
    const auto down = [&](const Array& c) { return sorts ? sort(c) - 1 : c - 1; };
    const auto f = shard_map(
        [&](const Array& x) {
          return lax::cond(
              x[0] >= 0,
              [&](const Array& a) { return lax::while_loop([](const Array& c) { return c[0] != 0; }, down, a); },
              [](const Array& a) { return a * 2; }, x);
        },
        {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
    const Array whole = where(iota({8}) < 3, -iota({8}) - 0.5, iota({8}));
    EXPECT_EQ(floats(f(whole)), (std::vector<float>{-1, -3, -5, 0, 0, 0, 0, 0}));
    EXPECT_EQ(floats(jit(f)(whole)), (std::vector<float>{-1, -3, -5, 0, 0, 0, 0, 0}));
  }
}

// Where a device is can be asked by those that go a way of their own, too.
TEST(ControlFlow, DevicesThatPartKnowWhereTheyAre) {
  const auto marked = [](const Array& x) {
    return lax::cond(
        x.sum() > 3, [](const Array& a) { return a + 100 * lax::axis_index("i"); },
        [](const Array& a) { return lax::pvary(Array(0.0F), "i") * a; }, x);
  };
  const auto f = shard_map(marked, {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  const std::vector<float> want = {0, 0, 0, 0, 404, 505, 606, 707};
  EXPECT_EQ(floats(f(iota({8}))), want);
  EXPECT_EQ(floats(jit(f)(iota({8}))), want);
}

// A carry of which each trip replaces a row is written where it lies: nothing is copied but rows.
TEST(ControlFlow, ReplacesRowsInPlace) {
  const auto f = jit(
      [](const Array& x) {
        return lax::fori_loop(
            0, 6,
            [](const Array& i, const Array& c) {
              const Array row = lax::dynamic_index_in_dim(c, i, 0, false) * 2 + i;
              return lax::dynamic_update_index_in_dim(c, row, i + 1, 0);
            },
            x);
      },
      {.donate_argnums = {0}});
  std::vector<float> want(8 * 3, 1);
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 3; ++k) {
      const auto at = static_cast<std::size_t>(i * 3 + k);
      want[at + 3] = want[at] * 2 + static_cast<float>(i);
    }
  }
  EXPECT_EQ(floats(f(ones({8, 3}))), want);
  const Mesh mesh = mesh_8();
  for (const PartitionSpec& spec : {P("i"), P()}) EXPECT_EQ(floats(f(put(ones({8, 3}), mesh, spec))), want);
}

// What reads the old array, wherever it stands in the body, does not make the loop copy it: it needs no second one.
TEST(ControlFlow, ReadersOfWhatIsUpdatedComeBefore) {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kColumns = 32;
  using Body = std::function<Two(const Array&, const Array&, const Array&)>;
  const auto row_of = [](const Array& x, const Array& i) { return lax::dynamic_index_in_dim(x, i, 0, false); };
  const std::map<std::string, Body> bodies = {
      {"old row", [&](const Array& i, const Array& x, const Array& s) { return Two(x.at(i).set(s), s + x[i]); }},
      {"old window",
       [&](const Array& i, const Array& x, const Array& s) {
         return Two(lax::dynamic_update_index_in_dim(x, s * 0.5, i, 0), row_of(x, i) + 1);
       }},
      {"sorted",
       [&](const Array& i, const Array& x, const Array& s) { return Two(x.at(i).set(sort(s)), sort(row_of(x, i))); }},
      {"added",
       [&](const Array& i, const Array& x, const Array& s) { return Two(x.at(i).add(s), cumsum(x[i]) * 0.1); }},
      {"twice", [&](const Array& i, const Array& x,
                    const Array& s) { return Two(x.at(i).set(s).at(i + 1).multiply(2), x[i] + x[i + 1]); }},
      {"both",
       [&](const Array& i, const Array& x, const Array& s) {
         const Array y = x.at(i).set(s);
         return Two(y, s + y[i] - x[i]);
       }},
      {"branch",
       [&](const Array& i, const Array& x, const Array& s) {
         const Array y = lax::cond(
             i % 2 == 0, [&](const Array& a) { return a.at(i).set(s); }, [](const Array& a) { return a; }, x);
         return Two(y, s + x[i]);
       }},
      {"loop",
       [&](const Array& i, const Array& x, const Array& s) {
         const Array y = lax::fori_loop(
             0, 2, [&](const Array& j, const Array& a) { return a.at(i).set(row_of(a, i + j) + s); }, x);
         return Two(y, s + x[i]);
       }},
      {"quotient", [&](const Array& i, const Array& x, const Array& s) { return Two(x.at(i).divide(s + 2), x[i]); }},
      {"power", [&](const Array& i, const Array& x, const Array& s) { return Two(x.at(i).power(1.5), s + x[i]); }},
  };
  const Array x = 1 + iota({kRows, kColumns}) / 64;
  const Array s = ones({kColumns});
  for (const auto& [name, body] : bodies) {
    const auto trip = [&body = body](const Array& i, const Two& c) { return body(i, c.first, c.second); };
    const auto loop = jit([&](const Array& a, const Array& b) { return lax::fori_loop(0, 9, trip, Two(a, b)); },
                          {.donate_argnums = {0}});
    EXPECT_LT(loop.lower(x, s).compile().memory_analysis().temp_size, kRows * kColumns * 4) << name;
    Two want(x, s);
    for (int i = 0; i < 9; ++i) want = body(Array(i), want.first, want.second);
    const auto [last, rest] = loop(x + 0, s);
    EXPECT_EQ(floats(last), floats(want.first)) << name;
    EXPECT_EQ(floats(rest), floats(want.second)) << name;
    const Mesh mesh = mesh_8();
    const auto [split, other] = loop(put(x, mesh, P("i")), s);
    EXPECT_EQ(floats(split), floats(want.first)) << name;
    // Outside of loops, into the memory of an argument that is given away.
    const auto once = jit([&body = body](const Array& i, const Array& a, const Array& b) { return body(i, a, b); },
                          {.donate_argnums = {1}});
    const MemoryAnalysis memory = once.lower(Array(3), x, s).compile().memory_analysis();
    EXPECT_EQ(memory.alias_size, kRows * kColumns * 4) << name;
    EXPECT_LT(memory.temp_size, kRows * kColumns * 4) << name;
  }
}

// A body stands once in the report, and counts as often as it runs.
TEST(ControlFlow, IsExplained) {
  const auto f = [](const Array& x, const Array& w) {
    return lax::fori_loop(
        0, 10, [&](const Array&, const Array& c) { return matmul(c, w); }, x);
  };
  const Mesh mesh = mesh_8();
  const auto compiled = jit(f).lower(put(ones({8, 16}), mesh, P("i")), ones({16, 16})).compile();
  EXPECT_EQ(compiled.cost_analysis().flops, 10 * (2.0 * 1 * 16 * 16));
  const std::string text = compiled.explain();
  EXPECT_NE(text.find("runs 10 times:"), std::string::npos) << text;
  EXPECT_NE(text.find("  dot_general"), std::string::npos) << text;
}

TEST(ControlFlow, ABarrierKeepsWhatIsComputedOnBothSidesApart) {
  const auto f = [](const Array& x) {
    const Two kept = lax::optimization_barrier(Two(x, x * 2));
    return sin(x) + sin(kept.first) + kept.second;
  };
  const std::string text = jit(f).lower(ones({4})).compile().as_text();
  EXPECT_NE(text.find("region("), std::string::npos) << text;
  const std::size_t first = text.find("= sin(");
  EXPECT_NE(text.find("= sin(", first + 1), std::string::npos) << text;
  EXPECT_EQ(floats(jit(f)(ones({4}))), floats(sin(ones({4})) * 2 + 2));
  EXPECT_EQ(floats(f(ones({4}))), floats(sin(ones({4})) * 2 + 2));
}

TEST(ControlFlow, StoredAndLoaded) {
  const auto f = [](const Array& x) {
    return lax::while_loop([](const Array& c) { return c.sum() < 100; },
                           [](const Array& c) { return lax::scan(running, c, c).second + 1; }, x);
  };
  const std::string bytes = jit(f).lower(ones({4})).compile().serialize();
  EXPECT_TRUE(same(deserialize_and_load<Array(Array)>(bytes)(ones({4})), f(ones({4}))));
  const Array there = device_put(ones({4}), devices()[3]);
  const Array moved = deserialize_and_load<Array(Array)>(bytes, {devices()[3]})(there);
  EXPECT_EQ(moved.sharding().device_list(), there.sharding().device_list());
  EXPECT_TRUE(same(moved, f(ones({4}))));
}

TEST(ControlFlow, CarriesOfDonatedArraysStayWhereTheyAre) {
  const auto f = jit(
      [](const Array& x) {
        return lax::fori_loop(
            0, 5, [](const Array& i, const Array& c) { return c * 2 + i; }, x);
      },
      {.donate_argnums = {0}});
  Array x = ones({1000});
  const Array y = f(x);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(y[0].item<float>(), 32 + 8 * 1 + 4 * 2 + 2 * 3 + 4);
}

}  // namespace
}  // namespace shoal::test
