#include "backend/cpu/decompositions/matrix_tiles.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decompositions/matrix_tiles.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/workspace.h"

// Comes after what it uses.
#include "backend/cpu/decompositions/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

/// Of numbers that are only moved.
template <class Real>
void transpose_of(const Real* from, std::int64_t from_stride, Real* to, std::int64_t to_stride, std::int64_t rows,
                  std::int64_t columns) {
  // Eight lines at a time fit the ways of the caches, also where they fall into the same set.
  const hn::CappedTag<Real, 8> d;
  const hn::CappedTag<Real, kBlock<Real>> shorter;
  std::int64_t i = 0;
  const auto some_rows = [&](auto tag) {
    constexpr auto kRows = static_cast<std::int64_t>(hn::MaxLanes(decltype(tag)()));
    for (; i + kRows <= rows; i += kRows) {
      const LanePointers<const Real, kRows> pointers(from + i * from_stride, from_stride, kRows, nullptr);
      load_lanes(tag, pointers.matrices, columns, to + i, to_stride);
    }
  };
  some_rows(d);
  some_rows(shorter);
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(to + j * to_stride + i, from + i * from_stride + j, sizeof(Real));
  }
}

/// Of the reals of rows; a row has `parts` for each column.
template <class Real>
bool copy_finite_of(const Real* from, Real* to, std::int64_t begin, std::int64_t end, std::int64_t columns,
                    std::int64_t parts, bool is_lower) {
  const hn::ScalableTag<Real> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<Real>()));
  const auto zero = hn::Zero(d);
  auto even = zero;
  auto odd = zero;
  for (std::int64_t row = begin; row < end; ++row) {
    const Real* const source = from + row * columns * parts;
    Real* const target = to + row * columns * parts;
    const std::int64_t count = (is_lower ? std::min(row + 1, columns) : columns) * parts;
    std::int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      const auto x = hn::LoadU(d, source + i);
      const auto y = hn::LoadU(d, source + i + kLanes);
      even = hn::MulAdd(x, zero, even);
      odd = hn::MulAdd(y, zero, odd);
      hn::StoreU(x, d, target + i);
      hn::StoreU(y, d, target + i + kLanes);
    }
    for (; i < count; i += kLanes) {
      const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kLanes, count - i)));
      const auto x = hn::MaskedLoad(mask, d, source + i);
      even = hn::MulAdd(x, zero, even);
      hn::BlendedStore(x, mask, d, target + i);
    }
    std::fill(target + count, target + columns * parts, Real{0});
  }
  return hn::AllTrue(d, hn::Eq(hn::Add(even, odd), zero));
}

/// A number of l in all lanes.
template <class F, class T>
HWY_INLINE typename F::Number in_all_lanes(const T& x) {
  const typename F::Tag d;
  if constexpr (F::kParts == 1) {
    return hn::Set(d, x);
  } else {
    return {hn::Set(d, x.real()), hn::Set(d, x.imag())};
  }
}

/// Of kGroups groups of rows, whose columns are vectors.
template <class F, std::size_t kGroups, class T>
void solve_groups(const T* l, std::int64_t l_stride, const typename F::Real* inverses, std::int64_t columns,
                  LaneMatrix<F> x) {
  const auto some_columns = [&](auto count, std::int64_t j) {
    constexpr std::size_t kColumns = decltype(count)::value;
    typename F::Number sums[kGroups][kColumns];
    const auto column = [&](std::size_t c) { return j + static_cast<std::int64_t>(c); };
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (std::size_t c = 0; c < kColumns; ++c) sums[g][c] = x.get(static_cast<std::int64_t>(g), column(c));
    }
    for (std::int64_t p = 0; p < j; ++p) {
      typename F::Number solved[kGroups];
      for (std::size_t g = 0; g < kGroups; ++g) solved[g] = x.get(static_cast<std::int64_t>(g), p);
      for (std::size_t c = 0; c < kColumns; ++c) {
        const auto factor = in_all_lanes<F>(l[column(c) * l_stride + p]);
        for (std::size_t g = 0; g < kGroups; ++g) sums[g][c] = F::mul_conj_sub(sums[g][c], solved[g], factor);
      }
    }
    for (std::size_t c = 0; c < kColumns; ++c) {
      for (std::size_t before = 0; before < c; ++before) {
        const auto factor = in_all_lanes<F>(l[column(c) * l_stride + column(before)]);
        for (std::size_t g = 0; g < kGroups; ++g) sums[g][c] = F::mul_conj_sub(sums[g][c], sums[g][before], factor);
      }
      const auto inverse = hn::Set(typename F::Tag(), inverses[column(c)]);
      for (std::size_t g = 0; g < kGroups; ++g) {
        sums[g][c] = F::scaled(sums[g][c], inverse);
        x.set(static_cast<std::int64_t>(g), column(c), sums[g][c]);
      }
    }
  };
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) some_columns(std::integral_constant<std::size_t, 4>(), j);
  for (; j < columns; ++j) some_columns(std::integral_constant<std::size_t, 1>(), j);
}

template <class T>
void solve_rows_of(const T* l, std::int64_t l_stride, T* x, std::int64_t x_stride, std::int64_t rows,
                   std::int64_t columns) {
  using Real = RealOf<T>;
  using F = LanesOf<T, hn::ScalableTag<Real>>;
  constexpr std::int64_t kMostGroups = F::kParts == 1 ? 2 : 1;
  const std::int64_t size = columns * F::kStep;
  Workspace<Real> memory(kMostGroups * size + columns + columns * F::kParts);
  Real* const inverses = memory.data() + kMostGroups * size;
  for (std::int64_t j = 0; j < columns; ++j) inverses[j] = 1 / std::real(l[j * l_stride + j]);
  // A row for the lanes that are left over.
  Real* const unwanted = inverses + columns;
  std::fill_n(unwanted, columns * F::kParts, Real{0});
  const typename F::Tag d;
  const LaneMatrix<F> groups{memory.data(), columns};
  const auto rows_from = [&](std::int64_t first) {
    return LanePointers<Real, F::kLanes>(reinterpret_cast<Real*>(x + first * x_stride), x_stride * F::kParts,
                                         rows - first, unwanted);
  };
  for (std::int64_t first = 0; first < rows;) {
    const std::int64_t count = rows - first > F::kLanes ? kMostGroups : 1;
    for (std::int64_t g = 0; g < count; ++g) {
      const auto pointers = rows_from(first + g * F::kLanes);
      load_lanes(d, pointers.matrices, columns * F::kParts, memory.data() + g * size, F::kLanes);
    }
    if (count == 1) {
      solve_groups<F, 1>(l, l_stride, inverses, columns, groups);
    } else {
      solve_groups<F, std::size_t{kMostGroups}>(l, l_stride, inverses, columns, groups);
    }
    for (std::int64_t g = 0; g < count; ++g) {
      const auto pointers = rows_from(first + g * F::kLanes);
      store_lanes(d, memory.data() + g * size, columns * F::kParts, pointers.matrices);
    }
    first += count * F::kLanes;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {
namespace {

// Of elements that are vectors themselves. A cache line of each side stays while its elements are copied.
template <class T>
void copy_transposed_elements(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                              std::int64_t columns) {
  constexpr std::int64_t kSide = 4;
  for (std::int64_t i = 0; i < rows; i += kSide) {
    for (std::int64_t j = 0; j < columns; j += kSide) {
      for (std::int64_t column = j; column < std::min(j + kSide, columns); ++column) {
        for (std::int64_t row = i; row < std::min(i + kSide, rows); ++row) {
          to[column * to_stride + row] = from[row * from_stride + column];
        }
      }
    }
  }
}

}  // namespace

template <class T>
void MatrixTiles<T>::copy_transposed(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                                     std::int64_t rows, std::int64_t columns) {
  if constexpr (sizeof(T) == 16) {
    copy_transposed_elements(from, from_stride, to, to_stride, rows, columns);
  } else {
    using Moved = std::conditional_t<sizeof(T) == 4, float, double>;  // What has as many bytes.
    SHOAL_SIMD(transpose_of<Moved>)
    (reinterpret_cast<const Moved*>(from), from_stride, reinterpret_cast<Moved*>(to), to_stride, rows, columns);
  }
}

template <class T>
bool MatrixTiles<T>::copy_finite(const T* from, T* to, std::int64_t begin, std::int64_t end, std::int64_t columns,
                                 bool is_lower) {
  using Real = RealOf<T>;
  constexpr std::int64_t kParts = kIsComplexElement<T> ? 2 : 1;
  return SHOAL_SIMD(copy_finite_of<Real>)(reinterpret_cast<const Real*>(from), reinterpret_cast<Real*>(to), begin, end,
                                          columns, kParts, is_lower);
}

template <class T>
void MatrixTiles<T>::solve_rows(const T* l, std::int64_t l_stride, T* x, std::int64_t x_stride, std::int64_t rows,
                                std::int64_t columns) {
  SHOAL_SIMD(solve_rows_of<T>)(l, l_stride, x, x_stride, rows, columns);
}

template struct MatrixTiles<float>;
template struct MatrixTiles<double>;
template struct MatrixTiles<std::complex<float>>;
template struct MatrixTiles<std::complex<double>>;

}  // namespace shoal::cpu

#endif  // HWY_ONCE
