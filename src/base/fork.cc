#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace shoal {
namespace {

struct Descriptors {
  std::mutex mutex;
  std::vector<int> open;
};

std::atomic<bool> forked = false;

Descriptors& descriptors() {
  static auto& instance = []() -> Descriptors& {
    // Held during fork(), so that the child finds the list whole.
    pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                   [] {
                     forked.store(true, std::memory_order_relaxed);
                     for (const int descriptor : descriptors().open) ::close(descriptor);
                     descriptors().open.clear();
                     descriptors().mutex.unlock();
                   });
    return *new Descriptors;  // Never destroyed: children are made until the very end.
  }();
  return instance;
}

}  // namespace

int open_for_this_process(FunctionRef<int()> open) {
  Descriptors& all = descriptors();
  const std::lock_guard lock(all.mutex);
  int& descriptor = all.open.emplace_back(-1);  // Before there is one to lose.
  descriptor = open();
  if (descriptor >= 0) return descriptor;
  all.open.pop_back();
  return -1;
}

void close_for_this_process(int descriptor) noexcept {
  Descriptors& all = descriptors();
  const std::lock_guard lock(all.mutex);
  const auto found = std::ranges::find(all.open, descriptor);
  if (found == all.open.end()) return;
  *found = all.open.back();
  all.open.pop_back();
  ::close(descriptor);
}

bool is_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace shoal
