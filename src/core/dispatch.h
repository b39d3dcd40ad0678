// Runs generic code for the C++ type that holds the elements of a dtype.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "shoal/dtype.h"
#include "shoal/error.h"

namespace shoal {

/// Calls f(T{}) with the element type of `dtype`; keys have that of the dtype that they are stored as.
template <class F>
auto with_element_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kBool:
      return f(bool{});
    case Dtype::kI8:
      return f(std::int8_t{});
    case Dtype::kI16:
      return f(std::int16_t{});
    case Dtype::kI32:
      return f(std::int32_t{});
    case Dtype::kI64:
      return f(std::int64_t{});
    case Dtype::kU8:
      return f(std::uint8_t{});
    case Dtype::kU16:
      return f(std::uint16_t{});
    case Dtype::kU32:
      return f(std::uint32_t{});
    case Dtype::kU64:
    case Dtype::kKeyFry:
      return f(std::uint64_t{});
    case Dtype::kF16:
      return f(float16_t{});
    case Dtype::kBF16:
      return f(bfloat16_t{});
    case Dtype::kF32:
      return f(float{});
    case Dtype::kF64:
      return f(double{});
    case Dtype::kC64:
      return f(std::complex<float>{});
    case Dtype::kC128:
    case Dtype::kKeyRbg:
    case Dtype::kKeyUnsafeRbg:
      return f(std::complex<double>{});
  }
  throw InternalError("unknown dtype");
}

template <class T>
inline constexpr bool kIsComplexElement =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
/// The floats that have storage but no arithmetic of their own.
template <class T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>;

}  // namespace shoal
