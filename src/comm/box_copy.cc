#include "comm/box_copy.h"

#include <cstddef>
#include <cstring>

namespace shoal {

void copy_box(const TensorView& from, const Dims& from_start, const TensorView& to, const Dims& to_start,
              const Shape& extents) {
  const std::int64_t count = num_elements(extents);
  if (count == 0) return;
  const Dims from_strides = row_major_strides(from.shape);
  const Dims to_strides = row_major_strides(to.shape);
  // Trailing dimensions that both arrays take whole are contiguous with the dimension before them: one run.
  std::size_t outer = extents.size();
  std::int64_t run = 1;
  while (outer > 0) {
    --outer;
    run *= extents[outer];
    if (extents[outer] != from.shape[outer] || extents[outer] != to.shape[outer]) break;
  }
  const std::size_t element = size_of(from.dtype);
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  Dims at(extents.size(), 0);
  for (std::int64_t done = 0; done < count; done += run) {
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      from_offset += (from_start[d] + at[d]) * from_strides[d];
      to_offset += (to_start[d] + at[d]) * to_strides[d];
    }
    std::memcpy(target + static_cast<std::size_t>(to_offset) * element,
                source + static_cast<std::size_t>(from_offset) * element, static_cast<std::size_t>(run) * element);
    for (std::size_t d = outer; d-- > 0;) {
      if (++at[d] < extents[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace shoal
