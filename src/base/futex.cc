#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace shoal {
namespace {

long call(const std::atomic<std::uint32_t>& word, int operation, FutexScope scope, std::uint32_t value,
          const timespec* timeout) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(word) == sizeof(std::uint32_t));
  if (scope == FutexScope::kThreads) operation |= FUTEX_PRIVATE_FLAG;
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, FutexScope scope,
                std::optional<std::chrono::nanoseconds> time) {
  if (!time) {
    call(word, FUTEX_WAIT, scope, seen, nullptr);
    return;
  }
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t left = std::max<std::int64_t>(0, time->count());
  const timespec timeout{.tv_sec = static_cast<time_t>(left / kSecond), .tv_nsec = static_cast<long>(left % kSecond)};
  call(word, FUTEX_WAIT, scope, seen, &timeout);
}

void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope, std::optional<int> count) {
  call(word, FUTEX_WAKE, scope, static_cast<std::uint32_t>(count.value_or(INT_MAX)), nullptr);
}

}  // namespace shoal
