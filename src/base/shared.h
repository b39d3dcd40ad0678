// An optional value of which copies share one object until they change it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace shoal {

/// Copying takes as long as counting, however large the value is. An object is never written again: what `edit` changes
/// is a new one.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullopt_t) {}
  Shared(T value) : object_(std::make_shared<const T>(std::move(value))) {}
  Shared(std::optional<T> value) : object_(value ? std::make_shared<const T>(*std::move(value)) : nullptr) {}

  bool has_value() const { return object_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  operator std::optional<T>() const { return object_ ? std::optional<T>(*object_) : std::nullopt; }
  const T& operator*() const { return *object_; }
  const T* operator->() const { return object_.get(); }
  /// Applies `change` to the value. There must be one.
  template <class F>
  void edit(F&& change) {
    const auto changed = std::make_shared<T>(*object_);
    change(*changed);
    object_ = changed;
  }
  void reset() { object_.reset(); }

  friend bool operator==(const Shared& a, const Shared& b) {
    return a.object_ == b.object_ || (a.object_ && b.object_ && *a.object_ == *b.object_);
  }

 private:
  std::shared_ptr<const T> object_;
};

}  // namespace shoal
