#include "backend/cpu/attention/softmax_columns.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/softmax_columns.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/scalar/coefficients.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// exp of numbers that are not positive, as in ops/scalar/exponential.cc; results below the smallest normal number
/// are 0.
template <class T>
struct Exponential {
  static constexpr bool kIsF32 = sizeof(T) == 4;
  static constexpr int kFractionBits = kIsF32 ? 23 : 52;
  static constexpr T kLeast = static_cast<T>(kIsF32 ? -87.3 : -708.3);
  // Added to an integer n that is small, it leaves n + the bias of the exponent in the lowest bits.
  static constexpr T kShift = static_cast<T>(kIsF32 ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);

  // ln 2 in two parts (Cody & Waite 1980). The first has so few bits that its product with an exponent is exact, as not
  // every processor multiplies and subtracts with one rounding.
  static constexpr double kLn2High = kIsF32 ? 0x1.62e4p-1 : 0x1.62e42feep-1;
  static constexpr double kLn2Low = kIsF32 ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33;

  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    using scalar::kExpF32;
    using scalar::kExpF64;
    constexpr double log2e = kIsF32 ? scalar::kLog2EF32.high : scalar::kLog2EF64.high;
    const V shifted = hn::MulAdd(x, hn::Set(d, static_cast<T>(log2e)), hn::Set(d, kShift));
    const V n = hn::Sub(shifted, hn::Set(d, kShift));
    V r = hn::NegMulAdd(n, hn::Set(d, static_cast<T>(kLn2High)), x);
    r = hn::NegMulAdd(n, hn::Set(d, static_cast<T>(kLn2Low)), r);
    V p;
    if constexpr (kIsF32) {
      p = polynomial(d, r, kExpF32);
    } else {
      p = polynomial(d, r, kExpF64);
    }
    const V power = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, T{1}));
    const hn::RebindToUnsigned<D> bits;
    const V scale = hn::BitCast(d, hn::ShiftLeft<kFractionBits>(hn::BitCast(bits, shifted)));
    // A NaN is less than nothing, and stays.
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLeast)), hn::Mul(power, scale));
  }

  template <class D, class V, class Coefficients>
  static HWY_INLINE V polynomial(D d, V r, const Coefficients& coefficients) {
    V sum = hn::Set(d, static_cast<T>(coefficients.back()));
    for (std::size_t i = coefficients.size() - 1; i-- > 0;) {
      sum = hn::MulAdd(sum, r, hn::Set(d, static_cast<T>(coefficients[i])));
    }
    return sum;
  }
};

// Calls f(d, offset) for each vector of a row.
template <class T, class F>
HWY_INLINE void for_each_vector(std::int64_t columns, F&& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t at = 0; at < columns; at += lanes) f(d, at);
}

template <class T>
HWY_INLINE void softmax(ColumnBlock<T> block, T* HWY_RESTRICT inverses) {
  for_each_vector<T>(block.columns, [&](auto d, std::int64_t at) {
    T* HWY_RESTRICT column = block.data + at;
    // Several maxima at once, of which the order does not matter.
    auto most = hn::LoadU(d, column);
    auto more = most;
    std::int64_t i = 1;
    for (; i + 1 < block.rows; i += 2) {
      most = hn::Max(hn::LoadU(d, column + i * block.columns), most);
      more = hn::Max(hn::LoadU(d, column + (i + 1) * block.columns), more);
    }
    if (i < block.rows) most = hn::Max(hn::LoadU(d, column + i * block.columns), most);
    most = hn::Max(most, more);
    auto sum = hn::Zero(d);
    for (i = 0; i < block.rows; ++i) {
      T* at_key = column + i * block.columns;
      const auto power = Exponential<T>::of(d, hn::Sub(hn::LoadU(d, at_key), most));
      sum = hn::Add(sum, power);
      hn::StoreU(power, d, at_key);
    }
    hn::StoreU(hn::Div(hn::Set(d, T{1}), sum), d, inverses + at);
  });
}

template <class T>
HWY_INLINE void softmax_gradient(ColumnBlock<T> block, const T* HWY_RESTRICT inverses, T* HWY_RESTRICT slopes) {
  for_each_vector<T>(block.columns, [&](auto d, std::int64_t at) {
    T* HWY_RESTRICT weights = block.data + at;
    const auto inverse = hn::LoadU(d, inverses + at);
    auto mean = hn::Zero(d);
    for (std::int64_t i = 0; i < block.rows; ++i) {
      T* weight = weights + i * block.columns;
      const auto p = hn::Mul(hn::LoadU(d, weight), inverse);
      mean = hn::MulAdd(p, hn::LoadU(d, slopes + at + i * block.columns), mean);
      hn::StoreU(p, d, weight);
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
      T* slope = slopes + at + i * block.columns;
      const auto p = hn::LoadU(d, weights + i * block.columns);
      hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, slope), mean)), d, slope);
    }
  });
}

void softmax_f32(ColumnBlock<float> block, float* inverses) { softmax(block, inverses); }
void softmax_f64(ColumnBlock<double> block, double* inverses) { softmax(block, inverses); }
void gradient_f32(ColumnBlock<float> block, const float* inverses, float* slopes) {
  softmax_gradient(block, inverses, slopes);
}
void gradient_f64(ColumnBlock<double> block, const double* inverses, double* slopes) {
  softmax_gradient(block, inverses, slopes);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

void softmax_columns(ColumnBlock<float> logits, float* inverses) { SHOAL_SIMD(softmax_f32)(logits, inverses); }
void softmax_columns(ColumnBlock<double> logits, double* inverses) { SHOAL_SIMD(softmax_f64)(logits, inverses); }

void softmax_gradient_columns(ColumnBlock<float> weights, const float* inverses, float* slopes) {
  SHOAL_SIMD(gradient_f32)(weights, inverses, slopes);
}
void softmax_gradient_columns(ColumnBlock<double> weights, const double* inverses, double* slopes) {
  SHOAL_SIMD(gradient_f64)(weights, inverses, slopes);
}

}  // namespace shoal::cpu
#endif
