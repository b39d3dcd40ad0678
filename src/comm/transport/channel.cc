#include "comm/transport/channel.h"

namespace shoal {

Channel::~Channel() {
  for (auto& [number, buffer] : held_) new Buffer(std::move(buffer));
}

void Channel::let_go() {
  while (!held_.empty() && is_done(held_.front().first)) held_.pop_front();
}

}  // namespace shoal
