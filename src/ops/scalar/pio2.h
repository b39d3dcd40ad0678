// Reduction of an argument modulo pi/2, for the trigonometric functions.
#pragma once

#include <cmath>
#include <cstdint>

namespace shoal::scalar {

/// x = n pi/2 + remainder + remainder_low, where n is the integer nearest to x / (pi/2) up to rounding, quadrant is n
/// modulo 4 (0..3), and |remainder_low| is at most half a unit in the last place of remainder.
struct Pio2Reduction {
  int quadrant;
  double remainder;
  double remainder_low;
};

/// Reduces any finite x, with a relative error of the remainder below 2^-64. Infinities and NaN give {0, NaN, NaN}.
Pio2Reduction reduce_pio2(double x);

/// The steps of reduce_pio2, for those who evaluate many arguments at once.
namespace pio2 {

// Printed by tools/coefficients/pio2.py. The sum of the first three is pi/2 to 161 bits.
inline constexpr double kPio2High = 0x1.921fb54442d18p+0;
inline constexpr double kPio2Middle = 0x1.1a62633145c07p-54;
inline constexpr double kPio2Low = -0x1.f1976b7ed8fbcp-110;
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

inline constexpr double kSmall = kPio2High / 2;  ///< Up to it, x is its own remainder.
inline constexpr double kLarge = 0x1p30;         ///< Below it, and above kSmall, reduce_moderate(x) is the result.

// The sum of two doubles, the first not smaller in magnitude, without error (Dekker 1971).
inline Pio2Reduction with_exact_sum(int quadrant, double large, double small) {
  const double sum = large + small;
  return {quadrant, sum, (large - sum) + small};
}

// Cody & Waite's reduction with fused multiply-adds. For |x| < 2^30 the first step is exact: the difference is a
// multiple of 2^-53 below 1. The second one cancels at most 62 bits (no double comes closer to a multiple of pi/2),
// and keeps its rounding errors.
inline Pio2Reduction reduce_moderate(double x) {
  const double n = std::nearbyint(x * kTwoOverPi);
  const double first = std::fma(-n, kPio2High, x);
  const double product = n * kPio2Middle;
  const double product_error = std::fma(n, kPio2Middle, -product);
  const double second = first - product;
  const double second_back = first - second;
  const double second_error = (first - (second + second_back)) - (product - second_back);
  const double low = second_error - product_error - n * kPio2Low;
  return with_exact_sum(static_cast<std::int32_t>(n) & 3, second, low);
}

}  // namespace pio2

}  // namespace shoal::scalar
