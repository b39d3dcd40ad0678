#include "core/decimal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace shoal {
namespace {

std::string positional(double magnitude, Dtype dtype, int max_fraction = kAnyDigits) {
  const Decimal decimal = positional_decimal(magnitude, dtype, max_fraction);
  EXPECT_EQ(decimal.exponent, 0);
  return decimal.integer + "." + decimal.fraction;
}

std::string scientific(double magnitude, Dtype dtype, int min_fraction = 0, int max_fraction = kAnyDigits) {
  const Decimal decimal = scientific_decimal(magnitude, dtype, min_fraction, max_fraction);
  return decimal.integer + "." + decimal.fraction + exponent_text(decimal.exponent);
}

TEST(Decimal, PositionalMovesThePoint) {
  EXPECT_EQ(positional(0, float64), "0.");
  EXPECT_EQ(positional(0.00125, float64), "0.00125");
  EXPECT_EQ(positional(12.5, float64), "12.5");
  EXPECT_EQ(positional(1.5e10, float64), "15000000000.");
}

TEST(Decimal, DigitsDependOnTheDtype) {
  const float tenth = 0.1f;
  EXPECT_EQ(positional(static_cast<double>(tenth), float32), "0.1");
  EXPECT_EQ(positional(static_cast<double>(tenth), float64), "0.10000000149011612");
  EXPECT_EQ(positional(0.0999755859375, float16), "0.1");
  EXPECT_EQ(positional(0.0999755859375, float32), "0.099975586");
}

TEST(Decimal, FewerDigitsRoundTheExactValueHalfToEven) {
  EXPECT_EQ(positional(2.5, float64, 0), "2.");
  EXPECT_EQ(positional(3.5, float64, 0), "4.");
  EXPECT_EQ(positional(0.99999, float64, 3), "1.");
  EXPECT_EQ(scientific(1.99999e10, float64, 0, 3), "2.e+10");
  EXPECT_EQ(scientific(9.9999e99, float64, 0, 2), "1.e+100");
}

TEST(Decimal, MoreDigitsAreThoseOfTheExactValue) {
  EXPECT_EQ(scientific(static_cast<double>(0.3f), float32, 7), "3.0000001e-01");
  EXPECT_EQ(scientific(1.5, float64, 4), "1.5000e+00");
  EXPECT_EQ(scientific(0, float64, 2), "0.00e+00");
}

TEST(Decimal, ExponentsHaveASignAndTwoDigits) {
  EXPECT_EQ(exponent_text(0), "e+00");
  EXPECT_EQ(exponent_text(-7), "e-07");
  EXPECT_EQ(exponent_text(123), "e+123");
  EXPECT_EQ(exponent_text(12, 3), "e+012");
}

// Half the distance to the next f16, and a quarter below the powers of two above the smallest normal.
bool reads_back_as_half(double decimal, double half) {
  int exponent = 0;
  const double mantissa = std::frexp(half, &exponent);
  const double ulp = std::scalbn(1.0, std::max(exponent - 1, -14) - 10);
  const double below = mantissa == 0.5 && exponent - 1 > -14 ? ulp / 4 : ulp / 2;
  const bool even = std::fmod(half / ulp, 2) == 0;
  return even ? half - below <= decimal && decimal <= half + ulp / 2
              : half - below < decimal && decimal < half + ulp / 2;
}

TEST(Decimal, EveryHalfIsIdentifiedByTheFewestDigits) {
  for (std::uint16_t bits = 1; bits < 0x7c00; ++bits) {
    float16_t half;
    half.bits = bits;
    const double magnitude = static_cast<double>(static_cast<float>(half));
    const Decimal decimal = scientific_decimal(magnitude, float16);
    const std::string digits = decimal.integer + decimal.fraction;
    const int scale = decimal.exponent - static_cast<int>(decimal.fraction.size());
    const auto value_of = [](long long integer, int power) {
      return std::strtod((std::to_string(integer) + "e" + std::to_string(power)).c_str(), nullptr);
    };
    ASSERT_TRUE(reads_back_as_half(value_of(std::stoll(digits), scale), magnitude)) << magnitude;
    if (digits.size() == 1) continue;
    const long long shorter = std::stoll(digits) / 10;
    ASSERT_FALSE(reads_back_as_half(value_of(shorter, scale + 1), magnitude)) << magnitude;
    ASSERT_FALSE(reads_back_as_half(value_of(shorter + 1, scale + 1), magnitude)) << magnitude;
  }
}

}  // namespace
}  // namespace shoal
