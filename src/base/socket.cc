#include "base/socket.h"

#include "base/fork.h"

namespace shoal {

Socket::Socket(FunctionRef<int()> open) : descriptor_(open_for_this_process(open)) {}

void Socket::close() noexcept {
  if (descriptor_ >= 0) close_for_this_process(std::exchange(descriptor_, -1));
}

}  // namespace shoal
