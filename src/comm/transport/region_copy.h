// Where the bytes of a region lie in its array.
#pragma once

#include <cstddef>

#include "comm/transport/box_copy.h"
#include "comm/transport/channel.h"

namespace shoal {

/// The part of a dense array from the first byte of a region to its last, in bytes. Nothing if the region is empty.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t size = 0;
};

ByteRange range_of(const Region& region);

/// Throws InternalError unless the region is a box within its array.
void check_region(const Region& region);

/// The copy of a region to the same place of another array of its shape.
BoxCopy copy_in_place(const Region& region);
/// The copy of a region to a dense array that is the region,
BoxCopy copy_to_dense(const Region& region);
/// and back.
BoxCopy copy_from_dense(const Region& region);

}  // namespace shoal
