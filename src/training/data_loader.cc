#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/caller.h"
#include "base/misuse.h"
#include "shoal/data.h"
#include "shoal/device.h"
#include "shoal/make_array.h"
#include "shoal/multihost.h"
#include "shoal/numpy.h"

namespace shoal::data {
namespace {

constexpr int kRounds = 8;

// A bijection of 64 bits in which each bit depends on all: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, SourceLocation where)
    : key_(mixed(mixed(seed + 0x9e3779b97f4a7c15U) + epoch)), n_(n) {
  const Caller caller("KeyedPermutation", where);
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (n < 0 || n >= kMost) throw misuse<InvalidArgument>("n is {}, and should be from 0 to 2^62 - 1", n);
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 2) - 1)));
  half_bits_ = (bits + 1) / 2;
}

std::int64_t KeyedPermutation::operator()(std::int64_t i) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mixed(key_ + right * kRounds + round) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<std::uint64_t>(n_));
  return static_cast<std::int64_t>(value);
}

}  // namespace shoal::data

namespace shoal::detail {

namespace {

// The thread holds it too: the reader, which is the user's, may be what gives up the loader.
class Loading : public std::enable_shared_from_this<Loading> {
 public:
  Loading(std::int64_t num_examples, std::int64_t batch_size, ReadLeaves read, const Sharding& sharding,
          const data::DataLoaderOptions& options)
      : num_examples_(num_examples),
        batch_size_(batch_size),
        read_(std::move(read)),
        sharding_(sharding),
        options_(options),
        next_read_(options.start),
        position_(options.start) {
    for (const auto& [device, index] : indices()) {
      if (device.process_index != process_index()) continue;
      const std::int64_t begin = index[0].start.value_or(0);
      parts_.try_emplace(begin, index[0].stop.value_or(batch_size));
      devices_.emplace_back(device, begin);
    }
    if (devices_.empty()) throw misuse<InvalidArgument>("the sharding has no device of this process");
    check(options.start);
  }

  std::int64_t batches_per_epoch() const {
    const std::int64_t whole = num_examples_ / batch_size_;
    return options_.last_batch == data::LastBatch::kPad && num_examples_ % batch_size_ != 0 ? whole + 1 : whole;
  }

  data::Position position() const { return position_; }

  void seek(const data::Position& position) {
    check(position);
    if (position == position_) return;  // What has been read ahead is still what comes next.
    stop();
    next_read_ = position_ = position;
    has_compared_ = false;
  }

  LoadedBatch next() {
    const bool is_first = !has_compared_ || position_.batch == 0;
    if (is_first) compare();
    has_compared_ = true;
    const std::vector<std::vector<Array>> loaded = options_.prefetch > 0 ? take() : load(position_);
    if (is_first) compare_types(loaded);
    LoadedBatch batch = assembled(loaded);
    position_ = after(position_);
    return batch;
  }

  // Ends the thread, whose batches are given up.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.get_id() == std::this_thread::get_id()) return thread_.detach();  // It ends when the reader returns.
    if (thread_.joinable()) thread_.join();
    is_stopping_ = false;
    ready_.clear();
    next_read_ = position_;
  }

  bool wait_for(std::chrono::milliseconds time) {
    if (options_.prefetch == 0) return true;
    start();
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return !ready_.empty(); });
  }

  // For calls of several threads, which come one after the other.
  std::mutex& calls() { return calls_; }

 private:
  std::vector<std::pair<Device, ShardIndex>> indices() const {
    try {
      return sharding_.devices_indices_map({batch_size_});
    } catch (const IndivisibleError&) {
      throw misuse<IndivisibleError>("the batch size is {}, which {} does not divide evenly", batch_size_,
                                     to_string(sharding_));
    }
  }

  using Made = std::variant<std::vector<std::vector<Array>>, std::exception_ptr>;

  void check(const data::Position& position) const {
    if (position.epoch < 0 || position.batch < 0 || position.batch >= batches_per_epoch()) {
      throw misuse<InvalidArgument>("the position is batch {} of epoch {}, and an epoch has {} batches", position.batch,
                                    position.epoch, batches_per_epoch());
    }
  }

  data::Position after(data::Position position) const {
    if (++position.batch == batches_per_epoch()) position = {position.epoch + 1, 0};
    return position;
  }

  // What must be the same in all processes: they would train on a batch that there is not.
  void compare() const {
    const std::vector<std::int64_t> mine = {
        num_examples_,   batch_size_,     static_cast<std::int64_t>(options_.seed),      options_.shuffle ? 1 : 0,
        position_.epoch, position_.batch, static_cast<std::int64_t>(options_.last_batch)};
    multihost::assert_equal(
        array(mine),
        fmt::format("DataLoader: processes are about to read different batches; here it is batch {} of epoch "
                    "{}, of {} examples in batches of {}, {}, with seed {}",
                    position_.batch, position_.epoch, num_examples_, batch_size_,
                    options_.shuffle ? "shuffled" : "in their order", options_.seed));
  }

  // Arrays that would be put together of parts of different types.
  static void compare_types(const std::vector<std::vector<Array>>& loaded) {
    std::vector<std::int64_t> numbers;
    std::string text;
    for (const std::vector<Array>& parts : loaded) {
      const Array& part = parts.front();
      numbers.push_back(static_cast<std::int64_t>(part.dtype()));
      numbers.push_back(static_cast<std::int64_t>(part.ndim()));
      for (std::size_t d = 1; d < part.ndim(); ++d) numbers.push_back(part.shape()[d]);
      const bool is_mask = &parts == &loaded.back();
      if (!is_mask) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(ShapeDtypeStruct::like(part)));
    }
    multihost::assert_equal(array(numbers),
                            fmt::format("DataLoader: `read` makes different arrays in processes; here {}", text));
  }

  // The examples of the rows from `begin` to `end` of a batch; the last one again where there is none for a row.
  std::vector<std::int64_t> examples_of(const data::KeyedPermutation& order, const data::Position& position,
                                        std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> examples;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t place = std::min(position.batch * batch_size_ + row, num_examples_ - 1);
      examples.push_back(options_.shuffle ? order(place) : place);
    }
    return examples;
  }

  // What this process has of a batch: of each leaf, and last of the mask, an array for each of its devices.
  std::vector<std::vector<Array>> load(const data::Position& position) const {
    const data::KeyedPermutation order(options_.seed, static_cast<std::uint64_t>(position.epoch), num_examples_);
    // The rows of each part, read once for all its arrays and devices.
    std::map<std::int64_t, std::vector<Array>> rows;
    for (const auto& [begin, end] : parts_) {
      std::vector<Array> leaves = read_(examples_of(order, position, begin, end));
      for (const Array& leaf : leaves) {
        if (leaf.ndim() == 0 || leaf.shape()[0] != end - begin) {
          throw misuse<InvalidArgument>(
              "`read` was given {} examples, and made {}, whose first dimension should be these", end - begin,
              to_string(ShapeDtypeStruct::like(leaf)));
        }
      }
      const std::int64_t first = position.batch * batch_size_;
      leaves.push_back(less(arange(begin, end) + first, num_examples_));
      rows.emplace(begin, std::move(leaves));
    }
    std::vector<std::vector<Array>> loaded(rows.begin()->second.size());
    for (const auto& [device, begin] : devices_) {
      const std::vector<Array>& leaves = rows.at(begin);
      for (std::size_t i = 0; i < leaves.size(); ++i) loaded[i].push_back(device_put(leaves[i], device));
    }
    return loaded;
  }

  // Those of all processes as arrays. In the caller's thread: processes number their arrays in the order of the
  // program.
  LoadedBatch assembled(const std::vector<std::vector<Array>>& loaded) const {
    std::vector<Array> leaves;
    for (const std::vector<Array>& parts : loaded) {
      Shape shape = parts.front().shape();
      shape[0] = batch_size_;
      leaves.push_back(make_array_from_single_device_arrays(shape, sharding_, parts));
    }
    Array mask = std::move(leaves.back());
    leaves.pop_back();
    return {std::move(leaves), std::move(mask), position_};
  }

  // The next batch of the thread, which is started where there is none.
  std::vector<std::vector<Array>> take() {
    start();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty(); });
    Made made = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (const auto* error = std::get_if<std::exception_ptr>(&made)) {
      stop();  // The thread has ended with it; the next call tries this batch again.
      std::rethrow_exception(*error);
    }
    return std::get<0>(std::move(made));
  }

  void start() {
    if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->read_ahead(); });
  }

  void read_ahead() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return is_stopping_ || ready_.size() < static_cast<std::size_t>(options_.prefetch); });
        if (is_stopping_) return;
      }
      Made made;
      try {
        made = load(next_read_);
      } catch (...) {
        made = std::current_exception();
      }
      next_read_ = after(next_read_);
      const bool is_last = std::holds_alternative<std::exception_ptr>(made);
      {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(made));
      }
      changed_.notify_all();
      if (is_last) return;
    }
  }

  const std::int64_t num_examples_;
  const std::int64_t batch_size_;
  mutable ReadLeaves read_;
  const Sharding sharding_;
  const data::DataLoaderOptions options_;
  std::map<std::int64_t, std::int64_t> parts_;  // The rows of this process: where parts begin, and where they end.
  std::vector<std::pair<Device, std::int64_t>> devices_;  // Its devices, and where the part of each begins.

  std::mutex calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Made> ready_;
  bool is_stopping_ = false;
  std::thread thread_;
  data::Position next_read_;  // Of the thread while there is one.
  data::Position position_;
  bool has_compared_ = false;
};

}  // namespace

class LeafLoader::Impl {
 public:
  explicit Impl(std::shared_ptr<Loading> loading) : loading_(std::move(loading)) {}
  ~Impl() { loading_->stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Loading* operator->() const { return loading_.get(); }

 private:
  const std::shared_ptr<Loading> loading_;
};

LeafLoader::LeafLoader(std::int64_t num_examples, std::int64_t batch_size, ReadLeaves read, const Sharding& sharding,
                       const data::DataLoaderOptions& options, SourceLocation where) {
  const Caller caller("DataLoader", where);
  if (num_examples < 1)
    throw misuse<InvalidArgument>("there are {} examples, and should be one at least", num_examples);
  if (batch_size < 1) throw misuse<InvalidArgument>("the batch size is {}, and should be positive", batch_size);
  if (options.prefetch < 0)
    throw misuse<InvalidArgument>("prefetch is {}, and should not be negative", options.prefetch);
  if (options.last_batch == data::LastBatch::kDrop && batch_size > num_examples) {
    throw misuse<InvalidArgument>("{} examples do not fill a batch of {}, and batches that are not full are dropped",
                                  num_examples, batch_size);
  }
  impl_ =
      std::make_unique<Impl>(std::make_shared<Loading>(num_examples, batch_size, std::move(read), sharding, options));
}
LeafLoader::~LeafLoader() = default;
LeafLoader::LeafLoader(LeafLoader&&) noexcept = default;
LeafLoader& LeafLoader::operator=(LeafLoader&&) noexcept = default;

LoadedBatch LeafLoader::next(SourceLocation where) {
  const Caller caller("DataLoader::next", where);
  const std::lock_guard lock((*impl_)->calls());
  return (*impl_)->next();
}
bool LeafLoader::wait_for(std::chrono::milliseconds time) {
  const std::lock_guard lock((*impl_)->calls());
  return (*impl_)->wait_for(time);
}
data::Position LeafLoader::position() const { return (*impl_)->position(); }
void LeafLoader::seek(const data::Position& position, SourceLocation where) {
  const Caller caller("DataLoader::seek", where);
  const std::lock_guard lock((*impl_)->calls());
  (*impl_)->seek(position);
}
std::int64_t LeafLoader::batches_per_epoch() const { return (*impl_)->batches_per_epoch(); }
void LeafLoader::stop() { (*impl_)->stop(); }

}  // namespace shoal::detail
