// Methods: argument reduction by fused multiply-adds after Cody & Waite (1980, "Software Manual for the Elementary
// Functions"), minimax polynomials, and rounding to integers by adding a number whose last place is 1.
#include "ops/scalar/single.h"

#include <array>
#include <cstddef>

#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"
#include "ops/scalar/pio2.h"

namespace shoal::scalar {
namespace {

/// An integer n.
struct Rounded {
  Expr n;     ///< As f32.
  Expr bits;  ///< An i32 whose low 22 bits are those of n + offset.
};

constexpr double kRoundingShift = 0x1.8p23;

/// The integer nearest to a f32 x below 2^21 in magnitude.
Rounded rounded(Expr x, double offset) {
  const Expr sum = x + (kRoundingShift + offset);
  return {sum - (kRoundingShift + offset), bitcast(sum, Dtype::kI32)};
}

/// The same of x times factor.
Rounded round_product(Expr x, double factor, double offset) {
  const Expr sum = fma(x, factor, x.like(kRoundingShift + offset));
  return {sum - (kRoundingShift + offset), bitcast(sum, Dtype::kI32)};
}

/// 2^n, for n from -126 to 127, of which `biased` holds n + 127 in its low bits.
Expr power_of_biased(Expr biased) { return bitcast(biased << 23, Dtype::kF32); }

constexpr double kBias = 127;
constexpr double kSignBit = -0x1p31;
constexpr double kExponentBits = -0x1p23;  // And the sign bit.

constexpr double kTwoOverPiF32 = 0x1.45f306p-1;
constexpr double kOneOverPiF32 = kTwoOverPiF32 / 2;
constexpr std::array<double, 3> kPio2F32 = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
/// Up to it, those three words, or two of f64, reduce an argument well enough.
constexpr double kModerateF32 = 0x1p16;

/// log(1 + f) - nk 2^-23 ln(2), for sqrt(1/2) <= 1 + f <= sqrt(2). The leading word of ln(2) is good to 2^-28. With -nk
/// instead of k, log(1 + -0) is -0.
Expr log_of_parts(Expr nk, Expr f) {
  const Expr log1p = fma(f * f, polynomial(f, kShortLogF32), f);
  return fma(nk, -kLn2F32.high * 0x1p-23, log1p);
}

/// A value that is not negative, with the sign of x.
Expr with_sign_of(Expr x, Expr value) {
  return bitcast(bitcast(value, Dtype::kI32) | (bitcast(x, Dtype::kI32) & kSignBit), Dtype::kF32);
}

/// -k 2^23 as an i32, where x = 2^k (1 + f), for the bits of a positive normal x.
Expr negated_exponent(Expr bits) {
  constexpr double kRootOfHalf = 0x3f3504f3;  // The bits of sqrt(1/2).
  return (kRootOfHalf + 0x7fffff - bits) & kExponentBits;
}

/// x = n pi/2 + r, |r| about pi/4 at most.
struct Angle {
  Expr r;
  Expr r_low;     ///< What r lacks: less than an ulp of it.
  Expr quadrant;  ///< An i32 whose low 2 bits are n modulo 4.
};

/// Of an x that is not negative. The exact reduction is for large ones alone: the others give it 0, which costs little.
Angle reduced(Expr x) {
  const Expr is_moderate = x <= kModerateF32;
  const Rounded n = round_product(x, kTwoOverPiF32, 0);
  const Expr first = fma(n.n, -kPio2F32[0], x);  // Exact.
  const Expr r = fma(n.n, -kPio2F32[2], fma(n.n, -kPio2F32[1], first));
  const Sum second = two_product(n.n, n.n.like(kPio2F32[1]));
  const Sum rest = fast_two_sum(first, -second.high);  // `first` is a multiple of the last place of the other one.
  const Expr r_low = (rest.high - r) + fma(n.n, -kPio2F32[2], rest.low - second.low);

  const Expr large = select(is_moderate, x.like(0), x);
  const Expr remainder = pio2_remainder(large);
  const Expr large_r = convert(remainder, Dtype::kF32);
  const Expr large_r_low = convert(remainder - convert(large_r, Dtype::kF64), Dtype::kF32);
  return {select(is_moderate, r, large_r), select(is_moderate, r_low, large_r_low),
          select(is_moderate, n.bits, pio2_quadrant(large))};
}

/// For a large x: an f64 r, |r| at most pi/2, with sin(r) = sin(x + quarters pi/2).
Expr folded_exactly(Expr x, Expr quarters) {
  const Expr quadrant = pio2_quadrant(x) + quarters;
  const Expr remainder = pio2_remainder(x);
  const Expr folded = select((quadrant & 1) == 1, pio2::kPio2High - abs(remainder), remainder);
  return select((quadrant & 2) == 2, -folded, folded);
}

/// sin(x + quarters pi/2), for 0 or 1 quarters: that is n pi + r, |r| about pi/2 at most, so it is sin(r), negated for
/// odd n. r and sin(r) are f64, rounded once: where a sine is added to something near its negative, the last bit is
/// what remains.
Expr shifted_sine(Expr x, int quarters) {
  const Rounded n = quarters == 0 ? round_product(x, kOneOverPiF32, 0) : rounded(fma(x, kOneOverPiF32, x.like(0.5)), 0);
  const Expr turns = convert(quarters == 0 ? n.n : n.n - 0.5, Dtype::kF64);
  const Expr leading = fma(turns, -kPiF64.high, convert(x, Dtype::kF64));  // Exact.

  // Of large arguments n is any integer. The exact reduction is for them alone: the others give it 0.
  const Expr is_moderate = abs(x) <= kModerateF32;
  const Expr large = select(is_moderate, x.like(0), x);
  const Expr large_r = folded_exactly(large, n.bits + n.bits + quarters);
  const Expr r = select(is_moderate, fma(turns, -kPiF64.low, leading), large_r);

  const Expr z = r * r;
  const Expr value = convert(r * fma(z, polynomial(z, kSinF32), 1), Dtype::kF32);  // A product: -0 stays.
  return bitcast(bitcast(value, Dtype::kI32) ^ (n.bits << 31), Dtype::kF32);
}

}  // namespace

Expr exp_f32(Expr x) {
  // 4^n exp(r), with |r| <= ln(2): 4^n is the product of two powers of two, however small or large.
  const Expr clamped = clamp(x, -104, 89);
  const Rounded n = round_product(clamped, kLog2EF32.high / 2, kBias);
  const Expr r = fma(n.n, -2 * kLn2F32.low, fma(n.n, -2 * kLn2F32.high, clamped));
  const Expr power = power_of_biased(n.bits);
  return fma(r, fma(r, polynomial(r, kExpWideF32), 1), 1) * power * power;
}

Expr logistic_f32(Expr x) {
  // 1 / (1 + exp(-x)), exp(-x) = 2^n exp(-r). Both sides are multiplied by 2^-24, so that nothing overflows, and by
  // 3/4: that is what makes the rounding of a denominator near a power of two small.
  constexpr double kFactor = 0.75;
  const Expr unit = x.like(kFactor * 0x1p-24);
  const Expr clamped = clamp(x, -104, 30);
  const Rounded n = round_product(clamped, -kLog2EF32.high, kBias - 24);
  const Expr r = fma(n.n, kLn2F32.low, fma(n.n, kLn2F32.high, clamped));
  std::array<double, 1 + kExpm1F32.size()> coefficients = {-kFactor};
  for (std::size_t i = 0; i < kExpm1F32.size(); ++i)
    coefficients[i + 1] = (i % 2 == 0 ? kFactor : -kFactor) * kExpm1F32[i];
  const Expr rest = r * polynomial(r, coefficients);  // kFactor (exp(-r) - 1).
  const Expr power = power_of_biased(n.bits);
  return unit / fma(power, rest, fma(power, kFactor, unit));
}

Expr tanh_f32(Expr x) {
  // |x| = k ln(2)/2 + r: tanh(|x|) is (t + c) / (1 + t c), with t = tanh(r) and c = (1 - 2^-k) / (1 + 2^-k). Near 0
  // that is t itself. The denominator is the numerator and 2 2^-k (1 - t), so that an error of one cancels in the
  // other; and k is rounded a little down, so that this holds even where the result is below 1/4.
  const Expr magnitude = abs(x);
  const Expr clamped = select(magnitude > 9.5, magnitude.like(9.5), magnitude);  // From 9.02 on the result is 1.
  const Rounded minus_k = rounded(fma(clamped, -2 * kLog2EF32.high, x.like(0.25)), kBias + 1);
  const Expr r = fma(minus_k.n, kLn2F32.high / 2, clamped);
  const Expr z = r * r;
  const Expr t = fma(r * z, polynomial(z, kTanhF32), r);
  const Expr power = power_of_biased(minus_k.bits);  // 2 2^-k.
  const Expr numerator = fma(t, fma(power, 0.5, x.like(1)), fma(power, -0.5, x.like(1)));
  return with_sign_of(x, numerator / fma(power, 1 - t, numerator));
}

Expr exp2_f32(Expr x) {
  const Expr clamped = clamp(x, -151, 129);
  const Rounded n = rounded(clamped, 2 * kBias);
  const Expr f = clamped - n.n;
  const Expr power = fma(f, polynomial(f, kExp2F32), 1);
  // By two powers of two: the low bits of the halves are those of the halves of n + 254.
  const Expr half = n.bits >> 1;
  return power * power_of_biased(half) * power_of_biased(n.bits - half);
}

Expr expm1_f32(Expr x) {
  const Expr clamped = clamp(x, -20, 89);
  const Rounded n = round_product(clamped, kLog2EF32.high, kBias - 1);
  const Expr r = fma(n.n, -kLn2F32.low, fma(n.n, -kLn2F32.high, clamped));
  const Expr rest = fma(r * r, polynomial(r, kExpm1F32), r);
  const Expr half_power = power_of_biased(n.bits);
  const Expr half = fma(half_power, rest, half_power - 0.5);  // 2^n may overflow.
  // Where x^2/2 does not matter; also keeps -0 and the last bit of subnormal numbers.
  return select(abs(x) < 0x1p-26, x, half + half);
}

Expr log_f32(Expr x) {
  const Expr is_subnormal = x < 0x1p-126;
  const Expr bits = bitcast(select(is_subnormal, x * 0x1p24, x), Dtype::kI32);
  const Expr nk = negated_exponent(bits);
  const Expr f = bitcast(bits + nk, Dtype::kF32) - 1;
  const Expr normalized_by = select(is_subnormal, bits.like(24 * 0x1p23), bits.like(0));
  const Expr value = log_of_parts(convert(nk + normalized_by, Dtype::kF32), f);
  const Expr at_most_zero = select(x == 0, x.like(-kInfinity), x.like(kNan));
  return select(x < kInfinity, select(x > 0, value, at_most_zero), x);
}

Expr log1p_f32(Expr x) {
  // 1 + x = 2^k (1 + f), where k is that of the rounded sum, and 4 f = 4 2^-k x + (4 2^-k - 4): with 4 because 2^-k may
  // be subnormal.
  const Expr nk = negated_exponent(bitcast(x + 1, Dtype::kI32));
  const Expr scale = bitcast(nk + nk.like(129 * 0x1p23), Dtype::kF32);
  const Expr f = 0.25 * fma(x, scale, -(4 - scale));  // -0 stays.
  const Expr value = log_of_parts(convert(nk, Dtype::kF32), f);
  const Expr at_most_zero = select(x == -1, x.like(-kInfinity), x.like(kNan));
  return select(x < kInfinity, select(x > -1, value, at_most_zero), x);
}

Expr arcsinh_f32(Expr x) {
  // log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))), and log(1 + |x|) + log(2) where 1 does not matter.
  const Expr magnitude = abs(x);
  const Expr is_large = magnitude > 0x1p30;
  const Expr within = select(is_large, x.like(1), magnitude);
  const Expr root = sqrt(fma(within, within, 1));
  const Expr near = within + within * within / (1 + root);
  const Expr value = log1p_f32(select(is_large, magnitude, near));
  return with_sign_of(x, select(is_large, value + kLn2F32.high, value));
}

Expr erf_f32(Expr x) {
  const Expr magnitude = abs(x);
  const Expr near_zero = fma(magnitude, polynomial(magnitude * magnitude, kErfF32), magnitude);
  const Expr clamped = select(magnitude > 3.93, magnitude.like(3.93), magnitude);  // From there on the result is 1.
  const Expr root = polynomial(clamped - 2, kErfTailF32);
  const Expr square = root * root;
  return with_sign_of(x, select(magnitude < 1, near_zero, 1 - square * square));
}

Expr sin_f32(Expr x) { return shifted_sine(x, 0); }

Expr cos_f32(Expr x) { return shifted_sine(abs(x), 1); }

Expr tan_f32(Expr x) {
  const auto [r, r_low, quadrant] = reduced(abs(x));
  const Expr z = r * r;
  const Expr tan = r + fma(r * z, polynomial(z, kTanF32), fma(r_low, z, r_low));
  const Expr value = select((quadrant & 1) == 0, tan, -1 / tan);
  return bitcast(bitcast(value, Dtype::kI32) ^ (bitcast(x, Dtype::kI32) & kSignBit), Dtype::kF32);
}

}  // namespace shoal::scalar
