#include "ops/scalar/pio2.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shoal::scalar {
namespace {

using namespace pio2;

__extension__ using Uint128 = unsigned __int128;

// A word of zeros, then the bits of 2/pi after the binary point.
constexpr std::array<std::uint64_t, 20> kTwoOverPiBits = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
};

// 192 consecutive bits of kTwoOverPiBits, as words, the highest first.
std::array<std::uint64_t, 3> two_over_pi_window(int first_bit) {
  const auto word = static_cast<std::size_t>(first_bit / 64);
  const int shift = first_bit % 64;
  std::array<std::uint64_t, 3> window;
  for (std::size_t i = 0; i < 3; ++i) {
    const Uint128 pair = (Uint128{kTwoOverPiBits[word + i]} << 64) | kTwoOverPiBits[word + i + 1];
    window[i] = static_cast<std::uint64_t>(pair >> (64 - shift));
  }
  return window;
}

// Payne & Hanek's reduction (1983, "Radian reduction for trigonometric functions") of x >= kLarge: x 2/pi modulo 4 in
// fixed point, from those bits of 2/pi that matter to it.
Pio2Reduction reduce_large(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
  const int exponent = static_cast<int>(bits >> 52) - 1075;

  // Bits of 2/pi with weight 2^-i contribute multiples of 4 for i <= exponent - 2. With the next 192 bits as an
  // integer w, the product is mantissa * w 2^-190 modulo 4, so that arithmetic modulo 2^192 does.
  const auto [w2, w1, w0] = two_over_pi_window(64 + exponent - 2);
  const Uint128 p0 = Uint128{mantissa} * w0;
  const Uint128 p1 = Uint128{mantissa} * w1 + (p0 >> 64);
  std::uint64_t top = mantissa * w2 + static_cast<std::uint64_t>(p1 >> 64);
  Uint128 rest = (p1 << 64) | static_cast<std::uint64_t>(p0);

  // Two bits of quadrant, 190 of fraction; a fraction of a half or more belongs to the next quadrant.
  int quadrant = static_cast<int>(top >> 62);
  top &= ~std::uint64_t{0} >> 2;
  const bool is_negative = (top >> 61) != 0;
  if (is_negative) {
    quadrant = (quadrant + 1) & 3;
    rest = -rest;
    top = (std::uint64_t{1} << 62) - top - (rest == 0 ? 0 : 1);
  }

  // The fraction as the sum of two doubles.
  int exponent_of_top = 2;
  while (top >> 63 == 0) {  // At most some 64 times: see reduce_moderate.
    top = (top << 1) | static_cast<std::uint64_t>(rest >> 127);
    rest <<= 1;
    --exponent_of_top;
  }
  const std::uint64_t below = (top << 53) | static_cast<std::uint64_t>(rest >> 75);
  const double sign = is_negative ? -1 : 1;
  const double high = sign * std::ldexp(static_cast<double>(top >> 11), exponent_of_top - 53);
  const double low = sign * std::ldexp(static_cast<double>(below), exponent_of_top - 117);

  const double product = high * kPio2High;
  const double product_error = std::fma(high, kPio2High, -product);
  return with_exact_sum(quadrant, product, product_error + (high * kPio2Middle + low * kPio2High));
}

}  // namespace

Pio2Reduction reduce_pio2(double x) {
  if (std::abs(x) <= kSmall) return {0, x, 0.0};
  if (std::abs(x) < kLarge) return reduce_moderate(x);
  if (!std::isfinite(x)) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {0, nan, nan};
  }
  if (x > 0) return reduce_large(x);
  const Pio2Reduction mirrored = reduce_large(-x);
  return {-mirrored.quadrant & 3, -mirrored.remainder, -mirrored.remainder_low};
}

}  // namespace shoal::scalar
