// Sorting of unsigned words, to which the kernels of sort and top_k turn what they compare.
#pragma once

#include <cstdint>

#include "backend/cpu/sorts/sort_api.h"

namespace shoal::cpu {

/// Puts n words in ascending order: by Highway's vectorised quicksort where it is there, else by std::sort. Many words
/// are sorted by all threads, unless this is called inside an iteration of the pool. `spare` has room for as many words
/// as spare_words(n) says. Returns where the result is: in `words` or in `spare`.
std::uint32_t* sort_words(std::uint32_t* words, std::uint32_t* spare, std::int64_t n);
std::uint64_t* sort_words(std::uint64_t* words, std::uint64_t* spare, std::int64_t n);
Word128* sort_words(Word128* words, Word128* spare, std::int64_t n);

/// 0 or n.
std::int64_t spare_words(std::int64_t n);

}  // namespace shoal::cpu
