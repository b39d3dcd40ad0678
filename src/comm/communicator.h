// A set of processes that run programs together.
//
// Each of them runs the same programs in the same order. Launches are counted, and each message between two processes
// says to which launch of which program on which data it belongs; whoever receives one that does not fit tells all.
// After that, as after a death or a timeout, the communicator cannot be used any more: nobody knows who has got what.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/channel.h"

namespace shoal {

class Communicator {
 public:
  /// That of these processes, ascending, of which this one is one.
  static Communicator& of(const std::vector<int>& processes);

  explicit Communicator(std::vector<int> processes);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::vector<int>& processes() const { return processes_; }
  /// Calls body(tag) as the next launch; `tag` is that of its messages, but for step, part and bytes. If it throws, the
  /// communicator has failed, and the other processes are told. Throws what made an earlier one fail.
  template <class F>
  auto launch(const Digest& program, const Digest& lineage, F&& body) {
    const MessageTag tag = begin_launch(program, lineage);
    const Launching launching;
    try {
      return body(tag);
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }
  /// A number that no other array which spans these processes has; equal in all of them for the same array.
  std::uint64_t next_source() { return sources_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::uint64_t id() const { return id_; }

  /// Makes all later launches throw `error`, if none did before, and tells the other processes.
  void fail(std::exception_ptr error);
  /// Throws what made it fail.
  void check() const;

  /// Makes all launches of all communicators throw `error` from now on; tells nobody.
  static void close_all(const std::exception_ptr& error);

 private:
  /// A launch is under way in this thread.
  struct Launching {
    Launching() { depth()++; }
    ~Launching() { depth()--; }
    static int& depth();
  };

  MessageTag begin_launch(const Digest& program, const Digest& lineage);

  std::vector<int> processes_;
  std::uint64_t id_;
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> sources_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace shoal
