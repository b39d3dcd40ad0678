// Shapes and boxes as they stand in files: as text, and read back without trust.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/box.h"
#include "shoal/shape.h"

namespace shoal::checkpoints {

/// "[2,3]"
inline std::string json_list(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }
inline Shape shape_of(const std::vector<std::int64_t>& extents) { return {extents.begin(), extents.end()}; }
inline std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", text); }

/// The number of elements; none if an extent is negative, or if the number is too large for any array.
inline std::optional<std::int64_t> checked_elements(const Shape& shape) {
  if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) return std::nullopt;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (elements > (std::numeric_limits<std::int64_t>::max() >> 8) / extent) return std::nullopt;
    elements *= extent;
  }
  return elements;
}

/// Whether a box lies in an array of this shape.
inline bool lies_in(const Box& box, const Shape& shape) {
  if (box.start.size() != shape.size() || box.extents.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.start[d] < 0 || box.extents[d] < 0 || box.start[d] > shape[d] - box.extents[d]) return false;
  }
  return true;
}

/// "[0:4, 8:16]"
inline std::string to_text(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.start.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.start[d], box.start[d] + box.extents[d]);
  }
  return text + "]";
}

}  // namespace shoal::checkpoints
