// What a trace shows of programs that run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace shoal
