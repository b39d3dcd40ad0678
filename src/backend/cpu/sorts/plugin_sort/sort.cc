#include <hwy/contrib/sort/vqsort.h>

#include "backend/cpu/sorts/sort_api.h"
#include "base/plugin.h"

namespace shoal::cpu {
namespace {

static_assert(sizeof(hwy::uint128_t) == sizeof(Word128) && alignof(hwy::uint128_t) == alignof(Word128));

template <class Word, class Key>
void sort(Word* words, std::size_t count) {
  thread_local const hwy::Sorter sorter;  // Holds memory for one call at a time.
  sorter(reinterpret_cast<Key*>(words), count, hwy::SortAscending());
}

}  // namespace

SHOAL_PLUGIN(sort, SortApi) {
  static const SortApi api{
      .sort32 = sort<std::uint32_t, std::uint32_t>,
      .sort64 = sort<std::uint64_t, std::uint64_t>,
      .sort128 = sort<Word128, hwy::uint128_t>,
  };
  return &api;
}

}  // namespace shoal::cpu
