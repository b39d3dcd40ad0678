#include "comm/communicator.h"

#include <map>
#include <utility>

#include "comm/digest.h"
#include "comm/peers.h"
#include "shoal/error.h"

namespace shoal {

namespace {

// Never destroyed: programs may run until the very end.
struct Table {
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Communicator>> all;
  std::exception_ptr closed;

  static Table& get() {
    static auto* const table = new Table;
    return *table;
  }
};

}  // namespace

Communicator& Communicator::of(const std::vector<int>& processes) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  std::unique_ptr<Communicator>& found = table.all[processes];
  if (found != nullptr) return *found;
  found = std::make_unique<Communicator>(processes);
  if (table.closed != nullptr) {
    found->error_ = table.closed;
    found->failed_ = true;
  }
  return *found;
}

void Communicator::close_all(const std::exception_ptr& error) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  table.closed = error;
  for (const auto& [processes, one] : table.all) {
    const std::lock_guard one_lock(one->mutex_);
    if (one->error_ == nullptr) one->error_ = error;
    one->failed_.store(true, std::memory_order_release);
  }
}

Communicator::Communicator(std::vector<int> processes) : processes_(std::move(processes)) {
  id_ = digest_of(processes_.data(), processes_.size() * sizeof(int))[0];
}

int& Communicator::Launching::depth() {
  thread_local int depth = 0;
  return depth;
}

MessageTag Communicator::begin_launch(const Digest& program, const Digest& lineage) {
  check();
  if (peers() != nullptr) peers()->check();
  if (Launching::depth() > 0) {
    throw InvalidState(
        "a callback of a program that runs on several processes must not call another such program, or exchange "
        "anything "
        "with other processes");
  }
  return {.communicator = id_,
          .sequence = launches_.fetch_add(1, std::memory_order_relaxed) + 1,
          .program = program,
          .lineage = lineage};
}

void Communicator::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr) return;
    error_ = error;
    failed_.store(true, std::memory_order_release);
  }
  if (Peers* const all = peers()) all->report(error);
}

void Communicator::check() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(error_);
}

}  // namespace shoal
