#include "backend/cpu/moves/positions.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/moves/positions.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<std::int64_t> kLanes;
using Position = hn::Vec<decltype(kLanes)>;

Position load(const std::int64_t* indices) { return hn::LoadU(kLanes, indices); }
Position load(const std::int32_t* indices) {
  return hn::PromoteTo(kLanes, hn::LoadU(hn::Rebind<std::int32_t, decltype(kLanes)>(), indices));
}

template <class Index>
bool add_positions_of(const Index* indices, std::int64_t n, std::int64_t start, std::int64_t extent,
                      std::int64_t stride, std::int64_t* offsets) {
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<std::int64_t>()));
  const std::int64_t whole = n - n % kStep;
  const Position first = hn::Set(kLanes, start);
  const Position last = hn::Set(kLanes, start + extent - 1);
  // Bits of what is negative where an index does not fit.
  Position outside = hn::Zero(kLanes);
  for (std::int64_t i = 0; i < whole; i += kStep) {
    const Position index = load(indices + i);
    outside = hn::Or(outside, hn::Or(hn::Sub(index, first), hn::Sub(last, index)));
  }
  bool fit = hn::AllFalse(kLanes, hn::Lt(outside, hn::Zero(kLanes)));
  for (std::int64_t i = whole; i < n; ++i) {
    fit &=
        static_cast<std::uint64_t>(static_cast<std::int64_t>(indices[i]) - start) < static_cast<std::uint64_t>(extent);
  }
  if (!fit) return false;
  std::int64_t moved = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<std::uint32_t, decltype(kLanes)> halves;
  const auto factor = hn::Set(halves, static_cast<std::uint32_t>(stride));
  for (; moved < whole; moved += kStep) {
    const Position position = hn::Sub(load(indices + moved), first);
    const auto by = hn::MulEven(hn::BitCast(halves, position), factor);
    hn::StoreU(hn::Add(hn::LoadU(kLanes, offsets + moved), hn::BitCast(kLanes, by)), kLanes, offsets + moved);
  }
#endif
  for (std::int64_t i = moved; i < n; ++i) offsets[i] += stride * (static_cast<std::int64_t>(indices[i]) - start);
  return true;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

bool add_positions(const std::int32_t* indices, std::int64_t n, std::int64_t start, std::int64_t extent,
                   std::int64_t stride, std::int64_t* offsets) {
  return SHOAL_SIMD(add_positions_of<std::int32_t>)(indices, n, start, extent, stride, offsets);
}

bool add_positions(const std::int64_t* indices, std::int64_t n, std::int64_t start, std::int64_t extent,
                   std::int64_t stride, std::int64_t* offsets) {
  return SHOAL_SIMD(add_positions_of<std::int64_t>)(indices, n, start, extent, stride, offsets);
}

}  // namespace shoal::cpu

#endif  // HWY_ONCE
