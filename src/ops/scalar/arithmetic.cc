// Arithmetic beyond the core operations: complex numbers, signs, division with rounding down.
#include "ops/scalar/complex_functions.h"
#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

/// The exponent of the larger of two magnitudes, such that scaling both by its negative makes that one 0.7 to 1.5.
Expr common_exponent(Expr a, Expr b) { return split(max(abs(a), abs(b))).exponent; }

/// a b + c d with about one rounding (Kahan; Jeannerod, Louvet & Muller 2013).
Expr sum_of_products(Expr a, Expr b, Expr c, Expr d) {
  const Sum second = two_product(c, d);
  return fma(a, b, second.high) + second.low;
}

/// 1 with the sign of an infinite x, 0 with the sign of any other.
Expr infinity_as_unit(Expr x) { return copysign(select(is_infinite(x), x.like(1), x.like(0)), x); }

/// The quotient of complex numbers that are finite, and whose divisor is not 0. Both are scaled to about 1.
Expr finite_quotient(Expr x, Expr y) {
  const Expr exponent_x = common_exponent(real(x), imag(x));
  const Expr exponent_y = common_exponent(real(y), imag(y));
  const Expr a = scale(real(x), -exponent_x);
  const Expr b = scale(imag(x), -exponent_x);
  const Expr c = scale(real(y), -exponent_y);
  const Expr d = scale(imag(y), -exponent_y);
  const Expr norm = fma(c, c, d * d);
  const int bias = format_of(a).bias;
  const Expr exponent = clamp(exponent_x - exponent_y, -2 * (bias - 1), 2 * bias);
  return make_complex(scale(sum_of_products(a, c, b, d) / norm, exponent),
                      scale(sum_of_products(b, c, -a, d) / norm, exponent));
}

Expr complex_div(Expr x, Expr y) {
  const Expr a = real(x);
  const Expr b = imag(x);
  const Expr c = real(y);
  const Expr d = imag(y);
  const Expr infinity = a.like(kInfinity);
  const Expr is_x_infinite = is_infinite(a) | is_infinite(b);
  const Expr is_y_infinite = is_infinite(c) | is_infinite(d);

  const Expr signed_infinity = copysign(infinity, c);
  const Expr by_zero = make_complex(signed_infinity * a, signed_infinity * b);
  const Expr a_unit = infinity_as_unit(a);
  const Expr b_unit = infinity_as_unit(b);
  const Expr from_infinity = make_complex(infinity * (a_unit * c + b_unit * d), infinity * (b_unit * c - a_unit * d));
  const Expr c_unit = infinity_as_unit(c);
  const Expr d_unit = infinity_as_unit(d);
  const Expr by_infinity = make_complex(0 * (a * c_unit + b * d_unit), 0 * (b * c_unit - a * d_unit));

  Expr result = finite_quotient(x, y);
  result = select(is_y_infinite & is_finite(a) & is_finite(b), by_infinity, result);
  result = select(is_x_infinite & is_finite(c) & is_finite(d), from_infinity, result);
  return select((c == 0) & (d == 0), by_zero, result);
}

Expr modulus_f32(Expr a, Expr b) {
  const Expr x = convert(a, Dtype::kF64);
  const Expr y = convert(b, Dtype::kF64);
  return convert(sqrt(x * x + y * y), Dtype::kF32);
}

/// The square root of the sum of squares, corrected by the error of all roundings (Borges 2020, "An improved algorithm
/// for hypot(a,b)").
Expr modulus_f64(Expr a, Expr b) {
  const Expr exponent = common_exponent(a, b);
  const Expr x = scale(max(abs(a), abs(b)), -exponent);
  const Expr y = scale(min(abs(a), abs(b)), -exponent);
  const Sum x2 = two_product(x, x);
  const Sum y2 = two_product(y, y);
  const Sum sum = fast_two_sum(x2.high, y2.high);
  const Expr root = sqrt(sum.high);
  const Expr residual = fma(-root, root, sum.high) + (sum.low + (x2.low + y2.low));
  const Expr modulus = scale(root + residual / (2 * root), exponent);
  return select((a == 0) & (b == 0), a.like(0), modulus);
}

Expr modulus(Expr a, Expr b) {
  const Expr value = a.dtype() == Dtype::kF32 ? modulus_f32(a, b) : modulus_f64(a, b);
  return select(is_infinite(a) | is_infinite(b), a.like(kInfinity), value);
}

Expr complex_sign(Expr x) {
  // Scaled first, so that the modulus is an ordinary number.
  const Expr exponent = -common_exponent(real(x), imag(x));
  const Expr re = scale(real(x), exponent);
  const Expr im = scale(imag(x), exponent);
  const Expr length = modulus(re, im);
  return select((re == 0) & (im == 0), x, make_complex(re / length, im / length));
}

/// The unsigned integers of the size of x.
Dtype unsigned_bits(Expr x) {
  switch (size_of(x.dtype())) {
    case 1:
      return Dtype::kU8;
    case 2:
      return Dtype::kU16;
    case 4:
      return Dtype::kU32;
    default:
      return Dtype::kU64;
  }
}

Dtype signed_bits(Expr x) {
  switch (size_of(x.dtype())) {
    case 1:
      return Dtype::kI8;
    case 2:
      return Dtype::kI16;
    case 4:
      return Dtype::kI32;
    default:
      return Dtype::kI64;
  }
}

int width_of(Expr x) { return 8 * static_cast<int>(size_of(x.dtype())); }

/// An unsigned integer like x of which every byte is `byte`.
Expr every_byte(Expr x, std::uint8_t byte) {
  std::uint64_t bits = 0;
  for (int i = 0; i < width_of(x); i += 8) bits = bits << 8 | byte;
  return x.builder().constant_bits(x.dtype(), bits);
}

/// The number of set bits of an unsigned integer: in pairs of bits, then in fours, in bytes, and all bytes added up.
Expr count_bits(Expr x) {
  const Expr pairs = x - ((x >> 1) & every_byte(x, 0x55));
  const Expr fours = (pairs & every_byte(x, 0x33)) + ((pairs >> 2) & every_byte(x, 0x33));
  const Expr bytes = (fours + (fours >> 4)) & every_byte(x, 0x0f);
  return (bytes * every_byte(x, 1)) >> (width_of(x) - 8);
}

/// As std::fmod, exactly. A trip takes off a multiple of |y| 2^n, of which so few fit that the fused operation rounds
/// nothing: most operands need one.
Expr exact_remainder(Expr x, Expr y) {
  const Expr size = abs(x);
  const Expr step = abs(y);
  const Expr is_number = (size < kInfinity) & (step > 0);
  const FloatFormat& format = format_of(x);
  const Expr many = split(step).exponent + (format.fraction_bits - 2);
  const std::vector<Expr> left = iterate(
      {select(is_number, size, size.like(0))}, [&](Iterated in) { return is_number & (in[0] >= step); },
      [&](Iterated in) -> std::vector<Expr> {
        const Expr scaled = scale(step, min(max(split(in[0]).exponent - many, 0), 2 * format.bias));
        const Expr rest = fma(-trunc(in[0] / scaled), scaled, in[0]);
        return {select(rest < 0, rest + scaled, rest)};  // A quotient that was rounded up is too large by one.
      });
  return select(is_number, copysign(left[0], x), x.like(kNan));
}

/// Of floats.
Expr remainder_of_truncated(Expr x, Expr y) { return at_least_f32(exact_remainder, x, y); }

Expr floating_floor_divide(Expr x, Expr y) {
  const Expr remainder = exact_remainder(x, y);
  const Expr quotient = select(y == 0, x, x - remainder) / y;
  const Expr is_too_large = (remainder != 0) & (sign(remainder) != sign(y));
  // Halves, which large quotients are rounded to, away from zero.
  const Expr rounded = select(is_too_large, quotient - 1, quotient);
  const Expr whole = trunc(rounded);
  return select(abs(rounded - whole) >= 0.5, whole + copysign(x.like(1), rounded), whole);
}

}  // namespace

Expr one_like(Expr x) { return convert(real(x).like(1), x.dtype()); }

Expr square_root(Expr x) { return is_complex(x.dtype()) ? complex_sqrt(x) : sqrt(x); }

Expr add(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x + y;
  return make_complex(real(x) + real(y), imag(x) + imag(y));
}

Expr sub(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x - y;
  return make_complex(real(x) - real(y), imag(x) - imag(y));
}

Expr mul(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x * y;
  return make_complex(real(x) * real(y) - imag(x) * imag(y), real(x) * imag(y) + imag(x) * real(y));
}

Expr div(Expr x, Expr y) { return is_complex(x.dtype()) ? complex_div(x, y) : x / y; }

Expr neg(Expr x) { return is_complex(x.dtype()) ? make_complex(-real(x), -imag(x)) : -x; }

Expr absolute(Expr x) { return is_complex(x.dtype()) ? modulus(real(x), imag(x)) : abs(x); }

Expr eq(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x == y;
  return (real(x) == real(y)) & (imag(x) == imag(y));
}

Expr ne(Expr x, Expr y) { return ~eq(x, y); }

Expr lt(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x < y;
  return (real(x) < real(y)) | ((real(x) == real(y)) & (imag(x) < imag(y)));
}

Expr le(Expr x, Expr y) {
  if (!is_complex(x.dtype())) return x <= y;
  return (real(x) < real(y)) | ((real(x) == real(y)) & (imag(x) <= imag(y)));
}

Expr sign(Expr x) {
  if (is_complex(x.dtype())) return complex_sign(x);
  if (is_floating(x.dtype())) return select(abs(x) > 0, copysign(x.like(1), x), x);
  const Expr is_positive = convert(x > 0, x.dtype());
  return is_signed(x.dtype()) ? is_positive - convert(x < 0, x.dtype()) : is_positive;
}

Expr maximum(Expr x, Expr y) { return max(x, y); }

Expr minimum(Expr x, Expr y) { return min(x, y); }

Expr floor_divide(Expr x, Expr y) {
  if (is_floating(x.dtype())) return at_least_f32(floating_floor_divide, x, y);
  const Expr quotient = x / y;
  if (!is_signed(x.dtype())) return quotient;
  const Expr is_too_large = (sign(x) != sign(y)) & (x % y != 0);
  return select(is_too_large, quotient - 1, quotient);
}

Expr remainder(Expr x, Expr y) {
  const Expr zero = x.like(0);
  const Expr divisor = is_integer(x.dtype()) ? select(y == 0, y.like(1), y) : y;
  const Expr truncated = is_integer(x.dtype()) ? x % divisor : remainder_of_truncated(x, divisor);
  const Expr is_wrong_sign = (truncated != 0) & ((truncated < zero) != (divisor < zero));
  return select(is_wrong_sign, truncated + divisor, truncated);
}

Expr fmod(Expr x, Expr y) {
  if (is_floating(x.dtype())) return remainder_of_truncated(x, y);
  return select(y == 0, x.like(0), x % y);
}

Expr integer_pow(Expr x, std::int64_t n) {
  if (is_half(x)) return at_least_f32([n](Expr v) { return integer_pow(v, n); }, x);
  SHOAL_CHECK(n >= 0 || !is_integer(x.dtype()), "a negative power of an integer");
  const Expr one = one_like(x);
  Expr result = one;
  Expr square = x;
  for (std::uint64_t rest = static_cast<std::uint64_t>(n < 0 ? -n : n); rest != 0; rest >>= 1) {
    if (rest % 2 == 1) result = result.id() == one.id() ? square : mul(result, square);
    if (rest > 1) square = mul(square, square);
  }
  return n < 0 ? div(one, result) : result;
}

Expr is_nan(Expr x) { return is_complex(x.dtype()) ? is_nan(real(x)) | is_nan(imag(x)) : x != x; }

Expr is_finite(Expr x) { return is_complex(x.dtype()) ? is_finite(real(x)) & is_finite(imag(x)) : abs(x) < kInfinity; }

Expr is_infinite(Expr x) {
  return is_complex(x.dtype()) ? is_infinite(real(x)) | is_infinite(imag(x)) : abs(x) == kInfinity;
}

Expr copysign(Expr magnitude, Expr sign) {
  const Dtype bits = unsigned_bits(sign);
  const Expr sign_bit = bitcast(sign.like(-0.0), bits);
  return bitcast((bitcast(magnitude, bits) & ~sign_bit) | (bitcast(sign, bits) & sign_bit), sign.dtype());
}

Expr hypot(Expr x, Expr y) {
  return at_least_f32(
      [](Expr a, Expr b) {
        // Scaled by the power of two of the greater one, as far as its reciprocal is a normal number.
        const Expr large = max(abs(a), abs(b));
        const FloatFormat& format = format_of(a);
        const double exponents = static_cast<double>((std::int64_t{2} * format.bias + 1) << format.fraction_bits);
        const double lowest = static_cast<double>(std::int64_t{1} << format.fraction_bits);
        const Expr exponent = bitcast(large, format.bits_dtype) & exponents;
        const Expr clamped = max(min(exponent, exponents - 3 * lowest), lowest);
        const Expr down = bitcast((exponents - lowest) - clamped, a.dtype());
        const Expr u = a * down;
        const Expr v = b * down;
        const Expr value = sqrt(fma(u, u, v * v)) * bitcast(clamped, a.dtype());
        return select(is_infinite(a) | is_infinite(b), a.like(kInfinity), value);
      },
      x, y);
}

Expr nextafter(Expr x, Expr y) {
  const Expr bits = bitcast(x, signed_bits(x));
  const Expr is_away = (y > x) == (x > 0);
  const Expr neighbour = bitcast(select(is_away, bits + bits.like(1), bits - bits.like(1)), x.dtype());
  const Expr smallest = copysign(bitcast(bits.like(1), x.dtype()), y);
  const Expr moved = select(x == 0, smallest, neighbour);
  return select(is_nan(x) | is_nan(y), x.like(kNan), select(x == y, y, moved));
}

Expr signbit(Expr x) {
  if (is_floating(x.dtype())) return bitcast(x, signed_bits(x)) < 0;
  return x < 0;
}

Expr fmax(Expr x, Expr y) {
  if (!is_floating(x.dtype())) return max(x, y);
  return select(is_nan(x), y, select(is_nan(y), x, max(x, y)));
}

Expr fmin(Expr x, Expr y) {
  if (!is_floating(x.dtype())) return min(x, y);
  return select(is_nan(x), y, select(is_nan(y), x, min(x, y)));
}

Expr heaviside(Expr x, Expr y) { return select(x == 0, y, select(is_nan(x), x, convert(x > 0, x.dtype()))); }

Expr shift_right_logical(Expr x, Expr count) {
  const Dtype bits = unsigned_bits(x);
  return bitcast(bitcast(x, bits) >> bitcast(count, bits), x.dtype());
}

Expr population_count(Expr x) { return bitcast(count_bits(bitcast(x, unsigned_bits(x))), x.dtype()); }

Expr clz(Expr x) {
  Expr bits = bitcast(x, unsigned_bits(x));
  for (int shift = 1; shift < width_of(x); shift *= 2) bits = bits | (bits >> shift);
  return bitcast(bits.like(width_of(x)) - count_bits(bits), x.dtype());
}

Expr gcd(Expr x, Expr y) {
  // Euclid's algorithm takes at most log(2^width) / log((1 + sqrt 5) / 2) steps. Once b is 0 it only swaps: a % 0 is a.
  Expr a = abs(x);
  Expr b = abs(y);
  for (int steps = width_of(x) * 3 / 2; steps > 0; --steps) {
    const Expr rest = a % b;
    a = b;
    b = rest;
  }
  return abs(a | b);
}

Expr lcm(Expr x, Expr y) {
  const Expr divisor = gcd(x, y);
  return abs(x) / select(divisor == 0, divisor.like(1), divisor) * abs(y);
}

}  // namespace shoal::scalar
