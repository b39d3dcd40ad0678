// Copies boxes between dense arrays.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "shoal/shape.h"

namespace shoal {

/// memcpy past the caches: for more bytes than they hold, where the lines that are written need not be read first.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

/// From what size on a result is written past the caches: where most of it would be gone from them before it is read.
inline constexpr std::size_t kStreamedBytes = std::size_t{8} << 20;

/// The copy of a box from one dense array to another, in parts that may be copied at the same time. Where the boxes lie
/// is told by the addresses of their first elements.
class BoxCopy {
 public:
  /// A box of `extents` elements, of `element` bytes each, in arrays of these shapes.
  BoxCopy(const Shape& from, const Shape& to, const Shape& extents, std::size_t element);

  std::size_t bytes() const { return static_cast<std::size_t>(rows_) * run_; }
  /// Copies part number `part` of `parts`. If it `streams`, past the caches.
  void copy(const std::byte* from, std::byte* to, std::int64_t part = 0, std::int64_t parts = 1,
            bool streams = false) const;

 private:
  // A dimension of the box that does not lie next to the ones within it; strides in bytes.
  struct Level {
    std::int64_t count;
    std::size_t from;
    std::size_t to;
  };
  boost::container::small_vector<Level, 3> levels_;  // Outermost first.
  std::int64_t rows_ = 1;                            // Product of the counts.
  std::size_t run_ = 0;                              // Bytes next to each other in both arrays.
};

/// A copy of a box, and the first elements of it in both arrays.
struct PlacedCopy {
  BoxCopy box;
  const std::byte* from;
  std::byte* to;
};

/// The copy of the box of `extents` elements at `from_start` of one array to `to_start` of another of the same dtype
/// and rank.
PlacedCopy place_copy(const TensorView& from, const Dims& from_start, const TensorView& to, const Dims& to_start,
                      const Shape& extents);

/// Makes copies that do not depend on each other, with all threads of the pool if they are large. Memory that is
/// written for the first time gets its pages by all threads, too, which takes longer than the copy.
void copy_boxes(std::span<const PlacedCopy> copies);

/// memcpy like copy_boxes().
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace shoal
