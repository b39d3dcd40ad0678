// Many small matrices at once, one in each lane of vectors: their elements (i, j) make one vector. Included once for
// each instruction set, after highway.h.
//
// What becomes of a matrix must not depend on those beside it: lanes that need less work than others keep what they
// have by masks.

#if defined(SHOAL_DECOMPOSITIONS_LANES) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOAL_DECOMPOSITIONS_LANES
#undef SHOAL_DECOMPOSITIONS_LANES
#else
#define SHOAL_DECOMPOSITIONS_LANES
#endif

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Arithmetic of the numbers of all lanes. `Number` is a vector or, for complex numbers, two.
template <class D>
struct RealLanes {
  using Tag = D;
  using Real = hn::TFromD<D>;
  using Vector = hn::Vec<D>;
  using Mask = hn::Mask<D>;
  using Number = Vector;
  static constexpr std::int64_t kParts = 1;
  static constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  static constexpr std::int64_t kStep = kLanes;  ///< Reals from a number to the next.

  static HWY_INLINE Number load(const Real* p) { return hn::Load(D(), p); }
  static HWY_INLINE void store(Number x, Real* p) { hn::Store(x, D(), p); }
  static HWY_INLINE Number zero() { return hn::Zero(D()); }
  static HWY_INLINE Number of_real(Vector x) { return x; }
  static HWY_INLINE Vector real(Number x) { return x; }
  static HWY_INLINE Vector imag(Number) { return hn::Zero(D()); }
  static HWY_INLINE Number conj(Number x) { return x; }
  static HWY_INLINE Number negative(Number x) { return hn::Neg(x); }
  static HWY_INLINE Number add(Number x, Number y) { return hn::Add(x, y); }
  static HWY_INLINE Number scaled(Number x, Vector s) { return hn::Mul(x, s); }
  static HWY_INLINE Number divided(Number x, Vector s) { return hn::Div(x, s); }
  static HWY_INLINE Number scaled_add(Number sum, Number x, Vector s) { return hn::MulAdd(x, s, sum); }
  static HWY_INLINE Number scaled_sub(Number sum, Number x, Vector s) { return hn::NegMulAdd(x, s, sum); }
  static HWY_INLINE Number mul(Number x, Number y) { return hn::Mul(x, y); }
  /// sum + x y, sum - x y, and with the conjugate of x or y.
  static HWY_INLINE Number mul_add(Number sum, Number x, Number y) { return hn::MulAdd(x, y, sum); }
  static HWY_INLINE Number conj_mul_add(Number sum, Number x, Number y) { return hn::MulAdd(x, y, sum); }
  static HWY_INLINE Number mul_sub(Number sum, Number x, Number y) { return hn::NegMulAdd(x, y, sum); }
  static HWY_INLINE Number mul_conj_sub(Number sum, Number x, Number y) { return hn::NegMulAdd(x, y, sum); }
  /// sum + |x|^2 and sum - |x|^2.
  static HWY_INLINE Vector add_square(Vector sum, Number x) { return hn::MulAdd(x, x, sum); }
  static HWY_INLINE Vector sub_square(Vector sum, Number x) { return hn::NegMulAdd(x, x, sum); }
  static HWY_INLINE Number select(Mask mask, Number yes, Number no) { return hn::IfThenElse(mask, yes, no); }
  /// The greatest absolute value of a part.
  static HWY_INLINE Vector greatest_part(Number x) { return hn::Abs(x); }
  /// What LAPACK chooses pivots by.
  static HWY_INLINE Vector measure(Number x) { return hn::Abs(x); }
  /// 0 where x is finite, else NaN.
  static HWY_INLINE Vector add_nothing(Vector sum, Number x) { return hn::MulAdd(x, hn::Zero(D()), sum); }
};

template <class D>
struct ComplexLanes {
  using Tag = D;
  using Real = hn::TFromD<D>;
  using Vector = hn::Vec<D>;
  using Mask = hn::Mask<D>;
  struct Number {
    Vector re;
    Vector im;
  };
  static constexpr std::int64_t kParts = 2;
  static constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  static constexpr std::int64_t kStep = 2 * kLanes;

  static HWY_INLINE Number load(const Real* p) { return {hn::Load(D(), p), hn::Load(D(), p + kLanes)}; }
  static HWY_INLINE void store(Number x, Real* p) {
    hn::Store(x.re, D(), p);
    hn::Store(x.im, D(), p + kLanes);
  }
  static HWY_INLINE Number zero() { return {hn::Zero(D()), hn::Zero(D())}; }
  static HWY_INLINE Number of_real(Vector x) { return {x, hn::Zero(D())}; }
  static HWY_INLINE Vector real(Number x) { return x.re; }
  static HWY_INLINE Vector imag(Number x) { return x.im; }
  static HWY_INLINE Number conj(Number x) { return {x.re, hn::Neg(x.im)}; }
  static HWY_INLINE Number negative(Number x) { return {hn::Neg(x.re), hn::Neg(x.im)}; }
  static HWY_INLINE Number add(Number x, Number y) { return {hn::Add(x.re, y.re), hn::Add(x.im, y.im)}; }
  static HWY_INLINE Number scaled(Number x, Vector s) { return {hn::Mul(x.re, s), hn::Mul(x.im, s)}; }
  static HWY_INLINE Number divided(Number x, Vector s) { return {hn::Div(x.re, s), hn::Div(x.im, s)}; }
  static HWY_INLINE Number scaled_add(Number sum, Number x, Vector s) {
    return {hn::MulAdd(x.re, s, sum.re), hn::MulAdd(x.im, s, sum.im)};
  }
  static HWY_INLINE Number scaled_sub(Number sum, Number x, Vector s) {
    return {hn::NegMulAdd(x.re, s, sum.re), hn::NegMulAdd(x.im, s, sum.im)};
  }
  static HWY_INLINE Number mul(Number x, Number y) {
    return {hn::NegMulAdd(x.im, y.im, hn::Mul(x.re, y.re)), hn::MulAdd(x.im, y.re, hn::Mul(x.re, y.im))};
  }
  static HWY_INLINE Number mul_add(Number sum, Number x, Number y) {
    return {hn::NegMulAdd(x.im, y.im, hn::MulAdd(x.re, y.re, sum.re)),
            hn::MulAdd(x.im, y.re, hn::MulAdd(x.re, y.im, sum.im))};
  }
  static HWY_INLINE Number conj_mul_add(Number sum, Number x, Number y) {
    return {hn::MulAdd(x.im, y.im, hn::MulAdd(x.re, y.re, sum.re)),
            hn::NegMulAdd(x.im, y.re, hn::MulAdd(x.re, y.im, sum.im))};
  }
  static HWY_INLINE Number mul_sub(Number sum, Number x, Number y) {
    return {hn::MulAdd(x.im, y.im, hn::NegMulAdd(x.re, y.re, sum.re)),
            hn::NegMulAdd(x.im, y.re, hn::NegMulAdd(x.re, y.im, sum.im))};
  }
  static HWY_INLINE Number mul_conj_sub(Number sum, Number x, Number y) {
    return {hn::NegMulAdd(x.im, y.im, hn::NegMulAdd(x.re, y.re, sum.re)),
            hn::NegMulAdd(x.im, y.re, hn::MulAdd(x.re, y.im, sum.im))};
  }
  static HWY_INLINE Vector add_square(Vector sum, Number x) {
    return hn::MulAdd(x.im, x.im, hn::MulAdd(x.re, x.re, sum));
  }
  static HWY_INLINE Vector sub_square(Vector sum, Number x) {
    return hn::NegMulAdd(x.im, x.im, hn::NegMulAdd(x.re, x.re, sum));
  }
  static HWY_INLINE Number select(Mask mask, Number yes, Number no) {
    return {hn::IfThenElse(mask, yes.re, no.re), hn::IfThenElse(mask, yes.im, no.im)};
  }
  static HWY_INLINE Vector greatest_part(Number x) { return hn::Max(hn::Abs(x.re), hn::Abs(x.im)); }
  static HWY_INLINE Vector measure(Number x) { return hn::Add(hn::Abs(x.re), hn::Abs(x.im)); }
  static HWY_INLINE Vector add_nothing(Vector sum, Number x) {
    const Vector zero = hn::Zero(D());
    return hn::MulAdd(x.im, zero, hn::MulAdd(x.re, zero, sum));
  }
};

/// The lanes of as many bytes as vectors have at most, for elements of this type.
template <class T, class D>
using LanesOf = std::conditional_t<std::is_floating_point_v<T>, RealLanes<D>, ComplexLanes<D>>;

/// Matrices within memory; strides are in numbers.
template <class F>
struct LaneMatrix {
  using Number = typename F::Number;
  typename F::Real* data;
  std::int64_t row;
  std::int64_t column = 1;

  HWY_INLINE typename F::Real* at(std::int64_t i, std::int64_t j) const {
    return data + (i * row + j * column) * F::kStep;
  }
  HWY_INLINE Number get(std::int64_t i, std::int64_t j) const { return F::load(at(i, j)); }
  HWY_INLINE void set(std::int64_t i, std::int64_t j, Number x) const { F::store(x, at(i, j)); }
  LaneMatrix transposed() const { return {data, column, row}; }
};

/// Vectors of reals, one number of each lane.
template <class F>
struct LaneVector {
  typename F::Real* data;

  HWY_INLINE typename F::Vector get(std::int64_t i) const { return hn::Load(typename F::Tag(), data + i * F::kLanes); }
  HWY_INLINE void set(std::int64_t i, typename F::Vector x) const {
    hn::Store(x, typename F::Tag(), data + i * F::kLanes);
  }
  HWY_INLINE void set_where(typename F::Mask mask, std::int64_t i, typename F::Vector x) const {
    set(i, hn::IfThenElse(mask, x, get(i)));
  }
};

template <class F>
HWY_INLINE typename F::Vector all_lanes(double x) {
  return hn::Set(typename F::Tag(), static_cast<typename F::Real>(x));
}

/// Numbers from 0 on, as reals.
template <class F>
HWY_INLINE typename F::Vector position(std::int64_t i) {
  return hn::Set(typename F::Tag(), static_cast<typename F::Real>(i));
}

/// Where add_nothing() has found what is not finite.
template <class F>
HWY_INLINE typename F::Mask is_nan(typename F::Vector nothing) {
  return hn::Not(hn::Eq(nothing, all_lanes<F>(0)));
}

/// NaN in the lanes of this mask.
template <class F>
HWY_INLINE typename F::Number spoilt(typename F::Mask mask, typename F::Number x) {
  const auto nan = all_lanes<F>(std::numeric_limits<double>::quiet_NaN());
  if constexpr (F::kParts == 1) {
    return F::select(mask, nan, x);
  } else {
    return F::select(mask, {nan, nan}, x);
  }
}

// ---- Between matrices that lie one after the other, and lanes.
//
// A block is what 16 bytes hold. Vectors of blocks of several matrices are transposed within the blocks, so that a
// block of numbers that follow each other becomes one of matrices.

template <class Real>
inline constexpr std::size_t kBlock = 16 / sizeof(Real);

#if HWY_TARGET != HWY_SCALAR

/// The blocks at `offset` of the matrices 0, kBlock, 2 kBlock, …
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const Real* const* matrices, std::int64_t offset) {
  if constexpr (hn::MaxLanes(D()) == kBlock<Real>) {
    return hn::LoadU(d, matrices[0] + offset);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kHalf = hn::MaxLanes(D()) / 2;
    return hn::Combine(d, load_blocks(half, matrices + kHalf, offset), load_blocks(half, matrices, offset));
  }
}

template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void store_blocks(D d, hn::Vec<D> x, Real* const* matrices, std::int64_t offset) {
  if constexpr (hn::MaxLanes(D()) == kBlock<Real>) {
    hn::StoreU(x, d, matrices[0] + offset);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kHalf = hn::MaxLanes(D()) / 2;
    store_blocks(half, hn::LowerHalf(half, x), matrices, offset);
    store_blocks(half, hn::UpperHalf(half, x), matrices + kHalf, offset);
  }
}

template <class D, class V>
HWY_INLINE void transpose_blocks(D d, V* rows) {
  if constexpr (kBlock<hn::TFromD<D>> == 2) {
    const V first = hn::InterleaveLower(d, rows[0], rows[1]);
    rows[1] = hn::InterleaveUpper(d, rows[0], rows[1]);
    rows[0] = first;
  } else {
    const V even_low = hn::InterleaveLower(d, rows[0], rows[2]);
    const V even_high = hn::InterleaveUpper(d, rows[0], rows[2]);
    const V odd_low = hn::InterleaveLower(d, rows[1], rows[3]);
    const V odd_high = hn::InterleaveUpper(d, rows[1], rows[3]);
    rows[0] = hn::InterleaveLower(d, even_low, odd_low);
    rows[1] = hn::InterleaveUpper(d, even_low, odd_low);
    rows[2] = hn::InterleaveLower(d, even_high, odd_high);
    rows[3] = hn::InterleaveUpper(d, even_high, odd_high);
  }
}

#endif  // HWY_TARGET

/// Matrices, one for each lane: pointers to their first reals.
template <class Real, std::int64_t kLanes>
struct LanePointers {
  Real* matrices[static_cast<std::size_t>(kLanes)];

  /// Of `count` matrices that lie `size` reals apart; lanes that are left over have what `rest` says.
  LanePointers(Real* first, std::int64_t size, std::int64_t count, Real* rest) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) matrices[lane] = lane < count ? first + lane * size : rest;
  }
};

/// Calls blocks(offset) for blocks that cover `count` reals, the last two of which may overlap, or one(offset) for each
/// if there are fewer than a block has, or vectors are none.
template <class D, class Blocks, class One>
HWY_INLINE void for_each_block(D, std::int64_t count, Blocks&& blocks, One&& one) {
  constexpr auto kSize = static_cast<std::int64_t>(kBlock<hn::TFromD<D>>);
  if (hn::MaxLanes(D()) < kBlock<hn::TFromD<D>> || count < kSize) {
    for (std::int64_t offset = 0; offset < count; ++offset) one(offset);
    return;
  }
  std::int64_t offset = 0;
  for (; offset + kSize <= count; offset += kSize) blocks(offset);
  if (offset != count) blocks(count - kSize);
}

/// The first `count` reals of each matrix; those of all lanes lie `stride` apart.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void load_lanes(D d, const Real* const* matrices, std::int64_t count, Real* to, std::int64_t stride) {
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  const auto blocks = [&]([[maybe_unused]] std::int64_t at) {
#if HWY_TARGET != HWY_SCALAR
    constexpr std::size_t kSize = kBlock<Real>;
    hn::Vec<D> rows[kSize];
    for (std::size_t r = 0; r < kSize; ++r) rows[r] = load_blocks(d, matrices + r, at);
    transpose_blocks(d, rows);
    for (std::size_t r = 0; r < kSize; ++r) hn::StoreU(rows[r], d, to + (at + static_cast<std::int64_t>(r)) * stride);
#endif
  };
  for_each_block(d, count, blocks, [&](std::int64_t at) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) to[at * stride + lane] = matrices[lane][at];
  });
}

template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void store_lanes(D d, const Real* from, std::int64_t count, Real* const* matrices) {
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  const auto blocks = [&]([[maybe_unused]] std::int64_t at) {
#if HWY_TARGET != HWY_SCALAR
    constexpr std::size_t kSize = kBlock<Real>;
    hn::Vec<D> rows[kSize];
    for (std::size_t r = 0; r < kSize; ++r) {
      rows[r] = hn::Load(d, from + (at + static_cast<std::int64_t>(r)) * kLanes);
    }
    transpose_blocks(d, rows);
    for (std::size_t r = 0; r < kSize; ++r) store_blocks(d, rows[r], matrices + r, at);
#endif
  };
  for_each_block(d, count, blocks, [&](std::int64_t at) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) matrices[lane][at] = from[at * kLanes + lane];
  });
}

/// The matrices of one group of lanes, as they lie in memory: `count` of them, of T, one after the other.
template <class F, class T>
void load_group(const T* first, std::int64_t elements, std::int64_t count, typename F::Real* to) {
  using Real = typename F::Real;
  const auto* const reals = reinterpret_cast<const Real*>(first);
  // The last one is computed again in the lanes that are left over.
  const LanePointers<const Real, F::kLanes> pointers(reals, elements * F::kParts, count,
                                                     reals + (count - 1) * elements * F::kParts);
  load_lanes(typename F::Tag(), pointers.matrices, elements * F::kParts, to, F::kLanes);
}

/// `rest` has room for a matrix that nobody wants.
template <class F, class T>
void store_group(const typename F::Real* from, std::int64_t elements, std::int64_t count, T* first,
                 typename F::Real* rest) {
  using Real = typename F::Real;
  const LanePointers<Real, F::kLanes> pointers(reinterpret_cast<Real*>(first), elements * F::kParts, count, rest);
  store_lanes(typename F::Tag(), from, elements * F::kParts, pointers.matrices);
}

/// Calls f(F(), memory, first, count) for groups of the matrices of a batch: F are lanes for T, of whole vectors, or of
/// shorter ones for the few that are left over. That gives the same bits. `memory` has as many reals as reals_of(F())
/// says.
template <class T, class Reals, class Call>
void for_each_group(std::int64_t matrices, Reals&& reals_of, Call&& call) {
  using Real = decltype(std::real(T{}));
  using Whole = LanesOf<T, hn::ScalableTag<Real>>;
  using Short = LanesOf<T, hn::CappedTag<Real, kBlock<Real>>>;
  Workspace<Real> memory(matrices <= Short::kLanes ? reals_of(Short()) : reals_of(Whole()));
  for (std::int64_t first = 0; first < matrices;) {
    const std::int64_t left = matrices - first;
    if (left <= Short::kLanes) {
      call(Short(), memory.data(), first, left);
    } else {
      call(Whole(), memory.data(), first, std::min(left, Whole::kLanes));
    }
    first += left <= Short::kLanes ? left : std::min(left, Whole::kLanes);
  }
}

// ---- Householder's reflections.

/// Powers of two that are no greater than x and hold its exponent, and their reciprocals. Of x = 0 and of what is
/// nearly out of range it is any power near it.
template <class F>
struct PowersOfTwo {
  typename F::Vector power;
  typename F::Vector reciprocal;

  HWY_INLINE explicit PowersOfTwo(typename F::Vector x) {
    using Real = typename F::Real;
    constexpr bool kIsFloat = sizeof(Real) == 4;
    const auto least = all_lanes<F>(kIsFloat ? 0x1p-125 : 0x1p-1021);
    const auto most = all_lanes<F>(kIsFloat ? 0x1p125 : 0x1p1021);
    const auto clamped = hn::Min(hn::Max(x, least), most);
    // The bits of infinity are those of the exponent. That of the reciprocal is as far from that of 1.
    power = hn::And(clamped, all_lanes<F>(std::numeric_limits<double>::infinity()));
    const hn::RebindToUnsigned<typename F::Tag> bits;
    const auto ones = hn::BitCast(bits, all_lanes<F>(1));
    reciprocal = hn::BitCast(typename F::Tag(), hn::Sub(hn::Add(ones, ones), hn::BitCast(bits, power)));
  }
};

/// Of the elements from `first` on of column k of a matrix: I - tau v v^H, whose adjoint takes them to a multiple
/// (beta, real) of the first unit vector. v has 1 in the place of the first, and takes the place of the others.
template <class F>
struct LaneReflection {
  typename F::Number tau;
  typename F::Vector beta;
};

template <class F>
HWY_INLINE LaneReflection<F> reflect_column(LaneMatrix<F> a, std::int64_t first, std::int64_t end, std::int64_t k) {
  using V = typename F::Vector;
  const V zero = all_lanes<F>(0);
  const auto alpha = a.get(first, k);
  V greatest = zero;
  for (std::int64_t i = first + 1; i < end; ++i) greatest = hn::Max(greatest, F::greatest_part(a.get(i, k)));
  // It is one already where the others are zero.
  const auto is_multiple = hn::And(hn::Eq(greatest, zero), hn::Eq(F::imag(alpha), zero));
  const PowersOfTwo<F> scale(hn::Max(greatest, F::greatest_part(alpha)));
  const auto scaled_alpha = F::scaled(alpha, scale.reciprocal);
  V squares = F::add_square(zero, scaled_alpha);
  for (std::int64_t i = first + 1; i < end; ++i) {
    squares = F::add_square(squares, F::scaled(a.get(i, k), scale.reciprocal));
  }
  const V norm = hn::Sqrt(squares);
  const V beta = hn::CopySign(norm, hn::Neg(F::real(scaled_alpha)));
  // (beta - alpha) / beta, and 1 / (alpha - beta).
  const auto difference = F::add(scaled_alpha, F::of_real(hn::Neg(beta)));
  const V inverse = hn::Div(all_lanes<F>(1), beta);
  const auto tau = F::scaled(F::negative(difference), inverse);
  const V size = F::add_square(zero, difference);
  const auto factor = F::divided(F::conj(difference), size);
  for (std::int64_t i = first + 1; i < end; ++i) {
    const auto scaled = F::scaled(a.get(i, k), scale.reciprocal);
    a.set(i, k, F::select(is_multiple, F::zero(), F::mul(scaled, factor)));
  }
  return {F::select(is_multiple, F::zero(), tau),
          hn::IfThenElse(is_multiple, F::real(alpha), hn::Mul(beta, scale.power))};
}

/// a := (I - tau v v^H) a for the rows from `first` to `end` and the columns from `from` to `to`. v stands below its
/// first element, which is 1, in column k of `reflections`.
template <class F>
HWY_INLINE void reflect_rows(LaneMatrix<F> reflections, std::int64_t k, typename F::Number tau, LaneMatrix<F> a,
                             std::int64_t first, std::int64_t end, std::int64_t from, std::int64_t to) {
  const auto some = [&](auto width, std::int64_t j) {
    constexpr std::size_t kWidth = decltype(width)::value;
    typename F::Number sums[kWidth];
    for (std::size_t c = 0; c < kWidth; ++c) sums[c] = a.get(first, j + static_cast<std::int64_t>(c));
    for (std::int64_t i = first + 1; i < end; ++i) {
      const auto v = reflections.get(i, k);
      for (std::size_t c = 0; c < kWidth; ++c) {
        sums[c] = F::conj_mul_add(sums[c], v, a.get(i, j + static_cast<std::int64_t>(c)));
      }
    }
    for (std::size_t c = 0; c < kWidth; ++c) {
      sums[c] = F::mul(tau, sums[c]);
      const std::int64_t column = j + static_cast<std::int64_t>(c);
      a.set(first, column, F::add(a.get(first, column), F::negative(sums[c])));
    }
    for (std::int64_t i = first + 1; i < end; ++i) {
      const auto v = reflections.get(i, k);
      for (std::size_t c = 0; c < kWidth; ++c) {
        const std::int64_t column = j + static_cast<std::int64_t>(c);
        a.set(i, column, F::mul_sub(a.get(i, column), v, sums[c]));
      }
    }
  };
  std::int64_t j = from;
  for (; j + 4 <= to; j += 4) some(std::integral_constant<std::size_t, 4>(), j);
  for (; j < to; ++j) some(std::integral_constant<std::size_t, 1>(), j);
}

/// q := H_0 H_1 … H_(count-1), of which reflection k is that of the rows from k + offset on.
template <class F>
void form_unitary(LaneMatrix<F> reflections, LaneMatrix<F> taus, std::int64_t count, std::int64_t offset,
                  LaneMatrix<F> q, std::int64_t rows, std::int64_t columns) {
  const auto one = F::of_real(all_lanes<F>(1));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) q.set(i, j, i == j ? one : F::zero());
  }
  for (std::int64_t k = count; k-- > 0;) {
    const std::int64_t first = k + offset;
    const auto tau = taus.get(0, k);
    reflect_rows(reflections, k, tau, q, first, rows, first + 1, columns);
    if (first >= columns) continue;
    // Its own column was that of the identity.
    q.set(first, first, F::add(one, F::negative(tau)));
    for (std::int64_t i = first + 1; i < rows; ++i) q.set(i, first, F::negative(F::mul(tau, reflections.get(i, k))));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
