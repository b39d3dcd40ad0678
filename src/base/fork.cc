#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace shoal {
namespace {

struct Descriptors {
  std::mutex mutex;
  std::set<int> open;
};

std::atomic<bool> forked = false;

Descriptors& descriptors() {
  static auto& instance = []() -> Descriptors& {
    // Held during fork(), so that the child finds the set whole.
    pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                   [] {
                     forked.store(true, std::memory_order_relaxed);
                     for (const int descriptor : descriptors().open) ::close(descriptor);
                     descriptors().mutex.unlock();
                   });
    return *new Descriptors;  // Never destroyed: children are made until the very end.
  }();
  return instance;
}

}  // namespace

void close_in_children(int descriptor) {
  const std::lock_guard lock(descriptors().mutex);
  descriptors().open.insert(descriptor);
}

void keep_in_children(int descriptor) {
  const std::lock_guard lock(descriptors().mutex);
  descriptors().open.erase(descriptor);
}

bool is_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

}  // namespace shoal
