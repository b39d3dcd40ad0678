// What NumPy and JAX print for some 200 arrays is recorded in testdata/format_cases.inc.
#include "core/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <cstddef>
#include <sstream>
#include <vector>

namespace shoal {
namespace {

struct FormatCase {
  const char* name;
  Dtype dtype;
  bool weak;
  Shape shape;
  const char* data;  // the bits of each element in hexadecimal, or "iota"
  PrintOptions options;
  const char* str;
  const char* repr;
};

std::vector<FormatCase> recorded_cases() {
  return {
#include "core/testdata/format_cases.inc"
  };
}

template <Element T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

void append_integer(std::vector<std::byte>& bytes, Dtype dtype, int value) {
  const float real = static_cast<float>(value);
  switch (dtype) {
    case Dtype::kBool:
      return append(bytes, value != 0);
    case Dtype::kF16:
      return append(bytes, float16_t(real));
    case Dtype::kBF16:
      return append(bytes, bfloat16_t(real));
    case Dtype::kF32:
      return append(bytes, real);
    case Dtype::kF64:
      return append(bytes, static_cast<double>(value));
    case Dtype::kC64:
      return append(bytes, std::complex<float>(real));
    case Dtype::kC128:
      return append(bytes, std::complex<double>(value));
    default: {
      std::vector<std::byte> wide;
      append(wide, std::int64_t{value});
      bytes.insert(bytes.end(), wide.begin(), wide.begin() + static_cast<std::ptrdiff_t>(size_of(dtype)));
    }
  }
}

std::vector<std::byte> iota(Dtype dtype, std::int64_t count) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < count; ++i) append_integer(bytes, dtype, i);
  return bytes;
}

std::vector<std::byte> from_hexadecimal(const std::string& text) {
  std::vector<std::byte> bytes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    for (std::size_t end = word.size(); end > 0; end -= 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(word.substr(end - 2, 2), nullptr, 16)));
    }
  }
  return bytes;
}

TEST(ArrayText, AgreesWithNumPyAndJax) {
  for (const FormatCase& c : recorded_cases()) {
    SCOPED_TRACE(c.name);
    const std::int64_t count = num_elements(c.shape);
    const std::vector<std::byte> data = c.data == std::string("iota") ? iota(c.dtype, count) : from_hexadecimal(c.data);
    ASSERT_EQ(data.size(), static_cast<std::size_t>(count) * size_of(c.dtype));
    EXPECT_EQ(array_str(c.dtype, c.shape, data.data(), c.options), c.str);
    EXPECT_EQ(array_repr(c.dtype, c.weak, c.shape, data.data(), c.options), c.repr);
  }
}

TEST(ArrayText, OnlyTheCornersOfALargeArrayAreRead) {
  const std::array<std::int32_t, 4> corners = {1, 2, 3, 4};
  std::vector<std::int32_t> data(10000, 1000000);
  std::copy_n(corners.begin(), 2, data.begin());
  std::copy_n(corners.begin() + 2, 2, data.end() - 2);
  EXPECT_EQ(array_str(int32, {10000}, data.data(), {.edgeitems = 2}), "[1 2 ... 3 4]");
}

TEST(ArrayText, EmptyArraysNeedNoData) {
  EXPECT_EQ(array_str(float32, {2, 0}, nullptr), "[]");
  EXPECT_EQ(array_repr(float32, true, {0}, nullptr), "Array([], shape=(0,), dtype=float32, weak_type=True)");
}

}  // namespace
}  // namespace shoal
