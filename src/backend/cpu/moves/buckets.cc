#include "backend/cpu/moves/buckets.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/thread_pool.h"

namespace shoal::cpu {
namespace {

// What is made of a block stays in the caches of a core, unless there would be too many blocks.
int shift_for(std::int64_t targets) {
  int shift = 13;
  while (targets >> shift > 1024) ++shift;
  return shift;
}

std::int64_t piece_for(std::int64_t count) {
  constexpr std::int64_t kLeast = 1 << 14;
  constexpr std::int64_t kMostPieces = 64;
  return std::max(kLeast, (count + kMostPieces - 1) / kMostPieces);
}

}  // namespace

template <std::size_t kSize>
Buckets<kSize>::Buckets(const Items& items, const std::byte* updates)
    : items_(items),
      updates_(updates),
      shift_(shift_for(items.targets())),
      blocks_(((items.targets() - 1) >> shift_) + 1),
      piece_(piece_for(items.count())),
      pieces_((items.count() + piece_ - 1) / piece_),
      starts_(blocks_ * pieces_ + 1),
      places_(items.count()) {
  in_place_ = blocks_ == 1 && find_places();
  if (!in_place_) fill();
}

template <std::size_t kSize>
bool Buckets<kSize>::find_places() {
  std::atomic<bool> all_inside = true;
  in_ranges(0, items_.count(), piece_, [&](std::int64_t begin, std::int64_t end) {
    items_.for_each_places(begin, end, [&](std::int64_t first, std::int64_t n, const Items::Places& found) {
      if (!found.all_inside) all_inside.store(false, std::memory_order_relaxed);
      for (std::int64_t k = 0; k < n; ++k) {
        places_.data()[first + k] = static_cast<std::uint32_t>(found.targets[static_cast<std::size_t>(k)]);
      }
    });
  });
  starts_.data()[0] = 0;
  starts_.data()[pieces_] = items_.count();
  return all_inside;
}

// Piece by piece: first how many of its items are in each bucket, then, behind those of the pieces before, which.
template <std::size_t kSize>
void Buckets<kSize>::fill() {
  values_.emplace(items_.count() * static_cast<std::int64_t>(kSize));
  std::int64_t* const starts = starts_.data();
  std::fill_n(starts, blocks_ * pieces_ + 1, 0);
  const auto in_piece = [&](auto&& f) {
    in_ranges(0, items_.count(), piece_, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t* const own = starts + begin / piece_;
      items_.for_each_inside(begin, end, [&](std::int64_t i, std::int64_t, std::int64_t target) {
        f(own[(target >> shift_) * pieces_], i, target);
      });
    });
  };
  in_piece([](std::int64_t& count, std::int64_t, std::int64_t) { ++count; });
  std::exclusive_scan(starts, starts + blocks_ * pieces_ + 1, starts, std::int64_t{0});
  const std::int64_t mask = block_size() - 1;
  in_piece([&, values = values_->data(), places = places_.data()](std::int64_t& next, std::int64_t i,
                                                                  std::int64_t target) {
    std::memcpy(values + static_cast<std::size_t>(next) * kSize, updates_ + static_cast<std::size_t>(i) * kSize, kSize);
    places[next++] = static_cast<std::uint32_t>(target & mask);
  });
  // Each start is now where that of the next piece was.
  std::copy_backward(starts, starts + blocks_ * pieces_, starts + blocks_ * pieces_ + 1);
  starts[0] = 0;
}

template class Buckets<1>;
template class Buckets<2>;
template class Buckets<4>;
template class Buckets<8>;
template class Buckets<16>;

}  // namespace shoal::cpu
