// Batches of examples: their order, the uneven last one, going on, and what goes wrong with a reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/data.h"
#include "shoal/make_array.h"

namespace shoal::test {
namespace {

using data::DataLoader;
using data::KeyedPermutation;
using data::LastBatch;
using data::Position;
using test_support::message_of;
using testing::HasSubstr;

std::vector<std::int64_t> order_of(const KeyedPermutation& permutation) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < permutation.size(); ++i) order.push_back(permutation(i));
  return order;
}

TEST(KeyedPermutation, IsAPermutationOfEachLength) {
  for (std::int64_t n = 1; n <= 130; ++n) {
    std::vector<std::int64_t> order = order_of(KeyedPermutation(3, 5, n));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i) << n;
  }
  EXPECT_EQ(KeyedPermutation(0, 0, 0).size(), 0);
  const KeyedPermutation large(1, 0, (std::int64_t{1} << 61) + 7);
  EXPECT_LT(large(12345), large.size());
}

TEST(KeyedPermutation, DependsOnSeedAndEpochAndNothingElse) {
  const std::vector<std::int64_t> first = order_of(KeyedPermutation(1, 0, 100));
  EXPECT_EQ(order_of(KeyedPermutation(1, 0, 100)), first);
  EXPECT_NE(order_of(KeyedPermutation(2, 0, 100)), first);
  EXPECT_NE(order_of(KeyedPermutation(1, 1, 100)), first);
  // The same on every machine and in every version: a run goes on where another one was.
  EXPECT_THAT(order_of(KeyedPermutation(7, 2, 10)), testing::ElementsAre(9, 8, 1, 2, 0, 7, 3, 4, 6, 5));
}

// Each number comes to each place about equally often: chi squared of 12 x 12 counts, whose mean is 121 and whose
// standard deviation 15.6.
TEST(KeyedPermutation, IsEven) {
  constexpr std::int64_t kN = 12;
  constexpr int kTries = 6000;
  std::vector<double> counts(kN * kN);
  for (int seed = 0; seed < kTries; ++seed) {
    const KeyedPermutation permutation(static_cast<std::uint64_t>(seed), 0, kN);
    for (std::int64_t i = 0; i < kN; ++i) counts[static_cast<std::size_t>(i * kN + permutation(i))] += 1;
  }
  const double mean = static_cast<double>(kTries) / kN;
  double chi = 0;
  for (const double count : counts) chi += (count - mean) * (count - mean) / mean;
  EXPECT_NEAR(chi, 121, 5 * 15.6);
}

struct Rows {
  Array number;  // Of the example,
  Array square;  // [rows, 2].
};

Rows read_rows(const std::vector<std::int64_t>& examples) {
  std::vector<int> numbers(examples.begin(), examples.end());
  const Array number = array(numbers);
  const Array square = number * number;
  return {number, stack(Operands(std::vector<Array>{square, square}), 1)};
}

NamedSharding by_row() { return {mesh_8(), P("i")}; }

// The examples that count in the next batches.
template <class Loader>
std::vector<std::int64_t> examples_of(Loader& loader, std::int64_t batches) {
  std::vector<std::int64_t> seen;
  for (std::int64_t b = 0; b < batches; ++b) {
    const auto batch = loader.next();
    const std::vector<int> numbers = batch.data.number.template to_vector<int>();
    const std::vector<int> squares = batch.data.square.reshape(-1).template to_vector<int>();
    const std::vector<bool> mask = [&] {
      std::vector<bool> made;
      for (const int m : batch.mask.astype(int32).template to_vector<int>()) made.push_back(m != 0);
      return made;
    }();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_EQ(squares[2 * i + 1], numbers[i] * numbers[i]);
      if (mask[i]) seen.push_back(numbers[i]);
    }
  }
  return seen;
}

TEST(DataLoader, AnEpochIsEveryExampleOnce) {
  for (const std::int64_t prefetch : {0, 1, 3}) {
    DataLoader loader(107, 16, read_rows, by_row(), {.seed = 1, .prefetch = prefetch});
    EXPECT_EQ(loader.batches_per_epoch(), 7);
    std::vector<std::int64_t> first = examples_of(loader, 7);
    EXPECT_EQ(loader.position(), (Position{1, 0}));
    std::vector<std::int64_t> second = examples_of(loader, 7);
    EXPECT_NE(first, second);
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    EXPECT_EQ(first, second);
    ASSERT_EQ(first.size(), 107);
    EXPECT_EQ(first.back(), 106);
  }
}

TEST(DataLoader, WhatDoesNotFillABatchIsDroppedIfAsked) {
  DataLoader loader(107, 16, read_rows, by_row(), {.shuffle = false, .last_batch = LastBatch::kDrop});
  EXPECT_EQ(loader.batches_per_epoch(), 6);
  const std::vector<std::int64_t> seen = examples_of(loader, 7);
  EXPECT_EQ(seen.size(), 112);
  EXPECT_EQ(seen[95], 95);
  EXPECT_EQ(seen[96], 0);  // Of the next epoch.
}

// The order does not depend on how rows are split, nor on what is read ahead, and a loader goes on anywhere.
TEST(DataLoader, GoesOnAtTheExactExample) {
  DataLoader whole(50, 8, read_rows, by_row(), {.seed = 9});
  const std::vector<std::int64_t> all = examples_of(whole, 20);
  DataLoader split(50, 8, read_rows, NamedSharding(mesh_4x2(), P("y")), {.seed = 9, .prefetch = 1});
  EXPECT_EQ(examples_of(split, 20), all);
  split.seek({1, 3});
  EXPECT_EQ(split.position(), (Position{1, 3}));
  const std::vector<std::int64_t> rest = examples_of(split, 10);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + 50 + 24));
  DataLoader later(50, 8, read_rows, by_row(), {.seed = 9, .start = {1, 3}});
  EXPECT_EQ(examples_of(later, 10), rest);
}

TEST(DataLoader, BatchesLieAsAsked) {
  DataLoader loader(64, 16, read_rows, by_row());
  const auto batch = loader.next();
  EXPECT_EQ(batch.data.square.shape(), (Shape{16, 2}));
  EXPECT_TRUE(batch.data.square.sharding().is_equivalent_to(by_row(), 2));
  EXPECT_TRUE(batch.mask.sharding().is_equivalent_to(by_row(), 1));
}

TEST(DataLoader, ReadsAheadAndNotFurther) {
  std::atomic<int> reads = 0;
  const auto read = [&](const std::vector<std::int64_t>& examples) {
    ++reads;
    return read_rows(examples);
  };
  const NamedSharding one(make_mesh({1}, {"i"}), P("i"));
  DataLoader loader(1000, 4, read, one, {.prefetch = 3});
  loader.next();
  for (int i = 0; i < 2000 && reads < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reads, 4);  // The one that was given, and three.
}

TEST(DataLoader, AnErrorOfTheReaderIsRaisedAndTheBatchTriedAgain) {
  for (const std::int64_t prefetch : {0, 2}) {
    std::atomic<bool> is_broken = true;
    const auto read = [&](const std::vector<std::int64_t>& examples) {
      if (is_broken && examples[0] >= 8) throw std::runtime_error("the disk is gone");
      return read_rows(examples);
    };
    const NamedSharding one(make_mesh({1}, {"i"}), P("i"));
    DataLoader loader(32, 8, read, one, {.shuffle = false, .prefetch = prefetch});
    EXPECT_EQ(examples_of(loader, 1).back(), 7);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(
          {
            try {
              loader.next();
            } catch (const std::runtime_error& error) {
              EXPECT_STREQ(error.what(), "the disk is gone");
              throw;
            }
          },
          std::runtime_error);
    }
    is_broken = false;
    EXPECT_EQ(examples_of(loader, 1).front(), 8);
  }
}

TEST(DataLoader, SeveralThreadsTakeDifferentBatches) {
  std::atomic<int> calls = 0;
  const auto read = [&](const std::vector<std::int64_t>& examples) {
    if (++calls % 3 == 0) throw std::runtime_error("once in a while");
    return read_rows(examples);
  };
  DataLoader loader(1 << 20, 8, read, NamedSharding(make_mesh({1}, {"i"}), P("i")));
  std::mutex mutex;
  std::set<std::int64_t> seen;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25;) {
        try {
          const auto batch = loader.next();
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(seen.insert(batch.position.batch).second);
          ++i;
        } catch (const std::runtime_error&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), 100);
}

TEST(DataLoader, Misuse) {
  EXPECT_THAT(message_of<InvalidArgument>([] { DataLoader(0, 8, read_rows, by_row()); }),
              HasSubstr("DataLoader: there are 0 examples"));
  EXPECT_THAT(message_of<InvalidArgument>([] { DataLoader(8, 0, read_rows, by_row()); }),
              HasSubstr("the batch size is 0"));
  EXPECT_THAT(
      message_of<InvalidArgument>([] { DataLoader(8, 16, read_rows, by_row(), {.last_batch = LastBatch::kDrop}); }),
      HasSubstr("8 examples do not fill a batch of 16"));
  EXPECT_THAT(message_of<InvalidArgument>([] { DataLoader(8, 8, read_rows, by_row(), {.prefetch = -1}); }),
              HasSubstr("prefetch is -1"));
  EXPECT_THAT(message_of<IndivisibleError>([] { DataLoader(100, 100, read_rows, by_row()); }),
              HasSubstr("DataLoader: the batch size is 100, which NamedSharding"));
  DataLoader loader(64, 8, read_rows, by_row());
  EXPECT_THAT(message_of<InvalidArgument>([&] {
                loader.seek({0, 8});
              }),
              HasSubstr("DataLoader::seek: the position is batch 8 of epoch 0, and an epoch has 8 batches"));
  const auto short_rows = [](const std::vector<std::int64_t>&) { return zeros({3}); };
  DataLoader wrong(64, 16, short_rows, by_row(), {.prefetch = 0});
  try {
    wrong.next();
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("`read` was given 2 examples, and made ShapeDtypeStruct(shape=(3,)"));
  }
}

}  // namespace
}  // namespace shoal::test
