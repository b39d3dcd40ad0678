#include "backend/cpu/loops/tiers.h"

#include <algorithm>

#include "backend/cpu/loops/interpreter.h"
#include "backend/cpu/loops/lower.h"

namespace shoal::cpu {
namespace {

// Elements from which on a loop is compiled in the background at once; others are when they have run over as many in
// all.
constexpr std::int64_t kHotElements = 1 << 16;
// A short run counts as one of this many elements: it costs as much.
constexpr std::int64_t kShortRun = 64;

}  // namespace

Tiers::Tiers(const Loop& loop, double elements) : loop_(loop), interpreter_(interpret_loop(loop)) {
  if (elements >= static_cast<double>(kLargeElements)) {
    compiled_ = compile_loop(loop_, When::kNow);
  } else if (elements >= static_cast<double>(kHotElements)) {
    compiled_ = compile_loop(loop_, When::kInBackground);
  }
  is_compiled_.store(compiled_ != nullptr, std::memory_order_release);
}

const LoopRunner& Tiers::runner(std::int64_t elements) const {
  if (is_compiled_.load(std::memory_order_acquire)) {
    const LoopRunner* compiled = compiled_->runner();
    return compiled != nullptr ? *compiled : *interpreter_;
  }
  // Runs of several threads at once may count as one.
  const std::int64_t done = done_.load(std::memory_order_relaxed) + std::max(elements, kShortRun);
  done_.store(done, std::memory_order_relaxed);
  if (done >= kHotElements) become_hot();
  return *interpreter_;
}

void Tiers::become_hot() const {
  const std::lock_guard lock(mutex_);
  if (compiled_ != nullptr) return;
  compiled_ = compile_loop(loop_, When::kInBackground);
  is_compiled_.store(true, std::memory_order_release);
}

}  // namespace shoal::cpu
