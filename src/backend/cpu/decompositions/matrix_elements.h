// What is looked for in matrices, and what they are filled with.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <limits>

#include "core/dispatch.h"

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

/// Finds out whether numbers are finite. Products with 0 are 0 or NaN, and so are their sums, of which there are
/// several so that vectors hold them.
template <class T>
class FiniteCheck {
 public:
  void look_at(const T* x, std::int64_t count) {
    const auto* parts = reinterpret_cast<const Real*>(x);
    const std::int64_t n = count * (kIsComplexElement<T> ? 2 : 1);
    std::int64_t i = 0;
    for (; i + kSums <= n; i += kSums) {
      for (std::int64_t k = 0; k < kSums; ++k) sums_[k] += parts[i + k] * 0;
    }
    for (std::int64_t k = 0; i < n; ++i, ++k) sums_[k] += parts[i] * 0;
  }
  bool all_finite() const {
    Real sum = 0;
    for (const Real& part : sums_) sum += part;
    return sum == 0;
  }

 private:
  using Real = RealOf<T>;
  static constexpr std::int64_t kSums = 32;
  Real sums_[std::size_t{kSums}] = {};
};

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  FiniteCheck<T> check;
  check.look_at(x, count);
  return check.all_finite();
}

/// Of the lower triangle of a square matrix.
template <class T>
bool lower_is_finite(const T* a, std::int64_t n) {
  FiniteCheck<T> check;
  for (std::int64_t i = 0; i < n; ++i) check.look_at(a + i * n, i + 1);
  return check.all_finite();
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

}  // namespace shoal::cpu
