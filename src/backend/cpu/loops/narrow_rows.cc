#include "backend/cpu/loops/narrow_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shoal::cpu {
namespace {

constexpr std::int64_t kMostNarrowColumns = 32;
constexpr std::int64_t kLeastNarrowRows = 64;

Loop with_dense_arrays(Loop loop, const std::vector<bool>& same_everywhere) {
  for (std::size_t a = 0; a < loop.arrays.size(); ++a) {
    if (!same_everywhere[a]) loop.arrays[a].access = Access::kDense;
    loop.arrays[a].counts = false;
  }
  return loop;
}

// Where elements come from: by address, or as numbers.
struct Source {
  const std::byte* base;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

// Elements of any dtype, as they lie in memory.
using Bytes1 __attribute__((may_alias)) = std::uint8_t;
using Bytes2 __attribute__((may_alias)) = std::uint16_t;
using Bytes4 __attribute__((may_alias)) = std::uint32_t;
using Bytes8 __attribute__((may_alias)) = std::uint64_t;

// A number of columns that is known lets a row be one or two stores.
template <std::int64_t kColumns, class T>
void repeat(const Source& from, std::int64_t rows, T* to) {
  const std::byte* at = from.base;
  for (std::int64_t row = 0; row < rows; ++row, at += from.row_stride, to += kColumns) {
    const T value = *reinterpret_cast<const T*>(at);
    for (std::int64_t column = 0; column < kColumns; ++column) to[column] = value;
  }
}

template <class T>
void lay_out(const Source& from, std::int64_t rows, std::int64_t columns, T* to) {
  if (from.column_stride == 0) {
    switch (columns) {
      case 2:
        return repeat<2>(from, rows, to);
      case 3:
        return repeat<3>(from, rows, to);
      case 4:
        return repeat<4>(from, rows, to);
      case 8:
        return repeat<8>(from, rows, to);
      case 10:
        return repeat<10>(from, rows, to);
      case 16:
        return repeat<16>(from, rows, to);
      case 32:
        return repeat<32>(from, rows, to);
      default:
        break;
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::byte* at = from.base + row * from.row_stride;
    for (std::int64_t column = 0; column < columns; ++column, at += from.column_stride) {
      *to++ = *reinterpret_cast<const T*>(at);
    }
  }
}

template <class T>
void lay_out_counts(const Source& from, std::int64_t rows, std::int64_t columns, T* to) {
  const std::int64_t first = count_at(from.base);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      *to++ = static_cast<T>(first + row * from.row_stride + column * from.column_stride);
    }
  }
}

void lay_out(bool counts, std::int64_t size, const Source& from, std::int64_t rows, std::int64_t columns,
             std::byte* to) {
  const auto put = [&](auto* elements) {
    counts ? lay_out_counts(from, rows, columns, elements) : lay_out(from, rows, columns, elements);
  };
  switch (size) {
    case 1:
      return put(reinterpret_cast<Bytes1*>(to));
    case 2:
      return put(reinterpret_cast<Bytes2*>(to));
    case 4:
      return put(reinterpret_cast<Bytes4*>(to));
    default:
      return put(reinterpret_cast<Bytes8*>(to));
  }
}

}  // namespace

std::unique_ptr<NarrowRows> NarrowRows::of(const LoopPlan& plan, std::int64_t rows, std::int64_t columns) {
  if (columns < 2 || columns > kMostNarrowColumns || rows < kLeastNarrowRows || plan.has_rows() ||
      !plan.totals.empty()) {
    return nullptr;
  }
  const Loop& loop = plan.loop;
  if (!loop.scalars.empty() || loop.goes_on >= 0) return nullptr;
  if (std::ranges::any_of(loop.phases, &Phase::once)) return nullptr;
  if (std::ranges::any_of(loop.arrays, [](const LoopArray& array) { return size_of(array.dtype) > 8; })) return nullptr;
  std::vector<bool> same_everywhere;
  for (std::size_t a = 0; a < loop.arrays.size(); ++a) {
    const LoopOperand& operand = plan.operands[a];
    if (loop.arrays[a].written && loop.arrays[a].access != Access::kDense) return nullptr;
    same_everywhere.push_back(loop.arrays[a].access == Access::kUniform && !loop.arrays[a].counts &&
                              std::ranges::all_of(operand.dims, [](int d) { return d < 0; }));
  }
  return std::unique_ptr<NarrowRows>(
      new NarrowRows(loop, same_everywhere, static_cast<double>(rows) * static_cast<double>(columns)));
}

NarrowRows::NarrowRows(const Loop& loop, const std::vector<bool>& same_everywhere, double elements)
    : temporary_bytes_(scratch_bytes(loop, kElements)), tiers_(with_dense_arrays(loop, same_everywhere), elements) {
  for (std::size_t a = 0; a < loop.arrays.size(); ++a) {
    const LoopArray& array = loop.arrays[a];
    arrays_.push_back({.size = static_cast<std::int64_t>(size_of(array.dtype)),
                       .written = array.written,
                       .counts = array.counts,
                       .is_one = same_everywhere[a]});
  }
}

bool NarrowRows::run(const LoopArguments& arguments) const {
  const std::int64_t columns = arguments.columns;
  // A shard may have other extents than the loop was made for.
  const std::int64_t at_once = kElements / columns;
  if (at_once < 2) return false;
  enum class Way : std::uint8_t { kAsItIs, kSameRows, kLaidOut };
  std::array<Way, kMostArrays> ways;
  std::array<std::int64_t, kMostArrays> strides;
  std::array<std::byte*, kMostArrays> bases;
  const auto copy_of = [&](std::size_t a) { return arguments.scratch + temporary_bytes_ + a * kArrayBytes; };
  const auto source = [&](std::size_t a, std::int64_t row) {
    return Source{.base = arguments.bases[a] + row * arguments.row_strides[a],
                  .row_stride = arguments.row_strides[a],
                  .column_stride = arguments.column_strides[a]};
  };
  for (std::size_t a = 0; a < arrays_.size(); ++a) {
    const Array& array = arrays_[a];
    const bool is_dense =
        !array.counts && arguments.column_strides[a] == array.size && arguments.row_strides[a] == columns * array.size;
    if (array.written && !is_dense) return false;
    ways[a] = is_dense || array.is_one ? Way::kAsItIs : arguments.row_strides[a] == 0 ? Way::kSameRows : Way::kLaidOut;
    strides[a] = is_dense ? columns * array.size : 0;
    bases[a] = ways[a] == Way::kAsItIs ? arguments.bases[a] : copy_of(a);
    if (ways[a] == Way::kSameRows) {
      lay_out(array.counts, array.size, source(a, 0), std::min(at_once, arguments.rows), columns, copy_of(a));
    }
  }
  std::array<std::int64_t, kMostArrays> column_strides;
  for (std::size_t a = 0; a < arrays_.size(); ++a) column_strides[a] = arrays_[a].is_one ? 0 : arrays_[a].size;
  const LoopRunner& loop = tiers_.runner(arguments.rows * columns);
  for (std::int64_t row = 0; row < arguments.rows; row += at_once) {
    const std::int64_t rows = std::min(at_once, arguments.rows - row);
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      if (ways[a] == Way::kLaidOut) {
        lay_out(arrays_[a].counts, arrays_[a].size, source(a, row), rows, columns, copy_of(a));
      }
    }
    loop.run({.bases = bases.data(),
              .row_strides = strides.data(),
              .column_strides = column_strides.data(),
              .rows = 1,
              .columns = rows * columns,
              .scratch = arguments.scratch,
              .streaming = arguments.streaming});
    for (std::size_t a = 0; a < arrays_.size(); ++a) bases[a] += at_once * strides[a];
  }
  return true;
}

}  // namespace shoal::cpu
