#include "backend/cpu/moves/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "backend/cpu/moves/reversal.h"
#include "backend/cpu/moves/transposition.h"
#include "base/check.h"
#include "comm/transport/element_copy.h"

namespace shoal::cpu {
namespace {

// Columns and rows of a block of a transposition: its cache lines stay while it is copied.
constexpr std::int64_t kBlock = 32;
// Rows of up to so many elements are copied column by column, so many rows at a time.
constexpr std::int64_t kShortRow = 8;
constexpr std::int64_t kShortRows = 256;

// The integer of so many bytes, as what is moved.
template <std::size_t kSize>
using Moved =
    std::conditional_t<kSize == 2, std::uint16_t, std::conditional_t<kSize == 4, std::uint32_t, std::uint64_t>>;

template <std::size_t kSize>
void copy_line(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t n) {
  constexpr auto kStep = static_cast<std::int64_t>(kSize);
  if (to_stride == kStep && from_stride == kStep) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * kSize);
  } else if (to_stride == kStep && from_stride == 0) {
    std::array<std::byte, kSize> value;
    std::memcpy(&value, from, kSize);
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * kStep, &value, kSize);
  } else {
    if constexpr (kSize >= 2 && kSize <= 8) {
      if (to_stride == kStep && from_stride == -kStep) {
        using Bits = Moved<kSize>;
        return copy_reversed(reinterpret_cast<const Bits*>(from - (n - 1) * kStep), reinterpret_cast<Bits*>(to), n);
      }
    }
    copy_elements<kSize>(from, from_stride, to, to_stride, n);
  }
}

/// Two dimensions, of which the source lies densely along the first, and the target along the second.
template <std::size_t kSize>
void transpose_elements(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
                        std::int64_t rows, std::int64_t columns) {
  constexpr auto kStep = static_cast<std::int64_t>(kSize);
  if constexpr (kSize == 4 || kSize == 8) {
    using Bits = Moved<kSize>;
    if (from_stride % kStep == 0 && to_stride % kStep == 0) {
      return transpose_block(reinterpret_cast<const Bits*>(from), from_stride / kStep, reinterpret_cast<Bits*>(to),
                             to_stride / kStep, columns, rows);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + row * to_stride + column * kStep, from + column * from_stride + row * kStep, kSize);
    }
  }
}

template <std::size_t kSize>
class Copier {
 public:
  Copier(const StridedCopy& copy, const std::byte* from, std::byte* to) : copy_(copy), from_(from), to_(to) {
    const std::size_t last = copy.extents.size() - 1;
    constexpr auto kStep = static_cast<std::int64_t>(kSize);
    constexpr std::int64_t kLine = 32;  // Bytes that are copied at once.
    const bool is_line = copy.from_strides[last] == kStep && copy.to_strides[last] == kStep;
    has_short_rows_ = copy.extents[last] <= kShortRow && !(is_line && copy.extents[last] * kStep >= kLine);
    dense_ = last;
    if (copy.to_strides[last] != kStep || copy.from_strides[last] == kStep || copy.from_strides[last] == 0) return;
    for (std::size_t d = 0; d < last; ++d) {
      if (copy.from_strides[d] == kStep) dense_ = d;
    }
  }

  void run(std::int64_t first, std::int64_t last) const {
    walk(0, first, last, from_ + copy_.from_offset, to_ + copy_.to_offset);
  }

 private:
  void walk(std::size_t d, std::int64_t first, std::int64_t end, const std::byte* from, std::byte* to) const {
    const std::size_t last = copy_.extents.size() - 1;
    from += first * copy_.from_strides[d];
    to += first * copy_.to_strides[d];
    const std::int64_t n = end - first;
    if (d == last) {
      copy_line<kSize>(from, copy_.from_strides[d], to, copy_.to_strides[d], n);
      return;
    }
    if (d == dense_) {
      for (std::int64_t i = 0; i < n; i += kBlock) {
        walk_across(d + 1, from + i * copy_.from_strides[d], to + i * copy_.to_strides[d], std::min(kBlock, n - i));
      }
      return;
    }
    if (d + 1 == last && has_short_rows_) return walk_columns(from, to, n);
    for (std::int64_t i = 0; i < n; ++i) {
      walk(d + 1, 0, copy_.extents[d + 1], from + i * copy_.from_strides[d], to + i * copy_.to_strides[d]);
    }
  }

  // The last two dimensions, of which the last is short.
  void walk_columns(const std::byte* from, std::byte* to, std::int64_t rows) const {
    const std::size_t last = copy_.extents.size() - 1;
    const std::int64_t from_row = copy_.from_strides[last - 1];
    const std::int64_t to_row = copy_.to_strides[last - 1];
    for (std::int64_t i = 0; i < rows; i += kShortRows) {
      for (std::int64_t j = 0; j < copy_.extents[last]; ++j) {
        copy_elements<kSize>(from + i * from_row + j * copy_.from_strides[last], from_row,
                             to + i * to_row + j * copy_.to_strides[last], to_row, std::min(kShortRows, rows - i));
      }
    }
  }

  // The dimensions between the two of the blocks, and then blocks of `rows` along the one where the source is dense.
  void walk_across(std::size_t d, const std::byte* from, std::byte* to, std::int64_t rows) const {
    const std::size_t last = copy_.extents.size() - 1;
    const std::int64_t n = copy_.extents[d];
    if (d != last) {
      for (std::int64_t i = 0; i < n; ++i) {
        walk_across(d + 1, from + i * copy_.from_strides[d], to + i * copy_.to_strides[d], rows);
      }
      return;
    }
    for (std::int64_t i = 0; i < n; i += kBlock) {
      transpose_elements<kSize>(from + i * copy_.from_strides[d], copy_.from_strides[d], to + i * copy_.to_strides[d],
                                copy_.to_strides[dense_], rows, std::min(kBlock, n - i));
    }
  }

  const StridedCopy& copy_;
  const std::byte* from_;
  std::byte* to_;
  bool has_short_rows_;
  std::size_t dense_;  // The dimension along which the source is dense, if blocks are transposed; else the last.
};

}  // namespace

StridedCopy StridedCopy::simplified(std::size_t element_size) const {
  StridedCopy result{
      .extents = {}, .from_strides = {}, .to_strides = {}, .from_offset = from_offset, .to_offset = to_offset};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    const bool joins = !result.extents.empty() && result.from_strides.back() == extents[d] * from_strides[d] &&
                       result.to_strides.back() == extents[d] * to_strides[d];
    if (joins) {
      result.extents.back() *= extents[d];
      result.from_strides.back() = from_strides[d];
      result.to_strides.back() = to_strides[d];
    } else {
      result.extents.push_back(extents[d]);
      result.from_strides.push_back(from_strides[d]);
      result.to_strides.push_back(to_strides[d]);
    }
  }
  if (result.extents.empty()) {
    result.extents.push_back(1);
    result.from_strides.push_back(static_cast<std::int64_t>(element_size));
    result.to_strides.push_back(static_cast<std::int64_t>(element_size));
  }
  return result;
}

void copy_rows(const StridedCopy& copy, std::size_t element_size, const std::byte* from, std::byte* to,
               std::int64_t first, std::int64_t last) {
  if (num_elements(copy.extents) == 0 || first >= last) return;
  const bool is_known =
      with_element_size(element_size, [&](auto size) { Copier<size>(copy, from, to).run(first, last); });
  SHOAL_CHECK(is_known, "elements have 1, 2, 4, 8 or 16 bytes");
}

}  // namespace shoal::cpu
