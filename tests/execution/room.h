// A limit on the memory that programs of a test may take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/host_allocator.h"
#include "runtime/lane.h"

namespace shoal {

/// What the process may take beside what it holds now, for as long as this lives.
class Room {
 public:
  explicit Room(std::int64_t bytes) : memory_(HostAllocator::shared()), before_(memory_.limit()) {
    Lane::shared().drain();  // Programs let their memory go a moment after their results are there.
    memory_.trim();
    memory_.set_limit(memory_.bytes_in_use() + static_cast<std::size_t>(bytes));
  }
  ~Room() { memory_.set_limit(before_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  HostAllocator& memory_;
  std::size_t before_;
};

}  // namespace shoal
