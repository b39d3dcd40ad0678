// Chooses among functions that Highway's foreach_target.h compiled for each instruction set, without Highway's library:
// that measures the processor's clock when it is loaded, which takes longer than all else that starts here.
//
// Comes after highway.h, in the part of a source that is compiled once.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

namespace shoal::cpu {

enum class SimdLevel : std::uint8_t { kBaseline, kAvx2, kAvx512 };

/// The best that this processor has, or what a test asked for.
SimdLevel simd_level();
/// For tests: nothing better than this from now on.
void limit_simd_level(SimdLevel level);

/// The function of the best level that it was compiled for; null where it was not.
template <class F>
F* simd_choice(F* avx512, F* avx2, F* baseline) {
  const SimdLevel level = simd_level();
  if (level == SimdLevel::kAvx512 && avx512 != nullptr) return avx512;
  return level >= SimdLevel::kAvx2 && avx2 != nullptr ? avx2 : baseline;
}

}  // namespace shoal::cpu

/// A pointer to the function.
#define SHOAL_SIMD(function)                                                                  \
  (shoal::cpu::simd_choice<std::remove_reference_t<decltype(HWY_STATIC_DISPATCH(function))>>( \
      HWY_CHOOSE_AVX3(function), HWY_CHOOSE_AVX2(function), &HWY_STATIC_DISPATCH(function)))
