#include "backend/cpu/sorts/sort_words.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/plugin.h"
#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

// Fewer words than these are sorted sooner by std::sort than vectors are set up.
constexpr std::int64_t kLeastForVectors = 48;
// The least that is worth a thread.
constexpr std::int64_t kLeastPiece = 1 << 15;

const SortApi* vectors() {
  static const SortApi* const api = plugin<SortApi>("sort");
  return api;
}

template <class Word>
void sort_here(Word* words, std::int64_t n) {
  if (n < kLeastForVectors || vectors() == nullptr) {
    std::sort(words, words + n);
    return;
  }
  const auto count = static_cast<std::size_t>(n);
  if constexpr (sizeof(Word) == 4) {
    vectors()->sort32(words, count);
  } else if constexpr (sizeof(Word) == 8) {
    vectors()->sort64(words, count);
  } else {
    vectors()->sort128(words, count);
  }
}

// Into how many pieces, a power of two, the words are cut that threads sort at the same time. The order of words is
// total, so the result does not depend on it.
std::int64_t pieces_of(std::int64_t n) {
  if (n < 2 * kLeastPiece || ThreadPool::is_nested()) return 1;
  const auto threads = static_cast<std::uint64_t>(ThreadPool::shared().thread_count());
  const auto worth = static_cast<std::uint64_t>(n / kLeastPiece);
  return static_cast<std::int64_t>(std::min(std::bit_ceil(threads), std::bit_floor(worth)));
}

// How many of the first `place` words of the merge of a and b are a's: the cut of both lists that Merge Path (Odeh et
// al., 2012) finds.
template <class Word>
std::int64_t taken_of_first(const Word* a, std::int64_t a_count, const Word* b, std::int64_t b_count,
                            std::int64_t place) {
  std::int64_t least = std::max<std::int64_t>(0, place - b_count);
  std::int64_t most = std::min(place, a_count);
  while (least < most) {
    const std::int64_t middle = (least + most) / 2;
    if (a[middle] <= b[place - middle - 1]) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

template <class Word>
void merge(const Word* a, const Word* a_end, const Word* b, const Word* b_end, Word* out) {
  while (a != a_end && b != b_end) {
    const Word x = *a;
    const Word y = *b;
    const bool from_b = y < x;  // No branch: nobody could foresee it.
    *out++ = from_b ? y : x;
    a += !from_b;
    b += from_b;
  }
  std::copy(b, b_end, std::copy(a, a_end, out));
}

template <class Word>
Word* sort_all(Word* words, Word* spare, std::int64_t n) {
  std::int64_t pieces = pieces_of(n);
  if (pieces == 1) {
    sort_here(words, n);
    return words;
  }
  ThreadPool& pool = ThreadPool::shared();
  const auto start_of = [&](std::int64_t piece) { return n * piece / pieces; };
  pool.parallel_for(pieces, [&](std::int64_t i) { sort_here(words + start_of(i), start_of(i + 1) - start_of(i)); });
  // Pairs of sorted pieces become one, each in parts of its result.
  const std::int64_t parts_in_all = pieces;
  for (; pieces > 1; pieces /= 2) {
    const std::int64_t parts = parts_in_all / (pieces / 2);
    pool.parallel_for(parts_in_all, [&](std::int64_t i) {
      const std::int64_t pair = i / parts;
      const std::int64_t part = i % parts;
      const Word* a = words + start_of(2 * pair);
      const Word* b = words + start_of(2 * pair + 1);
      const std::int64_t a_count = b - a;
      const std::int64_t b_count = words + start_of(2 * pair + 2) - b;
      const std::int64_t first = (a_count + b_count) * part / parts;
      const std::int64_t last = (a_count + b_count) * (part + 1) / parts;
      const std::int64_t a_first = taken_of_first(a, a_count, b, b_count, first);
      const std::int64_t a_last = taken_of_first(a, a_count, b, b_count, last);
      merge(a + a_first, a + a_last, b + first - a_first, b + last - a_last, spare + start_of(2 * pair) + first);
    });
    std::swap(words, spare);
  }
  return words;
}

}  // namespace

std::uint32_t* sort_words(std::uint32_t* words, std::uint32_t* spare, std::int64_t n) {
  return sort_all(words, spare, n);
}
std::uint64_t* sort_words(std::uint64_t* words, std::uint64_t* spare, std::int64_t n) {
  return sort_all(words, spare, n);
}
Word128* sort_words(Word128* words, Word128* spare, std::int64_t n) { return sort_all(words, spare, n); }

std::int64_t spare_words(std::int64_t n) { return pieces_of(n) == 1 ? 0 : n; }

}  // namespace shoal::cpu
