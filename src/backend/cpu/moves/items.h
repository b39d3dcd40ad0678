// The items of ops that reach into an array by index (src/ops/gather.cc), and where they lie in a shard of it.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/moves/strided_copy.h"
#include "backend/cpu/moves/update_kernel.h"

namespace shoal::cpu {

class Items {
 public:
  Items(const Attrs& attrs, const TensorView& array, Views indices, const Shape& items);

  std::int64_t count() const { return count_; }      ///< Of items.
  std::int64_t size() const { return size_; }        ///< The elements of each.
  std::int64_t targets() const { return targets_; }  ///< The places in the array that an item may have.

  /// What is found out of so many items at a time.
  static constexpr std::int64_t kMostAtOnce = 128;
  struct Places {
    std::array<std::int64_t, kMostAtOnce> offsets;  ///< Of their first elements; 0 where they are not in the shard.
    std::array<std::int64_t, kMostAtOnce> targets;  ///< The numbers of their places: the offsets, of single elements.
    std::array<bool, kMostAtOnce> inside;           ///< Whether they are in the shard.
    bool all_inside;
  };

  /// Calls f(first, n, places) for items begin ... end - 1, n <= kMostAtOnce at a time.
  template <class F>
  void for_each_places(std::int64_t begin, std::int64_t end, F&& f) const {
    Places places;
    for (; begin < end; begin += kMostAtOnce) {
      const std::int64_t n = std::min(kMostAtOnce, end - begin);
      find(begin, n, places);
      f(begin, n, static_cast<const Places&>(places));
    }
  }

  /// Calls f(i, offset, target) for those that are in this shard.
  template <class F>
  void for_each_inside(std::int64_t begin, std::int64_t end, F&& f) const {
    for_each_places(begin, end, [&](std::int64_t first, std::int64_t n, const Places& places) {
      for (std::int64_t k = 0; k < n; ++k) {
        const auto at = static_cast<std::size_t>(k);
        if (places.all_inside || places.inside[at]) f(first + k, places.offsets[at], places.targets[at]);
      }
    });
  }

  /// Of each dimension that an item has, in elements of the array.
  const Dims& strides_of_item() const { return strides_of_item_; }
  /// From an item by itself to its place in the array.
  const StridedCopy& copy() const { return whole_; }
  bool is_one_piece(std::size_t element) const;

  /// Calls f(of the item, in the array, stride in the array, count) for rows of elements that lie one after the other
  /// in the item; all but the last in elements.
  template <class F>
  void for_each_row(std::size_t element, F&& f) const {
    const auto bytes = static_cast<std::int64_t>(element);
    const std::size_t last = whole_.extents.size() - 1;
    const std::int64_t count = whole_.extents[last];
    if (num_elements(whole_.extents) == 0) return;
    const std::int64_t rows = num_elements(whole_.extents) / count;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t left = row;
      std::int64_t offset = 0;
      for (std::size_t d = last; d-- > 0;) {
        offset += left % whole_.extents[d] * whole_.to_strides[d];
        left /= whole_.extents[d];
      }
      f(row * count, offset / bytes, whole_.to_strides[last] / bytes, count);
    }
  }

 private:
  struct Addressed {
    const void* indices;
    Dtype dtype;
    std::int64_t start, extent, stride, number_stride;
  };
  struct Batch {
    std::int64_t index_stride, extent, stride, number_stride;
  };

  void find(std::int64_t begin, std::int64_t n, Places& places) const;

  boost::container::small_vector<Addressed, 4> addressed_;
  boost::container::small_vector<Batch, 2> batch_;
  Dims strides_of_item_;
  StridedCopy whole_;
  std::int64_t count_ = 0;
  std::int64_t size_ = 1;
  std::int64_t targets_ = 1;
};

/// The places that items have in a shard, ascending unless each has but one item, and those of each, in their order.
struct PlaceLists {
  std::vector<std::int64_t> offsets;  ///< Of the places.
  std::vector<std::int64_t> ends;     ///< Of each one's items in `items`.
  std::vector<std::int64_t> items;

  explicit PlaceLists(const Items& items);
  std::span<const std::int64_t> members(std::size_t place) const {
    const std::size_t begin = place == 0 ? 0 : static_cast<std::size_t>(ends[place - 1]);
    return std::span(items).subspan(begin, static_cast<std::size_t>(ends[place]) - begin);
  }
};

}  // namespace shoal::cpu
