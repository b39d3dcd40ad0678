#include "comm/record/flight_recorder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <thread>

#include "comm/record/communicator.h"
#include "comm/record/diagnosis.h"

namespace shoal {
namespace {

using State = FlightRecord::State;
using testing::HasSubstr;

constexpr Digest kProgram{1, 2};
constexpr Digest kOther{3, 4};
constexpr Digest kData{5, 6};

void launch(FlightRecorder& recorder, std::uint64_t communicator, std::uint64_t sequence, std::string_view name,
            const Digest& program = kProgram, const Digest& data = kData) {
  recorder.begin(recorder.queue(communicator, name, SourceLocation::current()), sequence, program, data);
  recorder.step(1, "all_reduce", SourceLocation::current());
  recorder.end(false);
}

TEST(FlightRecorder, KeepsWhatWasLaunched) {
  FlightRecorder recorder(2, "here");
  EXPECT_EQ(recorder.last_done(), "");
  const std::uint64_t number = recorder.queue(7, "a program with a name of more than forty-seven letters, cut off", {});
  EXPECT_EQ(recorder.log().records.at(0).state, State::kQueued);
  recorder.begin(number, 3, kProgram, kData);
  recorder.step(4, "all_gather", SourceLocation::current());
  recorder.await(9);
  const FlightRecord running = recorder.log().records.at(0);
  EXPECT_EQ(running.number, 1U);
  EXPECT_EQ(running.communicator, 7U);
  EXPECT_EQ(running.sequence, 3U);
  EXPECT_EQ(running.program, kProgram);
  EXPECT_EQ(running.lineage, kData);
  EXPECT_EQ(running.state, State::kRunning);
  EXPECT_EQ(running.step, 4U);
  EXPECT_EQ(running.awaited, 9);
  EXPECT_STREQ(running.name.data(), "a program with a name of more than forty-seven ");
  EXPECT_STREQ(running.op.data(), "all_gather");
  EXPECT_EQ(std::string(running.op_at.data()).rfind("flight_recorder_test.cc:", 0), 0U);
  recorder.end(true);
  EXPECT_EQ(recorder.log().records.at(0).state, State::kFailed);
  EXPECT_EQ(recorder.log().records.at(0).step, 4U);
  EXPECT_THAT(recorder.last_done(), HasSubstr("launch 3 of 'a program"));
  EXPECT_EQ(recorder.log().process, 2);
  EXPECT_EQ(recorder.log().host, "here");
  EXPECT_EQ(recorder.log().pid, getpid());
}

TEST(FlightRecorder, KeepsTheNewest) {
  FlightRecorder recorder(0, "here");
  const std::uint64_t early = recorder.queue(1, "early", {});
  for (std::size_t i = 1; i <= FlightRecorder::kRecords; ++i) launch(recorder, 1 + i % 2, i, "f");
  recorder.begin(early, 1, kOther, kData);  // Its record belongs to another launch by now.
  recorder.end(false);
  const FlightLog log = recorder.log();
  ASSERT_EQ(log.records.size(), FlightRecorder::kRecords);
  EXPECT_EQ(log.records.front().number, 2U);
  for (const FlightRecord& record : log.records) EXPECT_EQ(record.program, kProgram);
  EXPECT_EQ(recorder.log(10).records.size(), 10U);
  EXPECT_EQ(recorder.log(10).records.back().number, FlightRecorder::kRecords + 1);
  // Of one communicator, and what came last of all.
  for (const FlightRecord& record : recorder.log(10, 2).records) {
    EXPECT_TRUE(record.communicator == 2 || record.number == FlightRecorder::kRecords + 1);
  }
}

TEST(FlightRecorder, TravelsAsBytes) {
  FlightRecorder recorder(1, "a host");
  recorder.note_communicator(0xFFFF'0000'FFFF'0001, {0, 1, 5});
  launch(recorder, 0xFFFF'0000'FFFF'0001, 1, "f");
  recorder.note_end("the first reason");
  recorder.note_end("the second one");
  const FlightLog log = log_from_bytes(to_bytes(recorder.log()));
  EXPECT_EQ(log.host, "a host");
  EXPECT_EQ(log.end, "the first reason");
  ASSERT_EQ(log.records.size(), 1U);
  EXPECT_EQ(text_of(log.records[0]).substr(0, 15), "launch 1 of 'f'");
  ASSERT_EQ(log.communicators.size(), 1U);
  EXPECT_EQ(log.communicators[0].first, 0xFFFF'0000'FFFF'0001U);
  EXPECT_EQ(log.communicators[0].second, (std::vector{0, 1, 5}));
  EXPECT_THROW(log_from_bytes("short"), InvalidArgument);
}

TEST(FlightRecorder, IsLeftBehindAsAFile) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("shoal_fr_{}", getpid());
  const std::string path = (folder / flight_file_name(3)).string();
  {
    FlightRecorder recorder(3, "here", folder.string());
    recorder.begin(recorder.queue(1, "f", {}), 1, kProgram, kData);
    EXPECT_EQ(log_from_file(path).records.at(0).state, State::kRunning);  // While it runs.
  }
  EXPECT_EQ(log_from_file(path).process, 3);
  EXPECT_EQ(log_from_file(path).records.size(), 1U);
  std::ofstream(path) << "something else";
  EXPECT_THROW(log_from_file(path), InvalidArgument);
  EXPECT_THROW(FlightRecorder(0, "here", "/dev/null/no folder"), std::system_error);
  std::filesystem::remove_all(folder);
}

// What no process writes is refused when it is read: whoever tells of it needs no checks.
TEST(FlightRecorder, RefusesDamagedLogs) {
  FlightRecorder recorder(1, "here");
  recorder.note_communicator(7, {0, 1});
  launch(recorder, 7, 1, "f");
  const FlightLog good = recorder.log();
  EXPECT_EQ(to_bytes(log_from_bytes(to_bytes(good))), to_bytes(good));
  const auto expect_refusal = [&](std::string_view why, auto&& damage) {
    FlightLog log = good;
    damage(log);
    try {
      log_from_bytes(to_bytes(log));
      ADD_FAILURE() << why;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  expect_refusal("the process has no number", [](FlightLog& log) { log.process = -1; });
  expect_refusal("is no time", [](FlightLog& log) { log.time = std::numeric_limits<std::int64_t>::max(); });
  expect_refusal("at no time", [](FlightLog& log) { log.records[0].since = std::numeric_limits<std::int64_t>::min(); });
  expect_refusal("no known state", [](FlightLog& log) { log.records[0].state = static_cast<State>(4); });
  expect_refusal("waits for no process", [](FlightLog& log) { log.records[0].awaited = -2; });
  expect_refusal("a text has no end", [](FlightLog& log) { log.records[0].name.fill('x'); });
  expect_refusal("a text has no end", [](FlightLog& log) { log.records[0].op_at.fill('x'); });
  expect_refusal("not ascending", [](FlightLog& log) { log.communicators[0].second = {1, 1}; });
  expect_refusal("not ascending", [](FlightLog& log) { log.communicators[0].second = {-1, 1}; });
  expect_refusal("not ascending", [](FlightLog& log) { log.communicators[0].second = {}; });
  const std::string bytes = to_bytes(good);
  EXPECT_THROW(log_from_bytes(bytes + '\0'), InvalidArgument);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(log_from_bytes(std::string_view(bytes).substr(0, size)), InvalidArgument) << size;
  }
}

TEST(FlightRecorder, RefusesDamagedFiles) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("shoal_fd_{}", getpid());
  const std::string path = (folder / flight_file_name(0)).string();
  { launch(*std::make_unique<FlightRecorder>(0, "here", folder.string()), 1, 1, "a program"); }
  std::ifstream stream(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(stream), {}};
  const auto expect_refusal = [&](std::string_view why) {
    try {
      log_from_file(path);
      ADD_FAILURE() << why;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr(why)));
    }
  };
  std::string bad = good;
  bad.replace(good.find("a program"), 48, std::string(48, 'x'));
  std::ofstream(path, std::ios::binary) << bad;
  expect_refusal("a text has no end");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // As long as no memory.
  expect_refusal("is no file of a flight recorder");
  std::filesystem::resize_file(path, good.size() - 1);
  expect_refusal("is no file of a flight recorder");
  std::filesystem::remove(path);
  expect_refusal("No such file");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // Nobody will ever write to it.
  expect_refusal("is no file of a flight recorder");
  std::filesystem::remove_all(folder);
}

// In a folder that others may write to, the name is known before the file is there.
TEST(FlightRecorder, FollowsNoLink) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("shoal_fl_{}", getpid());
  std::filesystem::create_directories(folder);
  const std::filesystem::path victim = folder / "victim";
  std::ofstream(victim) << "dear";
  std::filesystem::create_symlink(victim, folder / flight_file_name(0));
  EXPECT_THROW(FlightRecorder(0, "here", folder.string()), std::system_error);
  EXPECT_EQ(std::filesystem::file_size(victim), 4U);
  std::filesystem::remove_all(folder);
}

// Records are read whole while others write.
TEST(FlightRecorder, IsReadWhileItIsWritten) {
  FlightRecorder recorder(0, "here");
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; !done; ++i) {
      recorder.begin(recorder.queue(i, i % 2 == 0 ? "even" : "odd", {}), i, {i, i}, {i, i});
      recorder.end(false);
    }
  });
  std::thread other([&] {
    while (!done) recorder.queue(0, "queued", {});
  });
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  std::size_t wrong = 0;
  for (std::size_t seen = 0; seen < 20'000 && Clock::now() < deadline;) {
    for (const FlightRecord& record : recorder.log().records) {
      if (record.sequence == 0) continue;
      ++seen;
      const std::string_view name = record.sequence % 2 == 0 ? "even" : "odd";
      const bool is_whole = record.communicator == record.sequence && record.name.data() == name &&
                            record.program == Digest{record.sequence, record.sequence};
      if (!is_whole) ++wrong;
    }
    if (seen == 0) std::this_thread::yield();
  }
  EXPECT_LT(Clock::now(), deadline);
  done = true;
  writer.join();
  other.join();
  EXPECT_EQ(wrong, 0U);
}

// ---- Diagnoses.

struct Two {
  std::vector<int> processes{0, 1};
  std::uint64_t id = Communicator::id_of(processes);
  FlightRecorder a{0, "a"};
  FlightRecorder b{1, "b"};
  Diagnosis diagnose() const { return shoal::diagnose(processes, {a.log(), b.log()}); }
};

TEST(Diagnosis, NamesTheFirstOtherLaunch) {
  Two two;
  for (FlightRecorder* one : {&two.a, &two.b}) launch(*one, two.id, 1, "same");
  launch(two.a, two.id, 2, "f");
  launch(two.b, two.id, 2, "g", kOther);
  launch(two.a, two.id, 3, "g", kOther);
  launch(two.b, two.id, 3, "f");
  const std::string text = to_string(two.diagnose());
  EXPECT_THAT(text, HasSubstr("first difference: launch 2 is 'f' at flight_recorder_test.cc:"));
  EXPECT_THAT(text, HasSubstr("in process 0, and 'g' at flight_recorder_test.cc:"));
  EXPECT_THAT(text, HasSubstr("process 0 on a (pid "));
  EXPECT_THAT(text, HasSubstr("has done launch 3 of 'g'"));
  EXPECT_THAT(text, HasSubstr("and called nothing since"));
}

TEST(Diagnosis, NamesOtherArraysAndThoseThatDidNotCome) {
  Two two;
  launch(two.a, two.id, 1, "f");
  launch(two.b, two.id, 1, "f", kProgram, kOther);
  EXPECT_THAT(two.diagnose().difference, HasSubstr("the same program on other arrays"));
  Two late;
  for (FlightRecorder* one : {&late.a, &late.b}) launch(*one, late.id, 1, "f");
  EXPECT_EQ(late.diagnose().difference, "");
  late.a.begin(late.a.queue(late.id, "next", {}), 2, kProgram, kData);
  late.a.step(1, "all_reduce", {});
  late.a.await(1);
  late.b.queue(late.id, "waiting", {});
  EXPECT_EQ(late.diagnose().difference, "launch 2 is 'next' in process 0, and process 1 has not come to it");
  EXPECT_THAT(late.diagnose().places[0].where,
              HasSubstr("is in launch 2 of 'next', step 1, all_reduce, and waits for process 1 for 0."));
  EXPECT_THAT(late.diagnose().places[1].where, HasSubstr("; queued is 'waiting'"));
}

// However far their numbers are apart, launches are compared one by one, and those that nobody knows are none.
TEST(Diagnosis, ComparesTheLaunchesThatAreKnown) {
  Two two;
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  for (FlightRecorder* one : {&two.a, &two.b}) {
    launch(*one, two.id, 1, "f");
    launch(*one, two.id, kLast, "f");
  }
  EXPECT_EQ(two.diagnose().difference, "");
  launch(two.a, two.id, kLast - 1, "f");
  EXPECT_THAT(two.diagnose().difference, HasSubstr("and process 1 has not come to it"));
}

TEST(Diagnosis, OfProcessesThatDoNotAnswer) {
  FlightLog silent;
  silent.process = 1;
  silent.host = "b";
  silent.pid = 5;
  silent.answers = false;
  silent.last_done = "launch 4 of 'f'";
  const Diagnosis diagnosis = diagnose({0, 1}, {silent});
  EXPECT_EQ(diagnosis.places[0].where, "does not answer, and told nothing before");
  EXPECT_EQ(diagnosis.places[1].name, "process 1 on b (pid 5)");
  EXPECT_EQ(diagnosis.places[1].where, "does not answer; what it told last is launch 4 of 'f'");
  EXPECT_EQ(diagnosis.difference, "");
}

}  // namespace
}  // namespace shoal
