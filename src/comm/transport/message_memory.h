// Memory of messages whose bytes are carried from one process to another: whence they leave, and where they arrive.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "comm/transport/channel.h"
#include "comm/transport/region.h"

namespace shoal {

/// Memory of the host, given back when it goes.
class Block {
 public:
  Block() = default;
  /// Of these bytes, few of which will be used if it `is_sparse`. Throws std::bad_alloc.
  explicit Block(std::size_t bytes, bool is_sparse = false);
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  ~Block();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_mapped_ = false;
};

/// The bytes of a region as one piece: where they lie in its array, if they are one there, else a copy.
class Parcel {
 public:
  Parcel(const Region& region, const std::byte* array);
  const std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::byte* data_;
  std::size_t bytes_;
  Block copy_;
};

/// Where the bytes of a region arrive, one after the other.
class Landing {
 public:
  explicit Landing(const Region& region);
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// All bytes have arrived.
  void finish();
  /// After that, an array of which the region holds them; its other elements are not to be touched.
  const std::byte* array() const { return array_; }

 private:
  Region region_;
  std::size_t bytes_;
  Block block_;       // In which the region lies as in its array.
  Block dense_;       // What arrives, if the region is not one piece.
  std::byte* data_;   // Of what arrives.
  std::byte* array_;  // Where the array would begin.
};

/// Messages that are expected, and those of them that have begun to arrive and were not accepted.
class Expectations {
 public:
  void add(const MessageTag& tag, Landing landing) { next_.emplace_back(tag, std::move(landing)); }
  /// Forgets those that have not begun.
  void clear() { next_.clear(); }
  /// The message with this tag has come: where it arrives, if it is what is expected next.
  std::optional<Landing> begin(const MessageTag& tag) {
    if (next_.empty() || next_.front().first != tag) return std::nullopt;
    std::optional<Landing> landing = std::move(next_.front().second);
    next_.pop_front();
    begun_.push_back(tag);
    return landing;
  }
  /// The tag of the oldest that has begun; null if there is none.
  const MessageTag* begun() const { return begun_.empty() ? nullptr : &begun_.front(); }
  void accept_begun() { begun_.pop_front(); }

 private:
  std::deque<std::pair<MessageTag, Landing>> next_;
  std::deque<MessageTag> begun_;
};

}  // namespace shoal
