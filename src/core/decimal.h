// Decimal digits of finite floating-point values, as arrays are printed: the fewest that tell a value from all others
// of its dtype, or the exact value rounded half to even where a column of numbers asks for fewer or more.
#pragma once

#include <limits>
#include <string>

#include "shoal/dtype.h"

namespace shoal {

/// The digits before and after the decimal point, and the power of ten they are multiplied with.
struct Decimal {
  std::string integer;   ///< At least one digit.
  std::string fraction;  ///< May be empty.
  int exponent = 0;
};

inline constexpr int kAnyDigits = std::numeric_limits<int>::max();

/// `magnitude`, finite and not negative, as a value of `dtype` (f16, f32 or f64), with exponent 0: at most
/// `max_fraction` fraction digits and no trailing zeros among them.
Decimal positional_decimal(double magnitude, Dtype dtype, int max_fraction = kAnyDigits);

/// The same with one digit before the point, not 0 unless the magnitude is, and at least `min_fraction` fraction
/// digits.
Decimal scientific_decimal(double magnitude, Dtype dtype, int min_fraction = 0, int max_fraction = kAnyDigits);

/// "e+05", "e-10", "e+123": a sign and at least `min_digits` digits.
std::string exponent_text(int exponent, int min_digits = 2);

}  // namespace shoal
