#include "shoal/debug.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/test_folder.h"
#include "frontend/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/log.h"
#include "shoal/pmap.h"
#include "shoal/profiler.h"
#include "shoal/vmap.h"

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

TEST(Visualize, OfATracerOnceItIsCompiled) {
  std::ostringstream out;
  const Array x = put(iota({8, 8}), mesh_4x2(), P("x", "y"));
  jit([&](const Array& a) {
    debug::visualize_array_sharding(a.T(), {.out = &out});
    return a;
  })(x);
  EXPECT_EQ(out.str(), picture_of(put(iota({8, 8}), mesh_4x2(), P("y", "x"))));
}

TEST(Visualize, AsSvgAndHtml) {
  const NamedSharding sharding(mesh_4x2(), P("x", "y"));
  const Array x = device_put(iota({8, 8}), sharding);
  EXPECT_EQ(debug::sharding_svg(x), debug::sharding_svg({8, 8}, sharding));
  EXPECT_EQ(debug::sharding_html(x), debug::sharding_html({8, 8}, sharding));
  EXPECT_THAT(debug::sharding_svg(x), testing::AllOf(testing::StartsWith("<svg "), testing::HasSubstr(">CPU 7<")));
  EXPECT_THAT(debug::sharding_html(x), testing::AllOf(testing::StartsWith("<table "), testing::HasSubstr(">CPU 7<")));
}

// ---- inspect_array_sharding

// The shardings that a function is told of.
struct Told {
  std::vector<Sharding> shardings;
  auto listener() {
    return [this](const Sharding& sharding) { shardings.push_back(sharding); };
  }
};

TEST(InspectArraySharding, OutsideJitAtOnce) {
  Told told;
  const Array x = put(iota({8, 8}), mesh_4x2(), P("x"));
  debug::inspect_array_sharding(x, told.listener());
  EXPECT_THAT(told.shardings, testing::ElementsAre(x.sharding()));
}

TEST(InspectArraySharding, UnderJitOnceItIsCompiled) {
  for (const Shape& shape : {Shape{8}, Shape{8, 4}, Shape{8, 4, 2}}) {
    Told told;
    const auto f = jit([&](const Array& x) {
      const Array y = sin(x);
      debug::inspect_array_sharding(y, told.listener());
      return y.sum();
    });
    const Array x = put(iota(shape), mesh_4x2(), P("x"));
    EXPECT_EQ(f(x).item<float>(), f(x).item<float>());
    ASSERT_EQ(told.shardings.size(), 1U) << "compiled once";
    EXPECT_TRUE(told.shardings[0].is_equivalent_to(NamedSharding(mesh_4x2(), P("x")), shape.size()));
  }
}

TEST(InspectArraySharding, OfWhatNobodyUses) {
  Told told;
  const auto f = jit([&](const Array& x) {
    debug::inspect_array_sharding(x.T(), told.listener());
    return x;
  });
  f(put(iota({8, 4}), mesh_4x2(), P("x")));
  ASSERT_EQ(told.shardings.size(), 1U);
  EXPECT_TRUE(told.shardings[0].is_equivalent_to(NamedSharding(mesh_4x2(), P(none, "x")), 2));
}

TEST(InspectArraySharding, InsideShardMapOverTheAxesLeftToTheCompiler) {
  Told told;
  const Mesh mesh = mesh_4x2();
  const auto f = shard_map(
      [&](const Array& x) {
        debug::inspect_array_sharding(x, told.listener());
        return 2 * x;
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {"x"}});
  jit([&](const Array& x) { return f(x); })(put(iota({8, 4}), mesh, P("x", "y")));
  ASSERT_EQ(told.shardings.size(), 1U);
  EXPECT_TRUE(told.shardings[0].is_equivalent_to(NamedSharding(mesh, P(none, "y")), 2)) << told.shardings[0];
  const auto whole = shard_map(
      [&](const Array& x) {
        debug::inspect_array_sharding(x, told.listener());
        return x;
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  whole(iota({8, 4}));
  ASSERT_EQ(told.shardings.size(), 2U);
  EXPECT_TRUE(told.shardings[1].is_fully_replicated());
}

// ---- callback and print

// What is written to std::cout while f runs.
template <class F>
std::string printed(F&& f) {
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  f();
  std::cout.rdbuf(before);
  return out.str();
}

TEST(DebugPrint, OutsideJitAtOnce) {
  const Array x = put(iota({4}), mesh_8(), P());
  EXPECT_EQ(printed([&] { debug::print("x is {} and n {}", x, 3); }), "x is [0. 1. 2. 3.] and n 3\n");
  EXPECT_EQ(printed([&] { debug::print("{{}} nothing"); }), "{} nothing\n");
}

TEST(DebugPrint, NamesAndFormats) {
  const Array x = array({1.0F, -0.125F, 100.0F});
  EXPECT_EQ(printed([&] { debug::print("{:.2f}|{:>5}|{:x}", 1.5, 7, 255); }), "1.50|    7|ff\n");
  EXPECT_EQ(printed([&] { debug::print("{n} {x:.3g} {n:02}", debug::arg("x", x), debug::arg("n", 3)); }),
            "3 [1 -0.125 100] 03\n");
  EXPECT_EQ(printed([&] { debug::print("{} {x} {}", 1, debug::arg("x", 2), 3); }), "1 2 3\n");
  EXPECT_EQ(printed([&] { debug::print("{:.1f}", x.reshape(3, 1)); }), "[[1.0]\n [-0.1]\n [100.0]]\n");
  EXPECT_EQ(printed([&] { debug::print("{:5}", x > 0); }), "[True  False True ]\n");
  EXPECT_EQ(printed([&] { debug::print("{:.1f}", zeros({0})); }), "[]\n");
  EXPECT_EQ(printed([&] { debug::print("{:}", array({0.1F})); }), "[0.1]\n");
  const auto f = jit([](const Array& a) {
    debug::print("sum {sum:.1f}", debug::arg("sum", a.sum()));
    return a;
  });
  EXPECT_EQ(printed([&] { f(put(iota({8}), mesh_8(), P("i"))).block_until_ready(); }), "sum 28.0\n");
}

TEST(DebugPrint, InsidePmapOnceForEachDeviceInOrder) {
  const auto f = pmap(
      [](const Array& x) {
        debug::print("{}: {}", lax::axis_index("i"), x);
        return x + lax::psum(x, "i");
      },
      {.axis_name = "i"});
  std::string expected;
  for (int device = 0; device < 4; ++device) {
    expected +=
        std::to_string(device) + ": [" + std::to_string(2 * device) + ". " + std::to_string(2 * device + 1) + ".]\n";
  }
  EXPECT_EQ(printed([&] { f(iota({4, 2})).block_until_ready(); }), expected);
}

TEST(DebugPrint, UnderJitWholeArraysEachTimeItRuns) {
  const auto f = jit([](const Array& x) {
    debug::print("before");
    const Array y = x + 1;
    debug::print("{} then {}", y, x.sum());
    return 2 * y;
  });
  const Array x = put(iota({8}), mesh_4x2(), P({"x", "y"}));
  const std::string line = "before\n[1. 2. 3. 4. 5. 6. 7. 8.] then 28.0\n";
  EXPECT_EQ(printed([&] {
              f(x).block_until_ready();
              f(x).block_until_ready();
            }),
            line + line);
}

TEST(DebugPrint, InLoopsAndBranchesEachTime) {
  const auto f = jit([](const Array& x) {
    return lax::fori_loop(
        0, 3,
        [](const Array& i, const Array& c) {
          debug::print("trip {}", i);
          return lax::cond(
              i == 1,
              [](const Array& a) {
                debug::print("of {}", a.sum());
                return a * 2;
              },
              [](const Array& a) { return a; }, c);
        },
        x);
  });
  EXPECT_EQ(printed([&] { f(put(ones({8}), mesh_4x2(), P("x"))).block_until_ready(); }),
            "trip 0\ntrip 1\nof 8.0\ntrip 2\n");
}

TEST(DebugPrint, IsNoReasonToMoveAnything) {
  const auto quiet = [](const Array& x) { return 2 * x; };
  const auto loud = [](const Array& x) {
    debug::print("{}", x);
    return 2 * x;
  };
  const Array x = put(iota({8, 4}), mesh_4x2(), P("x", "y"));
  const std::string text = jit(loud).lower(x).compile().as_text();
  EXPECT_THAT(text, testing::HasSubstr("debug_callback(%0)"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("all_gather")));
  Array shown;
  printed([&] { shown = jit(loud)(x).block_until_ready(); });
  EXPECT_TRUE(same(shown, jit(quiet)(x)));
}

TEST(DebugPrint, InsideShardMapOnceForEachDeviceInOrder) {
  const Mesh mesh = mesh_4x2();
  const auto f = shard_map(
      [](const Array& x) {
        debug::print("{}: {}", lax::axis_index({"x", "y"}), x);
        return x;
      },
      {.mesh = mesh, .in_specs = P("y"), .out_specs = P("y")});
  std::string expected;
  for (int device = 0; device < 8; ++device) {
    expected += std::to_string(device) + (device % 2 == 0 ? ": [0. 1.]\n" : ": [2. 3.]\n");
  }
  EXPECT_EQ(printed([&] { f(iota({4})).block_until_ready(); }), expected);
  EXPECT_EQ(printed([&] { jit(f)(iota({4})).block_until_ready(); }), expected);
}

TEST(DebugPrint, OverTheAxesLeftToTheCompilerShardsArePutTogether) {
  const Mesh mesh = mesh_4x2();
  const auto f = shard_map(
      [](const Array& x) {
        debug::print("{}", x);
        return x;
      },
      {.mesh = mesh, .in_specs = P("y"), .out_specs = P("y"), .axis_names = {"y"}});
  EXPECT_EQ(printed([&] {
              jit(f)(put(iota({8}), mesh, P({"y", "x"}))).block_until_ready();
            }),
            "[0. 1. 2. 3.]\n[4. 5. 6. 7.]\n");
}

TEST(DebugPrint, StaysWhereNothingDependsOnIt) {
  const auto inner = jit([](const Array& x) {
    debug::print("inner {}", x.sum());
    return x;
  });
  const auto f = jit([&](const Array& x) {
    inner(x);
    return x + 1;
  });
  EXPECT_EQ(printed([&] { f(iota({3})).block_until_ready(); }), "inner 3.0\n");
}

TEST(DebugPrint, OfAnUnevenShard) {
  const auto f = jit([](const Array& x) {
    const Array y = x[range(0, 5)] + 0.5;
    debug::print("{}", with_sharding_constraint(y.reshape(5), NamedSharding(mesh_4x2(), P(unconstrained))));
    return x;
  });
  EXPECT_EQ(printed([&] { f(put(iota({8}), mesh_4x2(), P("x"))).block_until_ready(); }), "[0.5 1.5 2.5 3.5 4.5]\n");
}

TEST(DebugCallback, GetsArraysAndMayComputeWithThem) {
  std::vector<float> sums;
  const auto keep = [&](const std::vector<Array>& values) {
    sums.push_back((values[0] + values[1]).sum().item<float>());
  };
  debug::callback(keep, {iota({4}), 1});
  const Array x = put(iota({8}), mesh_8(), P("i"));
  jit([&](const Array& y) {
    debug::callback(keep, {y, 2});
    return y;
  })(x)
      .block_until_ready();
  shard_map(
      [&](const Array& y) {
        debug::callback(keep, {y, y.sum()});
        return y;
      },
      {.mesh = make_mesh({2}, {"i"}), .in_specs = P("i"), .out_specs = P("i")})(iota({4}));
  EXPECT_THAT(sums, testing::ElementsAre(6.F + 4, 28.F + 16, 1.F + 2, 5.F + 10));
}

TEST(DebugCallback, WhatItThrowsIsThrownWhereAResultIsRead) {
  const auto f = jit([](const Array& x) {
    debug::callback([](const std::vector<Array>&) { throw std::runtime_error("enough"); });
    return x + 1;
  });
  const Array y = f(iota({4}));
  EXPECT_THROW(y.block_until_ready(), std::runtime_error);
}

TEST(DebugCallback, AProgramWithoutResultsWarnsOfWhatItThrows) {
  std::vector<std::string> warnings;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  const auto f = jit(
      [](const Array& x) {
        debug::callback([](const std::vector<Array>&) { throw std::runtime_error("enough"); }, {x});
        return std::vector<Array>{};
      },
      {.name = "watch"});
  f(iota({4}));
  iota({4}).block_until_ready();  // Runs after it.
  set_log_sink(before);
  EXPECT_THAT(warnings,
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("watch failed"), testing::HasSubstr("enough"))));
}

// ---- explain

TEST(Explain, NamesTheLinesOfTheProgram) {
  const Mesh mesh = mesh_4x2();
  const int line = __LINE__ + 2;
  const auto f = jit([](const Array& a, const Array& b) {
    const Array c = matmul(a, b);
    return 2 * c;
  });
  const auto compiled = f.lower(put(iota({8, 4}), mesh, P("x", "y")), put(iota({4, 6}), mesh, P("y"))).compile();
  const std::string at = "debug_test.cc:";
  EXPECT_THAT(compiled.explain(),
              testing::AllOf(testing::HasSubstr(at + std::to_string(line) + "  dot_general"),
                             // Where the sum is needed.
                             testing::HasSubstr(at + std::to_string(line + 1) + "  all_reduce"),
                             testing::HasSubstr(at + std::to_string(line + 1) + "  multiply"),
                             testing::HasSubstr("moves 48 B to each device, 384 B in all, over (y): 12 ns, 95% of")));
  EXPECT_THAT(compiled.explain(), testing::Not(testing::HasSubstr("REPLICATED")));
}

// What was estimated and what was measured stand beside each other, for each step and what is inside of it.
TEST(Explain, TellsWhatWasMeasuredInATrace) {
  const auto f = jit([](const Array& x) {
    const auto twice = [](const Array&, const Array& c) { return sort(sin(c) + c.sum()); };
    return lax::fori_loop(0, 3, twice, x);
  });
  const Array x = put(iota({16, 4}), mesh_4x2(), P(none, "y"));
  const auto compiled = f.lower(x).compile();
  compiled(x).block_until_ready();
  EXPECT_THAT(compiled.explain(), testing::Not(testing::HasSubstr("measured")));
  {
    const test_support::TemporaryFolder folder;
    const profiler::Trace tracing = profiler::trace(folder / "trace.json");
    compiled(x).block_until_ready();
    compiled(x).block_until_ready();
  }
  EXPECT_THAT(compiled.explain(), testing::AllOf(testing::HasSubstr("\nmeasured in 2 launches on this process: "),
                                                 testing::HasSubstr("\n  estimated  measured\n"),
                                                 testing::ContainsRegex("debug_test.cc:[0-9]+  scan"),
                                                 testing::ContainsRegex("debug_test.cc:[0-9]+    fusion \\(.*sin.*\\)"),
                                                 testing::ContainsRegex("debug_test.cc:[0-9]+    sort"),
                                                 testing::ContainsRegex("debug_test.cc:[0-9]+    all_reduce")));
}

TEST(Explain, FlagsWhatBecomesWhole) {
  const auto gather = [](const Array& a) { return with_sharding_constraint(2 * a, NamedSharding(mesh_4x2(), P())); };
  const auto compiled = jit(gather).lower(put(iota({16, 16}), mesh_4x2(), P("x", "y"))).compile();
  EXPECT_THAT(compiled.explain(1024), testing::HasSubstr("REPLICATED: 1 KiB on each of 8 devices"));
  EXPECT_THAT(compiled.explain(1025), testing::Not(testing::HasSubstr("REPLICATED")));
}

// What is thrown.
std::string message_while_looking_for_nan(const std::function<void()>& call) {
  debug::check_results(true);
  std::string message = "nothing was thrown";
  try {
    call();
  } catch (const InvalidState& error) {
    message = error.what();
  }
  debug::check_results(false);
  return message;
}

TEST(Debug, NanOfADerivativeNamesTheLineThatIsDifferentiated) {
  unsigned line = 0;
  const auto loss = [&](const Array& x) {
    const Array y = 2 * x;
    line = __LINE__ + 1;
    const Array z = sqrt(y);
    return sum(z * 0.0f);
  };
  const auto twin = [](const Array& x) { return sum(sqrt(2 * x) * 0.0f); };
  const Array x = zeros({3});
  EXPECT_TRUE(isnan(grad(twin)(x)[0]).item<bool>());  // Its program is another's, too.
  const auto expect_line = [&](const std::string& message) {
    EXPECT_THAT(message, testing::HasSubstr(fmt::format("in the derivative of debug_test.cc:{}", line)));
  };
  expect_line(message_while_looking_for_nan([&] { grad(loss)(x); }));
  expect_line(message_while_looking_for_nan([&] { jit(grad(loss))(x); }));
  expect_line(message_while_looking_for_nan([&] { grad(jit(loss))(x); }));
  expect_line(message_while_looking_for_nan([&] { jvp(loss, std::tuple(x), std::tuple(x)); }));
  const auto twice = [&](const Array& a) { return sum(vmap(loss)(stack({a, a}))); };
  expect_line(message_while_looking_for_nan([&] { grad(twice)(x); }));
}

TEST(Debug, NanOfAProgramNamesItsLine) {
  const unsigned line = __LINE__ + 1;
  const auto f = [](const Array& x) { return log(x) + 1; };
  EXPECT_THAT(message_while_looking_for_nan([&] { jit(f)(array({-1.0f})); }),
              testing::HasSubstr(fmt::format("it comes of log at debug_test.cc:{}", line)));
  const Array bad = log(array({-1.0f}));
  EXPECT_THAT(message_while_looking_for_nan([&] { jit(f)(bad); }),
              testing::HasSubstr("; its argument 0 has it already"));
  // Prints are not made twice.
  int calls = 0;
  const auto prints = [&](const Array& x) {
    debug::callback([&](const std::vector<Array>&) { ++calls; }, {x});
    return log(x) * 2;
  };
  EXPECT_THAT(message_while_looking_for_nan([&] { jit(prints)(array({-1.0f})); }),
              testing::Not(testing::HasSubstr("it comes of")));
  EXPECT_EQ(calls, 1);
}

TEST(Debug, NanOfALoopOrABranchNamesTheLineInside) {
  unsigned line = 0;
  const auto expect_line = [&](const std::string& what, const std::function<void()>& call) {
    const std::string message = message_while_looking_for_nan(call);  // The line is known after it.
    EXPECT_THAT(message, testing::HasSubstr(fmt::format("{} debug_test.cc:{}", what, line)));
  };
  const Array steps = array({3.0f, 2.0f, 1.0f, 0.5f});
  // The third trip begins with -1, from either end.
  const auto walk = [&](const Array& x, bool reverse) {
    const auto step = [&](const Array& carry, const Array& by) {
      line = __LINE__ + 1;
      const Array root = sqrt(carry);
      return std::pair(root * 0.0f + carry - by * 2, root + 1);
    };
    return lax::scan(step, x, steps, {.reverse = reverse}).second;
  };
  expect_line("sqrt at", [&] { jit([&](const Array& x) { return walk(x, false); })(array(9.0f)); });
  expect_line("sqrt at", [&] { jit([&](const Array& x) { return walk(x, true); })(array(2.0f)); });
  expect_line("sqrt at", [&] { walk(array(9.0f), false); });
  const auto shrink = [&](const Array& x) {
    const auto step = [&](const Array& v) {
      line = __LINE__ + 1;
      const Array one = log(v);
      return one * 0.0f + v - 1.0f;
    };
    return lax::while_loop([](const Array& v) { return v > -5.0f; }, step, x);
  };
  expect_line("log at", [&] { jit([&](const Array& x) { return jit(shrink)(x) + 1; })(array(2.5f)); });
  const auto choose = [&](const Array& x) {
    return lax::cond(
        x < 0.0f,
        [&](const Array& v) {
          line = __LINE__ + 1;
          const Array one = log(v);
          return one + 1;
        },
        [](const Array& v) { return sqrt(v) + 1; }, x);
  };
  expect_line("log at", [&] { jit(choose)(array(-1.0f)); });
  // Loops in loops, split arrays, and derivatives.
  const auto nested = [&](const Array& x) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& v) { return lax::map([&](const Array& one) { return choose(one); }, v); },
        x);
  };
  expect_line("log at", [&] { jit(nested)(array({2.0f, -3.0f})); });
  expect_line("sqrt at", [&] {
    jit([&](const Array& x) { return walk(x, false); })(put(array({9.0f, 12.0f}), make_mesh({2}, {"i"}), P("i")));
  });
  const auto loss = [&](const Array& x) { return sum(walk(x, false)) * 0.0f; };
  expect_line("in the derivative of", [&] { grad(loss)(array(12.0f)); });  // The last trip begins with 0.
}

// In a manual region each device has values of its own; loops in it are gone through, too. Outside jit its operations
// are looked at one by one.
TEST(Debug, NanInAManualRegionNamesTheLineInside) {
  unsigned line = 0;
  const auto body = [&](const Array& x) {
    const Array y = x - lax::psum(x, "i");
    line = __LINE__ + 1;
    const Array z = log(y);
    return z * 0.0f;
  };
  const auto expect_line = [&](const std::string& message, const std::string& op) {
    EXPECT_THAT(message, testing::HasSubstr(fmt::format("debug_test.cc:{}", line)));
    EXPECT_THAT(message, testing::HasSubstr(op));
  };
  const Array x = iota({16}) + 1;
  for (const bool check_vma : {true, false}) {
    const ShardMapOptions options{.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i"), .check_vma = check_vma};
    expect_line(message_while_looking_for_nan([&] { jit(shard_map(body, options))(x); }), "it comes of log at ");
    expect_line(message_while_looking_for_nan([&] { shard_map(body, options)(x); }), "log: result 0 f32[2]");
    const auto looped = [&](const Array& a) {
      return lax::fori_loop(
          0, 4, [&](const Array&, const Array& c) { return where(c > 0, c - 3, body(c)); }, a);
    };
    expect_line(message_while_looking_for_nan([&] { jit(shard_map(looped, options))(x); }), "it comes of log at ");
  }
  const auto mean_loss = [&](const Array& a) { return lax::pmean(sum(sqrt(a * 0.0f)), "i"); };
  const auto gradient = shard_map([&](const Array& a) { return grad(mean_loss)(a); },
                                  {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_THAT(message_while_looking_for_nan([&] { jit(gradient)(x); }),
              testing::HasSubstr("in the derivative of debug_test.cc:"));
}

TEST(Debug, ResultsAreLookedAtForNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const Array x = array({1.0f, -1.0f});
  const auto root = jit([](const Array& a) { return sqrt(a); }, {.name = "root"});
  debug::check_results(true);
  EXPECT_THROW(log(x), InvalidState);
  EXPECT_THROW(log(x.astype(bfloat16)), InvalidState);
  EXPECT_THROW(sqrt(x.astype(float64)), InvalidState);
  try {
    root(x);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidState& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("root: result 0 f32[2] has NaN"));
  }
  EXPECT_EQ((x / 0.0f).to_vector<float>()[0], inf);
  EXPECT_EQ((array({1, 2}) + 1).to_vector<int>()[1], 3);
  debug::check_results(false, true);
  EXPECT_TRUE(std::isnan(log(x).to_vector<float>()[1]));
  EXPECT_THROW(x / 0.0f, InvalidState);
  debug::check_results(false);
  EXPECT_TRUE(std::isnan(root(x).to_vector<float>()[1]));
}

}  // namespace
}  // namespace shoal::test
