#include "backend/cpu/decompositions/matrix_vectors.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decompositions/matrix_vectors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/workspace.h"

// Comes after what it uses.
#include "backend/cpu/decompositions/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

/// Numbers that lie one after the other.
template <class F, class T>
HWY_INLINE typename F::Number load_numbers(const T* p) {
  const typename F::Tag d;
  if constexpr (F::kParts == 1) {
    return hn::LoadU(d, p);
  } else {
    typename F::Number x;
    hn::LoadInterleaved2(d, reinterpret_cast<const typename F::Real*>(p), x.re, x.im);
    return x;
  }
}

template <class F, class T>
HWY_INLINE void store_numbers(typename F::Number x, T* p) {
  const typename F::Tag d;
  if constexpr (F::kParts == 1) {
    hn::StoreU(x, d, p);
  } else {
    hn::StoreInterleaved2(x.re, x.im, d, reinterpret_cast<typename F::Real*>(p));
  }
}

template <class F, class T>
HWY_INLINE typename F::Number all_of(const T& x) {
  const typename F::Tag d;
  if constexpr (F::kParts == 1) {
    return hn::Set(d, x);
  } else {
    return {hn::Set(d, x.real()), hn::Set(d, x.imag())};
  }
}

template <class F, class T>
HWY_INLINE T sum_of(typename F::Number x) {
  const typename F::Tag d;
  if constexpr (F::kParts == 1) {
    return hn::GetLane(hn::SumOfLanes(d, x));
  } else {
    return {hn::GetLane(hn::SumOfLanes(d, x.re)), hn::GetLane(hn::SumOfLanes(d, x.im))};
  }
}

// Without what the standard asks of infinities.
template <class T>
HWY_INLINE T product_of(const T& x, const T& y) {
  if constexpr (std::is_floating_point_v<T>) {
    return x * y;
  } else {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  }
}

template <class T>
HWY_INLINE T conjugate_of(const T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return {x.real(), -x.imag()};
  }
}

/// Of kRows rows.
template <class F, bool kByRows, bool kByColumns, std::size_t kRows, class T>
HWY_INLINE void some_rows(const T* a, std::int64_t stride, std::int64_t columns, const T* of_columns, const T* of_rows,
                          T* by_rows, T* by_columns) {
  typename F::Number sums[kRows];
  typename F::Number factors[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    sums[r] = F::zero();
    if constexpr (kByColumns) factors[r] = all_of<F>(of_rows[r]);
  }
  std::int64_t j = 0;
  for (; j + F::kLanes <= columns; j += F::kLanes) {
    [[maybe_unused]] typename F::Number x;
    [[maybe_unused]] typename F::Number y;
    if constexpr (kByRows) x = load_numbers<F>(of_columns + j);
    if constexpr (kByColumns) y = load_numbers<F>(by_columns + j);
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto element = load_numbers<F>(a + static_cast<std::int64_t>(r) * stride + j);
      if constexpr (kByRows) sums[r] = F::mul_add(sums[r], element, x);
      if constexpr (kByColumns) y = F::conj_mul_add(y, element, factors[r]);
    }
    if constexpr (kByColumns) store_numbers<F>(y, by_columns + j);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    const T* const row = a + static_cast<std::int64_t>(r) * stride;
    [[maybe_unused]] T sum{};
    if constexpr (kByRows) sum = sum_of<F, T>(sums[r]);
    for (std::int64_t k = j; k < columns; ++k) {
      if constexpr (kByRows) sum += product_of(row[k], of_columns[k]);
      if constexpr (kByColumns) by_columns[k] += product_of(conjugate_of(row[k]), of_rows[r]);
    }
    if constexpr (kByRows) by_rows[r] += sum;
  }
}

template <class T, bool kByRows, bool kByColumns>
void multiply_of(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* of_columns,
                 const T* of_rows, T* by_rows, T* by_columns) {
  using F = LanesOf<T, hn::ScalableTag<RealOf<T>>>;
  constexpr std::int64_t kRows = 4;
  const auto at = [](auto* vector, std::int64_t i) { return vector == nullptr ? nullptr : vector + i; };
  std::int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    some_rows<F, kByRows, kByColumns, std::size_t{kRows}>(a + i * stride, stride, columns, of_columns, at(of_rows, i),
                                                          at(by_rows, i), by_columns);
  }
  for (; i < rows; ++i) {
    some_rows<F, kByRows, kByColumns, 1>(a + i * stride, stride, columns, of_columns, at(of_rows, i), at(by_rows, i),
                                         by_columns);
  }
}

template <class T>
void multiply_by_rows(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  multiply_of<T, true, false>(a, stride, rows, columns, x, nullptr, y, nullptr);
}

template <class T>
void multiply_by_columns(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  multiply_of<T, false, true>(a, stride, rows, columns, nullptr, x, nullptr, y);
}

template <class T>
void multiply_by_both(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* of_columns,
                      const T* of_rows, T* by_rows, T* by_columns) {
  multiply_of<T, true, true>(a, stride, rows, columns, of_columns, of_rows, by_rows, by_columns);
}

template <class T>
void multiply_hermitian_of(const T* a, std::int64_t stride, std::int64_t n, const T* x, T* y) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, n - begin);
    const T* const rows = a + begin * stride;
    if (begin > 0) multiply_of<T, true, true>(rows, stride, size, begin, x, x + begin, y + begin, y);
    for (std::int64_t i = 0; i < size; ++i) {
      const T* const row = rows + i * stride + begin;
      const T factor = x[begin + i];
      T sum = std::real(row[i]) * factor;
      for (std::int64_t j = 0; j < i; ++j) {
        sum += product_of(row[j], x[begin + j]);
        y[begin + j] += product_of(conjugate_of(row[j]), factor);
      }
      y[begin + i] += sum;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

template <class T>
void MatrixVectors<T>::multiply(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const T* x,
                                T* y) {
  SHOAL_SIMD(multiply_by_rows<T>)(a, stride, rows, columns, x, y);
}

template <class T>
void MatrixVectors<T>::multiply_adjoint(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                                        const T* x, T* y) {
  SHOAL_SIMD(multiply_by_columns<T>)(a, stride, rows, columns, x, y);
}

template <class T>
void MatrixVectors<T>::multiply_both(const T* a, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                                     const T* of_columns, const T* of_rows, T* by_rows, T* by_columns) {
  SHOAL_SIMD(multiply_by_both<T>)(a, stride, rows, columns, of_columns, of_rows, by_rows, by_columns);
}

template <class T>
void MatrixVectors<T>::multiply_hermitian(const T* a, std::int64_t stride, std::int64_t n, const T* x, T* y) {
  SHOAL_SIMD(multiply_hermitian_of<T>)(a, stride, n, x, y);
}

template struct MatrixVectors<float>;
template struct MatrixVectors<double>;
template struct MatrixVectors<std::complex<float>>;
template struct MatrixVectors<std::complex<double>>;

}  // namespace shoal::cpu

#endif  // HWY_ONCE
