#include "backend/cpu/machine/simd_dispatch.h"

#include <algorithm>
#include <atomic>

namespace shoal::cpu {
namespace {

// What Highway compiles for under these names, and what the system lets programs use.
SimdLevel level_of_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512) return SimdLevel::kAvx512;
  if (avx2) return SimdLevel::kAvx2;
#endif
  return SimdLevel::kBaseline;
}

std::atomic<SimdLevel> limit{SimdLevel::kAvx512};

}  // namespace

SimdLevel simd_level() {
  static const SimdLevel processor = level_of_processor();
  return std::min(processor, limit.load(std::memory_order_relaxed));
}

void limit_simd_level(SimdLevel level) { limit.store(level, std::memory_order_relaxed); }

}  // namespace shoal::cpu
