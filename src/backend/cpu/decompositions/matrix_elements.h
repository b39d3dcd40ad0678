// What is looked for in matrices, and what they are filled with.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <iterator>
#include <limits>

#include "core/dispatch.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

template <class T>
using RealOf = decltype(std::real(T{}));

template <class T>
T not_a_number() {
  constexpr RealOf<T> kNaN = std::numeric_limits<RealOf<T>>::quiet_NaN();
  if constexpr (kIsComplexElement<T>) {
    return {kNaN, kNaN};
  } else {
    return kNaN;
  }
}

/// Finds out whether numbers are finite, and how great their parts are. Products with 0 are 0 or NaN, and so are their
/// sums. There are several, so that vectors hold them.
template <class T>
class FiniteCheck {
 public:
  void look_at(const T* x, std::int64_t count) {
    const auto* parts = reinterpret_cast<const Real*>(x);
    const std::int64_t n = count * (kIsComplexElement<T> ? 2 : 1);
    std::int64_t i = 0;
    for (; i + kSums <= n; i += kSums) {
      for (std::int64_t k = 0; k < kSums; ++k) take(k, parts[i + k]);
    }
    for (std::int64_t k = 0; i < n; ++i, ++k) take(k, parts[i]);
  }
  bool all_finite() const {
    Real sum = 0;
    for (const Real& part : sums_) sum += part;
    return sum == 0;
  }
  /// If all are finite.
  RealOf<T> greatest() const { return *std::max_element(std::begin(greatest_), std::end(greatest_)); }

 private:
  using Real = RealOf<T>;
  static constexpr std::int64_t kSums = 32;

  void take(std::int64_t k, Real x) {
    sums_[k] += x * 0;
    greatest_[k] = std::max(greatest_[k], std::abs(x));
  }

  Real sums_[std::size_t{kSums}] = {};
  Real greatest_[std::size_t{kSums}] = {};
};

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  FiniteCheck<T> check;
  check.look_at(x, count);
  return check.all_finite();
}

/// Of the lower triangle of a square matrix.
template <class T>
FiniteCheck<T> check_of_lower(const T* a, std::int64_t n) {
  FiniteCheck<T> check;
  for (std::int64_t i = 0; i < n; ++i) check.look_at(a + i * n, i + 1);
  return check;
}

template <class T>
void fill_identity(T* a, std::int64_t rows, std::int64_t columns) {
  std::fill_n(a, rows * columns, T{});
  for (std::int64_t i = 0; i < std::min(rows, columns); ++i) a[i * columns + i] = T{1};
}

template <class T>
void fill_nan(T* a, std::int64_t count) {
  std::fill_n(a, count, not_a_number<T>());
}

/// Calls f(T{}) for the dtype of a matrix.
template <class F>
auto with_matrix_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kF32:
      return f(float{});
    case Dtype::kF64:
      return f(double{});
    case Dtype::kC64:
      return f(std::complex<float>{});
    default:
      return f(std::complex<double>{});
  }
}

}  // namespace shoal::cpu
