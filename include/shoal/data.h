// What a training program reads: batches of examples, in an order that depends on a seed alone, for all devices of all
// processes.
//
//   data::DataLoader loader(examples, batch_size, read, NamedSharding(mesh, P("data")), {.seed = 7});
//   for (;;) {
//     const auto batch = loader.next();
//     std::tie(params, loss) = step(params, batch.data, batch.mask);
//   }
//
// `read` makes the rows of a list of examples, a tree of arrays whose first dimension they are. Each process calls it
// for the rows of its own devices, in a thread of its own and ahead of the step. Which examples are in a batch does not
// depend on how many processes there are, and no table of all examples is made.
//
// @param seed What the order follows from.
// @param epoch The number of the pass over the data.
// @param n How many.
// @param num_examples The number of examples.
// @param batch_size How many of them a batch has.
// @param read The function from the numbers of examples to their arrays.
// @param sharding How batches lie.
// @param last_batch What becomes of the last batch, if it is not full.
// @param position Where it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/sharding.h"
#include "shoal/tree.h"

namespace shoal::data {

/// A permutation of the integers below n that a seed and an epoch choose, by a Feistel network of eight rounds on twice
/// as many bits as halves need, gone through again while what comes out is not below n: Black and Rogaway 2002,
/// "Ciphers with arbitrary finite domains". It takes no memory, and its values are the same on every machine.
class KeyedPermutation {
 public:
  /// Throws InvalidArgument unless n is at least 0 and below 2^62.
  KeyedPermutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n,
                   SourceLocation where = SourceLocation::current());
  std::int64_t size() const { return n_; }
  /// Where i, below n, goes.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t key_;
  std::int64_t n_;
  int half_bits_;
};

/// Where a program is in its data: what a checkpoint keeps to go on at the exact example.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< In the epoch.
  friend bool operator==(const Position&, const Position&) = default;
};

/// What happens to examples that do not fill a batch at the end of an epoch.
enum class LastBatch : std::uint8_t {
  kPad,   ///< They are a batch that is filled up with examples that the mask does not count.
  kDrop,  ///< They are left out of this epoch.
};

struct DataLoaderOptions {
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< Whether each epoch has an order of its own; else that of the numbers.
  LastBatch last_batch = LastBatch::kPad;
  std::int64_t prefetch = 2;  ///< How many batches are made ahead, in a thread of the loader; 0: none, and no thread.
  Position start = {};        ///< Where to begin.
};

template <class T>
struct Batch {
  T data;             ///< Rows split as the loader's sharding says.
  Array mask;         ///< bool [batch size]: which rows count.
  Position position;  ///< Of this batch.
};

}  // namespace shoal::data

namespace shoal::detail {

/// The arrays of the rows of some examples.
using ReadLeaves = std::function<std::vector<Array>(const std::vector<std::int64_t>& examples)>;

struct LoadedBatch {
  std::vector<Array> leaves;
  Array mask;
  data::Position position;
};

/// A loader of the leaves of trees.
class LeafLoader {
 public:
  LeafLoader(std::int64_t num_examples, std::int64_t batch_size, ReadLeaves read, const Sharding& sharding,
             const data::DataLoaderOptions& options, SourceLocation where);
  ~LeafLoader();
  LeafLoader(LeafLoader&&) noexcept;
  LeafLoader& operator=(LeafLoader&&) noexcept;
  LoadedBatch next(SourceLocation where);
  /// Whether the next batch has been read, after at most so long; true if there is no thread.
  bool wait_for(std::chrono::milliseconds time);
  data::Position position() const;
  void seek(const data::Position& position, SourceLocation where);
  std::int64_t batches_per_epoch() const;
  /// Ends the thread; next() begins it anew.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal::detail

namespace shoal::data {

/// Endless batches of the trees that `Read` makes; see above. Not for several threads at once.
template <class Read>
class DataLoader {
 public:
  using Tree = std::decay_t<std::invoke_result_t<Read&, const std::vector<std::int64_t>&>>;

  /// Of examples 0 to num_examples - 1. The sharding splits the rows, the first dimension; others stay whole. Throws
  /// InvalidArgument for no examples, for a batch size that is not positive, and if the sharding cannot hold it, or has
  /// no device of this process.
  DataLoader(std::int64_t num_examples, std::int64_t batch_size, Read read, const Sharding& sharding,
             const DataLoaderOptions& options = {}, SourceLocation where = SourceLocation::current())
      : exemplar_(std::make_shared<std::optional<Tree>>()),
        leaves_(
            num_examples, batch_size,
            [read = std::move(read), exemplar = exemplar_](const std::vector<std::int64_t>& examples) mutable {
              Tree rows = read(examples);
              std::vector<Array> leaves = tree::flatten(rows);
              if (!*exemplar) *exemplar = std::move(rows);
              return leaves;
            },
            sharding, options, where) {}

  /// The next batch. Rethrows what `read` threw; the batch is then tried again by the next call. With the first batch
  /// of each epoch all processes compare what they are about to read: InvalidArgument in all of them if they disagree.
  Batch<Tree> next(SourceLocation where = SourceLocation::current()) {
    detail::LoadedBatch loaded = leaves_.next(where);
    Tree tree = **exemplar_;
    tree::assign(tree, loaded.leaves);
    return {std::move(tree), std::move(loaded.mask), loaded.position};
  }
  /// Of the batch that next() will give.
  Position position() const { return leaves_.position(); }
  /// Goes on there.
  void seek(const Position& position, SourceLocation where = SourceLocation::current()) {
    leaves_.seek(position, where);
  }
  std::int64_t batches_per_epoch() const { return leaves_.batches_per_epoch(); }

 private:
  std::shared_ptr<std::optional<Tree>> exemplar_;  // Written before a batch is handed over, and not afterwards.
  detail::LeafLoader leaves_;
};

}  // namespace shoal::data
