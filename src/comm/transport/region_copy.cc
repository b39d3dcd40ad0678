#include "comm/transport/region_copy.h"

#include "base/check.h"

namespace shoal {

ByteRange range_of(const Region& region) {
  if (num_elements(region.extents) == 0) return {};
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < region.shape.size(); ++d) {
    first = first * region.shape[d] + region.start[d];
    last = last * region.shape[d] + region.start[d] + region.extents[d] - 1;
  }
  return {static_cast<std::size_t>(first) * region.element,
          static_cast<std::size_t>(last - first + 1) * region.element};
}

void check_region(const Region& region) {
  const std::size_t rank = region.shape.size();
  bool inside = region.start.size() == rank && region.extents.size() == rank && region.element > 0;
  for (std::size_t d = 0; inside && d < rank; ++d) {
    inside = region.start[d] >= 0 && region.extents[d] >= 0 && region.start[d] <= region.shape[d] - region.extents[d];
  }
  SHOAL_CHECK(inside, "a region " + to_string(region.extents) + " at " + to_string(region.start) + " of an array " +
                          to_string(region.shape));
}

BoxCopy copy_in_place(const Region& region) { return {region.shape, region.shape, region.extents, region.element}; }

BoxCopy copy_to_dense(const Region& region) { return {region.shape, region.extents, region.extents, region.element}; }

BoxCopy copy_from_dense(const Region& region) { return {region.extents, region.shape, region.extents, region.element}; }

}  // namespace shoal
