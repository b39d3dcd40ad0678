#include "backend/cpu/moves/buckets.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

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
      starts_(blocks_ + 1),
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
  starts_.data()[1] = items_.count();
  return all_inside;
}

// Piece by piece: first how many of its items are in each bucket, then, behind those of the pieces before, which.
template <std::size_t kSize>
void Buckets<kSize>::fill() {
  values_.emplace(items_.count() * static_cast<std::int64_t>(kSize));
  // Of each piece, for each bucket: how many, then where the next one goes. Threads write to lines of their own.
  const std::int64_t stride = (blocks_ + 7) / 8 * 8;
  Workspace<std::int64_t> of_pieces(pieces_ * stride);
  std::fill_n(of_pieces.data(), pieces_ * stride, 0);
  const auto in_pieces = [&](auto&& f) {
    in_ranges(0, items_.count(), piece_, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t* const own = of_pieces.data() + begin / piece_ * stride;
      items_.for_each_inside(
          begin, end, [&](std::int64_t i, std::int64_t, std::int64_t target) { f(own[target >> shift_], i, target); });
    });
  };
  in_pieces([](std::int64_t& count, std::int64_t, std::int64_t) { ++count; });
  std::int64_t next = 0;
  for (std::int64_t block = 0; block < blocks_; ++block) {
    starts_.data()[block] = next;
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      next += std::exchange(of_pieces.data()[piece * stride + block], next);
    }
  }
  starts_.data()[blocks_] = next;
  const std::int64_t mask = block_size() - 1;
  in_pieces([&, values = values_->data(), places = places_.data()](std::int64_t& to, std::int64_t i,
                                                                   std::int64_t target) {
    std::memcpy(values + static_cast<std::size_t>(to) * kSize, updates_ + static_cast<std::size_t>(i) * kSize, kSize);
    places[to++] = static_cast<std::uint32_t>(target & mask);
  });
}

template class Buckets<1>;
template class Buckets<2>;
template class Buckets<4>;
template class Buckets<8>;
template class Buckets<16>;

}  // namespace shoal::cpu
