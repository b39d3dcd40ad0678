#include "base/at_exit.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <vector>

namespace shoal {
namespace {

struct Finishers {
  std::mutex mutex;
  std::vector<void (*)()> all;
  const pid_t process = getpid();

  // Never destroyed.
  static Finishers& get() {
    static auto& finishers = *new Finishers;
    return finishers;
  }
};

void finish() {
  Finishers& finishers = Finishers::get();
  if (getpid() != finishers.process) return;  // A child made by fork() has none of the threads that would have to end.
  std::vector<void (*)()> all;
  {
    const std::lock_guard lock(finishers.mutex);
    all = finishers.all;
  }
  for (void (*one)() : all) one();
}

}  // namespace

void at_exit(void (*finish_one)()) {
  Finishers& finishers = Finishers::get();
  {
    const std::lock_guard lock(finishers.mutex);
    finishers.all.push_back(finish_one);
  }
  keep_until_finished();
}

void keep_until_finished() noexcept { std::atexit(finish); }

}  // namespace shoal
