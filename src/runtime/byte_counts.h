// Numbers of bytes that may be more than any machine has.
#pragma once

#include <algorithm>
#include <cstddef>

namespace shoal {

/// Stands for all of them; sums of two still fit.
inline constexpr std::size_t kTooMuch = std::size_t{1} << 62;

inline std::size_t plus(std::size_t a, std::size_t b) {
  return std::min(std::min(a, kTooMuch) + std::min(b, kTooMuch), kTooMuch);
}

inline std::size_t times(std::size_t a, std::size_t b) {
  std::size_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kTooMuch : std::min(result, kTooMuch);
}

}  // namespace shoal
