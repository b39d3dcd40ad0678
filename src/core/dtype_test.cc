#include "shoal/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/error.h"

namespace shoal {
namespace {

// ---- Names and kinds.

std::vector<Dtype> all_dtypes() {
  std::vector<Dtype> dtypes;
  for (int i = 0; i < kNumDtypes; ++i) dtypes.push_back(static_cast<Dtype>(i));
  return dtypes;
}

TEST(Dtype, NamesParseBack) {
  for (const Dtype dtype : all_dtypes()) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    EXPECT_EQ(parse_dtype(short_name_of(dtype)), dtype);
  }
  EXPECT_EQ(name_of(bfloat16), "bfloat16");
  EXPECT_EQ(short_name_of(complex64), "c64");
  std::ostringstream out;
  out << float32;
  EXPECT_EQ(out.str(), "float32");
}

TEST(Dtype, UnknownNameListsWhatIsAllowed) {
  try {
    parse_dtype("float128");
    FAIL() << "did not throw";
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("\"float128\""), std::string::npos) << message;
    for (const Dtype dtype : all_dtypes()) {
      EXPECT_NE(message.find(name_of(dtype)), std::string::npos) << message;
    }
  }
  EXPECT_THROW(parse_dtype(""), InvalidArgument);
}

TEST(Dtype, Sizes) {
  EXPECT_EQ(size_of(bool_), sizeof(bool));
  EXPECT_EQ(size_of(int64), sizeof(std::int64_t));
  EXPECT_EQ(size_of(uint16), sizeof(std::uint16_t));
  EXPECT_EQ(size_of(float16), sizeof(float16_t));
  EXPECT_EQ(size_of(bfloat16), sizeof(bfloat16_t));
  EXPECT_EQ(size_of(complex64), sizeof(std::complex<float>));
  EXPECT_EQ(size_of(complex128), sizeof(std::complex<double>));
}

std::string dtypes_for_which(bool (*predicate)(Dtype)) {
  std::string names;
  for (const Dtype dtype : all_dtypes()) {
    if (predicate(dtype)) names.append(names.empty() ? "" : " ").append(short_name_of(dtype));
  }
  return names;
}

TEST(Dtype, Kinds) {
  EXPECT_EQ(dtypes_for_which(is_integer), "i8 i16 i32 i64 u8 u16 u32 u64");
  EXPECT_EQ(dtypes_for_which(is_signed), "i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128");
  EXPECT_EQ(dtypes_for_which(is_floating), "f16 bf16 f32 f64");
  EXPECT_EQ(dtypes_for_which(is_complex), "c64 c128");
}

TEST(Dtype, RealDtype) {
  EXPECT_EQ(real_dtype(complex64), float32);
  EXPECT_EQ(real_dtype(complex128), float64);
  EXPECT_EQ(real_dtype(bfloat16), bfloat16);
  EXPECT_EQ(real_dtype(int8), int8);
}

TEST(Dtype, OfTypesOfCpp) {
  EXPECT_EQ(dtype_of<bool>(), bool_);
  EXPECT_EQ(dtype_of<char>(), int8);
  EXPECT_EQ(dtype_of<long long>(), int64);
  EXPECT_EQ(dtype_of<std::uint32_t>(), uint32);
  EXPECT_EQ(dtype_of<float16_t>(), float16);
  EXPECT_EQ(dtype_of<bfloat16_t>(), bfloat16);
  EXPECT_EQ(dtype_of<std::complex<double>>(), complex128);
}

// ---- Promotion.

// "f32", or "f32*" for a weak one.
DtypeAndWeakness parse_type(std::string name) {
  const bool weak = name.back() == '*';
  if (weak) name.pop_back();
  return {parse_dtype(name), weak};
}

std::string text_of(DtypeAndWeakness type) { return std::string(short_name_of(type.dtype)) + (type.weak ? "*" : ""); }

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

// Rows of JAX's table by their first word.
std::map<std::string, std::vector<std::string>> recorded_promotions() {
  std::istringstream table(
#include "core/testdata/promotion.inc"
  );
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(table, line);) {
    std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const std::string name = words.front();
    words.erase(words.begin());
    rows[name] = words;
  }
  return rows;
}

TEST(PromoteTypes, AgreesWithJax) {
  const auto rows = recorded_promotions();
  const std::vector<std::string>& columns = rows.at(".");
  ASSERT_GE(columns.size(), 18U);
  ASSERT_EQ(rows.size(), columns.size() + 1);
  for (const std::string& a : columns) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      EXPECT_EQ(text_of(promote_types(parse_type(a), parse_type(columns[i]))), rows.at(a).at(i))
          << a << " and " << columns[i];
    }
  }
}

TEST(PromoteTypes, BoolIsNeverWeak) {
  EXPECT_EQ(promote_types({bool_, true}, {bool_, true}), (DtypeAndWeakness{bool_, false}));
}

// ---- 16-bit floats.

float16_t half_of_bits(std::uint32_t bits) {
  float16_t value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

bfloat16_t brain_of_bits(std::uint32_t bits) {
  bfloat16_t value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

constexpr std::uint32_t kAllBits = 0x10000;

// The definition of binary16, written with scalbn.
double decoded_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10U & 0x1fU);
  const int fraction = static_cast<int>(bits & 0x3ffU);
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::scalbn(fraction, -24) : std::scalbn(1024 + fraction, exponent - 25));
}

TEST(Float16, EveryValueIsDecoded) {
  for (std::uint32_t bits = 0; bits < kAllBits; ++bits) {
    const double value = static_cast<double>(static_cast<float>(half_of_bits(bits)));
    const double expected = decoded_half(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TEST(Float16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < kAllBits; ++bits) {
    ASSERT_EQ(float16_t(static_cast<float>(half_of_bits(bits))).bits, bits);
  }
}

TEST(Bfloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < kAllBits; ++bits) {
    ASSERT_EQ(bfloat16_t(static_cast<float>(brain_of_bits(bits))).bits, bits);
  }
}

struct Rounding {
  std::uint32_t single;
  std::uint16_t half;
  std::uint16_t brain;
};

TEST(Float16AndBfloat16, RoundAsNumPy) {
  constexpr Rounding kRecorded[] = {
#include "core/testdata/rounding.inc"
  };
  for (const Rounding& rounding : kRecorded) {
    const float value = std::bit_cast<float>(rounding.single);
    EXPECT_EQ(float16_t(value).bits, rounding.half) << value;
    EXPECT_EQ(bfloat16_t(value).bits, rounding.brain) << value;
  }
}

TEST(Float16AndBfloat16, NanStaysNan) {
  // The payload of the second is in the lowest bit only, which is cut off.
  for (const std::uint32_t bits : {0x7fc00000U, 0x7f800001U, 0xffffffffU}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(static_cast<float>(float16_t(nan)))) << bits;
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16_t(nan)))) << bits;
  }
}

TEST(Float16AndBfloat16, CompareAsFloats) {
  EXPECT_EQ(float16_t(0.0f), float16_t(-0.0f));
  EXPECT_EQ(bfloat16_t(0.0f), bfloat16_t(-0.0f));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(float16_t(nan) == float16_t(nan));
  EXPECT_FALSE(bfloat16_t(nan) == bfloat16_t(nan));
}

}  // namespace
}  // namespace shoal
