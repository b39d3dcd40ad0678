#include "backend/cpu/moves/reversal.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/moves/reversal.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void reverse_of(const T* from, T* to, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    hn::StoreU(hn::Reverse(d, hn::LoadU(d, from + (count - i - step))), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[count - 1 - i];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

void copy_reversed(const std::uint16_t* from, std::uint16_t* to, std::int64_t count) {
  SHOAL_SIMD(reverse_of<std::uint16_t>)(from, to, count);
}

void copy_reversed(const std::uint32_t* from, std::uint32_t* to, std::int64_t count) {
  SHOAL_SIMD(reverse_of<std::uint32_t>)(from, to, count);
}

void copy_reversed(const std::uint64_t* from, std::uint64_t* to, std::int64_t count) {
  SHOAL_SIMD(reverse_of<std::uint64_t>)(from, to, count);
}

}  // namespace shoal::cpu

#endif  // HWY_ONCE
