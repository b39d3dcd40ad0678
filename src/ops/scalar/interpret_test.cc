#include "ops/scalar/interpret.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/scalar/math.h"
#include "shoal/error.h"

namespace shoal::scalar {
namespace {

using Unary = Expr (*)(Expr);
using Binary = Expr (*)(Expr, Expr);

// f of one value.
template <class R, class T, class F>
R call(F f, T x) {
  const Body body = make_body({dtype_of<T>()}, [&](auto in) { return f(in[0]); });
  EXPECT_EQ(body.dtype(), dtype_of<R>());
  R result{};
  const void* inputs[] = {&x};
  const std::int64_t strides[] = {0};
  interpret(body, inputs, strides, &result, 1);
  return result;
}

template <class R, class T, class F>
R call(F f, T x, T y) {
  const Body body = make_body({dtype_of<T>(), dtype_of<T>()}, [&](auto in) { return f(in[0], in[1]); });
  EXPECT_EQ(body.dtype(), dtype_of<R>());
  R result{};
  const void* inputs[] = {&x, &y};
  const std::int64_t strides[] = {0, 0};
  interpret(body, inputs, strides, &result, 1);
  return result;
}

template <class To, class From>
To converted(From value) {
  return call<To>([](Expr x) { return convert(x, dtype_of<To>()); }, value);
}

constexpr Binary kAdd = [](Expr a, Expr b) { return a + b; };
constexpr Binary kSub = [](Expr a, Expr b) { return a - b; };
constexpr Binary kMul = [](Expr a, Expr b) { return a * b; };
constexpr Binary kDiv = [](Expr a, Expr b) { return a / b; };
constexpr Binary kRem = [](Expr a, Expr b) { return a % b; };
constexpr Binary kMin = [](Expr a, Expr b) { return min(a, b); };
constexpr Binary kMax = [](Expr a, Expr b) { return max(a, b); };
constexpr Binary kShl = [](Expr a, Expr b) { return a << b; };
constexpr Binary kShr = [](Expr a, Expr b) { return a >> b; };
constexpr Binary kRotate = [](Expr a, Expr b) { return rotate(a, b); };
constexpr Binary kAnd = [](Expr a, Expr b) { return a & b; };
constexpr Binary kXor = [](Expr a, Expr b) { return a ^ b; };
constexpr Unary kNeg = [](Expr a) { return -a; };
constexpr Unary kAbs = [](Expr a) { return abs(a); };
constexpr Unary kNot = [](Expr a) { return ~a; };

TEST(Interpret, ReadsDenseInputsAndScalars) {
  const Body body = make_body({float32, float32}, [](auto in) { return in[0] - in[1]; });
  for (const std::int64_t n : {0, 1, 255, 256, 257, 1000}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    std::iota(x.begin(), x.end(), 1.0F);
    const float y = 0.5F;
    std::vector<float> result(x.size() + 1, -1.0F);
    const void* inputs[] = {x.data(), &y};
    const std::int64_t strides[] = {1, 0};
    interpret(body, inputs, strides, result.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(result[i], x[i] - y);
    EXPECT_EQ(result.back(), -1.0F) << "wrote beyond the end";
  }
}

TEST(Interpret, MayWriteOverAnInput) {
  const Body body = make_body({int64, int64}, [](auto in) { return in[0] * in[1] + in[0]; });
  std::vector<std::int64_t> x(700);
  std::iota(x.begin(), x.end(), 0);
  const std::int64_t y = 3;
  const void* inputs[] = {x.data(), &y};
  const std::int64_t strides[] = {1, 0};
  interpret(body, inputs, strides, x.data(), 700);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], static_cast<std::int64_t>(4 * i));
}

TEST(Interpret, ReturnsAnInputOrAConstant) {
  EXPECT_EQ((call<std::complex<float>>([](Expr x) { return x; }, std::complex<float>(1, 2))),
            std::complex<float>(1, 2));
  EXPECT_EQ((call<double>([](Expr x) { return x.like(2.5); }, 1.0)), 2.5);
}

TEST(Interpret, ChecksTheNumberOfInputs) {
  const Body body = make_body({float32}, [](auto in) { return in[0]; });
  float result = 0;
  EXPECT_THROW(interpret(body, {}, {}, &result, 1), InternalError);
}

template <class T>
class IntegerOps : public testing::Test {};
using IntegerTypes = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                                    std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(IntegerOps, IntegerTypes);

TYPED_TEST(IntegerOps, AreTotal) {
  using T = TypeParam;
  constexpr T kLowest = std::numeric_limits<T>::lowest();
  constexpr T kHighest = std::numeric_limits<T>::max();
  const T all_ones = static_cast<T>(~T{0});
  const T seven = 7;
  const T three = 3;
  const T zero = 0;
  const T one = 1;
  EXPECT_EQ(call<T>(kAdd, kHighest, one), kLowest);
  EXPECT_EQ(call<T>(kSub, kLowest, one), kHighest);
  EXPECT_EQ(call<T>(kMul, kHighest, kHighest), one) << "(2^k - 1)^2 = 1 modulo 2^k and 2^(k+1)";
  EXPECT_EQ(call<T>(kDiv, seven, three), T{2});
  EXPECT_EQ(call<T>(kRem, seven, three), T{1});
  EXPECT_EQ(call<T>(kDiv, seven, zero), all_ones);
  EXPECT_EQ(call<T>(kRem, seven, zero), seven);
  EXPECT_EQ(call<T>(kNot, zero), all_ones);
  EXPECT_EQ(call<T>(kXor, seven, three), T{4});
  EXPECT_EQ(call<T>(kMin, kLowest, kHighest), kLowest);
  EXPECT_EQ(call<T>(kMax, kLowest, kHighest), kHighest);
  if constexpr (std::is_signed_v<T>) {
    const T minus_one = -1;
    const T minus_seven = -7;
    EXPECT_EQ(call<T>(kDiv, minus_seven, three), T{-2});
    EXPECT_EQ(call<T>(kRem, minus_seven, three), T{-1});
    EXPECT_EQ(call<T>(kDiv, kLowest, minus_one), kLowest);
    EXPECT_EQ(call<T>(kRem, kLowest, minus_one), zero);
    EXPECT_EQ(call<T>(kNeg, kLowest), kLowest);
    EXPECT_EQ(call<T>(kAbs, kLowest), kLowest);
    EXPECT_EQ(call<T>(kAbs, minus_seven), seven);
  } else {
    EXPECT_EQ(call<T>(kNeg, one), kHighest);
    EXPECT_EQ(call<T>(kAbs, kHighest), kHighest);
  }
}

TYPED_TEST(IntegerOps, ShiftByAnyCount) {
  using T = TypeParam;
  const T width = 8 * sizeof(T);
  const T last = static_cast<T>(width - 1);
  const T zero = 0;
  const T one = 1;
  const T all_ones = static_cast<T>(~T{0});
  const T sign_bits = std::is_signed_v<T> ? all_ones : zero;
  EXPECT_EQ(call<T>(kShl, one, last), static_cast<T>(std::uint64_t{1} << (width - 1)));
  EXPECT_EQ(call<T>(kShl, one, width), zero);
  EXPECT_EQ(call<T>(kShl, one, all_ones), zero);
  EXPECT_EQ(call<T>(kShr, all_ones, last), std::is_signed_v<T> ? all_ones : one);
  EXPECT_EQ(call<T>(kShr, all_ones, width), sign_bits);
  EXPECT_EQ(call<T>(kShr, all_ones, all_ones), sign_bits);
  EXPECT_EQ(call<T>(kShr, one, width), zero);
}

TYPED_TEST(IntegerOps, RotateByAnyCount) {
  using T = TypeParam;
  const T width = 8 * sizeof(T);
  const T one = 1;
  const T top = static_cast<T>(std::uint64_t{1} << (width - 1));
  const T bits = static_cast<T>(top | 3);
  EXPECT_EQ(call<T>(kRotate, bits, one), T{7});
  EXPECT_EQ(call<T>(kRotate, T{6}, static_cast<T>(width - 1)), T{3});
  EXPECT_EQ(call<T>(kRotate, bits, T{0}), bits);
  EXPECT_EQ(call<T>(kRotate, bits, width), bits);
  EXPECT_EQ(call<T>(kRotate, bits, static_cast<T>(width + 1)), T{7});
  EXPECT_EQ(call<T>(kRotate, one, static_cast<T>(~T{0})), top);
}

TEST(CoreOps, BoolIsLogical) {
  EXPECT_FALSE(call<bool>(kNot, true));
  EXPECT_TRUE(call<bool>(kNot, false));
  EXPECT_FALSE(call<bool>(kAnd, true, false));
  EXPECT_TRUE(call<bool>(kXor, true, false));
  EXPECT_TRUE(call<bool>(kMax, true, false));
  EXPECT_FALSE(call<bool>(kMin, true, false));
}

template <class T>
class FloatOps : public testing::Test {};
using FloatTypes = testing::Types<float16_t, bfloat16_t, float, double>;
TYPED_TEST_SUITE(FloatOps, FloatTypes);

TYPED_TEST(FloatOps, MinAndMaxOrderZerosAndPropagateNaN) {
  using T = TypeParam;
  const T zero = static_cast<T>(0.0F);
  const T minus_zero = static_cast<T>(-0.0F);
  const T one = static_cast<T>(1.0F);
  const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  const auto value = [](T x) { return static_cast<double>(x); };
  for (const auto& [a, b] : {std::pair(zero, minus_zero), std::pair(minus_zero, zero)}) {
    EXPECT_TRUE(std::signbit(value(call<T>(kMin, a, b))));
    EXPECT_FALSE(std::signbit(value(call<T>(kMax, a, b))));
  }
  EXPECT_TRUE(std::isnan(value(call<T>(kMin, nan, one))));
  EXPECT_TRUE(std::isnan(value(call<T>(kMin, one, nan))));
  EXPECT_TRUE(std::isnan(value(call<T>(kMax, nan, one))));
  EXPECT_TRUE(std::isnan(value(call<T>(kMax, one, nan))));
  EXPECT_EQ(value(call<T>(kMax, zero, one)), 1);
  EXPECT_EQ(value(call<T>(kMin, one, zero)), 0);
}

TYPED_TEST(FloatOps, NegAndAbsTouchTheSignOnly) {
  using T = TypeParam;
  const T minus_zero = static_cast<T>(-0.0F);
  EXPECT_FALSE(std::signbit(static_cast<double>(call<T>(kNeg, minus_zero))));
  EXPECT_FALSE(std::signbit(static_cast<double>(call<T>(kAbs, minus_zero))));
  EXPECT_TRUE(std::signbit(static_cast<double>(call<T>(kNeg, static_cast<T>(0.0F)))));
}

TYPED_TEST(FloatOps, RoundToIntegers) {
  using T = TypeParam;
  const auto apply = [](Unary f, float x) { return static_cast<double>(call<T>(f, static_cast<T>(x))); };
  const Unary round = [](Expr x) { return rint(x); };
  const Unary down = [](Expr x) { return floor(x); };
  const Unary to_zero = [](Expr x) { return trunc(x); };
  EXPECT_EQ(apply(round, 2.5F), 2);
  EXPECT_EQ(apply(round, 3.5F), 4);
  EXPECT_EQ(apply(round, -0.5F), 0);
  EXPECT_TRUE(std::signbit(apply(round, -0.5F)));
  EXPECT_EQ(apply(down, -1.5F), -2);
  EXPECT_EQ(apply(to_zero, -1.5F), -1);
}

TYPED_TEST(FloatOps, CompareAsIeee) {
  using T = TypeParam;
  const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  const T one = static_cast<T>(1.0F);
  const Binary less = [](Expr a, Expr b) { return a < b; };
  const Binary at_most = [](Expr a, Expr b) { return a <= b; };
  const Binary equal = [](Expr a, Expr b) { return a == b; };
  const Binary different = [](Expr a, Expr b) { return a != b; };
  EXPECT_FALSE(call<bool>(less, nan, one));
  EXPECT_FALSE(call<bool>(at_most, one, nan));
  EXPECT_FALSE(call<bool>(equal, nan, nan));
  EXPECT_TRUE(call<bool>(different, nan, nan));
  EXPECT_TRUE(call<bool>(equal, static_cast<T>(0.0F), static_cast<T>(-0.0F)));
  EXPECT_TRUE(call<bool>(at_most, one, one));
  EXPECT_FALSE(call<bool>(less, one, one));
}

TEST(CoreOps, HalfArithmeticRoundsAfterEachOperation) {
  // 2048 + 1 is not an f16; rounded at once it is 2048, and so is the sum.
  const auto twice_plus_one = [](Expr x) { return (x + 1) + 1; };
  EXPECT_EQ(static_cast<float>(call<float16_t>(twice_plus_one, float16_t(2048.0F))), 2048.0F);
  EXPECT_EQ(static_cast<float>(call<bfloat16_t>(twice_plus_one, bfloat16_t(256.0F))), 256.0F);
}

TEST(CoreOps, FmaRoundsOnce) {
  const auto residual = [](Expr x) { return fma(x, x, -(x * x)); };
  EXPECT_EQ(call<float>(residual, 1.0F + 0x1p-23F), 0x1p-46F);
  EXPECT_EQ(call<double>(residual, 1.0 + 0x1p-52), 0x1p-104);
}

TEST(CoreOps, FloatingRemainderIsExact) {
  EXPECT_EQ(call<float>(kRem, -7.5F, 2.0F), -1.5F);
  EXPECT_EQ(call<double>(kRem, 1e300, 3.0), std::fmod(1e300, 3.0));
  EXPECT_TRUE(std::isnan(call<float>(kRem, 1.0F, 0.0F)));
}

TEST(Convert, FloatToIntegerTruncatesAndSaturates) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(converted<std::int32_t>(-2.9), -2);
  EXPECT_EQ(converted<std::int8_t>(127.9F), 127);
  EXPECT_EQ(converted<std::int8_t>(128.0F), 127);
  EXPECT_EQ(converted<std::int8_t>(-1e9F), -128);
  EXPECT_EQ(converted<std::uint8_t>(-0.9F), 0);
  EXPECT_EQ(converted<std::uint8_t>(-5.0F), 0);
  EXPECT_EQ(converted<std::uint64_t>(0x1p64), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(converted<std::int64_t>(0x1p63F), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(converted<std::int64_t>(-0x1p63F), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(converted<std::int32_t>(inf), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(converted<std::int32_t>(-inf), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(converted<std::int32_t>(std::nan("")), 0);
  EXPECT_EQ(converted<std::uint16_t>(float16_t(3.5F)), 3);
}

TEST(Convert, ToBoolIsUnequalToZero) {
  EXPECT_TRUE(converted<bool>(0.25F));
  EXPECT_FALSE(converted<bool>(-0.0F));
  EXPECT_TRUE(converted<bool>(std::nan("")));
  EXPECT_TRUE(converted<bool>(std::int64_t{1} << 40));
  EXPECT_TRUE(converted<bool>(float16_t(0x1p-24F)));
  EXPECT_TRUE(converted<bool>(std::complex<float>(0, 1)));
  EXPECT_EQ(converted<float>(true), 1.0F);
  EXPECT_EQ(converted<std::int8_t>(false), 0);
}

TEST(Convert, ToFloatsRoundsOnce) {
  // Just above a tie of the narrow format, by too little for f32 to see.
  EXPECT_EQ(static_cast<float>(converted<float16_t>(1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10F);
  EXPECT_EQ(static_cast<float>(converted<float16_t>(-(1 + 0x1p-11))), -1.0F);
  EXPECT_EQ(static_cast<float>(converted<bfloat16_t>(1 + 0x1p-8 + 0x1p-40)), 1 + 0x1p-7F);
  EXPECT_EQ(static_cast<float>(converted<bfloat16_t>(1 + 3 * 0x1p-8 - 0x1p-40)), 1 + 0x1p-7F);
  EXPECT_EQ(static_cast<float>(converted<bfloat16_t>((std::int64_t{1} << 40) + (std::int64_t{1} << 32) + 1)),
            0x1p40F + 0x1p33F);
  EXPECT_EQ(static_cast<float>(converted<bfloat16_t>(-((std::int64_t{1} << 40) + (std::int64_t{1} << 32)))), -0x1p40F);
  EXPECT_EQ(static_cast<float>(converted<float16_t>(std::int32_t{100'000})), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(converted<float16_t>(1e-300)), 0.0F);
  EXPECT_EQ(static_cast<float>(converted<float16_t>(1e300)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(converted<float>((std::uint64_t{1} << 63) + 1), 0x1p63F);
  EXPECT_EQ(converted<float>(1 + 0x1p-24), 1.0F);
}

TEST(Convert, IntegersWrap) {
  EXPECT_EQ(converted<std::int8_t>(std::int32_t{200}), -56);
  EXPECT_EQ(converted<std::uint32_t>(std::int8_t{-1}), 0xffffffffU);
}

TEST(Convert, ComplexTakesTheRealPart) {
  EXPECT_EQ(converted<float>(std::complex<double>(1.5, 2)), 1.5F);
  EXPECT_EQ(converted<std::int32_t>(std::complex<float>(-1.5F, 2)), -1);
  EXPECT_EQ(converted<std::complex<double>>(std::complex<float>(1, 2)), std::complex<double>(1, 2));
  EXPECT_EQ(converted<std::complex<float>>(std::int32_t{3}), std::complex<float>(3, 0));
}

TEST(CoreOps, BitcastKeepsBits) {
  EXPECT_EQ(call<std::int32_t>([](Expr x) { return bitcast(x, int32); }, -0.0F),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(call<float16_t>([](Expr x) { return bitcast(x, float16); }, std::uint16_t{0x3c00}), float16_t(1.0F));
}

TEST(CoreOps, ComplexValuesAreMadeOfParts) {
  const auto swapped = [](Expr z) { return make_complex(imag(z), real(z)); };
  EXPECT_EQ(call<std::complex<double>>(swapped, std::complex<double>(1, 2)), std::complex<double>(2, 1));
}

}  // namespace
}  // namespace shoal::scalar
