#include "backend/cpu/decompositions/tridiagonal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/decompositions/workspace.h"
#include "backend/cpu/products/libraries.h"

namespace shoal::cpu {
namespace {

// Steps for one value by rotations, of which there are two or three, and for a root. More are for what does not
// converge.
constexpr int kMostSteps = 60;
constexpr int kMostStepsOfRoot = 300;

template <class Real>
constexpr Real kUnit = std::numeric_limits<Real>::epsilon() / 2;

// What becomes of a column when halves are joined: it stays as it is, it is turned with another one, or vectors of
// roots are made of it and others.
constexpr std::int64_t kAlone = 0;
constexpr std::int64_t kTurned = 1;
constexpr std::int64_t kRoot = 2;

std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }

// x, y := c x + s y, c y - s x.
template <class Real>
void rotate(std::int64_t n, Real* x, Real* y, Real c, Real s) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Real first = x[i];
    x[i] = c * first + s * y[i];
    y[i] = c * y[i] - s * first;
  }
}

// Rotations with implicit shifts: Golub and Van Loan, "Matrix Computations", 4th edition, 8.3.5. z may be null.
template <class Real>
bool diagonalise(std::int64_t n, Real* d, Real* e, Real* z) {
  Real greatest = 0;
  for (std::int64_t i = 0; i < n; ++i) greatest = std::max(greatest, std::abs(d[i]) + (i > 0 ? std::abs(e[i - 1]) : 0));
  const Real negligible = kUnit<Real> * greatest;
  for (std::int64_t last = n - 1; last > 0; --last) {
    for (int step = 0;; ++step) {
      std::int64_t first = last;
      while (first > 0 && std::abs(e[first - 1]) > negligible) --first;
      if (first < last && first > 0) e[first - 1] = 0;
      if (first == last) break;
      if (step == kMostSteps) return false;
      // The eigenvalue of the last two rows that is nearer to the last element.
      const Real half = (d[last - 1] - d[last]) / 2;
      const Real b = e[last - 1];
      const Real shift = d[last] - b * (b / (half + std::copysign(std::hypot(half, b), half)));
      Real x = d[first] - shift;
      Real y = e[first];
      for (std::int64_t k = first; k < last; ++k) {
        const Real r = std::hypot(x, y);
        const Real c = r == 0 ? Real{1} : x / r;
        const Real s = r == 0 ? Real{0} : y / r;
        if (k > first) e[k - 1] = r;
        const Real difference = d[k] - d[k + 1];
        const Real moved = s * (s * difference - 2 * c * e[k]);
        e[k] = c * s * -difference + (c * c - s * s) * e[k];
        d[k] -= moved;
        d[k + 1] += moved;
        if (z != nullptr) rotate(n, z + k * n, z + (k + 1) * n, c, s);
        if (k + 1 == last) break;
        x = e[k];
        y = s * e[k + 1];
        e[k + 1] *= c;
      }
    }
  }
  // Ascending.
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t least = std::min_element(d + i, d + n) - d;
    if (least == i) continue;
    std::swap(d[i], d[least]);
    if (z != nullptr) std::swap_ranges(z + i * n, z + (i + 1) * n, z + least * n);
  }
  return true;
}

// Sums in several lanes, which are added up at last.
constexpr std::size_t kLanes = 8;

template <class Real>
Real total(const std::array<Real, kLanes>& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// The sum of w / (d - origin - t) over poles, and its derivative.
template <class Real>
std::pair<Real, Real> sums(std::span<const Real> d, std::span<const Real> w, Real origin, Real t) {
  std::array<Real, kLanes> values{};
  std::array<Real, kLanes> slopes{};
  std::size_t i = 0;
  for (; i + kLanes <= d.size(); i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      const Real distance = (d[i + k] - origin) - t;
      const Real value = w[i + k] / distance;
      values[k] += value;
      slopes[k] += value / distance;
    }
  }
  for (std::size_t k = 0; i < d.size(); ++i, ++k) {
    const Real distance = (d[i] - origin) - t;
    const Real value = w[i] / distance;
    values[k] += value;
    slopes[k] += value / distance;
  }
  return {total(values), total(slopes)};
}

template <class Real>
struct Root {
  std::size_t origin;
  Real distance;
};

// The root with this number of 1 / rho + sum of w / (d - x), for ascending d: it lies between d[number] and the next.
// Both sides of the sum are replaced by terms with the nearest poles that agree with them and with their slopes (Bunch,
// Nielsen and Sorensen, "Rank-one modification of the symmetric eigenproblem", 1978), within bounds that close in.
template <class Real>
Root<Real> find_root(std::span<const Real> d, std::span<const Real> w, Real rho, std::size_t number) {
  const std::size_t count = d.size();
  const bool is_last = number + 1 == count;
  const Real constant = 1 / rho;
  if (count == 1) return {0, rho * w[0]};
  // The poles that are taken as they are: around the root or, for the last, the two before it.
  const std::size_t left = is_last ? count - 2 : number;
  const std::size_t right = left + 1;
  const auto below = d.first(right);
  const auto above = d.subspan(right);
  std::size_t origin = number;
  Real low = 0;
  Real high = 0;
  if (is_last) {
    // By the sum of all weights at most, and rounding.
    high = rho * std::accumulate(w.begin(), w.end(), Real{0}) * (1 + 4 * kUnit<Real> * static_cast<Real>(count));
  } else {
    high = d[right] - d[left];
  }
  Real t = high / 2;
  bool is_first = true;
  for (int step = 0; step < kMostStepsOfRoot; ++step) {
    const auto [psi, psi_slope] = sums(below, w.first(right), d[origin], t);
    const auto [phi, phi_slope] = sums(above, w.subspan(right), d[origin], t);
    const Real value = constant + psi + phi;
    const Real error =
        kUnit<Real> * (8 * (std::abs(psi) + std::abs(phi)) + constant + std::abs(t) * (psi_slope + phi_slope));
    if (value < 0) {
      low = t;
    } else {
      high = t;
    }
    if (is_first && !is_last && value < 0) {  // Nearer to the other pole.
      const Real gap = d[right] - d[left];
      origin = right;
      low = t - gap;
      high = 0;
      t = low;
    } else if (std::abs(value) <= error) {
      break;
    }
    const Real before = (d[left] - d[origin]) - t;
    const Real after = (d[right] - d[origin]) - t;
    Real s = psi_slope * before * before;
    Real other = phi_slope * after * after;
    Real c = value - before * psi_slope - after * phi_slope;
    if (is_first) {  // The rest is taken for a constant.
      s = w[left];
      other = w[right];
      c = value - w[left] / before - w[right] / after;
    }
    is_first = false;
    const Real a = c * (before + after) + s + other;
    const Real b = value * before * after;
    const Real root = std::sqrt(std::max(Real{0}, a * a - 4 * b * c));
    const Real q = a + std::copysign(root, a);
    Real next = t + 2 * b / q;
    if (!(next > low && next < high)) next = t + q / (2 * c);
    if (!(next > low && next < high)) next = low == 0 ? high / 32 : high == 0 ? low / 32 : (low + high) / 2;
    if (next == t || !(next > low && next < high)) break;
    t = next;
  }
  return {origin, t};
}

}  // namespace

template <class Real>
const Tridiagonal<Real>& Tridiagonal<Real>::shared() {
  static const Tridiagonal tridiagonal(blas() == nullptr ? nullptr : &lapack_of<Real>(*blas()));
  return tridiagonal;
}

template <class Real>
bool Tridiagonal<Real>::decompose(std::int64_t n, Real* diagonal, Real* beside, Real* z) const {
  if (n == 0) return true;
  if (lapack_ == nullptr) {
    std::fill_n(z, n * n, Real{0});
    for (std::int64_t i = 0; i < n; ++i) z[i * (n + 1)] = 1;
    return diagonalise(n, diagonal, beside, z);
  }
  const LapackSizes sizes = lapack_->stedc_sizes(whole(n));
  const Workspace<Real> elements(sizes.elements);
  const Workspace<std::int32_t> integers(sizes.integers);
  return lapack_->stedc(whole(n), diagonal, beside, {z, whole(n)},
                        {elements.data(), nullptr, integers.data(), sizes}) == 0;
}

template <class Real>
bool Tridiagonal<Real>::values(std::int64_t n, Real* diagonal, Real* beside) const {
  if (n == 0) return true;
  if (lapack_ == nullptr) return diagonalise(n, diagonal, beside, static_cast<Real*>(nullptr));
  return lapack_->sterf(whole(n), diagonal, beside) == 0;
}

template <class Real>
std::size_t JoinedHalves<Real>::memory_of(std::int64_t n) {
  return static_cast<std::size_t>(n) * (sizeof(Rotation) + 5 * sizeof(std::int64_t) + 6 * sizeof(Real));
}

template <class Real>
void JoinedHalves<Real>::prepare(std::int64_t n, std::int64_t cut, Real joining, const Real* values, const Real* q1,
                                 const Real* q2, std::byte* memory) {
  const auto take = [&]<class Element>(Element*& elements) {
    elements = reinterpret_cast<Element*>(memory);
    memory += static_cast<std::size_t>(n) * sizeof(Element);
  };
  take(rotation_);
  take(columns_);
  take(places_);
  take(kinds_);
  take(origins_);
  take(order_);
  take(values_);
  take(joined_);
  take(poles_);
  take(squares_);
  take(distances_);
  take(weights_);
  n_ = n;
  cut_ = cut;
  rho_ = 2 * std::abs(joining);
  std::copy_n(values, n, values_);
  // The last row of the first half, and the first of the second: together of length 1.
  const Real scale = 1 / std::sqrt(Real{2});
  for (std::int64_t i = 0; i < cut; ++i) joined_[i] = q1[i * cut + cut - 1] * scale;
  for (std::int64_t i = cut; i < n; ++i) joined_[i] = q2[(i - cut) * (n - cut)] * std::copysign(scale, joining);
  deflate();
}

// What changes nothing but for rounding is left out: values of which the other half knows nothing, and one of two that
// are nearly the same, after a rotation. As LAPACK's laed2 does.
template <class Real>
void JoinedHalves<Real>::deflate() {
  std::int64_t* const sorted = order_;
  std::iota(sorted, sorted + n_, 0);
  std::inplace_merge(sorted, sorted + cut_, sorted + n_,
                     [&](std::int64_t i, std::int64_t j) { return values_[i] < values_[j]; });
  Real greatest = 0;
  Real most_joined = 0;
  for (std::int64_t i = 0; i < n_; ++i) {
    greatest = std::max(greatest, std::abs(values_[i]));
    most_joined = std::max(most_joined, std::abs(joined_[i]));
    kinds_[i] = kAlone;
  }
  const Real allowed = 8 * kUnit<Real> * std::max(greatest, most_joined);
  roots_ = rotations_ = 0;
  std::int64_t pending = -1;
  const auto accept = [&] {
    if (pending < 0) return;
    kinds_[pending] = kRoot;
    columns_[roots_++] = pending;
  };
  for (std::int64_t i = 0; i < n_; ++i) {
    const std::int64_t next = sorted[i];
    if (rho_ * std::abs(joined_[next]) <= allowed) continue;
    if (pending >= 0) {
      const Real length = std::hypot(joined_[next], joined_[pending]);
      const Real c = joined_[next] / length;
      const Real s = -joined_[pending] / length;
      const Real gap = values_[next] - values_[pending];
      if (std::abs(gap * c * s) <= allowed) {
        joined_[next] = length;
        joined_[pending] = 0;
        rotation_[rotations_++] = {pending, next, c, s};
        kinds_[pending] = kTurned;
        const Real turned = values_[pending] * c * c + values_[next] * s * s;
        values_[next] = values_[pending] * s * s + values_[next] * c * c;
        values_[pending] = turned;
      } else {
        accept();
      }
    }
    pending = next;
  }
  accept();
  for (std::int64_t i = 0; i < roots_; ++i) {
    poles_[i] = values_[columns_[i]];
    squares_[i] = joined_[columns_[i]] * joined_[columns_[i]];
  }
  for (const int half : {0, 1}) {
    std::int64_t next = 0;
    for (const bool is_kept : {true, false}) {
      for (std::int64_t i = half == 0 ? 0 : cut_; i < (half == 0 ? cut_ : n_); ++i) {
        if ((kinds_[i] != kAlone) == is_kept) places_[i] = next++;
      }
      if (is_kept) kept_[half] = next;
    }
  }
}

template <class Real>
void JoinedHalves<Real>::find_roots(std::int64_t begin, std::int64_t end, std::int64_t* origins,
                                    Real* distances) const {
  const auto count = static_cast<std::size_t>(roots_);
  for (std::int64_t i = begin; i < end; ++i) {
    const Root<Real> root = find_root<Real>({poles_, count}, {squares_, count}, rho_, static_cast<std::size_t>(i));
    origins[i - begin] = static_cast<std::int64_t>(root.origin);
    distances[i - begin] = root.distance;
  }
}

template <class Real>
void JoinedHalves<Real>::keep_together(int half, Real* q) const {
  const std::int64_t size = half == 0 ? cut_ : n_ - cut_;
  if (kept_[half] == size) return;
  const std::int64_t* const places = half == 0 ? places_ : places_ + cut_;
  // Along the cycles of the permutation.
  std::vector<bool> is_done(static_cast<std::size_t>(size), false);
  const Workspace<Real> carried(size);
  for (std::int64_t first = 0; first < size; ++first) {
    if (is_done[static_cast<std::size_t>(first)]) continue;
    std::copy_n(q + first * size, size, carried.data());
    std::int64_t at = first;
    do {
      is_done[static_cast<std::size_t>(at)] = true;
      at = places[at];
      std::swap_ranges(carried.data(), carried.data() + size, q + at * size);
    } while (at != first);
  }
}

template <class Real>
void JoinedHalves<Real>::order(const std::int64_t* origins, const Real* distances, Real* values) {
  std::copy_n(origins, roots_, origins_);
  std::copy_n(distances, roots_, distances_);
  std::int64_t* next = order_;
  for (std::int64_t i = 0; i < n_; ++i) {
    if (kinds_[i] != kRoot) *next++ = -1 - i;
  }
  std::iota(next, order_ + n_, 0);
  const auto value = [&](std::int64_t number) {
    return number < 0 ? values_[-1 - number] : poles_[origins_[number]] + distances_[number];
  };
  std::stable_sort(order_, order_ + n_, [&](std::int64_t i, std::int64_t j) { return value(i) < value(j); });
  std::transform(order_, order_ + n_, values, value);
}

template <class Real>
void JoinedHalves<Real>::find_weights(std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    std::array<Real, kLanes> products;
    products.fill(1);
    for (std::int64_t j = 0; j < roots_; ++j) {
      if (j != i) products[static_cast<std::size_t>(j) % kLanes] *= from_root(i, j) / (poles_[i] - poles_[j]);
    }
    Real square = -from_root(i, i);
    for (const Real x : products) square *= x;
    weights_[i] = std::copysign(std::sqrt(std::max(Real{0}, square)), joined_[columns_[i]]);
  }
}

template <class Real>
void JoinedHalves<Real>::vectors(std::int64_t begin, std::int64_t end, const Real* q1, const Real* q2, Real* to,
                                 std::int64_t stride) const {
  const std::int64_t columns = end - begin;
  // What the kept columns are multiplied by.
  const std::int64_t rows = kept_[0] + kept_[1];
  const Workspace<Real> factors(rows * columns);
  std::fill_n(factors.data(), rows * columns, Real{0});
  const auto row_of = [&](std::int64_t column) {
    return factors.data() + (places_[column] + (column < cut_ ? 0 : kept_[0])) * columns;
  };
  // The vectors that belong to roots, side by side.
  const Workspace<std::int64_t> own(columns);
  const Workspace<Real> numbers(4 * columns);
  Real* const origins = numbers.data();
  Real* const distances = origins + columns;
  Real* const lengths = distances + columns;
  Real* const row = lengths + columns;
  std::int64_t count = 0;
  bool multiplies = false;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t number = order_[i];
    if (number >= 0) {
      own.data()[count] = i - begin;
      origins[count] = poles_[origins_[number]];
      distances[count] = distances_[number];
      lengths[count++] = 0;
    } else if (kinds_[-1 - number] == kTurned) {
      row_of(-1 - number)[i - begin] = 1;
      multiplies = true;
    }
  }
  multiplies = multiplies || count > 0;
  for (const bool is_last : {false, true}) {  // First the lengths, and then the vectors.
    for (std::int64_t i = 0; i < roots_ && count > 0; ++i) {
      const Real pole = poles_[i];
      const Real weight = weights_[i];
      for (std::int64_t k = 0; k < count; ++k) row[k] = weight / ((pole - origins[k]) - distances[k]);
      if (is_last) {
        Real* const factor = row_of(columns_[i]);
        for (std::int64_t k = 0; k < count; ++k) factor[own.data()[k]] = row[k] * lengths[k];
      } else {
        for (std::int64_t k = 0; k < count; ++k) lengths[k] += row[k] * row[k];
      }
    }
    for (std::int64_t k = 0; k < count; ++k) lengths[k] = 1 / std::sqrt(lengths[k]);
  }
  for (std::int64_t i = rotations_; i-- > 0;) {
    const Rotation& rotation = rotation_[i];
    rotate(columns, row_of(rotation.p), row_of(rotation.q), rotation.c, -rotation.s);
  }
  for (std::int64_t i = 0; i < rows * columns; ++i) factors.data()[i] = -factors.data()[i];
  const TileKernels<Real>& kernels = TileKernels<Real>::shared();
  for (const int half : {0, 1}) {
    const std::int64_t size = half == 0 ? cut_ : n_ - cut_;
    Real* const out = half == 0 ? to : to + cut_ * stride;
    const Real* const q = half == 0 ? q1 : q2;
    for (std::int64_t r = 0; r < size; ++r) std::fill_n(out + r * stride, columns, Real{0});
    if (multiplies && kept_[half] > 0 && size > 0) {
      kernels.subtract_product({whole(size), whole(columns), whole(kept_[half])}, {q, whole(size), true},
                               {factors.data() + (half == 0 ? 0 : kept_[0]) * columns, whole(columns)},
                               {out, whole(stride)});
    }
    // Those that nothing has changed.
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = -1 - order_[i];
      if (column < 0 || kinds_[column] != kAlone || (column < cut_) != (half == 0)) continue;
      const Real* const from = q + places_[column] * size;
      for (std::int64_t r = 0; r < size; ++r) out[r * stride + i - begin] = from[r];
    }
  }
}

template class Tridiagonal<float>;
template class Tridiagonal<double>;
template class JoinedHalves<float>;
template class JoinedHalves<double>;

}  // namespace shoal::cpu
