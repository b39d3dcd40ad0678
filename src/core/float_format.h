// How floats of each dtype are laid out.
#pragma once

#include <cstdint>

#include "shoal/dtype.h"

namespace shoal {

/// How the bits of a float are used.
struct FloatFormat {
  std::int64_t bits;
  std::int64_t mantissa;  ///< Without the leading one.
  double epsilon;         ///< From 1 to the next number.
  double tiny;            ///< The least positive normal number.
};
/// That of f16, bf16, f32 or f64.
FloatFormat format_of(Dtype dtype);

}  // namespace shoal
