// Eigenvalues and singular values, with their vectors, of many small matrices at once.
//
// Hermitian matrices become tridiagonal, and others bidiagonal, by reflections, and these diagonal by rotations with
// implicit shifts (Golub and Van Loan, "Matrix Computations", 4th edition, 8.3 and 8.6). All lanes take the steps of
// those that need most of them; lanes that need none rotate by nothing.
#include "backend/cpu/decompositions/small_matrices.h"
#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decompositions/small_spectra.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "backend/cpu/decompositions/workspace.h"

// Comes after what it uses.
#include "backend/cpu/decompositions/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

// Steps for one value, of which there are two or three. More are for what does not converge.
constexpr int kMostSteps = 60;

template <class F>
HWY_INLINE typename F::Vector epsilon_of_lanes() {
  return all_lanes<F>(static_cast<double>(std::numeric_limits<typename F::Real>::epsilon()));
}

/// a := a s, in all of its elements.
template <class F>
void scale_all(LaneMatrix<F> a, std::int64_t rows, std::int64_t columns, typename F::Vector s) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) a.set(i, j, F::scaled(a.get(i, j), s));
  }
}

// ---- Rotations.

/// x, y := c x + s y, c y - s x for columns x and y, whose elements follow each other.
template <class F>
HWY_INLINE void rotate(typename F::Real* x, typename F::Real* y, std::int64_t rows, typename F::Vector c,
                       typename F::Vector s) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto x_i = F::load(x + i * F::kStep);
    const auto y_i = F::load(y + i * F::kStep);
    F::store(F::scaled_add(F::scaled(x_i, c), y_i, s), x + i * F::kStep);
    F::store(F::scaled_sub(F::scaled(y_i, c), x_i, s), y + i * F::kStep);
  }
}

/// c and s with c y + s z = r, c z - s y = 0.
template <class F>
struct LaneRotation {
  typename F::Vector c;
  typename F::Vector s;
  typename F::Vector r;

  HWY_INLINE LaneRotation(typename F::Vector y, typename F::Vector z) {
    r = hn::Sqrt(hn::MulAdd(y, y, hn::Mul(z, z)));
    const auto inverse = hn::Div(all_lanes<F>(1), r);
    const auto is_nothing = hn::Eq(r, all_lanes<F>(0));
    c = hn::IfThenElse(is_nothing, all_lanes<F>(1), hn::Mul(y, inverse));
    s = hn::IfThenElse(is_nothing, all_lanes<F>(0), hn::Mul(z, inverse));
  }
};

// ---- What is left to do for each matrix alone.

/// The order of the values of a lane, ascending or descending; equal ones stay in theirs. Returns whether it is the one
/// they are in.
template <class F>
bool order_values(LaneVector<F> values, std::int64_t n, std::int64_t lane, bool descending, std::int32_t* order) {
  const auto value = [&](std::int32_t i) { return values.data[i * F::kLanes + lane]; };
  bool is_ordered = true;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(n); ++i) {
    std::int32_t at = i;
    for (; at > 0; --at) {
      const auto before = value(order[at - 1]);
      const auto own = value(i);
      if (!(descending ? own > before : own < before)) break;
      order[at] = order[at - 1];
      is_ordered = false;
    }
    order[at] = i;
  }
  return is_ordered;
}

/// Columns of a dense matrix in another order. `row` has room for one.
template <class T>
void order_columns(T* a, std::int64_t rows, std::int64_t columns, const std::int32_t* order, std::int64_t count,
                   T* row) {
  for (std::int64_t i = 0; i < rows; ++i) {
    T* const elements = a + i * columns;
    for (std::int64_t j = 0; j < count; ++j) row[j] = elements[order[j]];
    std::copy_n(row, count, elements);
  }
}

/// Rows, by a copy.
template <class T>
void order_rows(T* a, std::int64_t columns, const std::int32_t* order, std::int64_t count, T* copy) {
  std::copy_n(a, count * columns, copy);
  for (std::int64_t i = 0; i < count; ++i) std::copy_n(copy + order[i] * columns, columns, a + i * columns);
}

// ---- eigh

/// Makes a Hermitian matrix, of which the lower triangle counts, tridiagonal: a = h t h^H. The reflections that make h
/// stand below the diagonal.
template <class F>
void make_tridiagonal(LaneMatrix<F> a, std::int64_t n, LaneMatrix<F> taus, LaneMatrix<F> y, LaneVector<F> diagonal,
                      LaneVector<F> beside) {
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    diagonal.set(k, F::real(a.get(k, k)));
    const LaneReflection<F> reflection = reflect_column(a, k + 1, n, k);
    taus.set(0, k, reflection.tau);
    beside.set(k, reflection.beta);
    a.set(k + 1, k, F::of_real(all_lanes<F>(1)));
    const auto v = [&](std::int64_t i) { return a.get(i, k); };
    // y = tau a v, and v^H a v.
    auto inner = F::zero();
    for (std::int64_t i = k + 1; i < n; ++i) {
      auto sum = F::scaled(v(i), F::real(a.get(i, i)));
      for (std::int64_t j = k + 1; j < i; ++j) sum = F::mul_add(sum, a.get(i, j), v(j));
      for (std::int64_t j = i + 1; j < n; ++j) sum = F::conj_mul_add(sum, a.get(j, i), v(j));
      inner = F::conj_mul_add(inner, v(i), sum);
      y.set(0, i, F::mul(reflection.tau, sum));
    }
    // a -= y v^H + v y^H, with half of v^H a v taken from y.
    const auto square = F::add_square(all_lanes<F>(0), reflection.tau);
    const auto half = hn::Mul(hn::Mul(square, F::real(inner)), all_lanes<F>(-0.5));
    for (std::int64_t i = k + 1; i < n; ++i) y.set(0, i, F::add(y.get(0, i), F::scaled(v(i), half)));
    for (std::int64_t i = k + 1; i < n; ++i) {
      const auto v_i = v(i);
      const auto y_i = y.get(0, i);
      for (std::int64_t j = k + 1; j <= i; ++j) {
        a.set(i, j, F::mul_conj_sub(F::mul_conj_sub(a.get(i, j), y_i, v(j)), v_i, y.get(0, j)));
      }
    }
  }
  diagonal.set(n - 1, F::real(a.get(n - 1, n - 1)));
}

/// The eigenvalues of symmetric matrices (a b, b c), and the rotation that diagonalises them: exact where the matrix is
/// singular, as LAPACK's (laev2, after Kahan). `first` is the value of greater size.
template <class F>
struct PairOfValues {
  using V = typename F::Vector;
  V first;
  V second;
  V c;
  V s;

  HWY_INLINE PairOfValues(V x, V y, V z) {
    const V zero = all_lanes<F>(0);
    const V one = all_lanes<F>(1);
    const V sum = hn::Add(x, z);
    const V difference = hn::Sub(x, z);
    const V twice = hn::Add(y, y);
    const V size = hn::Max(hn::Abs(difference), hn::Abs(twice));
    const V part = hn::Div(hn::Min(hn::Abs(difference), hn::Abs(twice)), size);
    const V root = hn::Mul(size, hn::Sqrt(hn::MulAdd(part, part, one)));
    const auto x_is_greater = hn::Gt(hn::Abs(x), hn::Abs(z));
    const V greater = hn::IfThenElse(x_is_greater, x, z);
    const V lesser = hn::IfThenElse(x_is_greater, z, x);
    const auto is_negative = hn::Lt(sum, zero);
    const V signed_root = hn::IfThenElse(is_negative, hn::Neg(root), root);
    first = hn::Mul(all_lanes<F>(0.5), hn::Add(sum, signed_root));
    second = hn::IfThenElse(hn::Eq(sum, zero), hn::Neg(first),
                            hn::Sub(hn::Mul(hn::Div(greater, first), lesser), hn::Mul(hn::Div(y, first), y)));
    const auto falls = hn::Lt(difference, zero);
    const V longer = hn::IfThenElse(falls, hn::Sub(difference, root), hn::Add(difference, root));
    const auto is_steep = hn::Gt(hn::Abs(longer), hn::Abs(twice));
    const V slope = hn::Neg(hn::Div(hn::IfThenElse(is_steep, twice, longer), hn::IfThenElse(is_steep, longer, twice)));
    const V length = hn::Div(one, hn::Sqrt(hn::MulAdd(slope, slope, one)));
    const V other = hn::Mul(slope, length);
    const V cosine = hn::IfThenElse(is_steep, other, length);
    const V sine = hn::IfThenElse(is_steep, length, other);
    const auto is_turned = hn::Not(hn::Xor(is_negative, falls));
    c = hn::IfThenElse(is_turned, hn::Neg(sine), cosine);
    s = hn::IfThenElse(is_turned, cosine, sine);
  }
};

/// Diagonalises a tridiagonal matrix; `beside` has one more element than there are beside the diagonal. The columns of
/// z, which lie one after the other, are rotated as those of the matrix are. Lanes that are lost are left alone;
/// returns them and those that do not converge.
///
/// A rotation takes as long as its root and its quotient. Columns are rotated meanwhile, as nothing waits for them.
template <class F>
typename F::Mask diagonalise(typename F::Mask is_lost, LaneVector<F> diagonal, LaneVector<F> beside, std::int64_t n,
                             LaneMatrix<F> z) {
  using V = typename F::Vector;
  const typename F::Tag d;
  const V zero = all_lanes<F>(0);
  const V one = all_lanes<F>(1);
  const V epsilon = epsilon_of_lanes<F>();
  beside.set(n - 1, zero);
  V greatest = zero;
  for (std::int64_t i = 0; i < n; ++i) {
    greatest = hn::Max(greatest, hn::Max(hn::Abs(diagonal.get(i)), hn::Abs(beside.get(i))));
  }
  // Squares of what is greater do not vanish.
  const V tiny = hn::Mul(hn::Mul(epsilon, epsilon), greatest);
  for (std::int64_t l = 0; l < n; ++l) {
    for (int step = 0;; ++step) {
      // The first block from l on ends in row m.
      V m = position<F>(n - 1);
      V at_m = diagonal.get(n - 1);
      for (std::int64_t i = n - 2; i >= l; --i) {
        const V sizes = hn::Add(hn::Abs(diagonal.get(i)), hn::Abs(diagonal.get(i + 1)));
        const auto ends = hn::Le(hn::Abs(beside.get(i)), hn::MulAdd(epsilon, sizes, tiny));
        // Tiny numbers would cost time, as those do whose squares are subnormal.
        beside.set_where(ends, i, zero);
        m = hn::IfThenElse(ends, position<F>(i), m);
        at_m = hn::IfThenElse(ends, diagonal.get(i), at_m);
      }
      auto is_left = hn::AndNot(is_lost, hn::Gt(m, position<F>(l)));
      if (hn::AllFalse(d, is_left)) break;
      const auto is_pair = hn::And(is_left, hn::Eq(m, position<F>(l + 1)));
      if (!hn::AllFalse(d, is_pair)) {
        const PairOfValues<F> pair(diagonal.get(l), beside.get(l), diagonal.get(l + 1));
        diagonal.set_where(is_pair, l, pair.first);
        diagonal.set_where(is_pair, l + 1, pair.second);
        beside.set_where(is_pair, l, zero);
        rotate<F>(z.at(0, l), z.at(0, l + 1), n, hn::IfThenElse(is_pair, pair.c, one),
                  hn::IfThenElseZero(is_pair, pair.s));
        is_left = hn::AndNot(is_pair, is_left);
        if (hn::AllFalse(d, is_left)) break;
      }
      if (step == kMostSteps) {
        is_lost = hn::Or(is_lost, is_left);
        break;
      }
      const auto end =
          static_cast<std::int64_t>(hn::GetLane(hn::MaxOfLanes(d, hn::IfThenElse(is_left, m, position<F>(l)))));
      // Wilkinson's shift.
      const V first = beside.get(l);
      V g = hn::Div(hn::Sub(diagonal.get(l + 1), diagonal.get(l)), hn::Add(first, first));
      const V root = hn::Sqrt(hn::MulAdd(g, g, one));
      g = hn::Add(hn::Sub(at_m, diagonal.get(l)), hn::Div(first, hn::Add(g, hn::CopySign(root, g))));
      V s = one;
      V c = one;
      V p = zero;
      auto goes_on = is_left;
      for (std::int64_t i = end - 1; i >= l; --i) {
        const auto turns = hn::And(goes_on, hn::Lt(position<F>(i), m));
        const V own = hn::IfThenElseZero(turns, beside.get(i));
        const V f = hn::Mul(s, own);
        const V b = hn::Mul(c, own);
        const V own_g = hn::IfThenElse(turns, g, one);
        const V r = hn::Sqrt(hn::MulAdd(f, f, hn::Mul(own_g, own_g)));
        beside.set_where(turns, i + 1, r);
        // The matrix falls apart here.
        const auto stops = hn::And(turns, hn::Eq(r, zero));
        diagonal.set_where(stops, i + 1, hn::Sub(diagonal.get(i + 1), p));
        goes_on = hn::AndNot(stops, goes_on);
        const auto rotates = hn::AndNot(stops, turns);
        const V inverse = hn::Div(one, r);
        s = hn::IfThenElse(rotates, hn::Mul(f, inverse), s);
        c = hn::IfThenElse(rotates, hn::Mul(g, inverse), c);
        const V base = hn::Sub(diagonal.get(i + 1), p);
        const V t = hn::MulAdd(hn::Sub(diagonal.get(i), base), s, hn::Mul(hn::Add(c, c), b));
        p = hn::IfThenElse(rotates, hn::Mul(s, t), p);
        diagonal.set_where(rotates, i + 1, hn::Add(base, p));
        g = hn::IfThenElse(rotates, hn::MulSub(c, t, b), g);
        rotate<F>(z.at(0, i), z.at(0, i + 1), n, hn::IfThenElse(rotates, c, one),
                  hn::IfThenElseZero(rotates, hn::Neg(s)));
      }
      diagonal.set_where(goes_on, l, hn::Sub(diagonal.get(l), p));
      beside.set_where(goes_on, l, g);
      for (std::int64_t i = l; i <= end; ++i) {
        beside.set_where(hn::And(is_left, hn::Eq(m, position<F>(i))), i, zero);
      }
    }
  }
  return is_lost;
}

template <class T>
void eigh_of(const MatrixProblem& problem, std::int64_t count, const T* a, RealOf<T>* values, T* vectors) {
  const std::int64_t n = problem.rows;
  Workspace<T> row(n);
  Workspace<std::int32_t> order(n);
  const auto reals = [&](auto lanes) {
    return (2 * n * n + 2 * n) * decltype(lanes)::kStep + 2 * n * decltype(lanes)::kLanes;
  };
  for_each_group<T>(count, reals, [&](auto lanes, auto* place, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    const auto take = [&](std::int64_t size) { return std::exchange(place, place + size); };
    const LaneMatrix<F> matrix{take(n * n * F::kStep), n};
    const LaneMatrix<F> z{take(n * n * F::kStep), 1, n};
    const LaneMatrix<F> taus{take(n * F::kStep), n};
    const LaneMatrix<F> y{take(n * F::kStep), n};
    const LaneVector<F> diagonal{take(n * F::kLanes)};
    const LaneVector<F> beside{take(n * F::kLanes)};
    load_group<F>(a + first * n * n, n * n, matrices, matrix.data);
    auto sum = all_lanes<F>(0);
    auto greatest = all_lanes<F>(0);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        sum = F::add_nothing(sum, matrix.get(i, j));
        greatest = hn::Max(greatest, F::greatest_part(matrix.get(i, j)));
      }
    }
    auto is_bad = is_nan<F>(sum);
    const PowersOfTwo<F> scale(greatest);
    scale_all(matrix, n, n, scale.reciprocal);
    make_tridiagonal(matrix, n, taus, y, diagonal, beside);
    form_unitary(matrix, taus, n - 1, 1, z, n, n);
    is_bad = diagonalise<F>(is_bad, diagonal, beside, n, z);
    // The sign of a zero depends on how often it was rotated by nothing.
    const auto nan = all_lanes<F>(std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = hn::Mul(diagonal.get(i), scale.power);
      diagonal.set(i, hn::IfThenElse(is_bad, nan, value));
      for (std::int64_t j = 0; j < n; ++j) matrix.set(i, j, spoilt<F>(is_bad, F::add(z.get(i, j), F::zero())));
    }
    T* const out = vectors + first * n * n;
    store_group<F>(matrix.data, n * n, matrices, out, z.data);
    for (std::int64_t lane = 0; lane < matrices; ++lane) {
      const bool is_ordered = order_values(diagonal, n, lane, false, order.data());
      if (!is_ordered) order_columns(out + lane * n * n, n, n, order.data(), n, row.data());
      for (std::int64_t i = 0; i < n; ++i) {
        values[(first + lane) * n + i] = diagonal.data[order.data()[i] * F::kLanes + lane];
      }
    }
  });
}

// ---- svd

/// Makes a matrix with no fewer rows than columns bidiagonal: a = h b g^H. The reflections of h stand below the
/// diagonal, those of g in the rows from the second element beside it on.
template <class F>
void make_bidiagonal(LaneMatrix<F> a, std::int64_t m, std::int64_t n, LaneMatrix<F> left_taus, LaneMatrix<F> right_taus,
                     LaneVector<F> diagonal, LaneVector<F> beside) {
  for (std::int64_t k = 0; k < n; ++k) {
    const LaneReflection<F> left = reflect_column(a, k, m, k);
    left_taus.set(0, k, left.tau);
    diagonal.set(k, left.beta);
    reflect_rows(a, k, F::conj(left.tau), a, k, m, k + 1, n);
    if (k + 1 == n) continue;
    // The adjoint of what is left is reflected on its own left.
    for (std::int64_t j = k + 1; j < n; ++j) {
      for (std::int64_t i = k; i < m && F::kParts == 2; ++i) a.set(i, j, F::conj(a.get(i, j)));
    }
    const LaneMatrix<F> adjoint = a.transposed();
    const LaneReflection<F> right = reflect_column(adjoint, k + 1, n, k);
    right_taus.set(0, k, right.tau);
    beside.set(k, right.beta);
    reflect_rows(adjoint, k, F::conj(right.tau), adjoint, k + 1, n, k + 1, m);
    for (std::int64_t j = k + 1; j < n; ++j) {
      for (std::int64_t i = k + 1; i < m && F::kParts == 2; ++i) a.set(i, j, F::conj(a.get(i, j)));
    }
  }
}

/// Diagonalises a bidiagonal matrix, and rotates the columns of u and v as its rows and columns. Lanes that are lost
/// are left alone; returns them and those that do not converge.
template <class F>
typename F::Mask diagonalise_bidiagonal(typename F::Mask is_lost, LaneVector<F> diagonal, LaneVector<F> beside,
                                        std::int64_t n, LaneMatrix<F> u, std::int64_t rows, LaneMatrix<F> v) {
  using V = typename F::Vector;
  const typename F::Tag d;
  const V zero = all_lanes<F>(0);
  const V one = all_lanes<F>(1);
  V greatest = zero;
  for (std::int64_t i = 0; i < n; ++i) greatest = hn::Max(greatest, hn::Abs(diagonal.get(i)));
  for (std::int64_t i = 0; i + 1 < n; ++i) greatest = hn::Max(greatest, hn::Abs(beside.get(i)));
  const V negligible = hn::Mul(greatest, hn::Mul(epsilon_of_lanes<F>(), all_lanes<F>(0.5)));
  for (std::int64_t k = n - 1; k > 0; --k) {
    for (int step = 0;; ++step) {
      // The block that ends in row k begins in row l. If it has a zero on its diagonal, the shift is zero, and the zero
      // moves to its end.
      V l = position<F>(0);
      V at_l = diagonal.get(0);
      V beside_l = beside.get(0);
      auto has_zero = hn::Le(hn::Abs(at_l), negligible);
      for (std::int64_t i = 1; i < k; ++i) {
        const auto begins = hn::Le(hn::Abs(beside.get(i - 1)), negligible);
        beside.set_where(begins, i - 1, zero);
        l = hn::IfThenElse(begins, position<F>(i), l);
        at_l = hn::IfThenElse(begins, diagonal.get(i), at_l);
        beside_l = hn::IfThenElse(begins, beside.get(i), beside_l);
        has_zero = hn::Or(hn::AndNot(begins, has_zero), hn::Le(hn::Abs(diagonal.get(i)), negligible));
      }
      const auto is_left = hn::AndNot(is_lost, hn::Gt(hn::Abs(beside.get(k - 1)), negligible));
      beside.set_where(hn::Not(is_left), k - 1, zero);
      if (hn::AllFalse(d, is_left)) break;
      if (step == kMostSteps) {
        is_lost = hn::Or(is_lost, is_left);
        break;
      }
      const auto begin =
          static_cast<std::int64_t>(hn::GetLane(hn::MinOfLanes(d, hn::IfThenElse(is_left, l, position<F>(k)))));
      // Wilkinson's shift, of the adjoint times the matrix.
      const V d1 = diagonal.get(k - 1);
      const V e1 = beside.get(k - 1);
      const V d2 = diagonal.get(k);
      const V e0 =
          k > 1 ? hn::IfThenElse(hn::Lt(l, position<F>(k - 1)), beside.get(std::max<std::int64_t>(k - 2, 0)), zero)
                : zero;
      const V t11 = hn::MulAdd(d1, d1, hn::Mul(e0, e0));
      const V t12 = hn::Mul(d1, e1);
      const V t22 = hn::MulAdd(d2, d2, hn::Mul(e1, e1));
      const V half = hn::Mul(hn::Sub(t11, t22), all_lanes<F>(0.5));
      const V root = hn::Sqrt(hn::MulAdd(half, half, hn::Mul(t12, t12)));
      const V shift = hn::Sub(t22, hn::Div(hn::Mul(t12, t12), hn::Add(half, hn::CopySign(root, half))));
      const auto unshifted = hn::Or(has_zero, hn::Eq(t12, zero));
      const V start = hn::IfThenElse(unshifted, at_l, hn::Sub(hn::Mul(at_l, at_l), shift));
      const V start_beside = hn::IfThenElse(unshifted, beside_l, hn::Mul(at_l, beside_l));
      V y = zero;
      V z = zero;
      for (std::int64_t i = begin; i < k; ++i) {
        const auto starts = hn::Eq(l, position<F>(i));
        const auto turns = hn::And(is_left, hn::Le(l, position<F>(i)));
        y = hn::IfThenElse(starts, start, y);
        z = hn::IfThenElse(starts, start_beside, z);
        const LaneRotation<F> columns(hn::IfThenElse(turns, y, one), hn::IfThenElseZero(turns, z));
        if (i > 0) beside.set_where(hn::AndNot(starts, turns), i - 1, columns.r);
        const V d_i = diagonal.get(i);
        const V e_i = beside.get(i);
        const V d_next = diagonal.get(i + 1);
        y = hn::MulAdd(columns.c, d_i, hn::Mul(columns.s, e_i));
        const V e_turned = hn::NegMulAdd(columns.s, d_i, hn::Mul(columns.c, e_i));
        z = hn::Mul(columns.s, d_next);
        const V d_turned = hn::Mul(columns.c, d_next);
        rotate<F>(v.at(0, i), v.at(0, i + 1), n, columns.c, columns.s);
        const LaneRotation<F> rows_turned(hn::IfThenElse(turns, y, one), z);
        diagonal.set_where(turns, i, rows_turned.r);
        y = hn::MulAdd(rows_turned.c, e_turned, hn::Mul(rows_turned.s, d_turned));
        diagonal.set_where(turns, i + 1, hn::NegMulAdd(rows_turned.s, e_turned, hn::Mul(rows_turned.c, d_turned)));
        if (i + 1 < k) {
          const V e_next = beside.get(i + 1);
          z = hn::Mul(rows_turned.s, e_next);
          beside.set_where(turns, i + 1, hn::Mul(rows_turned.c, e_next));
        } else {
          beside.set_where(turns, i, y);
        }
        rotate<F>(u.at(0, i), u.at(0, i + 1), rows, rows_turned.c, rows_turned.s);
      }
    }
  }
  return is_lost;
}

template <class T>
void svd_of(const MatrixProblem& problem, std::int64_t count, const T* a, T* u, RealOf<T>* values, T* vh) {
  // Of wide matrices the adjoint is decomposed.
  const bool is_wide = problem.rows < problem.columns;
  const std::int64_t m = std::max(problem.rows, problem.columns);
  const std::int64_t n = problem.least();
  const std::int64_t tall = problem.full ? m : n;  // Columns of the factor with m rows.
  Workspace<T> spare(m * n);
  Workspace<std::int32_t> order(n);
  const auto reals = [&](auto lanes) {
    using F = decltype(lanes);
    return (m * n + 2 * m * tall + n * n + 2 * n) * F::kStep + 2 * n * F::kLanes + m * tall * F::kParts;
  };
  for_each_group<T>(count, reals, [&](auto lanes, auto* place, std::int64_t first, std::int64_t matrices) {
    using F = decltype(lanes);
    const auto take = [&](std::int64_t size) { return std::exchange(place, place + size); };
    const LaneMatrix<F> matrix{take(m * n * F::kStep), n};
    const LaneMatrix<F> tall_factor{take(m * tall * F::kStep), 1, m};
    const LaneMatrix<F> square_factor{take(n * n * F::kStep), 1, n};
    auto* const finished = take(m * tall * F::kStep);
    const LaneMatrix<F> left_taus{take(n * F::kStep), n};
    const LaneMatrix<F> right_taus{take(n * F::kStep), n};
    const LaneVector<F> diagonal{take(n * F::kLanes)};
    const LaneVector<F> beside{take(n * F::kLanes)};
    auto* const rest = place;
    if (is_wide) {
      load_group<F>(a + first * m * n, m * n, matrices, finished);
      const LaneMatrix<F> wide{finished, m};
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < m; ++j) matrix.set(j, i, F::conj(wide.get(i, j)));
      }
    } else {
      load_group<F>(a + first * m * n, m * n, matrices, matrix.data);
    }
    auto sum = all_lanes<F>(0);
    auto greatest = all_lanes<F>(0);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        sum = F::add_nothing(sum, matrix.get(i, j));
        greatest = hn::Max(greatest, F::greatest_part(matrix.get(i, j)));
      }
    }
    auto is_bad = is_nan<F>(sum);
    const PowersOfTwo<F> scale(greatest);
    scale_all(matrix, m, n, scale.reciprocal);
    make_bidiagonal(matrix, m, n, left_taus, right_taus, diagonal, beside);
    form_unitary(matrix, left_taus, n, 0, tall_factor, m, tall);
    form_unitary(matrix.transposed(), right_taus, n - 1, 1, square_factor, n, n);
    is_bad = diagonalise_bidiagonal<F>(is_bad, diagonal, beside, n, tall_factor, m, square_factor);
    // Singular values are not negative.
    const auto nan = all_lanes<F>(std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t j = 0; j < n; ++j) {
      const auto value = diagonal.get(j);
      diagonal.set(j, hn::IfThenElse(is_bad, nan, hn::Mul(hn::Abs(value), scale.power)));
      const auto is_negative = hn::Lt(value, all_lanes<F>(0));
      if (hn::AllFalse(typename F::Tag(), is_negative)) continue;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto x = square_factor.get(i, j);
        square_factor.set(i, j, F::select(is_negative, F::negative(x), x));
      }
    }
    // The sign of a zero depends on how often it was rotated by nothing.
    const auto finished_number = [&](typename F::Number x) { return spoilt<F>(is_bad, F::add(x, F::zero())); };
    // a = tall s square^H, or its adjoint.
    const std::int64_t rows = problem.rows;
    const std::int64_t columns = problem.columns;
    const LaneMatrix<F>& left_factor = is_wide ? square_factor : tall_factor;
    const LaneMatrix<F>& right_factor = is_wide ? tall_factor : square_factor;
    T* const left_out = u + first * rows * problem.left();
    T* const right_out = vh + first * problem.right() * columns;
    const LaneMatrix<F> left_lanes{finished, problem.left()};
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < problem.left(); ++j) left_lanes.set(i, j, finished_number(left_factor.get(i, j)));
    }
    store_group<F>(finished, rows * problem.left(), matrices, left_out, rest);
    const LaneMatrix<F> right_lanes{finished, columns};
    for (std::int64_t i = 0; i < problem.right(); ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        right_lanes.set(i, j, finished_number(F::conj(right_factor.get(j, i))));
      }
    }
    store_group<F>(finished, problem.right() * columns, matrices, right_out, rest);
    for (std::int64_t lane = 0; lane < matrices; ++lane) {
      if (!order_values(diagonal, n, lane, true, order.data())) {
        order_columns(left_out + lane * rows * problem.left(), rows, problem.left(), order.data(), n, spare.data());
        order_rows(right_out + lane * problem.right() * columns, columns, order.data(), n, spare.data());
      }
      for (std::int64_t i = 0; i < n; ++i) {
        values[(first + lane) * n + i] = diagonal.data[order.data()[i] * F::kLanes + lane];
      }
    }
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
void SmallSpectra<T>::eigh(const MatrixProblem& problem, const T* a, RealOf<T>* values, T* vectors) const {
  const Workspace<T> unwanted(vectors == nullptr ? count_ * problem.rows * problem.rows : 0);
  SHOAL_SIMD(eigh_of<T>)(problem, count_, a, values, vectors == nullptr ? unwanted.data() : vectors);
}

template <class T>
void SmallSpectra<T>::svd(const MatrixProblem& problem, const T* a, T* u, RealOf<T>* values, T* vh) const {
  const bool is_wanted = u != nullptr;
  const Workspace<T> left(is_wanted ? 0 : count_ * problem.rows * problem.left());
  const Workspace<T> right(is_wanted ? 0 : count_ * problem.right() * problem.columns);
  SHOAL_SIMD(svd_of<T>)(problem, count_, a, is_wanted ? u : left.data(), values, is_wanted ? vh : right.data());
}

template class SmallSpectra<float>;
template class SmallSpectra<double>;
template class SmallSpectra<std::complex<float>>;
template class SmallSpectra<std::complex<double>>;

}  // namespace shoal::cpu

#endif  // HWY_ONCE
