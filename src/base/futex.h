// Waiting until a word of memory changes, by the system's futex.
//
// Not std::atomic::wait, which yields some times before it sleeps: on a core that has other work a yield gives away a
// whole slice of the scheduler, milliseconds, however low that work's priority is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace shoal {

/// Who waits for a word and wakes its waiters.
enum class FutexScope : std::uint8_t {
  kThreads,    ///< Threads of this process.
  kProcesses,  ///< Any that maps the word's memory; for waiting, reading it suffices.
};

/// Sleeps while `word` is `seen`, until somebody wakes it or `time` is over; at times it returns for no reason.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, FutexScope scope,
                std::optional<std::chrono::nanoseconds> time = {});

/// Wakes as many as `count` of those that wait for `word`; all of them without a count.
void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope, std::optional<int> count = {});

}  // namespace shoal
