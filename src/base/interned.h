// Objects that equal ones share, for as long as somebody has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace shoal {

/// The table must outlive them. From any thread.
template <class T, class Hash, class Equal>
class Interned {
 public:
  /// The object equal to `key`, made by make() if there is none.
  template <class Key, class F>
  std::shared_ptr<const T> get(const Key& key, F&& make) {
    const std::size_t hash = Hash()(key);
    {
      const std::lock_guard lock(mutex_);
      if (auto found = find(hash, key)) return found;
    }
    const std::shared_ptr<const T> made(new T(make()), [this, hash](const T* dead) { forget(hash, dead); });
    const std::lock_guard lock(mutex_);
    if (auto found = find(hash, key)) return found;
    objects_.emplace(hash, Entry{made.get(), made});
    return made;
  }

 private:
  struct Entry {
    const T* object;
    std::weak_ptr<const T> shared;
  };

  template <class Key>
  std::shared_ptr<const T> find(std::size_t hash, const Key& key) {
    const auto [begin, end] = objects_.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry) {
      // It exists while it is listed, but may have no owner any more.
      if (!Equal()(*entry->second.object, key)) continue;
      if (auto shared = entry->second.shared.lock()) return shared;
    }
    return nullptr;
  }
  void forget(std::size_t hash, const T* dead) {
    {
      const std::lock_guard lock(mutex_);
      const auto [begin, end] = objects_.equal_range(hash);
      const auto listed = std::find_if(begin, end, [&](const auto& entry) { return entry.second.object == dead; });
      if (listed != end) objects_.erase(listed);
    }
    delete dead;
  }

  std::mutex mutex_;
  std::unordered_multimap<std::size_t, Entry> objects_;
};

}  // namespace shoal
