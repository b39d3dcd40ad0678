// What the machine code of loops is given: its arguments, and C++ functions to call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/loops/loop.h"

namespace shoal::cpu {

/// What machine code calls, for vectors of `count` elements that lie in memory.
struct JitHelpers {
  /// Copies `count` elements of `size` bytes (1, 2, 4, 8, 16) that lie `stride` bytes apart to a dense buffer, and
  /// fills that with zeros up to `padded` elements.
  void (*gather)(std::byte* to, const std::byte* from, std::int64_t stride, std::int64_t size, std::int64_t count,
                 std::int64_t padded);
  /// The way back.
  void (*scatter)(std::byte* to, std::int64_t stride, const std::byte* from, std::int64_t size, std::int64_t count);
  /// scalar::reduce_pio2 of each element.
  void (*reduce_pio2)(const double* x, std::int32_t* quadrant, double* remainder, double* remainder_low,
                      std::int64_t count);
  /// std::fmod of each pair.
  void (*fmod_f32)(const float* a, const float* b, float* result, std::int64_t count);
  void (*fmod_f64)(const double* a, const double* b, double* result, std::int64_t count);
  /// Whether LoopArguments::is_to_end says so: 0 or 1.
  std::int64_t (*is_to_end)(const LoopArguments* arguments);
};

/// The type of the code.
using JitFunction = void (*)(const LoopArguments*, const JitHelpers*);

/// The table that every compiled loop is run with.
const JitHelpers& jit_helpers();

/// Orders stores that went past the caches before all later ones.
void finish_streaming();

}  // namespace shoal::cpu
