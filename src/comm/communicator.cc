#include "comm/communicator.h"

#include <map>
#include <utility>

#include "comm/digest.h"
#include "comm/peers.h"

namespace shoal {

Communicator& Communicator::of(const std::vector<int>& processes) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<std::vector<int>, std::unique_ptr<Communicator>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Communicator>& found = (*all)[processes];
  if (found == nullptr) found = std::make_unique<Communicator>(processes);
  return *found;
}

Communicator::Communicator(std::vector<int> processes) : processes_(std::move(processes)) {
  id_ = digest_of(processes_.data(), processes_.size() * sizeof(int))[0];
}

MessageTag Communicator::begin_launch(const Digest& program, const Digest& lineage) {
  check();
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
