// A set of processes that run programs together.
//
// Each of them runs the same programs in the same order. Launches are counted, and each message between two processes
// says to which launch of which program on which data it belongs, and what was launched before; whoever receives one
// that does not fit tells all. After that, as after a death or a timeout, the communicator cannot be used any more:
// nobody knows who has got what. Those of other sets can, and drop what it has left in the channels.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/transport/channel.h"
#include "shoal/error.h"

namespace shoal {

/// A launch as its caller knows it.
struct LaunchCall {
  std::string_view name = {};  ///< Of the program, for messages.
  SourceLocation where = {};   ///< The user's line.
  std::uint64_t record = 0;    ///< Of the flight recorder; 0 if it has none yet.
};

/// How far processes have come together.
struct LaunchHistory {
  std::vector<int> processes;
  std::uint64_t launches = 0;
  std::uint64_t digest = 0;  ///< Of all launches, in their order.
};

class Communicator {
 public:
  /// That of these processes, ascending, of which this one is one.
  static Communicator& of(const std::vector<int>& processes);
  /// A number for a set of processes, the same in all of them.
  static std::uint64_t id_of(const std::vector<int>& processes);

  explicit Communicator(std::vector<int> processes);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::vector<int>& processes() const { return processes_; }
  std::uint64_t id() const { return id_.load(std::memory_order_relaxed); }

  /// The user calls for a launch, which follows. Throws what made an earlier one fail, and InvalidState if another
  /// thread has called for launches here and may do so again: their order would be left to chance.
  LaunchCall call(std::string_view name, const SourceLocation& where);
  /// Calls body(tag) as the next launch; `tag` is that of its messages, but for step, part and bytes. What it adds to
  /// the tag's history counts for all later launches. If it throws, the communicator has failed: the other processes
  /// are told, and what all of them throw is thrown here. Throws what made an earlier one fail.
  template <class F>
  void launch(const LaunchCall& call, const Digest& program, const Digest& lineage, F&& body) {
    MessageTag tag = begin_launch(call, program, lineage);
    try {
      body(tag);
      history_.store(tag.history, std::memory_order_relaxed);
    } catch (...) {
      fail(std::current_exception(), true);  // Others may ask meanwhile where this process is.
      end_launch(true);
      throw_failure();
    }
    end_launch(false);
  }
  /// Where an array comes from that no program has made: what no other array of these processes has, and equal in all
  /// of them for the same array. `maker` names the function that makes it. Arrays are counted between two calls of
  /// launches, so that one which could not be made in some process does not change those after the next call.
  Digest new_origin(std::string_view maker);

  /// Makes all later launches throw, and tells the other processes, if none failed before. `is_cause`: the launch
  /// itself threw, and not what it depends on. Returns what is thrown.
  std::exception_ptr fail(const std::exception_ptr& error, bool is_cause = false);
  /// Throws what made it fail, or what ended the work of its processes.
  void check();

  /// Whether processes compare all that they can (SHOAL_CHECK=strict): the lines that launches are called for at, too,
  /// how many trips loops make, and which branches are taken.
  static bool is_strict();
  /// Whether the work of the set of processes with this number, which this process has used, has failed.
  static bool has_failed(std::uint64_t id);
  /// Makes all launches of all communicators throw `error` from now on; tells nobody.
  static void close_all(const std::exception_ptr& error);
  /// The job goes on with these processes, after close_all() and while nothing is under way: sets of them begin anew,
  /// under another number than before, whatever became of them. Other sets stay closed.
  static void begin_generation(std::uint64_t generation, const std::vector<int>& present);
  /// The user gets this error. If it is that of a communicator, it has been told.
  static void note_told(const std::exception_ptr& error) noexcept;
  /// Throws the error of a communicator that was never told.
  static void throw_untold();
  /// Of all communicators of this process that have not failed.
  static std::vector<LaunchHistory> histories();

 private:
  MessageTag begin_launch(const LaunchCall& call, const Digest& program, const Digest& lineage);
  static void end_launch(bool is_failed) noexcept;
  void begin_anew();
  void check_thread(std::string_view name, const SourceLocation& where);
  std::exception_ptr fail_with(const std::exception_ptr& error) noexcept;
  [[noreturn]] void throw_failure() const;

  friend struct ThreadMark;

  const std::vector<int> processes_;
  std::atomic<std::uint64_t> id_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<const void*> caller_{nullptr};  // The thread that calls for launches.
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> history_{0};  // A digest of them.
  std::atomic<bool> failed_{false};

  mutable std::mutex mutex_;  // Guards what follows.
  std::exception_ptr error_;
  bool told_ = false;
  std::uint64_t origins_ = 0;        // That were made since
  std::uint64_t origins_since_ = 0;  // so many calls.
};

}  // namespace shoal
