#include "comm/tree_reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/box_copy.h"
#include "ops/reduction.h"

namespace shoal {
namespace {

// What is reduced at a time: the intermediate results of a block stay in the first cache.
constexpr std::size_t kBlockBytes = 4096;
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
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = reduced<kKind, kCount>(at, i);
}

// One block; `scratch` has a block for each level of the tree.
template <ReduceKind kKind, class T>
void reduce_block(const std::byte* const* arrays, std::size_t count, std::size_t offset, T* out, std::int64_t n,
                  std::byte* scratch) {
  switch (count) {
    case 1:
      std::memcpy(out, arrays[0] + offset, static_cast<std::size_t>(n) * sizeof(T));
      return;
    case 2:
      return reduce_few<kKind, 2>(arrays, offset, out, n);
    case 4:
      return reduce_few<kKind, 4>(arrays, offset, out, n);
    case 8:
      return reduce_few<kKind, 8>(arrays, offset, out, n);
    default:
      break;
  }
  const std::size_t left = std::bit_ceil(count) / 2;
  auto* right = reinterpret_cast<T*>(scratch);
  reduce_block<kKind>(arrays, left, offset, out, n, scratch + kBlockBytes);
  reduce_block<kKind>(arrays + left, count - left, offset, right, n, scratch + kBlockBytes);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = reduced<kKind>(out[i], right[i]);
}

template <ReduceKind kKind, class T>
void reduce_tree(const std::byte* const* arrays, std::size_t count, std::size_t offset, std::byte* out, std::int64_t n,
                 bool streams) {
  constexpr auto kBlock = static_cast<std::int64_t>(kBlockBytes / sizeof(T));
  alignas(64) std::byte scratch[kMostLevels * kBlockBytes];
  for (std::int64_t done = 0; done < n; done += kBlock) {
    const std::int64_t some = std::min(kBlock, n - done);
    const std::size_t at = static_cast<std::size_t>(done) * sizeof(T);
    if (streams) {
      reduce_block<kKind>(arrays, count, offset + at, reinterpret_cast<T*>(scratch), some, scratch + kBlockBytes);
      stream_copy(out + at, scratch, static_cast<std::size_t>(some) * sizeof(T));
    } else {
      reduce_block<kKind>(arrays, count, offset + at, reinterpret_cast<T*>(out + at), some, scratch);
    }
  }
}

}  // namespace

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
