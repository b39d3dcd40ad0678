#include "comm/transport/region.h"

#include <algorithm>

namespace shoal {

Region bytes_region(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  return {{size}, {0}, {size}, 1};
}

Region joined(const Region& a, const Region& b) {
  if (a.bytes() == 0) return b;
  if (b.bytes() == 0) return a;
  Region both = a;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const std::int64_t end = std::max(a.start[d] + a.extents[d], b.start[d] + b.extents[d]);
    both.start[d] = std::min(a.start[d], b.start[d]);
    both.extents[d] = end - both.start[d];
  }
  return both;
}

}  // namespace shoal
