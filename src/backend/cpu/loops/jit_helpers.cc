#include "backend/cpu/loops/jit_helpers.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include "comm/transport/element_copy.h"
#include "ops/scalar/pio2.h"

namespace shoal::cpu {
namespace {

// Of 1, 2, 4, 8 or 16 bytes.
void copy_strided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                  std::int64_t size, std::int64_t count) {
  with_element_size(static_cast<std::size_t>(size),
                    [=](auto bytes) { copy_elements<bytes>(from, from_stride, to, to_stride, count); });
}

void gather(std::byte* to, const std::byte* from, std::int64_t stride, std::int64_t size, std::int64_t count,
            std::int64_t padded) {
  if (stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
  } else {
    copy_strided(to, size, from, stride, size, count);
  }
  if (count < padded) std::memset(to + count * size, 0, static_cast<std::size_t>((padded - count) * size));
}

void scatter(std::byte* to, std::int64_t stride, const std::byte* from, std::int64_t size, std::int64_t count) {
  if (stride != size) return copy_strided(to, stride, from, size, size, count);
  std::memcpy(to, from, static_cast<std::size_t>(count * size));
}

void reduce_pio2(const double* x, std::int32_t* quadrant, double* remainder, double* remainder_low,
                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const scalar::Pio2Reduction reduced = scalar::reduce_pio2(x[i]);
    quadrant[i] = reduced.quadrant;
    remainder[i] = reduced.remainder;
    remainder_low[i] = reduced.remainder_low;
  }
}

template <class T>
void fmod(const T* a, const T* b, T* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = std::fmod(a[i], b[i]);
}

std::int64_t is_to_end(const LoopArguments* arguments) {
  return arguments->is_to_end != nullptr && (*arguments->is_to_end)() ? 1 : 0;
}

}  // namespace

const JitHelpers& jit_helpers() {
  static constexpr JitHelpers kHelpers = {&gather, &scatter, &reduce_pio2, &fmod<float>, &fmod<double>, &is_to_end};
  return kHelpers;
}

void finish_streaming() {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

}  // namespace shoal::cpu
