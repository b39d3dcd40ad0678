#include "backend/cpu/windows/convolution_panels.h"

#include "backend/cpu/machine/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/windows/convolution_panels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <complex>
#include <cstddef>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// So that all sums, what is multiplied and what by are in registers: 32 of them, or 16.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM != 0;

/// Elements that have vectors.
template <class T>
struct VectorSums {
  using Element = T;
  using D = hn::ScalableTag<T>;
  using Vector = hn::Vec<D>;
  using Sum = Vector;
  static constexpr std::int64_t kRows = kManyRegisters ? 8 : 6;
  static constexpr std::int64_t kVectors = kManyRegisters ? 3 : 2;
  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }
  static HWY_INLINE Vector zero() { return hn::Zero(D()); }
  static HWY_INLINE Vector load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(Sum sum, bool accumulate, T* p) {
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(D(), p), sum) : sum, D(), p);
  }
  static HWY_INLINE Vector set(T x) { return hn::Set(D(), x); }
  static HWY_INLINE Vector multiply_add(Vector sum, Vector x, Vector y) {
    if constexpr (hwy::IsFloat<T>()) {
      return hn::MulAdd(x, y, sum);
    } else {
      return hn::Add(hn::Mul(x, y), sum);
    }
  }
};

/// Complex numbers as they lie: sums of the products by real parts, and of those by imaginary ones, are put together at
/// the end.
template <class R>
struct ComplexSums {
  using Element = std::complex<R>;
  using D = hn::ScalableTag<R>;
  using Vector = hn::Vec<D>;
  struct Sum {
    Vector by_real, by_imag;
  };
  struct Factor {
    Vector real, imag;
  };
  static constexpr std::int64_t kRows = 4;
  static constexpr std::int64_t kVectors = kManyRegisters ? 3 : 1;
  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D()) / 2); }
  static HWY_INLINE Sum zero() { return {hn::Zero(D()), hn::Zero(D())}; }
  static HWY_INLINE Vector load(const Element* p) { return hn::LoadU(D(), reinterpret_cast<const R*>(p)); }
  static HWY_INLINE void store(Sum sum, bool accumulate, Element* p) {
    R* to = reinterpret_cast<R*>(p);
    const Vector turned = hn::Reverse2(D(), sum.by_imag);
    const Vector result = hn::OddEven(hn::Add(sum.by_real, turned), hn::Sub(sum.by_real, turned));
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(D(), to), result) : result, D(), to);
  }
  static HWY_INLINE Factor set(Element x) { return {hn::Set(D(), x.real()), hn::Set(D(), x.imag())}; }
  static HWY_INLINE Sum multiply_add(Sum sum, Factor x, Vector y) {
    return {hn::MulAdd(x.real, y, sum.by_real), hn::MulAdd(x.imag, y, sum.by_imag)};
  }
};

/// What has no vectors: the compiler makes of a few elements what it can.
template <class T>
struct PlainSums {
  using Element = T;
  static constexpr std::int64_t kLanes = 4;
  struct Vector {
    T of[kLanes];
  };
  using Sum = Vector;
  static constexpr std::int64_t kRows = 4;
  static constexpr std::int64_t kVectors = 1;
  static std::int64_t lanes() { return kLanes; }
  static HWY_INLINE Sum zero() { return {}; }
  static HWY_INLINE Vector load(const T* p) { return {{p[0], p[1], p[2], p[3]}}; }
  static HWY_INLINE void store(Sum sum, bool accumulate, T* p) {
    for (std::int64_t i = 0; i < kLanes; ++i) p[i] = accumulate ? p[i] + sum.of[i] : sum.of[i];
  }
  static HWY_INLINE T set(T x) { return x; }
  static HWY_INLINE Sum multiply_add(Sum sum, T x, Vector y) {
    for (std::int64_t i = 0; i < kLanes; ++i) add_product(sum.of[i], x, y.of[i]);
    return sum;
  }

 private:
  static HWY_INLINE void add_product(std::uint64_t& sum, std::uint64_t x, std::uint64_t y) { sum += x * y; }
  // Not operator*, which calls a function for the sake of infinities.
  template <class R>
  static HWY_INLINE void add_product(std::complex<R>& sum, std::complex<R> x, std::complex<R> y) {
    sum = {sum.real() + (x.real() * y.real() - x.imag() * y.imag()),
           sum.imag() + (x.real() * y.imag() + x.imag() * y.real())};
  }
};

template <class R>
using SumsOfComplex = std::conditional_t<HWY_TARGET == HWY_SCALAR, PlainSums<std::complex<R>>, ComplexSums<R>>;

template <class Sums, bool kVectorsOfArray, std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void run_panel(const ConvolutionPanel& p) {
  using T = typename Sums::Element;
  const std::int64_t lanes = Sums::lanes();
  typename Sums::Sum sums[kRows][kVectors];
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = Sums::zero();
  }
  const T* HWY_RESTRICT packed = static_cast<const T*>(p.packed);
  const T* HWY_RESTRICT array = static_cast<const T*>(p.array);
  const std::int64_t* HWY_RESTRICT offsets = p.offsets;
  const std::int64_t count = p.count;
  const T* rows[kVectorsOfArray ? 1 : kRows];
  if constexpr (!kVectorsOfArray) {
    for (std::size_t i = 0; i < kRows; ++i) rows[i] = array + p.rows[i];
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t at = offsets[k];
    const T* HWY_RESTRICT from = kVectorsOfArray ? array + at : packed;
    typename Sums::Vector y[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) y[j] = Sums::load(from + static_cast<std::int64_t>(j) * lanes);
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto x = Sums::set(kVectorsOfArray ? packed[i] : rows[kVectorsOfArray ? 0 : i][at]);
      for (std::size_t j = 0; j < kVectors; ++j) sums[i][j] = Sums::multiply_add(sums[i][j], x, y[j]);
    }
    packed += kVectorsOfArray ? Sums::kRows : static_cast<std::int64_t>(kVectors) * lanes;
  }
  T* HWY_RESTRICT out = static_cast<T*>(p.out);
  for (std::size_t i = 0; i < kRows; ++i, out += p.out_stride) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      T* to = out + static_cast<std::int64_t>(j) * lanes;
      Sums::store(sums[i][j], p.accumulate, to);
    }
  }
}

template <class Sums, bool kVectorsOfArray, std::size_t kRows>
void fill_vectors(ConvolutionLoop (&loops)[kMostConvolutionVectors]) {
  loops[0] = run_panel<Sums, kVectorsOfArray, kRows, 1>;
  if constexpr (Sums::kVectors > 1) loops[1] = run_panel<Sums, kVectorsOfArray, kRows, 2>;
  if constexpr (Sums::kVectors > 2) loops[2] = run_panel<Sums, kVectorsOfArray, kRows, 3>;
}

template <class Sums, bool kVectorsOfArray>
void fill_rows(ConvolutionLoop (&loops)[kMostConvolutionRows][kMostConvolutionVectors]) {
  fill_vectors<Sums, kVectorsOfArray, 1>(loops[0]);
  fill_vectors<Sums, kVectorsOfArray, 2>(loops[1]);
  fill_vectors<Sums, kVectorsOfArray, 3>(loops[2]);
  fill_vectors<Sums, kVectorsOfArray, 4>(loops[3]);
  if constexpr (Sums::kRows > 4) {
    fill_vectors<Sums, kVectorsOfArray, 5>(loops[4]);
    fill_vectors<Sums, kVectorsOfArray, 6>(loops[5]);
  }
  if constexpr (Sums::kRows > 6) {
    fill_vectors<Sums, kVectorsOfArray, 7>(loops[6]);
    fill_vectors<Sums, kVectorsOfArray, 8>(loops[7]);
  }
}

template <class Sums>
const ConvolutionLoops& loops_of() {
  static const ConvolutionLoops loops = [] {
    ConvolutionLoops made{
        .lanes = Sums::lanes(), .rows = Sums::kRows, .vectors = Sums::kVectors, .of_vectors = {}, .of_elements = {}};
    fill_rows<Sums, true>(made.of_vectors);
    fill_rows<Sums, false>(made.of_elements);
    return made;
  }();
  return loops;
}

const ConvolutionLoops& convolution_loops_here(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return loops_of<VectorSums<float>>();
    case Arithmetic::kF64:
      return loops_of<VectorSums<double>>();
    case Arithmetic::kI64:
      return loops_of<PlainSums<std::uint64_t>>();
    case Arithmetic::kC64:
      return loops_of<SumsOfComplex<float>>();
    case Arithmetic::kC128:
      return loops_of<SumsOfComplex<double>>();
    case Arithmetic::kI32:
    case Arithmetic::kBool:
      break;
  }
  return loops_of<VectorSums<std::uint32_t>>();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/machine/simd_dispatch.h"

namespace shoal::cpu {

const ConvolutionLoops& convolution_loops(Arithmetic arithmetic) {
  return SHOAL_SIMD(convolution_loops_here)(arithmetic);
}

}  // namespace shoal::cpu
#endif
