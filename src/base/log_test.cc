#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

using Messages = std::vector<std::pair<LogLevel, std::string>>;

/// Puts sink and topics back after each test.
class Log : public ::testing::Test {
 protected:
  void TearDown() override {
    set_log_sink(nullptr);
    set_log_topics(topics_before_);
  }

  LogSink into_messages() {
    return [this](LogLevel level, std::string_view text) { messages_.emplace_back(level, text); };
  }

  Messages messages_;
  std::string topics_before_ = set_log_topics("");
};

TEST_F(Log, SinkReceivesLevelAndText) {
  set_log_sink(into_messages());
  set_log_topics("compile");
  log_info(LogTopic::kCompile, "f took 3 ms");
  log_warning("replicated");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kInfo, "compile: f took 3 ms"}, {LogLevel::kWarning, "replicated"}}));
}

TEST_F(Log, TopicsAreSentOnlyWhenAskedFor) {
  set_log_sink(into_messages());
  EXPECT_FALSE(log_enabled(LogTopic::kCompile));
  log_info(LogTopic::kCompile, "dropped");
  EXPECT_EQ(set_log_topics("compile"), "");
  EXPECT_TRUE(log_enabled(LogTopic::kCompile));
  EXPECT_EQ(set_log_topics(""), "compile");
  log_info(LogTopic::kCompile, "dropped");
  EXPECT_TRUE(messages_.empty());
}

TEST_F(Log, UnknownTopicNamesThoseThereAre) {
  set_log_topics("compile");
  try {
    set_log_topics("compile,comple");
    FAIL() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "set_log_topics: \"comple\" is no topic; there are: compile");
  }
  EXPECT_TRUE(log_enabled(LogTopic::kCompile)) << "those asked for before are kept";
}

TEST_F(Log, DefaultWritesToStandardError) {
  set_log_topics("compile");
  ::testing::internal::CaptureStderr();
  log_info(LogTopic::kCompile, "f took 3 ms");
  log_warning("replicated");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "shoal: compile: f took 3 ms\nshoal: warning: replicated\n");
}

TEST_F(Log, PreviousSinkIsReturned) {
  EXPECT_FALSE(set_log_sink(into_messages()));
  const LogSink previous = set_log_sink(nullptr);
  ASSERT_TRUE(previous);
  previous(LogLevel::kInfo, "direct");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kInfo, "direct"}}));
}

TEST_F(Log, SinkMayLogAndReplaceItself) {
  set_log_sink([this](LogLevel, std::string_view) {
    set_log_sink(into_messages());
    log_warning("inner");
  });
  log_warning("outer");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kWarning, "inner"}}));
}

TEST_F(Log, ThrowingSinkDoesNotReachTheCaller) {
  int calls = 0;
  set_log_sink([&](LogLevel, std::string_view) {
    ++calls;
    throw std::runtime_error("full disk");
  });
  log_warning("replicated");
  EXPECT_EQ(calls, 1);
}

// The variable is read once, so that it takes a process that has not logged yet. Not of the fixture, which logs.
TEST(LogTopicsOfTheEnvironment, AreAskedForFromTheStart) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto log_and_exit = [] {
    log_info(LogTopic::kCompile, "f took 3 ms");
    std::exit(0);
  };
  setenv("SHOAL_LOG", "compile", 1);
  EXPECT_EXIT(log_and_exit(), ::testing::ExitedWithCode(0), "^shoal: compile: f took 3 ms\n$");
  setenv("SHOAL_LOG", "comple", 1);
  EXPECT_EXIT(log_and_exit(), ::testing::ExitedWithCode(0), "^shoal: warning: .*SHOAL_LOG: \"comple\" is no topic");
  unsetenv("SHOAL_LOG");
}

}  // namespace
}  // namespace shoal
