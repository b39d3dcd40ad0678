// Programs that were used lately, by what they depend on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/function_ref.h"

namespace shoal {

/// Holds the kCapacity programs used most recently. From any thread. Two threads may add the same: either will do.
template <class Key, class Program>
class ProgramCache {
 public:
  using ProgramPtr = std::shared_ptr<const Program>;

  /// The program whose key has this hash and fits, or nullptr.
  ProgramPtr find(std::size_t hash, FunctionRef<bool(const Key&)> fits) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = index_.equal_range(hash);
    for (auto place = begin; place != end; ++place) {
      if (!fits(place->second->key)) continue;
      order_.splice(order_.begin(), order_, place->second);
      return place->second->program;
    }
    return nullptr;
  }

  void add(std::size_t hash, Key key, ProgramPtr program) {
    const std::lock_guard lock(mutex_);
    order_.push_front({std::move(key), std::move(program), hash});
    index_.emplace(hash, order_.begin());
    if (order_.size() <= kCapacity) return;
    const auto [begin, end] = index_.equal_range(order_.back().hash);
    index_.erase(std::find_if(begin, end, [&](const auto& place) { return &*place.second == &order_.back(); }));
    order_.pop_back();
  }

  /// What is destroyed may take long, or use the cache.
  void clear() {
    decltype(index_) index;
    Order order;
    const std::lock_guard lock(mutex_);
    index.swap(index_);
    order.swap(order_);
  }

 private:
  static constexpr std::size_t kCapacity = 4096;
  struct Entry {
    Key key;
    ProgramPtr program;
    std::size_t hash;
  };
  using Order = std::list<Entry>;

  std::mutex mutex_;
  Order order_;
  std::unordered_multimap<std::size_t, typename Order::iterator> index_;
};

}  // namespace shoal
