// What the plugin `sort` offers: Highway's vectorised quicksort, one thread per call. Shared with the plugin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal::cpu {

/// Of the two halves, the low one comes first in memory. Aligned to 16.
__extension__ using Word128 = unsigned __int128;

/// Each function puts `count` words in ascending order, where they are. They may be called from any number of threads
/// at once, and start none.
struct SortApi {
  static constexpr std::uint64_t kVersion = 1;

  void (*sort32)(std::uint32_t* words, std::size_t count);
  void (*sort64)(std::uint64_t* words, std::size_t count);
  void (*sort128)(Word128* words, std::size_t count);
};

}  // namespace shoal::cpu
