// Compiles loops to machine code: by the plugin `jit`, once for equal loops, now or in the background.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>

#include "backend/cpu/loops/code_cache.h"
#include "backend/cpu/loops/loop.h"
#include "backend/cpu/loops/routine.h"

namespace shoal::cpu {

enum class When : std::uint8_t { kNow, kInBackground };

/// What is compiled: "loops" here are both.
using LoopSource = std::variant<Loop, Routine>;

/// The code of a loop, when it is there.
class CompiledLoop {
 public:
  /// Runs the machine code; nullptr until there is some, and for good if there will be none: without the plugin, or on
  /// a processor it does not know. One atomic load.
  const LoopRunner* runner() const { return runner_.load(std::memory_order_acquire); }

 private:
  friend class LoopCompiler;
  enum class State : std::uint8_t { kWaiting, kRunning, kDone };

  LoopSource source_;
  State state_ = State::kWaiting;  // Guarded by the compiler's mutex.
  std::unique_ptr<const LoopRunner> owned_;
  std::atomic<const LoopRunner*> runner_ = nullptr;
};

class LoopCompiler {
 public:
  /// How loops came to their code.
  struct Counters {
    std::int64_t compiled = 0;   ///< By the plugin.
    std::int64_t from_file = 0;  ///< Found in the cache.
    std::int64_t failed = 0;     ///< There is no code.
  };

  explicit LoopCompiler(std::optional<std::filesystem::path> cache_folder);
  /// Stops the background thread; loops that still wait are left without code.
  ~LoopCompiler();
  LoopCompiler(const LoopCompiler&) = delete;
  LoopCompiler& operator=(const LoopCompiler&) = delete;

  /// The code of `loop`, or of an equal loop that came before. kNow returns when it is there. Thread-safe: a loop that
  /// several threads ask for is compiled once.
  std::shared_ptr<const CompiledLoop> compile(const LoopSource& loop, When when);

  Counters counters() const;

  /// Stops the background thread. What is asked of it later waits for good.
  void stop();

  /// The compiler of the process, with the cache in CodeCache::default_folder().
  static LoopCompiler& shared();

 private:
  void work();
  void start_thread();
  void forget_unused();
  void produce(const std::string& key, CompiledLoop& compiled, When when);
  std::unique_ptr<const LoopRunner> code_of(const std::string& key, const LoopSource& loop, When when);

  const std::string processor_;
  CodeCache files_;

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::unordered_map<std::string, std::shared_ptr<CompiledLoop>> loops_;
  std::deque<std::string> waiting_;  // Keys.
  Counters counters_;
  bool stopping_ = false;
  std::thread thread_;
};

/// LoopCompiler::shared().compile.
inline std::shared_ptr<const CompiledLoop> compile_loop(const LoopSource& loop, When when) {
  return LoopCompiler::shared().compile(loop, when);
}

}  // namespace shoal::cpu
