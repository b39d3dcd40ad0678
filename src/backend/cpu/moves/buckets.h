// Many items of one element each, put into buckets: one for each block of places in the array. Threads may then take a
// bucket each; the items of a place stay in their order, so that how they are divided changes no bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/moves/items.h"

namespace shoal::cpu {

/// Items of elements of kSize bytes: 1, 2, 4, 8 or 16.
template <std::size_t kSize>
class Buckets {
 public:
  /// `updates` has the elements of the items; it must live as long as this.
  Buckets(const Items& items, const std::byte* updates);

  std::int64_t blocks() const { return blocks_; }
  std::int64_t block_size() const { return std::int64_t{1} << shift_; }  ///< In places.

  struct Bucket {
    const std::byte* values;      ///< Of its items, in their order.
    const std::uint32_t* places;  ///< Theirs, within the block.
    std::int64_t count;
  };
  Bucket bucket(std::int64_t block) const {
    const std::int64_t begin = starts_.data()[block];
    return {.values = values() + static_cast<std::size_t>(begin) * kSize,
            .places = places_.data() + begin,
            .count = starts_.data()[block + 1] - begin};
  }

 private:
  // Of one block, whose items need not be moved; false if some are in no place.
  bool find_places();
  void fill();
  const std::byte* values() const { return in_place_ ? updates_ : values_->data(); }

  const Items& items_;
  const std::byte* updates_;
  int shift_;
  std::int64_t blocks_;
  std::int64_t piece_;  // Items that a thread takes at a time.
  std::int64_t pieces_;
  bool in_place_ = false;           // Whether the values are those of `updates_`.
  Workspace<std::int64_t> starts_;  // Of the items of each bucket.
  std::optional<Workspace<std::byte>> values_;
  Workspace<std::uint32_t> places_;
};

extern template class Buckets<1>;
extern template class Buckets<2>;
extern template class Buckets<4>;
extern template class Buckets<8>;
extern template class Buckets<16>;

}  // namespace shoal::cpu
