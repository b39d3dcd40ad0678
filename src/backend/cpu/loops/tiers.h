// Which code a loop is run by: the interpreter's, until it has run long enough to be worth compiling.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "backend/cpu/loops/compiler.h"
#include "backend/cpu/loops/loop.h"

namespace shoal::cpu {

/// The runners of a loop, which give the same bits. Thread-safe.
class Tiers {
 public:
  /// A loop whose runs are over so many elements is compiled at once if they are many, else in the background.
  Tiers(LoopSource loop, double elements);

  /// The fastest code there is for the next run, over so many elements.
  const LoopRunner& runner(std::int64_t elements) const;

 private:
  void become_hot() const;

  const LoopSource loop_;
  std::unique_ptr<LoopRunner> interpreter_;
  mutable std::mutex mutex_;  // Guards compiled_ until is_compiled_.
  mutable std::shared_ptr<const CompiledLoop> compiled_;
  mutable std::atomic<bool> is_compiled_ = false;
  mutable std::atomic<std::int64_t> done_ = 0;  // Elements, while nothing is compiled.
};

}  // namespace shoal::cpu
