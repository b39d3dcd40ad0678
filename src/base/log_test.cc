#include "base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shoal {
namespace {

using Messages = std::vector<std::pair<LogLevel, std::string>>;

/// Puts the sink back after each test.
class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_sink(nullptr); }

  LogSink into_messages() {
    return [this](LogLevel level, std::string_view text) { messages_.emplace_back(level, text); };
  }

  Messages messages_;
};

TEST_F(Log, SinkReceivesLevelAndText) {
  set_log_sink(into_messages());
  log_info("compiled");
  log_warning("replicated");
  EXPECT_EQ(messages_, (Messages{{LogLevel::kInfo, "compiled"}, {LogLevel::kWarning, "replicated"}}));
}

TEST_F(Log, DefaultWritesOnlyWarningsToStandardError) {
  ::testing::internal::CaptureStderr();
  log_info("compiled");
  log_warning("replicated");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "shoal: warning: replicated\n");
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

}  // namespace
}  // namespace shoal
