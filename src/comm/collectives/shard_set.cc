#include "comm/collectives/shard_set.h"

#include "base/thread_pool.h"

namespace shoal {

void for_each_shard(std::int64_t shards, std::int64_t elements, FunctionRef<void(std::int64_t)> body) {
  constexpr std::int64_t kWorthWaking = 1 << 13;
  if (elements >= kWorthWaking) {
    ThreadPool::shared().parallel_for(shards, body);
  } else {
    for (std::int64_t i = 0; i < shards; ++i) body(i);
  }
}

}  // namespace shoal
