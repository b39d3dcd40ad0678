// Sockets, by whose end others see that this process has ended.
#pragma once

#include <utility>

#include "base/function_ref.h"

namespace shoal {

/// A socket that children made by fork() do not get. Closed when its owner goes.
class Socket {
 public:
  Socket() = default;
  /// What open() returns, as open_for_this_process (fork.h) says.
  explicit Socket(FunctionRef<int()> open);
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    other.close();
    return *this;
  }
  ~Socket() { close(); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close() noexcept;

 private:
  int descriptor_ = -1;
};

}  // namespace shoal
