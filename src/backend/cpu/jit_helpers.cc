#include "backend/cpu/jit_helpers.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/scalar/pio2.h"

namespace shoal::cpu {
namespace {

template <std::size_t size>
void copy_elements(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, size);
}

void copy_elements(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                   std::int64_t size, std::int64_t count) {
  switch (size) {
    case 1:
      return copy_elements<1>(to, to_stride, from, from_stride, count);
    case 2:
      return copy_elements<2>(to, to_stride, from, from_stride, count);
    case 4:
      return copy_elements<4>(to, to_stride, from, from_stride, count);
    case 8:
      return copy_elements<8>(to, to_stride, from, from_stride, count);
    default:
      return copy_elements<16>(to, to_stride, from, from_stride, count);
  }
}

void gather(std::byte* to, const std::byte* from, std::int64_t stride, std::int64_t size, std::int64_t count,
            std::int64_t padded) {
  if (stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
  } else {
    copy_elements(to, size, from, stride, size, count);
  }
  if (count < padded) std::memset(to + count * size, 0, static_cast<std::size_t>((padded - count) * size));
}

void scatter(std::byte* to, std::int64_t stride, const std::byte* from, std::int64_t size, std::int64_t count) {
  if (stride != size) return copy_elements(to, stride, from, size, size, count);
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

}  // namespace

const JitHelpers& jit_helpers() {
  static constexpr JitHelpers kHelpers = {&gather, &scatter, &reduce_pio2, &fmod<float>, &fmod<double>};
  return kHelpers;
}

void finish_streaming() {
#ifdef __x86_64__
  _mm_sfence();
#endif
}

}  // namespace shoal::cpu
