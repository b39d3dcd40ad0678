#include "backend/cpu/loops/tiers.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "backend/cpu/loops/interpreter.h"
#include "backend/cpu/loops/lower.h"
#include "backend/cpu/loops/routine_interpreter.h"

namespace shoal::cpu {
namespace {

// Elements from which on a loop is compiled in the background at once; others are when they have run over as many in
// all.
constexpr std::int64_t kHotElements = 1 << 16;
// A short run counts as one of this many elements: it costs as much.
constexpr std::int64_t kShortRun = 64;

std::unique_ptr<LoopRunner> interpreter_of(const LoopSource& loop) {
  const auto* const routine = std::get_if<Routine>(&loop);
  return routine != nullptr ? interpret_routine(*routine) : interpret_loop(std::get<Loop>(loop));
}

}  // namespace

Tiers::Tiers(LoopSource loop, double elements) : loop_(std::move(loop)), interpreter_(interpreter_of(loop_)) {
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
