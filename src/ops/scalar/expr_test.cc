#include "ops/scalar/expr.h"

#include <gtest/gtest.h>

#include "shoal/error.h"

namespace shoal::scalar {
namespace {

TEST(Expr, PrintsOneLinePerNode) {
  const Body body = make_body({float32, float32}, [](auto in) {
    const Expr scaled = in[0] * 0.5;
    const Expr is_less = scaled < in[1];
    return select(is_less, scaled, in[1]);
  });
  EXPECT_EQ(to_string(body),
            "%0 = input 0 : f32\n"
            "%1 = input 1 : f32\n"
            "%2 = constant 0x1p-1 : f32\n"
            "%3 = mul %0 %2 : f32\n"
            "%4 = lt %3 %1 : bool\n"
            "%5 = select %4 %3 %1 : f32\n"
            "return %5\n");
  EXPECT_EQ(body.dtype(), float32);
  EXPECT_EQ(body.num_inputs, 2);
}

TEST(Expr, PrintsConstantsOfEveryKind) {
  Builder builder;
  const auto text_of = [&](Expr constant) {
    const std::string text = to_string(builder.finish(constant, 0));
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(text_of(builder.constant(bool_, 1)), "%0 = constant true : bool");
  EXPECT_EQ(text_of(builder.constant(int8, -128)), "%0 = constant -128 : i8");
  EXPECT_EQ(text_of(builder.constant(uint8, 255)), "%0 = constant 255 : u8");
  EXPECT_EQ(text_of(builder.constant_bits(int64, ~std::uint64_t{0})), "%0 = constant -1 : i64");
  EXPECT_EQ(text_of(builder.constant_bits(uint64, ~std::uint64_t{0})), "%0 = constant 18446744073709551615 : u64");
  EXPECT_EQ(text_of(builder.constant(bfloat16, -1.5)), "%0 = constant -0x1.8p+0 : bf16");
  EXPECT_EQ(text_of(builder.constant(float32, 0.1)), "%0 = constant 0x1.99999ap-4 : f32");
  EXPECT_EQ(text_of(builder.constant(float64, -0.0)), "%0 = constant -0x0p+0 : f64");
}

TEST(Expr, SharesEqualNodesAndDropsUnusedOnes) {
  const Body body = make_body({int32, int32}, [](auto in) {
    const Expr unused = in[0] / in[1];
    static_cast<void>(unused);
    return (in[0] + 1) * (in[0] + 1);
  });
  EXPECT_EQ(to_string(body),
            "%0 = input 0 : i32\n"
            "%1 = constant 1 : i32\n"
            "%2 = add %0 %1 : i32\n"
            "%3 = mul %2 %2 : i32\n"
            "return %3\n");
  EXPECT_EQ(body.num_inputs, 2);
}

TEST(Expr, ConstantsOfOneBitPatternAndTwoDtypesDiffer) {
  Builder builder;
  EXPECT_NE(builder.constant(int32, 0).id(), builder.constant(float32, 0).id());
  EXPECT_NE(builder.constant(float32, 0.0).id(), builder.constant(float32, -0.0).id());
  EXPECT_EQ(builder.constant(int32, 7).id(), builder.constant(int32, 7).id());
}

TEST(Expr, SpellsComplexValuesOut) {
  const Body body = make_body({bool_, complex64, float32}, [](auto in) {
    const Expr other = convert(in[2], complex64);
    return real(select(in[0], in[1], other));
  });
  EXPECT_EQ(to_string(body),
            "%0 = input 0 : bool\n"
            "%1 = input 1 : c64\n"
            "%2 = input 2 : f32\n"
            "%3 = real %1 : f32\n"
            "%4 = select %0 %3 %2 : f32\n"
            "return %4\n");
}

TEST(Expr, ConversionToTheSameDtypeIsNothing) {
  Builder builder;
  const Expr x = builder.input(0, float16);
  EXPECT_EQ(convert(x, float16).id(), x.id());
  EXPECT_EQ(bitcast(x, float16).id(), x.id());
  EXPECT_EQ(real(x).id(), x.id());
}

TEST(Expr, EveryCoreOperationHasANameAndAnArity) {
  for (int i = 0; i < kNumCores; ++i) {
    EXPECT_FALSE(name_of(static_cast<Core>(i)).empty());
  }
  EXPECT_EQ(name_of(Core::kPio2RemainderLow), "pio2_remainder_low");
  EXPECT_EQ(arity_of(Core::kFma), 3);
  EXPECT_EQ(arity_of(Core::kNot), 1);
  EXPECT_EQ(arity_of(Core::kInput), 0);
}

TEST(Expr, ChecksDtypes) {
  Builder builder;
  const Expr f = builder.input(0, float32);
  const Expr d = builder.input(1, float64);
  const Expr i = builder.input(2, int32);
  const Expr b = builder.input(3, bool_);
  const Expr c = builder.input(4, complex64);
  const Expr h = builder.input(5, float16);
  EXPECT_THROW(f + d, InternalError);
  EXPECT_THROW(b + b, InternalError);
  EXPECT_THROW(c + c, InternalError);
  EXPECT_THROW(f & f, InternalError);
  EXPECT_THROW(b << b, InternalError);
  EXPECT_THROW(sqrt(i), InternalError);
  EXPECT_THROW(fma(i, i, i), InternalError);
  EXPECT_THROW(c < c, InternalError);
  EXPECT_THROW(select(i, f, f), InternalError);
  EXPECT_THROW(select(b, f, d), InternalError);
  EXPECT_THROW(bitcast(f, int64), InternalError);
  EXPECT_THROW(make_complex(h, h), InternalError);
  EXPECT_THROW(pio2_remainder(h), InternalError);
  EXPECT_THROW(i + 0.5, InternalError);
  EXPECT_THROW(i + 3e9, InternalError);
  EXPECT_THROW(builder.constant(complex64, 1), InternalError);
  EXPECT_THROW(builder.finish(d, 1), InternalError);
  Builder other;
  EXPECT_THROW(f + other.input(0, float32), InternalError);
}

}  // namespace
}  // namespace shoal::scalar
