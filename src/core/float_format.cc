#include "core/float_format.h"

namespace shoal {

FloatFormat format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return {.bits = 16, .mantissa = 10, .epsilon = 0x1p-10, .tiny = 0x1p-14};
    case Dtype::kBF16:
      return {.bits = 16, .mantissa = 7, .epsilon = 0x1p-7, .tiny = 0x1p-126};
    case Dtype::kF32:
      return {.bits = 32, .mantissa = 23, .epsilon = 0x1p-23, .tiny = 0x1p-126};
    default:
      return {.bits = 64, .mantissa = 52, .epsilon = 0x1p-52, .tiny = 0x1p-1022};
  }
}

}  // namespace shoal
