#include "backend/cpu/moves/transposition.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/moves/transposition.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Squares of four elements of 4 bytes, and of two of 8: vectors of 16 bytes are interleaved alike everywhere.
void transpose_square(const std::uint32_t* from, std::int64_t from_stride, std::uint32_t* to, std::int64_t to_stride) {
  const hn::FixedTag<std::uint32_t, 4> d;
  const auto a = hn::LoadU(d, from);
  const auto b = hn::LoadU(d, from + from_stride);
  const auto c = hn::LoadU(d, from + 2 * from_stride);
  const auto e = hn::LoadU(d, from + 3 * from_stride);
  const auto lower_ac = hn::InterleaveLower(d, a, c);
  const auto lower_be = hn::InterleaveLower(d, b, e);
  const auto upper_ac = hn::InterleaveUpper(d, a, c);
  const auto upper_be = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, lower_ac, lower_be), d, to);
  hn::StoreU(hn::InterleaveUpper(d, lower_ac, lower_be), d, to + to_stride);
  hn::StoreU(hn::InterleaveLower(d, upper_ac, upper_be), d, to + 2 * to_stride);
  hn::StoreU(hn::InterleaveUpper(d, upper_ac, upper_be), d, to + 3 * to_stride);
}
void transpose_square(const std::uint64_t* from, std::int64_t from_stride, std::uint64_t* to, std::int64_t to_stride) {
  const hn::FixedTag<std::uint64_t, 2> d;
  const auto a = hn::LoadU(d, from);
  const auto b = hn::LoadU(d, from + from_stride);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + to_stride);
}
#else
template <class T>
void transpose_square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  constexpr auto kSide = static_cast<std::int64_t>(16 / sizeof(T));
  for (std::int64_t i = 0; i < kSide; ++i) {
    for (std::int64_t j = 0; j < kSide; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
}
#endif

template <class T>
void transpose_of(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                  std::int64_t columns) {
  constexpr auto kSide = static_cast<std::int64_t>(16 / sizeof(T));
  const std::int64_t whole_rows = rows - rows % kSide;
  const std::int64_t whole_columns = columns - columns % kSide;
  for (std::int64_t j = 0; j < whole_columns; j += kSide) {
    for (std::int64_t i = 0; i < whole_rows; i += kSide) {
      transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      to[j * to_stride + i] = from[i * from_stride + j];
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

void transpose_block(const std::uint32_t* from, std::int64_t from_stride, std::uint32_t* to, std::int64_t to_stride,
                     std::int64_t rows, std::int64_t columns) {
  SHOAL_SIMD(transpose_of<std::uint32_t>)(from, from_stride, to, to_stride, rows, columns);
}

void transpose_block(const std::uint64_t* from, std::int64_t from_stride, std::uint64_t* to, std::int64_t to_stride,
                     std::int64_t rows, std::int64_t columns) {
  SHOAL_SIMD(transpose_of<std::uint64_t>)(from, from_stride, to, to_stride, rows, columns);
}

}  // namespace shoal::cpu

#endif  // HWY_ONCE
