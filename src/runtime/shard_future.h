// The shards of an array: at hand, or to come from a program that has not run yet.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/digest.h"
#include "comm/collectives/shard_set.h"
#include "runtime/lane.h"

namespace shoal {

/// A shared reference to shards that one thread will give, once, and any number of threads may wait for. Empty by
/// default, and after being moved from.
class ShardFuture {
 public:
  ShardFuture() = default;
  /// Shards to come: set() or fail() is to be called once, through this or a copy.
  static ShardFuture pending(const Digest& lineage = {}) { return ShardFuture(new State(kPending, lineage)); }
  static ShardFuture ready(ShardSet shards, const Digest& lineage = {}) {
    ShardFuture future(new State(kReady, lineage));
    future.state_->shards = std::move(shards);
    return future;
  }

  ShardFuture(const ShardFuture& other) : state_(other.state_) {
    if (state_ != nullptr) state_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  ShardFuture(ShardFuture&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ShardFuture& operator=(ShardFuture other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~ShardFuture() { release(); }

  explicit operator bool() const { return state_ != nullptr; }

  void set(ShardSet shards) const {
    state_->shards = std::move(shards);
    settle(kReady);
  }
  void fail(std::exception_ptr error) const {
    state_->error = std::move(error);
    settle(kFailed);
  }

  /// Where an array comes from that spans processes: equal for equal ones in all of them.
  const Digest& lineage() const { return state_->lineage; }

  bool is_settled() const { return state_->status.load(std::memory_order_acquire) > kAwaited; }
  /// Waits for the shards. Rethrows the error of the computation that should have made them.
  const ShardSet& wait() const {
    while (!wait_for(std::chrono::hours(1))) {
    }
    if (state_->status.load(std::memory_order_acquire) == kFailed) throw_to_waiter(state_->error);
    return state_->shards;
  }
  /// Waits so long at most, and runs what comes before where it can; whether they are there, or an error.
  bool wait_for(std::chrono::nanoseconds time) const;
  /// The shards, for good: if nobody else refers to them, they are moved out, so that their buffers have one owner
  /// less.
  ShardSet take() && {
    const ShardSet& shards = wait();
    if (state_->owners.load(std::memory_order_acquire) == 1) return std::move(state_->shards);
    return shards;
  }

 private:
  enum Status : std::uint32_t { kPending, kAwaited, kReady, kFailed };  // Awaited: pending, and a thread sleeps.
  struct State {
    State(Status known, const Digest& origin) : status(known), lineage(origin) {}
    std::atomic<std::uint32_t> owners{1};
    std::atomic<std::uint32_t> status;
    ShardSet shards;
    std::exception_ptr error;
    const Digest lineage;
  };

  explicit ShardFuture(State* state) : state_(state) {}
  void settle(Status status) const;
  void release() noexcept {
    if (state_ == nullptr) return;
    if (state_->owners.load(std::memory_order_acquire) != 1 &&
        state_->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return;
    }
    delete state_;
  }

  State* state_ = nullptr;
};

}  // namespace shoal
