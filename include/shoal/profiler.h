// Records what the process does and when, as a file that chrome://tracing and ui.perfetto.dev show.
//
// The file holds Chrome trace events (JSON). Every thread is a row. On it lie the steps of programs with the user's
// line, the tiles that a thread computes of them, collectives with their bytes and GB/s, what is compiled, stage by
// stage, and the user's own annotations. A loop is one event with the number of its trips; what it does in them lies
// inside, each with its trip. A branch tells which was taken. While nothing is recorded, all that costs one load of an
// atomic each.
//
//   {
//     auto tracing = profiler::trace("out.json");
//     f(x).block_until_ready();
//   }
//
// @param path The file that is written.
// @param name The name under which the time is shown.
// @param step_num The number of the step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shoal/error.h"

namespace shoal::profiler {

/// Records what all threads do from now on, to be written to `path` by stop_trace. A file of that name is replaced.
/// What is under way already is left out. Throws InvalidState if a trace is being recorded, and InvalidArgument if the
/// file cannot be written.
void start_trace(const std::string& path, SourceLocation where = SourceLocation::current());

/// Ends the recording and writes the file. What has not ended by then is left out: wait for results first
/// (block_until_ready). Throws InvalidState if nothing is being recorded, and Error if writing fails; nothing is
/// recorded any more in either case.
void stop_trace(SourceLocation where = SourceLocation::current());

/// start_trace, and stop_trace when it is destroyed, unless that was called before; failures are warnings then.
class [[nodiscard]] Trace {
 public:
  explicit Trace(const std::string& path, SourceLocation where = SourceLocation::current());
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

 private:
  std::uint32_t recording_;
};

/// Records until the result is destroyed. Throws as start_trace does.
inline Trace trace(const std::string& path, SourceLocation where = SourceLocation::current()) {
  return Trace(path, where);
}

/// Shows the time from here to its destruction in the row of this thread, under a name of the user's own.
class [[nodiscard]] TraceAnnotation {
 public:
  explicit TraceAnnotation(std::string_view name, SourceLocation where = SourceLocation::current());
  ~TraceAnnotation();
  TraceAnnotation(const TraceAnnotation&) = delete;
  TraceAnnotation& operator=(const TraceAnnotation&) = delete;

 protected:
  TraceAnnotation(std::string_view name, std::optional<std::int64_t> step, SourceLocation where);

 private:
  std::uint32_t recording_;  // 0: none.
  std::string name_;
  std::optional<std::int64_t> step_;
  SourceLocation where_;
  std::chrono::steady_clock::time_point begin_;
};

inline TraceAnnotation annotation(std::string_view name, SourceLocation where = SourceLocation::current()) {
  return TraceAnnotation(name, where);
}

/// An annotation of one step of a loop, with its number.
class [[nodiscard]] StepTraceAnnotation : public TraceAnnotation {
 public:
  StepTraceAnnotation(std::string_view name, std::int64_t step_num, SourceLocation where = SourceLocation::current())
      : TraceAnnotation(name, step_num, where) {}
};

/// Where the time between two looks at a StepTimer went, in seconds. The rest of `total` is the user's own program.
struct TimeSplit {
  double total;     ///< From one look to the next.
  double compute;   ///< Programs that ran, without what follows.
  double exchange;  ///< Data moved between devices and processes, and added up.
  double waiting;   ///< For other processes, which had not come so far or had not sent everything.
};

/// Tells how the time of each step of a loop is split. While none lives, that costs a load of an atomic for each
/// program and collective.
///
///   profiler::StepTimer timer;
///   for (...) {
///     loss = step(...);
///     loss.block_until_ready();  // What has not ended counts in the next lap.
///     const profiler::TimeSplit spent = timer.lap();
///   }
///
/// It counts what all threads run; programs of several threads at a time may take more than `total`.
class StepTimer {
 public:
  StepTimer() noexcept;
  ~StepTimer();
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

  /// Where the time since the last lap, or since the timer was made, went.
  TimeSplit lap() noexcept;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::int64_t programs_, exchanges_, waits_;  // Nanoseconds until then.
};

}  // namespace shoal::profiler
