#include "runtime/shard_future.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ShardSet one_shard(const Buffer& buffer) { return {std::make_shared<const Grid>(Device{}), {}, {buffer}}; }

Buffer some_buffer() { return Buffer(host_space({}), float32, {2}); }

TEST(ShardFuture, IsEmptyByDefaultAndAfterAMove) {
  ShardFuture future;
  EXPECT_FALSE(future);
  ShardFuture pending = ShardFuture::pending();
  EXPECT_TRUE(pending);
  future = std::move(pending);
  EXPECT_TRUE(future);
  EXPECT_FALSE(pending);
  future = {};
  EXPECT_FALSE(future);
}

TEST(ShardFuture, CopiesSeeWhatOneIsGiven) {
  const Buffer buffer = some_buffer();
  const ShardFuture future = ShardFuture::pending();
  const ShardFuture copy = future;
  EXPECT_FALSE(copy.is_settled());
  future.set(one_shard(buffer));
  EXPECT_TRUE(copy.is_settled());
  EXPECT_TRUE(same_memory(copy.wait().shards[0], buffer));
  EXPECT_EQ(&copy.wait(), &future.wait());
}

TEST(ShardFuture, ReadyOnesNeedNoGiver) {
  const Buffer buffer = some_buffer();
  EXPECT_TRUE(same_memory(ShardFuture::ready(one_shard(buffer)).wait().shards[0], buffer));
}

TEST(ShardFuture, ThrowsWhatItsComputationThrewEachTime) {
  const ShardFuture future = ShardFuture::pending();
  future.fail(std::make_exception_ptr(InvalidState("it broke")));
  EXPECT_TRUE(future.is_settled());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { future.wait(); }, ThrowsMessage<InvalidState>(HasSubstr("it broke")));
  }
  EXPECT_THROW(ShardFuture(future).take(), InvalidState);
}

TEST(ShardFuture, TheLastOwnerTakesTheShardsOut) {
  ShardFuture future = ShardFuture::ready(one_shard(some_buffer()));
  ShardFuture other = future;
  const ShardSet shared = std::move(other).take();
  EXPECT_FALSE(shared.shards[0].is_unique()) << "another future has them still";
  future = ShardFuture::ready(one_shard(some_buffer()));
  const ShardSet own = std::move(future).take();
  EXPECT_TRUE(own.shards[0].is_unique());
}

TEST(ShardFuture, WakesAllWhoWait) {
  for (int round = 0; round < 50; ++round) {
    const ShardFuture future = ShardFuture::pending();
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i) {
      waiters.emplace_back([&future, round, i] {
        if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
        if (round % 2 == 0) {
          EXPECT_EQ(future.wait().shards.size(), 1U);
        } else {
          EXPECT_THROW(future.wait(), InvalidState);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(5 * round));
    if (round % 2 == 0) {
      future.set(one_shard(some_buffer()));
    } else {
      future.fail(std::make_exception_ptr(InvalidState("it broke")));
    }
    for (std::thread& waiter : waiters) waiter.join();
  }
}

}  // namespace
}  // namespace shoal
