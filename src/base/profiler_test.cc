#include "base/profiler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shoal/log.h"

namespace shoal::profiler {
namespace {

using Json = nlohmann::json;

/// Gives each test a file, and ends what it leaves under way.
class Profiler : public ::testing::Test {
 protected:
  void TearDown() override {
    if (is_recording()) stop_trace();
    std::filesystem::remove(path_);
  }

  std::vector<Json> all_events() const {
    return Json::parse(std::ifstream(path_)).at("traceEvents").get<std::vector<Json>>();
  }

  /// Without those that name rows.
  std::vector<Json> events() const {
    std::vector<Json> found = all_events();
    std::erase_if(found, [](const Json& event) { return event.at("ph") != "X"; });
    return found;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("shoal_profiler_test_" + std::to_string(getpid()))).string();
};

template <typename Exception, typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

double end_of(const Json& event) { return event.at("ts").get<double>() + event.at("dur").get<double>(); }

TEST_F(Profiler, WritesWhatHappenedWithItsDetails) {
  start_trace(path_);
  const SourceLocation where = SourceLocation::current();
  {
    const ProfileScope step(Category::kCollective, "all_reduce",
                            {.program = "layer", .where = where, .bytes = 4096, .shard = 3, .tile = 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop_trace();
  ASSERT_EQ(events().size(), 1);
  const Json event = events()[0];
  EXPECT_EQ(event.at("name"), "all_reduce");
  EXPECT_EQ(event.at("cat"), "collective");
  EXPECT_EQ(event.at("pid"), getpid());
  EXPECT_GE(event.at("ts").get<double>(), 0);
  EXPECT_GE(event.at("dur").get<double>(), 2000) << "microseconds";
  const Json& args = event.at("args");
  EXPECT_EQ(args.at("program"), "layer");
  EXPECT_EQ(args.at("line"), to_string(where));
  EXPECT_EQ(args.at("shard"), 3);
  EXPECT_EQ(args.at("tile"), 1);
  EXPECT_EQ(args.at("bytes"), 4096);
  EXPECT_NEAR(args.at("GB/s").get<double>(), 4.096 / event.at("dur").get<double>(), 1e-9);
}

TEST_F(Profiler, EventsOfOneThreadNestAndThreadsHaveRows) {
  start_trace(path_);
  {
    const ProfileScope outer(Category::kStep, "outer");
    const ProfileScope inner(Category::kKernel, "inner");
    std::thread([] { const ProfileScope other(Category::kKernel, "other"); }).join();
  }
  stop_trace();
  Json outer, inner, other;
  for (const Json& event : events()) {
    (event.at("name") == "outer" ? outer : event.at("name") == "inner" ? inner : other) = event;
  }
  EXPECT_EQ(outer.at("tid"), inner.at("tid"));
  EXPECT_NE(outer.at("tid"), other.at("tid"));
  EXPECT_LE(outer.at("ts").get<double>(), inner.at("ts").get<double>());
  EXPECT_GE(end_of(outer), end_of(inner));
  std::set<int> named;
  for (const Json& event : all_events()) {
    if (event.at("name") == "thread_name") named.insert(event.at("tid").get<int>());
  }
  EXPECT_EQ(named, (std::set{outer.at("tid").get<int>(), other.at("tid").get<int>()}));
}

TEST_F(Profiler, RecordsOnlyFromStartToStop) {
  { const ProfileScope before(Category::kStep, "before"); }
  add_event(current_recording, Category::kStep, "in none", Clock::now(), Clock::now(), {});
  {
    const ProfileScope begun_before(Category::kStep, "begun before");
    start_trace(path_);
  }
  { const ProfileScope inside(Category::kStep, "inside"); }
  {
    const ProfileScope ends_after(Category::kStep, "ends after");
    stop_trace();
  }
  { const ProfileScope after(Category::kStep, "after"); }
  ASSERT_EQ(events().size(), 1);
  EXPECT_EQ(events()[0].at("name"), "inside");
}

TEST_F(Profiler, EventsOfAnEarlierRecordingStayOut) {
  start_trace(path_);
  {
    const ProfileScope of_the_first(Category::kStep, "of the first");
    stop_trace();
    start_trace(path_);
  }
  stop_trace();
  EXPECT_TRUE(events().empty());
}

TEST_F(Profiler, AnnotationsOfTheUser) {
  {
    const auto tracing = trace(path_);
    const auto epoch = annotation("epoch");
    for (int i = 0; i < 2; ++i) const StepTraceAnnotation step("train", i);
  }
  EXPECT_FALSE(is_recording());
  ASSERT_EQ(events().size(), 3);
  EXPECT_EQ(events()[0].at("name"), "train");
  EXPECT_EQ(events()[0].at("args").at("step_num"), 0);
  EXPECT_EQ(events()[1].at("args").at("step_num"), 1);
  EXPECT_EQ(events()[2].at("name"), "epoch");
  EXPECT_EQ(events()[2].at("cat"), "user");
  EXPECT_TRUE(events()[2].at("args").at("line").get<std::string>().starts_with("profiler_test.cc:"));
}

TEST_F(Profiler, NamesMayBeAnyText) {
  {
    const auto tracing = trace(path_);
    const auto quoted = annotation("a \"b\"\\\n\x01 é");
    const auto broken = annotation("no \xff utf-8");
  }
  EXPECT_EQ(events()[1].at("name"), "a \"b\"\\\n\x01 é");
  EXPECT_EQ(events()[0].at("name"), "no \xef\xbf\xbd utf-8");
}

TEST_F(Profiler, StartingTwiceNamesTheFirst) {
  const auto tracing = trace(path_);
  const std::string message = message_of<InvalidState>([&] { start_trace("other.json"); });
  EXPECT_NE(message.find("already being recorded to \"" + path_ + "\", since profiler_test.cc:"), std::string::npos)
      << message;
  EXPECT_FALSE(std::filesystem::exists("other.json"));
  EXPECT_TRUE(is_recording());
}

TEST_F(Profiler, StoppingWithoutStart) {
  EXPECT_NE(message_of<InvalidState>([] { stop_trace(); }).find("no trace is being recorded"), std::string::npos);
}

TEST_F(Profiler, PathsThatCannotBeWritten) {
  const std::string message = message_of<InvalidArgument>([] { start_trace("/no/such/folder/trace.json"); });
  EXPECT_TRUE(message.starts_with(
      "profiler::start_trace: cannot write \"/no/such/folder/trace.json\": No such file or directory"))
      << message;
  EXPECT_FALSE(is_recording());
}

TEST_F(Profiler, DiskThatIsFull) {
  start_trace("/dev/full");
  EXPECT_EQ(message_of<Error>([] { stop_trace(); }),
            "profiler::stop_trace: cannot write \"/dev/full\": No space left on device");
  EXPECT_FALSE(is_recording());
  std::vector<std::string> warnings;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  { const auto tracing = trace("/dev/full"); }
  set_log_sink(before);
  EXPECT_EQ(warnings.size(), 1);
}

TEST_F(Profiler, TraceLeavesALaterRecordingAlone) {
  {
    const auto tracing = trace(path_);
    stop_trace();
    start_trace(path_);
  }
  EXPECT_TRUE(is_recording());
}

// Threads record while recordings start and stop: nothing is lost or torn, and no event is in two files.
TEST_F(Profiler, StartsAndStopsWhileThreadsRecord) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const ProfileScope scope(Category::kKernel, "a kernel with a long name", {.program = "program"});
        std::this_thread::sleep_for(std::chrono::microseconds(10));
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    start_trace(path_);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop_trace();
    for (const Json& event : events()) ASSERT_GE(event.at("ts").get<double>(), 0);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shoal::profiler
