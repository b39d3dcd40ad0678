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

/// exp of numbers that are not positive, as in ops/scalar/exponential.cc; results near the smallest normal number and
/// below are 0.
template <class T>
struct Exponential {
  static constexpr bool kIsF32 = sizeof(T) == 4;
  static constexpr int kFractionBits = kIsF32 ? 23 : 52;
  // The least exponent of powers that are not 0.
  static constexpr T kLeast = static_cast<T>(kIsF32 ? -125 : -1021);
  // Added to an integer n that is small, it leaves n + the bias of the exponent in the lowest bits.
  static constexpr T kShift = static_cast<T>(kIsF32 ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);

  // ln 2 in two parts (Cody & Waite 1980). The first has so few bits that its product with an exponent is exact, as not
  // every processor multiplies and subtracts with one rounding.
  static constexpr double kLn2High = kIsF32 ? 0x1.62e4p-1 : 0x1.62e42feep-1;
  static constexpr double kLn2Low = kIsF32 ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33;

  /// Of several vectors at once, step by step: the steps of one wait for each other, and would fill the processor's
  /// queue before those of the next can begin.
  template <std::size_t kCount, class D, class V>
  static HWY_INLINE void of(D d, V (&x)[kCount]) {
    using scalar::kExpF32;
    using scalar::kExpF64;
    constexpr double log2e = kIsF32 ? scalar::kLog2EF32.high : scalar::kLog2EF64.high;
    const auto set = [&](double number) { return hn::Set(d, static_cast<T>(number)); };
    const auto each = [](auto&& f) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kCount; ++i) f(i);
    };
    V shifted[kCount];
    V r[kCount];
    V p[kCount];
    each([&](std::size_t i) { shifted[i] = hn::MulAdd(x[i], set(log2e), hn::Set(d, kShift)); });
    each([&](std::size_t i) { p[i] = hn::Sub(shifted[i], hn::Set(d, kShift)); });
    each([&](std::size_t i) { r[i] = hn::NegMulAdd(p[i], set(kLn2High), x[i]); });
    each([&](std::size_t i) { r[i] = hn::NegMulAdd(p[i], set(kLn2Low), r[i]); });
    const auto polynomial = [&](const auto& coefficients) {
      each([&](std::size_t i) { p[i] = set(coefficients.back()); });
      for (std::size_t k = coefficients.size() - 1; k-- > 0;) {
        each([&](std::size_t i) { p[i] = hn::MulAdd(p[i], r[i], set(coefficients[k])); });
      }
    };
    if constexpr (kIsF32) {
      polynomial(kExpF32);
    } else {
      polynomial(kExpF64);
    }
    each([&](std::size_t i) { p[i] = hn::Add(hn::MulAdd(hn::Mul(r[i], r[i]), p[i], r[i]), hn::Set(d, T{1})); });
    const hn::RebindToUnsigned<D> bits;
    each([&](std::size_t i) {
      const V scale = hn::BitCast(d, hn::ShiftLeft<kFractionBits>(hn::BitCast(bits, shifted[i])));
      // A NaN is less than nothing, and stays.
      x[i] = hn::IfThenZeroElse(hn::Lt(shifted[i], hn::Set(d, kShift + kLeast)), hn::Mul(p[i], scale));
    });
  }

  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    V one[] = {x};
    of(d, one);
    return one[0];
  }
};

// Calls f(d, offset) for each vector of a row.
template <class T, class F>
HWY_INLINE void for_each_vector(std::int64_t columns, F&& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t at = 0; at < columns; at += lanes) f(d, at);
}

// Each of kCount rows of a column becomes exp of it less `most`; returns the sum with these added.
template <std::size_t kCount, class D, class T, class V>
HWY_INLINE V weigh(D d, T* HWY_RESTRICT rows, std::int64_t stride, V most, V sum) {
  V x[kCount];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = hn::Sub(hn::LoadU(d, rows + static_cast<std::int64_t>(i) * stride), most);
  }
  Exponential<T>::of(d, x);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    sum = hn::Add(sum, x[i]);
    hn::StoreU(x[i], d, rows + static_cast<std::int64_t>(i) * stride);
  }
  return sum;
}

template <class T>
HWY_INLINE void softmax(ColumnBlock<T> block, const RunningSoftmax<T>& softmax) {
  for_each_vector<T>(block.columns, [&](auto d, std::int64_t at) {
    T* column = block.data + at;
    const std::int64_t rows = block.rows;
    const std::int64_t columns = block.columns;
    // Several maxima at once, of which the order does not matter.
    const auto before = hn::LoadU(d, softmax.most + at);
    auto most = before;
    auto more = before;
    std::int64_t i = 0;
    for (; i + 1 < rows; i += 2) {
      most = hn::Max(hn::LoadU(d, column + i * columns), most);
      more = hn::Max(hn::LoadU(d, column + (i + 1) * columns), more);
    }
    if (i < rows) most = hn::Max(hn::LoadU(d, column + i * columns), most);
    most = hn::Max(most, more);
    const auto factor = Exponential<T>::of(d, hn::Sub(before, most));
    auto sum = hn::Mul(hn::LoadU(d, softmax.totals + at), factor);
    for (i = 0; i + 4 <= rows; i += 4) sum = weigh<4>(d, column + i * columns, columns, most, sum);
    for (; i < rows; ++i) sum = weigh<1>(d, column + i * columns, columns, most, sum);
    hn::StoreU(most, d, softmax.most + at);
    hn::StoreU(sum, d, softmax.totals + at);
    hn::StoreU(factor, d, softmax.factors + at);
  });
}

// Of a factor of 0 nothing is left, also of infinity: keys that are hidden weigh as much as others until one is met
// that is not.
template <class D>
HWY_INLINE hn::Vec<D> times(D d, hn::Vec<D> x, hn::Vec<D> factor) {
  return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(d)), hn::Mul(x, factor));
}

template <class T>
HWY_INLINE void scale(ColumnBlock<T> block, const T* HWY_RESTRICT factors) {
  for_each_vector<T>(block.columns, [&](auto d, std::int64_t at) {
    const auto factor = hn::LoadU(d, factors + at);
    if (hn::AllTrue(d, hn::Eq(factor, hn::Set(d, T{1})))) return;
    for (std::int64_t i = 0; i < block.rows; ++i) {
      T* row = block.data + at + i * block.columns;
      hn::StoreU(times(d, hn::LoadU(d, row), factor), d, row);
    }
  });
}

template <class T>
HWY_INLINE void add_products(ColumnBlock<T> weights, const T* HWY_RESTRICT slopes, const T* HWY_RESTRICT factors,
                             T* HWY_RESTRICT sums) {
  for_each_vector<T>(weights.columns, [&](auto d, std::int64_t at) {
    // Two sums, or each addition would wait for the one before it.
    auto sum = times(d, hn::LoadU(d, sums + at), hn::LoadU(d, factors + at));
    auto more = hn::Zero(d);
    const auto add = [&](std::int64_t i, auto& to) {
      const std::int64_t place = at + i * weights.columns;
      to = hn::MulAdd(hn::LoadU(d, weights.data + place), hn::LoadU(d, slopes + place), to);
    };
    std::int64_t i = 0;
    for (; i + 1 < weights.rows; i += 2) {
      add(i, sum);
      add(i + 1, more);
    }
    if (i < weights.rows) add(i, sum);
    hn::StoreU(hn::Add(sum, more), d, sums + at);
  });
}

template <class T>
HWY_INLINE void softmax_gradient(ColumnBlock<T> weights, const T* HWY_RESTRICT factors, const T* HWY_RESTRICT means,
                                 T* HWY_RESTRICT slopes) {
  for_each_vector<T>(weights.columns, [&](auto d, std::int64_t at) {
    const auto factor = hn::LoadU(d, factors + at);
    const auto mean = hn::LoadU(d, means + at);
    for (std::int64_t i = 0; i < weights.rows; ++i) {
      T* HWY_RESTRICT weight = weights.data + at + i * weights.columns;
      T* HWY_RESTRICT slope = slopes + at + i * weights.columns;
      const auto p = hn::Mul(hn::LoadU(d, weight), factor);
      hn::StoreU(p, d, weight);
      hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, slope), mean)), d, slope);
    }
  });
}

template <class T>
HWY_INLINE void powers(const T* x, const T* most, std::int64_t columns, T* factors) {
  for_each_vector<T>(columns, [&](auto d, std::int64_t at) {
    hn::StoreU(Exponential<T>::of(d, hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, most + at))), d, factors + at);
  });
}

void softmax_f32(ColumnBlock<float> block, const RunningSoftmax<float>& state) { softmax(block, state); }
void softmax_f64(ColumnBlock<double> block, const RunningSoftmax<double>& state) { softmax(block, state); }
void scale_f32(ColumnBlock<float> block, const float* factors) { scale(block, factors); }
void scale_f64(ColumnBlock<double> block, const double* factors) { scale(block, factors); }
void products_f32(ColumnBlock<float> weights, const float* slopes, const float* factors, float* sums) {
  add_products(weights, slopes, factors, sums);
}
void products_f64(ColumnBlock<double> weights, const double* slopes, const double* factors, double* sums) {
  add_products(weights, slopes, factors, sums);
}
void gradient_f32(ColumnBlock<float> weights, const float* factors, const float* means, float* slopes) {
  softmax_gradient(weights, factors, means, slopes);
}
void gradient_f64(ColumnBlock<double> weights, const double* factors, const double* means, double* slopes) {
  softmax_gradient(weights, factors, means, slopes);
}
void powers_f32(const float* x, const float* most, std::int64_t columns, float* factors) {
  powers(x, most, columns, factors);
}
void powers_f64(const double* x, const double* most, std::int64_t columns, double* factors) {
  powers(x, most, columns, factors);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

void softmax_columns(ColumnBlock<float> logits, const RunningSoftmax<float>& softmax) {
  SHOAL_SIMD(softmax_f32)(logits, softmax);
}
void softmax_columns(ColumnBlock<double> logits, const RunningSoftmax<double>& softmax) {
  SHOAL_SIMD(softmax_f64)(logits, softmax);
}

void scale_columns(ColumnBlock<float> block, const float* factors) { SHOAL_SIMD(scale_f32)(block, factors); }
void scale_columns(ColumnBlock<double> block, const double* factors) { SHOAL_SIMD(scale_f64)(block, factors); }

void add_products_of_columns(ColumnBlock<float> weights, const float* slopes, const float* factors, float* sums) {
  SHOAL_SIMD(products_f32)(weights, slopes, factors, sums);
}
void add_products_of_columns(ColumnBlock<double> weights, const double* slopes, const double* factors, double* sums) {
  SHOAL_SIMD(products_f64)(weights, slopes, factors, sums);
}

void softmax_gradient_columns(ColumnBlock<float> weights, const float* factors, const float* means, float* slopes) {
  SHOAL_SIMD(gradient_f32)(weights, factors, means, slopes);
}
void softmax_gradient_columns(ColumnBlock<double> weights, const double* factors, const double* means, double* slopes) {
  SHOAL_SIMD(gradient_f64)(weights, factors, means, slopes);
}

void power_columns(const float* x, const float* most, std::int64_t columns, float* factors) {
  SHOAL_SIMD(powers_f32)(x, most, columns, factors);
}
void power_columns(const double* x, const double* most, std::int64_t columns, double* factors) {
  SHOAL_SIMD(powers_f64)(x, most, columns, factors);
}

}  // namespace shoal::cpu
#endif
