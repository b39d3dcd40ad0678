// How the library tells shoal/profiler.h what it does.
//
// Events are kept per thread, so that threads do not meet. Here, below all that is worth recording: back ends compile
// loops, collectives move bytes, and the runtime runs steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "shoal/profiler.h"

namespace shoal::profiler {

enum class Category : std::uint8_t {
  kCompile,     ///< Tracing, a stage or pass of the pipeline, a kernel.
  kStep,        ///< One equation of a running program, on all shards.
  kKernel,      ///< What one thread does of a step.
  kCollective,  ///< A step that moves data between shards.
  kUser,        ///< An annotation.
};

/// What an event shows beside its name. Views need only outlive the event.
struct Details {
  std::string_view program = {};
  SourceLocation where = {};
  std::int64_t bytes = -1;  ///< Read and written, or moved. Shown with the GB/s they make. Below 0: unknown.
  std::int64_t shard = -1;  ///< Which one, as tile and step below. Below 0: none in particular.
  std::int64_t tile = -1;
  std::int64_t step = -1;
  std::int64_t trip = 0;     ///< Of the innermost loop around it, from 1 on. 0: in none.
  std::int64_t trips = -1;   ///< Of a loop: how many it made. Below 0: it is none.
  std::int64_t branch = -1;  ///< Of a switch: the branch that all devices took. Below 0: it is none, or they part.
};

using Clock = std::chrono::steady_clock;

/// The number of the recording under way, from 1; 0 if there is none.
extern std::atomic<std::uint32_t> current_recording;

inline bool is_recording() noexcept { return current_recording.load(std::memory_order_relaxed) != 0; }

/// Adds an event of this thread to a recording, if that is one (not 0) and still under way. Events of one thread must
/// not overlap unless one lies inside the other. Drops the event if there is no memory for it.
void add_event(std::uint32_t recording, Category category, std::string_view name, Clock::time_point begin,
               Clock::time_point end, const Details& details) noexcept;

/// The time from here to its destruction, as an event of this thread. `name` must outlive it.
class [[nodiscard]] ProfileScope {
 public:
  ProfileScope(Category category, std::string_view name, const Details& details = {}) noexcept {
    recording_ = current_recording.load(std::memory_order_relaxed);
    if (recording_ == 0) return;
    category_ = category;
    name_ = name;
    details_ = details;
    begin_ = Clock::now();
  }
  ~ProfileScope() {
    if (recording_ != 0) add_event(recording_, category_, name_, begin_, Clock::now(), details_);
  }
  /// What is known at the end alone.
  void note_trips(std::int64_t trips) noexcept { details_.trips = trips; }
  void note_branch(std::int64_t branch) noexcept { details_.branch = branch; }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  std::uint32_t recording_;
  Category category_;
  std::string_view name_;
  Details details_;
  Clock::time_point begin_;
};

/// What some work took, all times together that it was recorded. Any number of threads may add to it.
struct Tally {
  std::atomic<std::int64_t> nanoseconds{0};
  std::atomic<std::int64_t> times{0};
};

/// Adds the time from here to its destruction to a tally, if there is one.
class [[nodiscard]] TallyScope {
 public:
  explicit TallyScope(Tally* tally) noexcept : tally_(tally) {
    if (tally_ != nullptr) begin_ = Clock::now();
  }
  ~TallyScope() {
    if (tally_ == nullptr) return;
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_);
    tally_->nanoseconds.fetch_add(took.count(), std::memory_order_relaxed);
    tally_->times.fetch_add(1, std::memory_order_relaxed);
  }
  TallyScope(const TallyScope&) = delete;
  TallyScope& operator=(const TallyScope&) = delete;

 private:
  Tally* tally_;
  Clock::time_point begin_;
};

/// What all programs of this process took while a StepTimer lived.
struct RunTallies {
  Tally programs;   ///< From their first step to their last.
  Tally exchanges;  ///< Of that: collectives, and what else is exchanged with other processes.
  Tally waits;      ///< Of that: for other processes.
};

extern RunTallies run_tallies;
extern std::atomic<std::int32_t> step_timers;  ///< How many live.

/// That tally if somebody looks at it.
inline Tally* timed(Tally RunTallies::*tally) noexcept {
  return step_timers.load(std::memory_order_relaxed) == 0 ? nullptr : &(run_tallies.*tally);
}

/// The time of an exchange, which may be a part of another.
class [[nodiscard]] ExchangeScope {
 public:
  ExchangeScope() noexcept : scope_(depth_++ == 0 ? timed(&RunTallies::exchanges) : nullptr) {}
  ~ExchangeScope() { --depth_; }
  ExchangeScope(const ExchangeScope&) = delete;
  ExchangeScope& operator=(const ExchangeScope&) = delete;

 private:
  inline static thread_local int depth_ = 0;
  TallyScope scope_;
};

}  // namespace shoal::profiler
