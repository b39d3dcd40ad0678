#include "runtime/shard_future.h"

#include "base/futex.h"

namespace shoal {

bool ShardFuture::wait_for(std::chrono::nanoseconds time) const {
  using std::chrono::steady_clock;
  if (is_settled()) return true;
  const steady_clock::time_point end = steady_clock::now() + time;
  Lane::shared().help_until([&] { return is_settled() || steady_clock::now() >= end; });
  std::uint32_t status = kPending;
  state_->status.compare_exchange_strong(status, kAwaited, std::memory_order_acquire);
  while (!is_settled()) {
    const steady_clock::time_point now = steady_clock::now();
    if (now >= end) return false;
    futex_wait(state_->status, kAwaited, FutexScope::kThreads, end - now);
  }
  return true;
}

void ShardFuture::settle(Status status) const {
  const std::uint32_t before = state_->status.exchange(status, std::memory_order_acq_rel);
  if (before == kAwaited) futex_wake(state_->status, FutexScope::kThreads);
}

}  // namespace shoal
