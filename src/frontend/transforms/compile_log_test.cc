// What SHOAL_LOG=compile tells, and what a trace shows of compilations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shoal/control_flow.h"
#include "shoal/custom_derivatives.h"
#include "shoal/derivatives.h"
#include "shoal/jit.h"
#include "shoal/lax.h"
#include "shoal/log.h"
#include "shoal/numpy.h"
#include "shoal/profiler.h"
#include "shoal/shard_map.h"
#include "shoal/vmap.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;

/// Collects the messages about compilation.
class CompileLog : public ::testing::Test {
 protected:
  CompileLog() { set_num_cpu_devices(8); }
  ~CompileLog() override {
    set_log_sink(before_);
    set_log_topics(topics_before_);
  }
  /// Those since the last call.
  std::vector<std::string> messages() { return std::exchange(messages_, {}); }

 private:
  std::vector<std::string> messages_;
  LogSink before_ = set_log_sink([this](LogLevel, std::string_view text) { messages_.emplace_back(text); });
  std::string topics_before_ = set_log_topics("compile");
};

TEST_F(CompileLog, TellsWhatIsCompiledAndHowLongEachStageTakes) {
  const Array x = zeros({8});
  const auto f = jit([](Array v) { return v * v; }, {.name = "square"});
  messages();
  f(x);
  EXPECT_THAT(messages(),
              ElementsAre("compile: square: called for the first time",
                          MatchesRegex(R"(compile: square\(f32\[8\]\): compiled in [0-9.]+ ms for 1 device, called at )"
                                       R"(compile_log_test.cc:[0-9]+: inline_calls [0-9.]+, simplify [0-9.]+, .*)"
                                       R"(propagate [0-9.]+, partition [0-9.]+, .*)")));
  f(x);
  EXPECT_THAT(messages(), IsEmpty()) << "it is in the cache";
}

TEST_F(CompileLog, TransformationsOutsideOfJitCompileOnce) {
  const Array x = ones({4});
  const auto f = custom_jvp([](const Array& v) { return sin(v); },
                            [](const std::tuple<Array>& primals, const std::tuple<Array>& tangents) {
                              const Array& v = std::get<0>(primals);
                              return std::pair(sin(v), cos(v) * std::get<0>(tangents));
                            });
  const auto loss = [&](const Array& v) { return sum(f(v) * v); };
  const auto step = [&](const Array& carry, const Array& v) { return std::pair(carry + f(v), carry); };
  const std::vector<std::function<Array()>> calls = {
      [&] { return f(x); },
      [&] { return grad(loss)(x); },
      [&] { return vmap(f)(x); },
      [&] { return vmap(grad([&](const Array& v) { return f(v) * v; }))(x); },
      [&] { return lax::scan(step, Array(0.0f), x).first; },
  };
  for (const auto& call : calls) call();
  messages();
  for (const auto& call : calls) call();
  EXPECT_THAT(messages(), IsEmpty());
}

TEST_F(CompileLog, ClearedCachesCompileAgain) {
  const Array x = zeros({8});
  const auto f = jit([](Array v) { return v * v; }, {.name = "square"});
  const auto compiled = [&] {
    messages();
    f(x);
    sin(x);
    std::string text;
    for (const std::string& message : messages()) text += message;
    return text;
  };
  EXPECT_THAT(compiled(), AllOf(HasSubstr("square(f32[8]): compiled"), HasSubstr("sin(f32[8]): compiled")));
  EXPECT_EQ(compiled(), "");
  clear_caches();
  EXPECT_EQ(f.cache_size(), 0U);
  EXPECT_THAT(compiled(), AllOf(HasSubstr("square(f32[8]): compiled"), HasSubstr("sin(f32[8]): compiled")));
  EXPECT_EQ(compiled(), "");
}

TEST_F(CompileLog, TellsWhatDiffersFromTheNearestProgram) {
  const auto f = jit([](Array a, std::vector<Array> b, int n) { return a + b[0] * n; }, {.name = "f"});
  const Array four = zeros({4}), eight = zeros({8});
  const Array split = device_put(eight, NamedSharding(make_mesh({8}, {"x"}), P("x")));
  f(four, {four}, static_arg(1));
  f(eight, {eight}, static_arg(1));
  const auto reason_of = [&](Array a, std::vector<Array> b, int n) {
    messages();
    f(a, b, static_arg(n));
    return messages().at(0);
  };
  EXPECT_EQ(reason_of(four, {zeros({4}, {.dtype = int32})}, 1),
            "compile: f: unlike the nearest of 2 compiled before: argument [1][0] is i32[4], not f32[4]");
  EXPECT_EQ(reason_of(eight, {eight}, 2),
            "compile: f: unlike the nearest of 3 compiled before: static argument [2] has another value");
  EXPECT_EQ(reason_of(split, {eight}, 2), "compile: f: unlike the nearest of 4 compiled before: argument [0] lies as " +
                                              to_string(split.sharding()) + ", but is not committed there");
  EXPECT_THAT(reason_of(four, {four, four}, 1), HasSubstr("arguments are "));
}

TEST_F(CompileLog, EquationsOfARegionAreCompiledOnce) {
  const Mesh mesh = make_mesh({8}, {"i"});
  int calls = 0;
  const auto f = shard_map(
      [&](const Array& x) {
        ++calls;
        return lax::psum(x * 2, "i") + jit([](const Array& y) { return sin(y); }, {.name = "inner"})(x);
      },
      {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  const auto compiled = [&] {
    std::vector<std::string> names;
    for (const std::string& message : messages()) {
      if (const std::size_t end = message.find("): compiled"); end != std::string::npos) {
        names.push_back(message.substr(9, message.find('(') - 9));
      }
    }
    return names;
  };
  const Array x = ones({16});
  compiled();
  const Array once = f(x);
  EXPECT_THAT(compiled(), IsSupersetOf({"multiply", "all_reduce", "jit", "add"}));
  const Array twice = f(x + 1);
  compiled();  // The sum above.
  EXPECT_THAT(f(x + 1).to_vector<float>(), twice.to_vector<float>());
  EXPECT_EQ(calls, 3) << "a region runs as it is written";
  EXPECT_THAT(compiled(), IsEmpty()) << "the programs of its equations are found again";
  f(ones({32}));
  EXPECT_THAT(compiled(), Contains("all_reduce")) << "of other shards they are others";
}

TEST_F(CompileLog, IsSilentUnlessAskedFor) {
  set_log_topics("");
  jit([](Array v) { return v + 1; })(zeros({3}));
  EXPECT_THAT(messages(), IsEmpty());
}

TEST_F(CompileLog, TracesShowTheStages) {
  const std::string path = std::filesystem::temp_directory_path() / ("shoal_compile_trace_" + std::to_string(getpid()));
  const Array x = zeros({8});
  {
    const auto tracing = profiler::trace(path);
    jit([](Array v) { return v * v; }, {.name = "square"})(x).block_until_ready();
  }
  const nlohmann::json file = nlohmann::json::parse(std::ifstream(path));
  std::filesystem::remove(path);
  std::vector<std::string> stages;
  double compile = 0, parts = 0;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    if (event.value("cat", "") != "compile") continue;
    EXPECT_EQ(event.at("args").at("program"), "square");
    const std::string name = stages.emplace_back(event.at("name"));
    if (name == "compile") compile = event.at("dur");
    if (name != "compile" && name != "trace") parts += event.at("dur").get<double>();
  }
  EXPECT_THAT(stages, IsSupersetOf({"trace", "simplify", "place", "propagate", "partition", "compile"}));
  EXPECT_LE(parts, compile);
}

}  // namespace
}  // namespace shoal
