// Loops for tests: data to run them on, and a plain transcription of what loop.h says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/loops/loop.h"
#include "core/dispatch.h"
#include "ops/scalar/core_ops.h"
#include "ops/scalar/interpret.h"

namespace shoal::cpu {
namespace {  // Of one test alone.

using Bytes = std::vector<std::byte>;

inline Bytes element_bytes(std::int64_t count, Dtype dtype) {
  return Bytes(static_cast<std::size_t>(count) * size_of(dtype));
}

/// Values at which operations are apt to go wrong.
template <class T>
std::vector<T> special_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> values = {0, 1, 2, 3, 7, 10, 15, 16, 31, 32, 63, 64, 100, Limits::lowest(), Limits::max()};
    values.push_back(static_cast<T>(-1));
    values.push_back(static_cast<T>(-7));
    values.push_back(static_cast<T>(Limits::lowest() + 1));
    values.push_back(static_cast<T>(Limits::max() - 1));
    values.push_back(static_cast<T>(Limits::max() / 2 + 1));
    for (const int bits : {24, 25, 53, 54, 62}) {
      if (bits >= Limits::digits) continue;
      for (const int more : {-1, 0, 1}) values.push_back(static_cast<T>((std::int64_t{1} << bits) + more));
    }
    return values;
  } else if constexpr (kIsComplexElement<T>) {
    std::vector<T> values;
    for (const auto re : special_values<typename T::value_type>()) values.emplace_back(re, -re / 3);
    return values;
  } else {
    std::vector<T> values;
    for (const double x : {0.0,
                           0.3,
                           0.5,
                           1.0,
                           1.5,
                           2.5,
                           3.0,
                           0.785,
                           0.7853982,
                           1.6,
                           100.0,
                           1e4,
                           65504.0,
                           65519.9,
                           65520.0,
                           1e5,
                           1e-3,
                           127.0,
                           128.0,
                           255.5,
                           256.0,
                           32767.9,
                           32768.0,
                           65535.0,
                           65536.0,
                           2147483520.0,
                           2147483647.0,
                           2147483648.0,
                           4294967295.0,
                           4294967296.0,
                           9.2233720368547748e18,
                           9.2233720368547758e18,
                           1.8446744073709550e19,
                           1.8446744073709552e19,
                           1e20,
                           3e38,
                           3.5e38,
                           1e300,
                           1e-7,
                           6e-8,
                           2.9e-8,
                           6.1e-5,
                           1e-38,
                           1e-45,
                           1e-310,
                           5e-324,
                           8388609.5,
                           4503599627370497.5,
                           1.0004882812500002,
                           1.00390625,
                           1.0039062500000002,
                           std::numeric_limits<double>::infinity()}) {
      values.push_back(static_cast<T>(static_cast<scalar::core_ops::Compute<T>>(x)));
      values.push_back(static_cast<T>(static_cast<scalar::core_ops::Compute<T>>(-x)));
    }
    values.push_back(static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
    return values;
  }
}

/// Any element: special, of random bits, or moderate.
inline void fill_random(std::byte* to, Dtype dtype, std::mt19937_64& random) {
  with_element_type(dtype, [&]<class T>(T) {
    static const std::vector<T> kSpecial = special_values<T>();
    T value = kSpecial[random() % kSpecial.size()];
    const std::uint64_t kind = random() % 3;
    if constexpr (!std::is_same_v<T, bool>) {
      if (kind == 1) {
        const std::uint64_t bits[] = {random(), random()};
        std::memcpy(&value, bits, sizeof value);
      } else if (kind == 2) {
        const int moderate = static_cast<int>(random() % 2001) - 1000;
        if constexpr (std::integral<T>) {
          value = static_cast<T>(moderate);
        } else {
          value = static_cast<T>(static_cast<float>(moderate) / 64);
        }
      }
    }
    std::memcpy(to, &value, sizeof value);
  });
}

template <class T>
bool same_part(T a, T b) {
  if constexpr (std::floating_point<T> || kIsSmallFloat<T>) {
    if (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b))) return true;
  }
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Whether two elements have the same bits, NaNs being equal.
inline bool same_element(const std::byte* a, const std::byte* b, Dtype dtype) {
  return with_element_type(dtype, [&]<class T>(T) {
    T x;
    T y;
    std::memcpy(static_cast<void*>(&x), a, sizeof x);
    std::memcpy(static_cast<void*>(&y), b, sizeof y);
    if constexpr (kIsComplexElement<T>) {
      return same_part(x.real(), y.real()) && same_part(x.imag(), y.imag());
    } else {
      return same_part(x, y);
    }
  });
}

inline std::string element_text(const std::byte* element, Dtype dtype) {
  std::string text;
  for (std::size_t i = size_of(dtype); i-- > 0;) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned>(element[i]);
    text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return "0x" + text + " : " + std::string(short_name_of(dtype));
}

/// Arrays for a loop, filled at random, with room around the elements that must not be written to.
class LoopData {
 public:
  LoopData(const Loop& loop, std::int64_t rows, std::int64_t columns, std::uint64_t seed)
      : loop_(loop), rows_(rows), columns_(columns) {
    std::mt19937_64 random(seed);
    for (const LoopArray& array : loop.arrays) {
      const auto size = static_cast<std::int64_t>(size_of(array.dtype));
      constexpr std::int64_t kSteps[] = {2, -1, -3, 5, 1};
      const std::int64_t step = array.access == Access::kStrided ? kSteps[random() % 5] * size : size;
      const std::int64_t width = array.access == Access::kUniform ? 1 : columns;
      column_strides_.push_back(array.access == Access::kUniform ? 0 : step);
      row_strides_.push_back(std::abs(step) * width + size * static_cast<std::int64_t>(random() % 4));
      // Elements are aligned to their size only.
      const std::int64_t before = kGuard + size * static_cast<std::int64_t>(random() % 8);
      first_.push_back(before + (step < 0 ? -step * std::max<std::int64_t>(width - 1, 0) : 0));
      storage_.emplace_back(static_cast<std::size_t>(before + rows * row_strides_.back() + 2 * kGuard),
                            std::byte{0x5a});
      for_each_element(storage_.size() - 1, [&](std::byte* element) {
        if (!array.written) fill_random(element, array.dtype, random);
      });
    }
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  std::byte* at(int array, std::int64_t row, std::int64_t column) {
    const auto i = static_cast<std::size_t>(array);
    const std::int64_t offset = first_[i] + row * row_strides_[i] + column * column_strides_[i];
    return storage_[i].data() + offset;
  }

  /// Calls f with the address of each element of an array.
  template <class F>
  void for_each_element(std::size_t array, F f) {
    const std::int64_t width = loop_.arrays[array].access == Access::kUniform ? 1 : columns_;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t column = 0; column < width; ++column) f(at(static_cast<int>(array), row, column));
    }
  }

  void run(const LoopRunner& runner, bool streaming = false) {
    std::vector<std::byte*> bases;
    for (std::size_t i = 0; i < storage_.size(); ++i) bases.push_back(storage_[i].data() + first_[i]);
    Bytes scratch(scratch_bytes(loop_, columns_) + 64, std::byte{0xa5});
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(scratch.data()) % 64;
    runner.run({bases.data(), row_strides_.data(), column_strides_.data(), rows_, columns_,
                scratch.data() + (64 - misaligned) % 64, streaming});
  }

  /// Checks that all elements are those of `other`, and that nothing else was written.
  void expect_same(LoopData& other, const std::string& what) {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const Dtype dtype = loop_.arrays[i].dtype;
      const std::size_t size = size_of(dtype);
      std::int64_t number = 0;
      for_each_element(i, [&](std::byte* element) {
        std::byte* const wanted = other.storage_[i].data() + (element - storage_[i].data());
        if (!same_element(element, wanted, dtype)) {
          ADD_FAILURE() << what << ": array " << i << ", element " << number << " of rows of " << columns_ << " is "
                        << element_text(element, dtype) << ", not " << element_text(wanted, dtype);
        }
        std::memcpy(element, wanted, size);
        ++number;
      });
      EXPECT_EQ(storage_[i], other.storage_[i]) << what << ": array " << i << " is written beside its elements";
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  static constexpr std::int64_t kGuard = 128;

  const Loop& loop_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<std::int64_t> row_strides_;
  std::vector<std::int64_t> column_strides_;
  std::vector<std::int64_t> first_;  // Offset of the element in row 0 and column 0.
  std::vector<Bytes> storage_;
};

template <class T>
T reduce_plainly(ReduceKind kind, T a, T b) {
  namespace ops = scalar::core_ops;
  if constexpr (std::is_same_v<T, bool>) {
    return kind == ReduceKind::kSum || kind == ReduceKind::kMax || kind == ReduceKind::kOr ? a || b : a && b;
  } else if constexpr (kIsComplexElement<T>) {
    return a;
  } else {
    switch (kind) {
      case ReduceKind::kSum:
        return ops::add(a, b);
      case ReduceKind::kProd:
        return ops::mul(a, b);
      case ReduceKind::kMax:
        return ops::max(a, b);
      case ReduceKind::kMin:
        return ops::min(a, b);
      default:
        if constexpr (std::integral<T>) return kind == ReduceKind::kAnd ? ops::bit_and(a, b) : ops::bit_or(a, b);
        return a;
    }
  }
}

template <class T>
T neutral_plainly(ReduceKind kind) {
  if constexpr (kIsComplexElement<T>) {
    return T{};
  } else {
    using Limits = std::numeric_limits<std::conditional_t<kIsSmallFloat<T>, float, T>>;
    constexpr bool kHasInfinity = Limits::has_infinity;
    switch (kind) {
      case ReduceKind::kProd:
        return static_cast<T>(1);
      case ReduceKind::kMax:
        return static_cast<T>(kHasInfinity ? -Limits::infinity() : Limits::lowest());
      case ReduceKind::kMin:
        return static_cast<T>(kHasInfinity ? Limits::infinity() : Limits::max());
      case ReduceKind::kAnd:
        if constexpr (std::is_same_v<T, bool>) return true;
        if constexpr (std::integral<T>) return static_cast<T>(-1);
        return T{};
      default:
        return T{};
    }
  }
}

/// The rule of kLanes.
inline Bytes reduce_lanes(ReduceKind kind, Dtype dtype, const Bytes& column, std::int64_t count) {
  return with_element_type(dtype, [&]<class T>(T) {
    T lanes[kLanes];
    std::fill_n(lanes, kLanes, neutral_plainly<T>(kind));
    for (std::int64_t j = 0; j < count; ++j) {
      T value;
      std::memcpy(static_cast<void*>(&value), column.data() + static_cast<std::size_t>(j) * sizeof value, sizeof value);
      lanes[j % kLanes] = reduce_plainly(kind, lanes[j % kLanes], value);
    }
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) lanes[i] = reduce_plainly(kind, lanes[i], lanes[i + half]);
    }
    Bytes result(sizeof(T));
    std::memcpy(result.data(), lanes, sizeof(T));
    return result;
  });
}

/// Runs a loop by the reference interpreter, node for node.
inline void run_plainly(const Loop& loop, LoopData& data) {
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    std::vector<Bytes> temporaries(loop.temporaries.size());
    std::vector<Bytes> scalars(loop.scalars.size());
    for (const Phase& phase : loop.phases) {
      const std::int64_t count = phase.once ? 1 : data.columns();
      std::vector<Bytes> columns;
      for (const LoopInput& input : phase.inputs) {
        const auto number = static_cast<std::size_t>(input.index);
        if (input.kind == LoopInput::Kind::kTemporary) {
          columns.push_back(temporaries[number]);
          continue;
        }
        const bool is_array = input.kind == LoopInput::Kind::kArray;
        const Dtype dtype = is_array ? loop.arrays[number].dtype : loop.scalars[number];
        Bytes column = element_bytes(count, dtype);
        for (std::int64_t j = 0; j < count; ++j) {
          const std::byte* const from = is_array ? data.at(input.index, row, j) : scalars[number].data();
          std::memcpy(column.data() + static_cast<std::size_t>(j) * size_of(dtype), from, size_of(dtype));
        }
        columns.push_back(std::move(column));
      }
      std::vector<const void*> inputs;
      for (const Bytes& column : columns) inputs.push_back(column.data());
      const std::vector<std::int64_t> strides(inputs.size(), 1);
      for (const LoopResult& result : phase.results) {
        const scalar::Body body{phase.nodes, static_cast<int>(inputs.size()), result.node};
        const std::size_t size = size_of(body.dtype());
        Bytes column = element_bytes(count, body.dtype());
        scalar::interpret(body, inputs, strides, column.data(), count);
        const auto number = static_cast<std::size_t>(result.index);
        switch (result.kind) {
          case LoopResult::Kind::kArray:
            for (std::int64_t j = 0; j < count; ++j) {
              std::memcpy(data.at(result.index, row, j), column.data() + static_cast<std::size_t>(j) * size, size);
            }
            break;
          case LoopResult::Kind::kTemporary:
            temporaries[number] = std::move(column);
            break;
          case LoopResult::Kind::kScalar:
            scalars[number] = std::move(column);
            break;
          case LoopResult::Kind::kReduce:
            scalars[number] = reduce_lanes(result.reduction, body.dtype(), column, count);
            break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::cpu
