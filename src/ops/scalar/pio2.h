// Reduction of an argument modulo pi/2, for the trigonometric functions.
#pragma once

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

}  // namespace shoal::scalar
