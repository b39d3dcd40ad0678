#include "base/log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "shoal/error.h"

namespace shoal {

namespace {

struct SinkSlot {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink = std::make_shared<LogSink>();
};

/// Never destroyed, so that static objects of the program may log while they are torn down.
SinkSlot& sink_slot() {
  static auto& slot = *new SinkSlot;
  return slot;
}

void write_to_stderr(LogLevel level, std::string_view text) {
  std::string line = level == LogLevel::kWarning ? "shoal: warning: " : "shoal: ";
  line.append(text).append("\n");
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so that lines of two threads do not mix
}

void send(LogLevel level, std::string_view text) noexcept try {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(sink_slot().mutex);
    sink = sink_slot().sink;
  }
  // Called without the lock: a sink may log or replace itself.
  *sink ? (*sink)(level, text) : write_to_stderr(level, text);
} catch (...) {
}

constexpr std::array<std::string_view, 1> kTopics = {"compile"};  // In the order of LogTopic.

using TopicSet = std::uint32_t;  // A bit for each topic.

constexpr TopicSet bit(std::size_t topic) { return TopicSet{1} << topic; }

TopicSet read_topics(std::string_view words, std::string_view what) {
  TopicSet topics = 0;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(','));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const auto topic = std::find(kTopics.begin(), kTopics.end(), word);
    if (topic == kTopics.end()) {
      throw InvalidArgument(fmt::format("{}: \"{}\" is no topic; there are: {}", what, word, fmt::join(kTopics, ", ")));
    }
    topics |= bit(static_cast<std::size_t>(topic - kTopics.begin()));
  }
  return topics;
}

// A mistake in the variable costs the messages, not the program: it may first be read anywhere.
TopicSet topics_of_environment() noexcept try {
  return read_topics(env_text("SHOAL_LOG").value_or(""), "environment variable SHOAL_LOG");
} catch (const std::exception& error) {
  log_warning(error.what());
  return 0;
}

std::atomic<TopicSet>& asked_for() noexcept {
  static std::atomic<TopicSet> topics = topics_of_environment();
  return topics;
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  auto next = std::make_shared<const LogSink>(std::move(sink));
  const std::lock_guard lock(sink_slot().mutex);
  return *std::exchange(sink_slot().sink, std::move(next));
}

std::string set_log_topics(std::string_view topics) {
  const TopicSet before = asked_for().exchange(read_topics(topics, "set_log_topics"));
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < kTopics.size(); ++i) {
    if ((before & bit(i)) != 0) words.push_back(kTopics[i]);
  }
  return fmt::format("{}", fmt::join(words, ","));
}

bool log_enabled(LogTopic topic) noexcept {
  return (asked_for().load(std::memory_order_relaxed) & bit(static_cast<std::size_t>(topic))) != 0;
}

void log_info(LogTopic topic, std::string_view text) noexcept try {
  if (log_enabled(topic)) send(LogLevel::kInfo, fmt::format("{}: {}", kTopics[static_cast<std::size_t>(topic)], text));
} catch (...) {
}

void log_warning(std::string_view text) noexcept { send(LogLevel::kWarning, text); }

}  // namespace shoal
