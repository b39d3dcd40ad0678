// What a trace shows of programs that run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shoal/control_flow.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/profiler.h"
#include "shoal/shard_map.h"

namespace shoal {
namespace {

TEST(TraceOfRun, ShowsStepsTilesAndCollectives) {
  set_num_cpu_devices(8);
  const Mesh mesh = make_mesh({8}, {"x"});
  const Array x = device_put(ones({8 << 18}), NamedSharding(mesh, P("x")));  // 1 MiB on each device.
  const auto f = jit(
      shard_map([](Array v) { return lax::psum(v * 2, "x"); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}),
      {.name = "total"});
  f(x).block_until_ready();  // Compiles.
  const std::string path = std::filesystem::temp_directory_path() / ("shoal_trace_of_run_" + std::to_string(getpid()));
  {
    const auto tracing = profiler::trace(path);
    EXPECT_EQ(f(x)[0].item<float>(), 16);
  }
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  int steps = 0, tiles = 0, collectives = 0;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    const std::string category = event.value("cat", "");
    const nlohmann::json arguments = event.value("args", nlohmann::json::object());
    if (arguments.value("program", "") == "total") {
      EXPECT_TRUE(arguments.at("line").get<std::string>().starts_with("trace_of_run_test.cc:")) << event;
      EXPECT_GT(arguments.at("GB/s").get<double>(), 0) << event;
      if (category == "collective") {
        EXPECT_GE(arguments.at("bytes").get<std::int64_t>(), 9 << 20) << event;
      }
      (category == "collective" ? collectives : steps) += 1;
    }
    if (category == "kernel" && event.at("name") == "all_reduce") tiles += 1;
  }
  EXPECT_GE(steps, 1);
  EXPECT_EQ(collectives, 1);
  EXPECT_GE(tiles, 1);
}

TEST(TraceOfRun, StepsAreSplitIntoComputingAndExchanging) {
  set_num_cpu_devices(8);
  const Mesh mesh = make_mesh({8}, {"x"});
  const Array x = device_put(ones({8 << 18}), NamedSharding(mesh, P("x")));
  const auto total = jit(
      shard_map([](Array v) { return lax::psum(v * 2, "x"); }, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}));
  const auto local = jit([](const Array& v) { return sin(v); });
  total(x).block_until_ready();
  local(x).block_until_ready();
  profiler::StepTimer timer;
  total(x).block_until_ready();
  const profiler::TimeSplit both = timer.lap();
  EXPECT_GT(both.compute, 0);
  EXPECT_GT(both.exchange, 0);
  EXPECT_EQ(both.waiting, 0);  // There are no other processes.
  EXPECT_LE(both.compute + both.exchange, both.total);
  local(x).block_until_ready();
  const profiler::TimeSplit alone = timer.lap();
  EXPECT_GT(alone.compute, 0);
  EXPECT_EQ(alone.exchange, 0);
}

// What is recorded of these steps while a function runs: "op trip trips branch program", as far as there are such.
std::vector<std::string> recorded(const std::vector<std::string>& ops, const std::function<void()>& run) {
  const std::string path = std::filesystem::temp_directory_path() / ("shoal_trace_of_run_" + std::to_string(getpid()));
  {
    const auto tracing = profiler::trace(path);
    run();
  }
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  std::vector<std::string> events;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    const std::string name = event.at("name").get<std::string>();
    if (event.value("cat", "") != "step" || std::ranges::count(ops, name) == 0) continue;
    const nlohmann::json& arguments = event.at("args");
    std::string text = name;
    for (const char* key : {"trip", "trips", "branch"}) {
      if (arguments.contains(key)) text += std::string(" ") + key + " " + arguments.at(key).dump();
    }
    events.push_back(text);
  }
  return events;
}

TEST(TraceOfRun, ALoopIsOneRecordWithItsTrips) {
  const Array x = ones({300});
  const auto trip = [](const Array&, const Array& c) { return sort(c) * 2; };
  const auto counted = jit([&](const Array& v) { return lax::fori_loop(0, 3, trip, v); });
  const auto asked = jit([&](const Array& v) {
    return lax::while_loop([](const Array& c) { return c[0] < 4; }, [&](const Array& c) { return trip(c, c); }, v);
  });
  const auto whole = jit([&](const Array& v) {
    return lax::fori_loop(
        0, 1000, [](const Array&, const Array& c) { return c * 0.5 + 1; }, v);
  });
  const auto nested = jit([&](const Array& v) {
    return lax::fori_loop(
        0, 2, [&](const Array&, const Array& c) { return lax::fori_loop(0, 1, trip, c); }, v);
  });
  const auto branch = jit([&](const Array& v) {
    return lax::switch_(v.astype(int32)[0],
                        std::vector<std::function<Array(Array)>>{[](const Array& a) { return -a; },
                                                                 [](const Array& a) { return sort(a); }},
                        v);
  });
  const auto events_of = [&](const auto& f, const std::vector<std::string>& ops) {
    f(x).block_until_ready();  // Compiles.
    return recorded(ops, [&] { f(x).block_until_ready(); });
  };
  using Events = std::vector<std::string>;
  EXPECT_EQ(events_of(counted, {"sort", "scan"}),
            (Events{"sort trip 1", "sort trip 2", "sort trip 3", "scan trips 3"}));
  EXPECT_EQ(events_of(asked, {"sort", "while"}), (Events{"sort trip 1", "sort trip 2", "while trips 2"}));
  EXPECT_EQ(events_of(whole, {"scan"}), (Events{"scan trips 1000"}));
  EXPECT_EQ(events_of(nested, {"sort", "scan"}), (Events{"sort trip 1", "scan trip 1 trips 1", "sort trip 1",  //
                                                         "scan trip 2 trips 1", "scan trips 2"}));
  EXPECT_EQ(events_of(branch, {"sort", "switch"}), (Events{"sort", "switch branch 1"}));
}

}  // namespace
}  // namespace shoal
