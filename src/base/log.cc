#include "base/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

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
  if (level != LogLevel::kWarning) return;
  std::string line = "shoal: warning: ";
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

}  // namespace

LogSink set_log_sink(LogSink sink) {
  auto next = std::make_shared<const LogSink>(std::move(sink));
  const std::lock_guard lock(sink_slot().mutex);
  return *std::exchange(sink_slot().sink, std::move(next));
}

void log_info(std::string_view text) noexcept { send(LogLevel::kInfo, text); }

void log_warning(std::string_view text) noexcept { send(LogLevel::kWarning, text); }

}  // namespace shoal
