#include "comm/collectives/tree_reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "comm/transport/box_copy.h"
#include "ops/reduction.h"

namespace shoal {
namespace {

// What is reduced at a time: the intermediate results of a block stay in the first cache.
constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kLine = 64;
// How far ahead arrays are asked for: they may lie in the cache of another core.
constexpr std::size_t kAhead = 2048;
// More than the levels of a tree over all the arrays there can be.
constexpr std::size_t kMostLevels = 32;

template <ReduceKind kKind, class T>
T reduced(T a, T b) {
  using Sum = CombineType<T>;
  return from_accumulator<T>(reduce_two(kKind, static_cast<Sum>(a), static_cast<Sum>(b)));
}

template <ReduceKind kKind, std::size_t kCount, class T>
T reduced(const T* const* arrays, std::int64_t i) {
  if constexpr (kCount == 1) {
    return arrays[0][i];
  } else {
    return reduced<kKind>(reduced<kKind, kCount / 2>(arrays, i), reduced<kKind, kCount / 2>(arrays + kCount / 2, i));
  }
}

// The code is compiled for the least machine: one that reads so many streams waits for memory, not for arithmetic.
template <ReduceKind kKind, std::size_t kCount, class T>
void reduce_few(const std::byte* const* arrays, std::size_t offset, T* out, std::int64_t n) {
  const T* at[kCount];
  for (std::size_t k = 0; k < kCount; ++k) at[k] = reinterpret_cast<const T*>(arrays[k] + offset);
  constexpr auto kOfLine = static_cast<std::int64_t>(kLine / sizeof(T));
  std::int64_t i = 0;
  for (; i + kOfLine <= n; i += kOfLine) {
    for (std::size_t k = 0; k < kCount; ++k) __builtin_prefetch(reinterpret_cast<const std::byte*>(at[k] + i) + kAhead);
#pragma GCC ivdep
    for (std::int64_t j = i; j < i + kOfLine; ++j) out[j] = reduced<kKind, kCount>(at, j);
  }
  for (; i < n; ++i) out[i] = reduced<kKind, kCount>(at, i);
}

// Whether the tree over 4 or 8 arrays is the balanced one.
bool is_balanced(const std::int32_t* splits, std::size_t count) {
  return count == 4 ? splits[0] == 2 : splits[0] == 4 && splits[1] == 2 && splits[4] == 2;
}

// One block; `scratch` has a block for each level of the tree.
template <ReduceKind kKind, class T>
void reduce_block(const std::byte* const* arrays, const std::int32_t* splits, std::size_t count, std::size_t offset,
                  T* out, std::int64_t n, std::byte* scratch) {
  if (count == 1) {
    std::memcpy(out, arrays[0] + offset, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  if (count == 2) return reduce_few<kKind, 2>(arrays, offset, out, n);
  if (count == 4 && is_balanced(splits, 4)) return reduce_few<kKind, 4>(arrays, offset, out, n);
  if (count == 8 && is_balanced(splits, 8)) return reduce_few<kKind, 8>(arrays, offset, out, n);
  const auto left = static_cast<std::size_t>(splits[0]);
  auto* right = reinterpret_cast<T*>(scratch);
  reduce_block<kKind>(arrays, splits + 1, left, offset, out, n, scratch + kBlockBytes);
  reduce_block<kKind>(arrays + left, splits + left, count - left, offset, right, n, scratch + kBlockBytes);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = reduced<kKind>(out[i], right[i]);
}

template <ReduceKind kKind, class T>
void reduce_tree(const std::byte* const* arrays, const std::int32_t* splits, std::size_t count, std::size_t offset,
                 std::byte* out, std::int64_t n, bool streams) {
  constexpr auto kBlock = static_cast<std::int64_t>(kBlockBytes / sizeof(T));
  if (count == 1 && streams) return stream_copy(out, arrays[0] + offset, static_cast<std::size_t>(n) * sizeof(T));
  alignas(64) std::byte scratch[kMostLevels * kBlockBytes];
  for (std::int64_t done = 0; done < n; done += kBlock) {
    const std::int64_t some = std::min(kBlock, n - done);
    const std::size_t at = static_cast<std::size_t>(done) * sizeof(T);
    if (streams) {
      reduce_block<kKind>(arrays, splits, count, offset + at, reinterpret_cast<T*>(scratch), some,
                          scratch + kBlockBytes);
      stream_copy(out + at, scratch, static_cast<std::size_t>(some) * sizeof(T));
    } else {
      reduce_block<kKind>(arrays, splits, count, offset + at, reinterpret_cast<T*>(out + at), some, scratch);
    }
  }
}

// Adds the splits of a node: its arrays stand for so many positions.
void add_splits(std::span<const std::int64_t> arrays, std::int64_t positions, std::vector<std::int32_t>& splits) {
  if (arrays.size() < 2) return;
  const auto half = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(positions)) / 2);
  std::size_t left = 0;
  std::int64_t before = 0;
  while (before < half) before += arrays[left++];
  SHOAL_CHECK(before == half, "each array is a node of the tree");
  splits.push_back(static_cast<std::int32_t>(left));
  add_splits(arrays.first(left), half, splits);
  add_splits(arrays.subspan(left), positions - half, splits);
}

}  // namespace

std::vector<std::int32_t> tree_splits(std::span<const std::int64_t> positions) {
  std::vector<std::int32_t> splits;
  add_splits(positions, std::accumulate(positions.begin(), positions.end(), std::int64_t{0}), splits);
  return splits;
}

TreeReduction tree_reduction(ReduceKind kind, Dtype dtype) {
  return with_element_type(dtype, [&](auto tag) -> TreeReduction {
    using T = decltype(tag);
    constexpr bool kOrdered = !kIsComplexElement<T>;
    constexpr bool kHasBits = std::is_integral_v<T>;
    switch (kind) {
      case ReduceKind::kSum:
        return reduce_tree<ReduceKind::kSum, T>;
      case ReduceKind::kProd:
        return reduce_tree<ReduceKind::kProd, T>;
      case ReduceKind::kMax:
        if constexpr (kOrdered) return reduce_tree<ReduceKind::kMax, T>;
        break;
      case ReduceKind::kMin:
        if constexpr (kOrdered) return reduce_tree<ReduceKind::kMin, T>;
        break;
      case ReduceKind::kAnd:
        if constexpr (kHasBits) return reduce_tree<ReduceKind::kAnd, T>;
        break;
      case ReduceKind::kOr:
        if constexpr (kHasBits) return reduce_tree<ReduceKind::kOr, T>;
        break;
    }
    throw InternalError("this dtype has no such reduction");
  });
}

}  // namespace shoal
