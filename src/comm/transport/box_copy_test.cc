#include "comm/transport/box_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace shoal {
namespace {

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

std::size_t offset_of(const Shape& shape, const Dims& start, const Dims& at) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + start[d] + at[d];
  return static_cast<std::size_t>(offset);
}

// Copies one box byte by byte and compares with copy_boxes.
void check(Dtype dtype, const Shape& from_shape, const Dims& from_start, const Shape& to_shape, const Dims& to_start,
           const Shape& extents) {
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> from = counted(static_cast<std::size_t>(num_elements(from_shape)) * element);
  std::vector<std::byte> to(static_cast<std::size_t>(num_elements(to_shape)) * element, std::byte{0xEE});
  std::vector<std::byte> expected = to;
  const std::int64_t count = num_elements(extents);
  for (std::int64_t i = 0; i < count; ++i) {
    Dims at(extents.size());
    std::int64_t rest = i;
    for (std::size_t d = extents.size(); d-- > 0; rest /= extents[d]) at[d] = rest % extents[d];
    for (std::size_t b = 0; b < element; ++b) {
      expected[offset_of(to_shape, to_start, at) * element + b] =
          from[offset_of(from_shape, from_start, at) * element + b];
    }
  }
  const PlacedCopy copy =
      place_copy({dtype, from_shape, from.data()}, from_start, {dtype, to_shape, to.data()}, to_start, extents);
  copy_boxes({&copy, 1});
  EXPECT_EQ(to, expected) << to_string(from_shape) << to_string(from_start) << " to " << to_string(to_shape)
                          << to_string(to_start) << " of " << to_string(extents);
}

TEST(CopyBox, CopiesWholeArrays) {
  check(float32, {}, {}, {}, {}, {});
  check(float32, {5}, {0}, {5}, {0}, {5});
  check(complex128, {2, 3, 4}, {0, 0, 0}, {2, 3, 4}, {0, 0, 0}, {2, 3, 4});
}

TEST(CopyBox, CopiesPartsOfRows) {
  check(int8, {7}, {2}, {9}, {5}, {3});
  check(int16, {4, 5}, {1, 2}, {3, 6}, {0, 3}, {3, 3});
  check(float64, {4, 5}, {1, 0}, {3, 5}, {0, 0}, {3, 5});
  check(int32, {2, 3, 4}, {1, 1, 0}, {2, 3, 4}, {0, 2, 0}, {1, 1, 4});
}

TEST(CopyBox, CopiesNothing) {
  check(int32, {4, 0}, {1, 0}, {3, 6}, {0, 3}, {3, 0});
  check(int32, {4, 4}, {4, 0}, {3, 6}, {3, 0}, {0, 4});
  const PlacedCopy nothing = place_copy({float32, {0}, nullptr}, {0}, {float32, {0}, nullptr}, {0}, {0});
  copy_boxes({&nothing, 1});
  copy_boxes({});
  copy_bytes(nullptr, nullptr, 0);
}

TEST(CopyBox, CopiesAnyBox) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  for (int repeat = 0; repeat < 500; ++repeat) {
    const std::size_t rank = random() % 5;
    Shape extents, from_shape, to_shape;
    Dims from_start, to_start;
    for (std::size_t d = 0; d < rank; ++d) {
      extents.push_back(below(4));
      const bool whole = below(2) == 0;
      const std::int64_t from_more = whole ? 0 : below(3);
      const std::int64_t to_more = whole ? 0 : below(3);
      from_shape.push_back(extents[d] + from_more);
      to_shape.push_back(extents[d] + to_more);
      from_start.push_back(below(from_more + 1));
      to_start.push_back(below(to_more + 1));
    }
    const Dtype dtype = static_cast<Dtype>(random() % kNumDtypes);
    check(dtype, from_shape, from_start, to_shape, to_start, extents);
  }
}

TEST(BoxCopy, PartsMakeTheWhole) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    Shape from;
    Shape to;
    Shape extents;
    const std::size_t rank = random() % 4;
    for (std::size_t d = 0; d < rank; ++d) {
      extents.push_back(1 + static_cast<std::int64_t>(random() % 40));
      from.push_back(extents[d] + static_cast<std::int64_t>(random() % 2) * 3);
      to.push_back(extents[d] + static_cast<std::int64_t>(random() % 2) * 5);
    }
    const std::size_t element = std::size_t{1} << random() % 5;
    const std::vector<std::byte> source = counted(static_cast<std::size_t>(num_elements(from)) * element);
    std::vector<std::byte> whole(static_cast<std::size_t>(num_elements(to)) * element, std::byte{0xEE});
    std::vector<std::byte> in_parts = whole;
    const BoxCopy copy(from, to, extents, element);
    EXPECT_EQ(copy.bytes(), static_cast<std::size_t>(num_elements(extents)) * element);
    copy.copy(source.data(), whole.data());
    const std::int64_t parts = 1 + static_cast<std::int64_t>(random() % 9);
    for (std::int64_t part = parts; part-- > 0;) {
      // Each part writes its own bytes and no others.
      std::vector<std::byte> alone(in_parts.size(), std::byte{0xEE});
      copy.copy(source.data(), alone.data(), part, parts, random() % 2 == 0);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        if (alone[i] != std::byte{0xEE}) in_parts[i] = alone[i];
      }
    }
    std::replace(whole.begin(), whole.end(), std::byte{0xEE}, std::byte{0});
    std::replace(in_parts.begin(), in_parts.end(), std::byte{0xEE}, std::byte{0});
    EXPECT_EQ(in_parts, whole) << to_string(from) << " to " << to_string(to) << " of " << to_string(extents) << " in "
                               << parts;
  }
}

TEST(StreamCopy, CopiesAnyRange) {
  const std::vector<std::byte> from = counted(9000);
  for (const std::size_t start : {0U, 1U, 31U, 64U}) {
    for (const std::size_t offset : {0U, 7U, 63U, 65U}) {
      for (const std::size_t bytes : {0U, 1U, 63U, 64U, 1023U, 1024U, 1025U, 4096U, 8000U}) {
        std::vector<std::byte> to(9000, std::byte{0xEE});
        std::vector<std::byte> expected = to;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(start), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(offset));
        stream_copy(to.data() + offset, from.data() + start, bytes);
        EXPECT_EQ(to, expected) << bytes << " bytes from " << start << " to " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace shoal
