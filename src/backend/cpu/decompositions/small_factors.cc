// Triangular factors, and what is solved by them, of many small matrices at once.
#include "backend/cpu/decompositions/small_matrices.h"
#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decompositions/small_factors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "backend/cpu/decompositions/workspace.h"

// Comes after what it uses.
#include "backend/cpu/decompositions/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

/// Divides by one number again and again.
template <class F>
class Divisor {
 public:
  using V = typename F::Vector;
  using Number = typename F::Number;

  /// By 0 nothing is divided if `passes_zero`: the result is 0 there.
  HWY_INLINE explicit Divisor(Number x, bool passes_zero = false) {
    const typename F::Tag d;
    using Real = typename F::Real;
    size_ = F::greatest_part(x);
    if constexpr (F::kParts == 1) size_ = x;
    const V zero = all_lanes<F>(0);
    const auto is_zero = hn::Eq(F::greatest_part(x), zero);
    // 1 / x is neither an infinity nor has it lost digits.
    constexpr bool kIsFloat = sizeof(Real) == 4;
    const V absolute = hn::Abs(size_);
    ordinary_ = hn::And(hn::Ge(absolute, all_lanes<F>(kIsFloat ? 0x1p-125 : 0x1p-1021)),
                        hn::Le(absolute, all_lanes<F>(kIsFloat ? 0x1p125 : 0x1p1021)));
    inverse_ = hn::Div(all_lanes<F>(1), size_);
    if (passes_zero) {
      ordinary_ = hn::Or(ordinary_, is_zero);
      inverse_ = hn::IfThenElse(is_zero, zero, inverse_);
    }
    all_ordinary_ = hn::AllTrue(d, ordinary_);
    if constexpr (F::kParts == 2) {
      const Number direction = F::divided(x, size_);
      direction_ = F::divided(F::conj(direction), F::add_square(zero, direction));
      if (passes_zero) direction_ = F::select(is_zero, F::zero(), direction_);
    }
  }

  HWY_INLINE Number divide(Number x) const {
    if constexpr (F::kParts == 2) x = F::mul(x, direction_);
    const Number quotient = F::scaled(x, inverse_);
    if (HWY_LIKELY(all_ordinary_)) return quotient;
    return F::select(ordinary_, quotient, F::divided(x, size_));
  }

 private:
  Number direction_;  // Of complex numbers: the conjugate of x / size over its square.
  V size_;
  V inverse_;
  typename F::Mask ordinary_;
  bool all_ordinary_;
};

template <class F>
void spoil(typename F::Mask mask, LaneMatrix<F> a, std::int64_t rows, std::int64_t columns) {
  if (HWY_LIKELY(hn::AllFalse(typename F::Tag(), mask))) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) a.set(i, j, spoilt<F>(mask, a.get(i, j)));
  }
}

template <class F>
typename F::Mask not_finite(LaneMatrix<F> a, std::int64_t rows, std::int64_t columns) {
  auto sum = all_lanes<F>(0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) sum = F::add_nothing(sum, a.get(i, j));
  }
  return is_nan<F>(sum);
}

// ---- cholesky

/// The factor in place of the lower triangle; the lanes where all pivots are positive.
template <class F>
typename F::Mask factor_cholesky(LaneMatrix<F> a, std::int64_t n) {
  const auto zero = all_lanes<F>(0);
  auto is_definite = hn::Eq(zero, zero);
  for (std::int64_t j = 0; j < n; ++j) {
    auto pivot = F::real(a.get(j, j));
    for (std::int64_t k = 0; k < j; ++k) pivot = F::sub_square(pivot, a.get(j, k));
    is_definite = hn::And(is_definite, hn::Gt(pivot, zero));
    const auto root = hn::Sqrt(pivot);
    a.set(j, j, F::of_real(root));
    if (j + 1 == n) break;
    const auto inverse = hn::Div(all_lanes<F>(1), root);
    const auto some_rows = [&](auto count, std::int64_t i) {
      constexpr std::size_t kRows = decltype(count)::value;
      typename F::Number sums[kRows];
      for (std::size_t r = 0; r < kRows; ++r) sums[r] = a.get(i + static_cast<std::int64_t>(r), j);
      for (std::int64_t k = 0; k < j; ++k) {
        const auto y = a.get(j, k);
        for (std::size_t r = 0; r < kRows; ++r) {
          sums[r] = F::mul_conj_sub(sums[r], a.get(i + static_cast<std::int64_t>(r), k), y);
        }
      }
      for (std::size_t r = 0; r < kRows; ++r) a.set(i + static_cast<std::int64_t>(r), j, F::scaled(sums[r], inverse));
    };
    std::int64_t i = j + 1;
    for (; i + 4 <= n; i += 4) some_rows(std::integral_constant<std::size_t, 4>(), i);
    for (; i < n; ++i) some_rows(std::integral_constant<std::size_t, 1>(), i);
  }
  return is_definite;
}

template <class T>
void cholesky_of(const MatrixProblem& problem, std::int64_t count, const T* a, T* l) {
  const std::int64_t n = problem.rows;
  const auto reals = [&](auto lanes) { return 2 * n * n * decltype(lanes)::kStep; };
  for_each_group<T>(count, reals, [&](auto lanes, auto* memory, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    auto* const rest = memory + n * n * F::kStep;
    const LaneMatrix<F> matrix{memory, n};
    load_group<F>(a + first * n * n, n * n, matrices, memory);
    auto sum = all_lanes<F>(0);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) sum = F::add_nothing(sum, matrix.get(i, j));
    }
    const auto is_definite = factor_cholesky(matrix, n);
    const auto is_bad = hn::Or(is_nan<F>(sum), hn::Not(is_definite));
    spoil(is_bad, matrix, n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + 1; j < n; ++j) matrix.set(i, j, F::zero());
    }
    store_group<F>(memory, n * n, matrices, l + first * n * n, rest);
  });
}

// ---- triangular_solve

template <class F>
void solve_group(const MatrixProblem& problem, LaneMatrix<F> a, LaneMatrix<F> x) {
  const std::int64_t n = problem.rows;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = problem.lower ? step : n - 1 - step;
    const std::int64_t begin = problem.lower ? 0 : i + 1;
    const std::int64_t end = problem.lower ? i : n;
    const Divisor<F> pivot(a.get(i, i));
    const auto some_columns = [&](auto count, std::int64_t j) {
      constexpr std::size_t kColumns = decltype(count)::value;
      typename F::Number sums[kColumns];
      for (std::size_t c = 0; c < kColumns; ++c) sums[c] = x.get(i, j + static_cast<std::int64_t>(c));
      for (std::int64_t k = begin; k < end; ++k) {
        const auto y = a.get(i, k);
        for (std::size_t c = 0; c < kColumns; ++c) {
          sums[c] = F::mul_sub(sums[c], y, x.get(k, j + static_cast<std::int64_t>(c)));
        }
      }
      for (std::size_t c = 0; c < kColumns; ++c) {
        x.set(i, j + static_cast<std::int64_t>(c), problem.unit_diagonal ? sums[c] : pivot.divide(sums[c]));
      }
    };
    std::int64_t j = 0;
    for (; j + 4 <= problem.sides; j += 4) some_columns(std::integral_constant<std::size_t, 4>(), j);
    for (; j < problem.sides; ++j) some_columns(std::integral_constant<std::size_t, 1>(), j);
  }
}

template <class T>
void triangular_solve_of(const MatrixProblem& problem, std::int64_t count, const T* a, const T* b, T* x) {
  const std::int64_t n = problem.rows;
  const std::int64_t sides = n * problem.sides;
  const auto reals = [&](auto lanes) { return (n * n + 2 * sides) * decltype(lanes)::kStep; };
  for_each_group<T>(count, reals, [&](auto lanes, auto* memory, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    auto* const solution = memory + n * n * F::kStep;
    load_group<F>(a + first * n * n, n * n, matrices, memory);
    load_group<F>(b + first * sides, sides, matrices, solution);
    solve_group<F>(problem, {memory, n}, {solution, problem.sides});
    store_group<F>(solution, sides, matrices, x + first * sides, solution + sides * F::kStep);
  });
}

// ---- lu

/// The factors in place of the matrix, and the numbers of the rows with which others were exchanged.
template <class F>
void factor_lu(LaneMatrix<F> a, std::int64_t m, std::int64_t n, LaneVector<F> pivots) {
  const typename F::Tag d;
  for (std::int64_t k = 0; k < std::min(m, n); ++k) {
    auto greatest = F::measure(a.get(k, k));
    auto pivot = position<F>(k);
    for (std::int64_t i = k + 1; i < m; ++i) {
      const auto size = F::measure(a.get(i, k));
      const auto is_greater = hn::Gt(size, greatest);
      greatest = hn::IfThenElse(is_greater, size, greatest);
      pivot = hn::IfThenElse(is_greater, position<F>(i), pivot);
    }
    pivots.set(k, pivot);
    for (std::int64_t i = k + 1; i < m; ++i) {
      const auto is_pivot = hn::Eq(pivot, position<F>(i));
      if (hn::AllFalse(d, is_pivot)) continue;
      for (std::int64_t j = 0; j < n; ++j) {
        const auto x = a.get(k, j);
        const auto y = a.get(i, j);
        a.set(k, j, F::select(is_pivot, y, x));
        a.set(i, j, F::select(is_pivot, x, y));
      }
    }
    const Divisor<F> divisor(a.get(k, k), true);
    const auto some_rows = [&](auto count, std::int64_t i) {
      constexpr std::size_t kRows = decltype(count)::value;
      typename F::Number factors[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        factors[r] = divisor.divide(a.get(i + static_cast<std::int64_t>(r), k));
        a.set(i + static_cast<std::int64_t>(r), k, factors[r]);
      }
      for (std::int64_t j = k + 1; j < n; ++j) {
        const auto y = a.get(k, j);
        for (std::size_t r = 0; r < kRows; ++r) {
          const std::int64_t row = i + static_cast<std::int64_t>(r);
          a.set(row, j, F::mul_sub(a.get(row, j), factors[r], y));
        }
      }
    };
    std::int64_t i = k + 1;
    for (; i + 4 <= m; i += 4) some_rows(std::integral_constant<std::size_t, 4>(), i);
    for (; i < m; ++i) some_rows(std::integral_constant<std::size_t, 1>(), i);
  }
}

template <class T>
void lu_of(const MatrixProblem& problem, std::int64_t count, const T* a, T* lu, std::int32_t* pivots,
           std::int32_t* permutation) {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  const std::int64_t least = problem.least();
  const auto reals = [&](auto lanes) { return 2 * m * n * decltype(lanes)::kStep + least * decltype(lanes)::kLanes; };
  for_each_group<T>(count, reals, [&](auto lanes, auto* memory, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    auto* const rest = memory + m * n * F::kStep;
    const LaneMatrix<F> matrix{memory, n};
    const LaneVector<F> exchanged{rest + m * n * F::kStep};
    load_group<F>(a + first * m * n, m * n, matrices, memory);
    const auto is_bad = not_finite(matrix, m, n);
    factor_lu(matrix, m, n, exchanged);
    spoil(is_bad, matrix, m, n);
    for (std::int64_t k = 0; k < least; ++k) {
      exchanged.set(k, hn::IfThenElse(is_bad, position<F>(k), exchanged.get(k)));
    }
    store_group<F>(memory, m * n, matrices, lu + first * m * n, rest);
    for (std::int64_t lane = 0; lane < matrices; ++lane) {
      std::int32_t* const order = permutation + (first + lane) * m;
      std::iota(order, order + m, 0);
      for (std::int64_t k = 0; k < least; ++k) {
        const auto pivot = static_cast<std::int32_t>(exchanged.data[k * F::kLanes + lane]);
        pivots[(first + lane) * least + k] = pivot;
        std::swap(order[k], order[pivot]);
      }
    }
  });
}

// ---- qr

template <class T>
void qr_of(const MatrixProblem& problem, std::int64_t count, const T* a, T* q, T* r) {
  const std::int64_t m = problem.rows;
  const std::int64_t n = problem.columns;
  const std::int64_t least = problem.least();
  const std::int64_t left = problem.left();
  const auto reals = [&](auto lanes) { return (m * n + 2 * m * std::max(left, n) + least) * decltype(lanes)::kStep; };
  for_each_group<T>(count, reals, [&](auto lanes, auto* memory, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    auto* const unitary = memory + m * n * F::kStep;
    auto* const rest = unitary + m * std::max(left, n) * F::kStep;
    const LaneMatrix<F> matrix{memory, n};
    const LaneMatrix<F> factor{unitary, left};
    const LaneMatrix<F> taus{rest + m * std::max(left, n) * F::kStep, least};
    load_group<F>(a + first * m * n, m * n, matrices, memory);
    const auto is_bad = not_finite(matrix, m, n);
    for (std::int64_t k = 0; k < least; ++k) {
      const LaneReflection<F> reflection = reflect_column(matrix, k, m, k);
      taus.set(0, k, reflection.tau);
      reflect_rows(matrix, k, F::conj(reflection.tau), matrix, k, m, k + 1, n);
      matrix.set(k, k, F::of_real(reflection.beta));
    }
    form_unitary(matrix, taus, least, 0, factor, m, left);
    spoil(is_bad, factor, m, left);
    store_group<F>(unitary, m * left, matrices, q + first * m * left, rest);
    // What is below the diagonal is zero, whatever else is.
    spoil(is_bad, matrix, left, n);
    for (std::int64_t i = 1; i < left; ++i) {
      for (std::int64_t j = 0; j < std::min(i, n); ++j) matrix.set(i, j, F::zero());
    }
    store_group<F>(memory, left * n, matrices, r + first * left * n, rest);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

template <class T>
void SmallFactors<T>::cholesky(const MatrixProblem& problem, const T* a, T* l) const {
  SHOAL_SIMD(cholesky_of<T>)(problem, count_, a, l);
}

template <class T>
void SmallFactors<T>::triangular_solve(const MatrixProblem& problem, const T* a, const T* b, T* x) const {
  SHOAL_SIMD(triangular_solve_of<T>)(problem, count_, a, b, x);
}

template <class T>
void SmallFactors<T>::lu(const MatrixProblem& problem, const T* a, T* lu, std::int32_t* pivots,
                         std::int32_t* permutation) const {
  SHOAL_SIMD(lu_of<T>)(problem, count_, a, lu, pivots, permutation);
}

template <class T>
void SmallFactors<T>::qr(const MatrixProblem& problem, const T* a, T* q, T* r) const {
  SHOAL_SIMD(qr_of<T>)(problem, count_, a, q, r);
}

template class SmallFactors<float>;
template class SmallFactors<double>;
template class SmallFactors<std::complex<float>>;
template class SmallFactors<std::complex<double>>;

}  // namespace shoal::cpu

#endif  // HWY_ONCE
