// LAPACK's functions are Fortran's, and Debian's OpenBLAS has no header of them: they are declared here. The compiler
// of Fortran passes the lengths of strings behind all other arguments.
#include "backend/cpu/products/plugin_blas/lapack.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

namespace {

using Int = std::int32_t;
using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming)
#define SHOAL_LAPACK_OF_ALL(p, T)                                                                                 \
  void p##potrf_(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, std::size_t);                   \
  void p##getrf_(const Int* m, const Int* n, T* a, const Int* lda, Int* ipiv, Int* info);                         \
  void p##geqrf_(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork, Int* info); \
  void p##gehrd_(const Int* n, const Int* ilo, const Int* ihi, T* a, const Int* lda, T* tau, T* work,             \
                 const Int* lwork, Int* info);
#define SHOAL_LAPACK_OF_REALS(p, T)                                                                                   \
  SHOAL_LAPACK_OF_ALL(p, T)                                                                                           \
  void p##orgqr_(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,               \
                 const Int* lwork, Int* info);                                                                        \
  void p##sytrd_(const char* uplo, const Int* n, T* a, const Int* lda, T* d, T* e, T* tau, T* work, const Int* lwork, \
                 Int* info, std::size_t);                                                                             \
  void p##ormtr_(const char* side, const char* uplo, const char* trans, const Int* m, const Int* n, const T* a,       \
                 const Int* lda, const T* tau, T* c, const Int* ldc, T* work, const Int* lwork, Int* info,            \
                 std::size_t, std::size_t, std::size_t);                                                              \
  void p##stedc_(const char* compz, const Int* n, T* d, T* e, T* z, const Int* ldz, T* work, const Int* lwork,        \
                 Int* iwork, const Int* liwork, Int* info, std::size_t);                                              \
  void p##gesdd_(const char* jobz, const Int* m, const Int* n, T* a, const Int* lda, T* s, T* u, const Int* ldu,      \
                 T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork, Int* info, std::size_t);              \
  void p##gees_(const char* jobvs, const char* sort, void* select, const Int* n, T* a, const Int* lda, Int* sdim,     \
                T* wr, T* wi, T* vs, const Int* ldvs, T* work, const Int* lwork, Int* bwork, Int* info, std::size_t,  \
                std::size_t);                                                                                         \
  void p##geev_(const char* jobvl, const char* jobvr, const Int* n, T* a, const Int* lda, T* wr, T* wi, T* vl,        \
                const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, Int* info, std::size_t,           \
                std::size_t);
#define SHOAL_LAPACK_OF_COMPLEX(p, T, R)                                                                               \
  SHOAL_LAPACK_OF_ALL(p, T)                                                                                            \
  void p##ungqr_(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work,                \
                 const Int* lwork, Int* info);                                                                         \
  void p##hetrd_(const char* uplo, const Int* n, T* a, const Int* lda, R* d, R* e, T* tau, T* work, const Int* lwork,  \
                 Int* info, std::size_t);                                                                              \
  void p##unmtr_(const char* side, const char* uplo, const char* trans, const Int* m, const Int* n, const T* a,        \
                 const Int* lda, const T* tau, T* c, const Int* ldc, T* work, const Int* lwork, Int* info,             \
                 std::size_t, std::size_t, std::size_t);                                                               \
  void p##stedc_(const char* compz, const Int* n, R* d, R* e, T* z, const Int* ldz, T* work, const Int* lwork,         \
                 R* rwork, const Int* lrwork, Int* iwork, const Int* liwork, Int* info, std::size_t);                  \
  void p##gesdd_(const char* jobz, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u, const Int* ldu,       \
                 T* vt, const Int* ldvt, T* work, const Int* lwork, R* rwork, Int* iwork, Int* info, std::size_t);     \
  void p##gees_(const char* jobvs, const char* sort, void* select, const Int* n, T* a, const Int* lda, Int* sdim,      \
                T* w, T* vs, const Int* ldvs, T* work, const Int* lwork, R* rwork, Int* bwork, Int* info, std::size_t, \
                std::size_t);                                                                                          \
  void p##geev_(const char* jobvl, const char* jobvr, const Int* n, T* a, const Int* lda, T* w, T* vl,                 \
                const Int* ldvl, T* vr, const Int* ldvr, T* work, const Int* lwork, R* rwork, Int* info, std::size_t,  \
                std::size_t);

void ssterf_(const Int* n, float* d, float* e, Int* info);
void dsterf_(const Int* n, double* d, double* e, Int* info);
SHOAL_LAPACK_OF_REALS(s, float)
SHOAL_LAPACK_OF_REALS(d, double)
SHOAL_LAPACK_OF_COMPLEX(c, Complex64, float)
SHOAL_LAPACK_OF_COMPLEX(z, Complex128, double)

// All that LAPACK needs of the library of the compiler of Fortran is to put two strings together. This is it, so that
// neither that library nor those which it needs are linked (--wrap in CMakeLists.txt). Blanks fill what is left.
void __wrap__gfortran_concat_string(std::size_t size, char* to, std::size_t first_size, const char* first,
                                    std::size_t second_size, const char* second) {
  const std::size_t of_first = std::min(size, first_size);
  const std::size_t of_second = std::min(size - of_first, second_size);
  std::memcpy(to, first, of_first);
  std::memcpy(to + of_first, second, of_second);
  std::memset(to + of_first + of_second, ' ', size - of_first - of_second);
}

// Reports a wrong argument, of which there is none; it would be printed.
void __wrap_xerbla_(const char*, const Int*, std::size_t) {}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"

namespace shoal::cpu {
namespace {

/// LAPACK tells the size of its memory as a number of the dtype, rounded perhaps.
template <class T>
Int size_of_answer(T answer) {
  using Real = decltype(std::real(T{}));
  const double size = std::real(answer);
  return static_cast<Int>(std::ceil(size * (1 + double{std::numeric_limits<Real>::epsilon()})));
}

// BLAS takes factors as they are, or by their address if they are complex.
template <class T>
auto factor(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return &value;
  }
}

template <auto kFunction, class T>
void trsm(Int rows, Int columns, const BlasTriangle<T>& a, BlasMatrix<T> x) {
  const T one{1};
  kFunction(CblasRowMajor, a.right ? CblasRight : CblasLeft, a.lower ? CblasLower : CblasUpper,
            a.adjoint ? CblasConjTrans : CblasNoTrans, a.unit_diagonal ? CblasUnit : CblasNonUnit, rows, columns,
            factor(one), a.data, a.stride, x.data, x.stride);
}

template <auto kFunction, class T>
void trmm(Int rows, Int columns, decltype(std::real(T{})) scale, const BlasTriangle<T>& a, BlasMatrix<T> x) {
  const T by{scale};
  kFunction(CblasRowMajor, a.right ? CblasRight : CblasLeft, a.lower ? CblasLower : CblasUpper,
            a.adjoint ? CblasConjTrans : CblasNoTrans, a.unit_diagonal ? CblasUnit : CblasNonUnit, rows, columns,
            factor(by), a.data, a.stride, x.data, x.stride);
}

template <auto kFunction, class T>
void trsv(Int n, const BlasTriangle<T>& a, T* x) {
  kFunction(CblasRowMajor, a.lower ? CblasLower : CblasUpper, a.adjoint ? CblasConjTrans : CblasNoTrans,
            a.unit_diagonal ? CblasUnit : CblasNonUnit, n, a.data, a.stride, x, 1);
}

template <auto kFunction, class T>
void subtract_product(BlasSize size, BlasMatrix<const T> lhs, BlasMatrix<const T> rhs, BlasMatrix<T> out) {
  const T one{1};
  const T minus_one{-1};
  kFunction(CblasRowMajor, lhs.transposed ? CblasConjTrans : CblasNoTrans,
            rhs.transposed ? CblasConjTrans : CblasNoTrans, size.rows, size.columns, size.inner, factor(minus_one),
            lhs.data, lhs.stride, rhs.data, rhs.stride, factor(one), out.data, out.stride);
}

template <auto kFunction, class T>
void subtract_square(Int n, Int k, BlasMatrix<const T> a, BlasMatrix<T> out) {
  using Real = decltype(std::real(T{}));
  kFunction(CblasRowMajor, CblasLower, a.transposed ? CblasConjTrans : CblasNoTrans, n, k, Real{-1}, a.data, a.stride,
            Real{1}, out.data, out.stride);
}

template <auto kFunction, class T>
Int potrf(char triangle, Int n, LapackMatrix<T> a) {
  Int info = 0;
  kFunction(&triangle, &n, a.data, &a.stride, &info, 1);
  return info;
}

template <auto kFunction, class T>
Int getrf(Int m, Int n, LapackMatrix<T> a, Int* pivots) {
  Int info = 0;
  kFunction(&m, &n, a.data, &a.stride, pivots, &info);
  return info;
}

template <auto kFunction, class T>
Int geqrf(Int m, Int n, LapackMatrix<T> a, T* factors, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction(&m, &n, a.data, &a.stride, factors, memory.elements, &memory.sizes.elements, &info);
  return info;
}

template <auto kFunction, class T>
LapackSizes geqrf_sizes(Int m, Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  kFunction(&m, &n, &nothing, &m, &nothing, &answer, &ask, &info);
  return {.elements = size_of_answer(answer)};
}

template <auto kFunction, class T>
Int ungqr(Int m, Int n, Int k, LapackMatrix<T> a, const T* factors, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction(&m, &n, &k, a.data, &a.stride, factors, memory.elements, &memory.sizes.elements, &info);
  return info;
}

template <auto kFunction, class T>
LapackSizes ungqr_sizes(Int m, Int n, Int k) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  kFunction(&m, &n, &k, &nothing, &m, &nothing, &answer, &ask, &info);
  return {.elements = size_of_answer(answer)};
}

template <class T>
using RealOf = decltype(std::real(T{}));

template <auto kFunction, class T>
Int hetrd(Int n, LapackMatrix<T> a, RealOf<T>* diagonal, RealOf<T>* beside, T* factors, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction("L", &n, a.data, &a.stride, diagonal, beside, factors, memory.elements, &memory.sizes.elements, &info, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes hetrd_sizes(Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  RealOf<T> none{};
  kFunction("L", &n, &nothing, &n, &none, &none, &nothing, &answer, &ask, &info, 1);
  return {.elements = size_of_answer(answer)};
}

template <auto kFunction, class T>
Int unmtr(Int n, Int columns, LapackMatrix<T> a, const T* factors, LapackMatrix<T> z, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction("L", "L", "N", &n, &columns, a.data, &a.stride, factors, z.data, &z.stride, memory.elements,
            &memory.sizes.elements, &info, 1, 1, 1);
  return info;
}

// What it answers when asked leaves out the triangles of blocks of reflections. With less memory it would take
// reflections one by one, and write to a meanwhile, which other threads read.
LapackSizes unmtr_sizes(Int columns) {
  constexpr Int kMostOfBlock = 64;
  return {.elements = kMostOfBlock * columns + kMostOfBlock * (kMostOfBlock + 1)};
}

template <auto kFunction, class T>
Int real_stedc(Int n, T* diagonal, T* beside, LapackMatrix<T> z, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction("I", &n, diagonal, beside, z.data, &z.stride, memory.elements, &memory.sizes.elements, memory.integers,
            &memory.sizes.integers, &info, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes real_stedc_sizes(Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  LapackSizes sizes;
  kFunction("I", &n, &nothing, &nothing, &nothing, &n, &answer, &ask, &sizes.integers, &ask, &info, 1);
  sizes.elements = size_of_answer(answer);
  return sizes;
}

template <auto kFunction, class T>
Int complex_stedc(Int n, RealOf<T>* diagonal, RealOf<T>* beside, LapackMatrix<T> z, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction("I", &n, diagonal, beside, z.data, &z.stride, memory.elements, &memory.sizes.elements, memory.reals,
            &memory.sizes.reals, memory.integers, &memory.sizes.integers, &info, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes complex_stedc_sizes(Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  RealOf<T> none{};
  RealOf<T> reals{};
  LapackSizes sizes;
  kFunction("I", &n, &none, &none, &nothing, &n, &answer, &ask, &reals, &ask, &sizes.integers, &ask, &info, 1);
  sizes.elements = size_of_answer(answer);
  sizes.reals = size_of_answer(reals);
  return sizes;
}

template <class T>
Int sterf(Int n, RealOf<T>* diagonal, RealOf<T>* beside) {
  Int info = 0;
  if constexpr (std::is_same_v<RealOf<T>, float>) {
    ssterf_(&n, diagonal, beside, &info);
  } else {
    dsterf_(&n, diagonal, beside, &info);
  }
  return info;
}

template <auto kFunction, class T>
Int real_svd(SingularVectors wanted, Int m, Int n, LapackMatrix<T> a, T* values, LapackMatrix<T> u, LapackMatrix<T> vh,
             const LapackMemory<T>& memory) {
  const char job = static_cast<char>(wanted);
  Int info = 0;
  kFunction(&job, &m, &n, a.data, &a.stride, values, u.data, &u.stride, vh.data, &vh.stride, memory.elements,
            &memory.sizes.elements, memory.integers, &info, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes real_svd_sizes(SingularVectors wanted, Int m, Int n) {
  const char job = static_cast<char>(wanted);
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  Int integers = 0;
  kFunction(&job, &m, &n, &nothing, &m, &nothing, &nothing, &m, &nothing, &n, &answer, &ask, &integers, &info, 1);
  return {.elements = size_of_answer(answer), .integers = 8 * std::min(m, n)};
}

template <auto kFunction, class T>
Int complex_svd(SingularVectors wanted, Int m, Int n, LapackMatrix<T> a, typename T::value_type* values,
                LapackMatrix<T> u, LapackMatrix<T> vh, const LapackMemory<T>& memory) {
  const char job = static_cast<char>(wanted);
  Int info = 0;
  kFunction(&job, &m, &n, a.data, &a.stride, values, u.data, &u.stride, vh.data, &vh.stride, memory.elements,
            &memory.sizes.elements, memory.reals, memory.integers, &info, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes complex_svd_sizes(SingularVectors wanted, Int m, Int n) {
  const char job = static_cast<char>(wanted);
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  typename T::value_type reals{};
  Int integers = 0;
  kFunction(&job, &m, &n, &nothing, &m, &reals, &nothing, &m, &nothing, &n, &answer, &ask, &reals, &integers, &info, 1);
  // These are not asked for; the formulas are those of LAPACK's manual.
  const std::int64_t least = std::min(m, n);
  const std::int64_t most = std::max(m, n);
  const std::int64_t needed = std::max(5 * least * least + 5 * least, 2 * most * least + 2 * least * least + least);
  return {
      .elements = size_of_answer(answer), .reals = static_cast<Int>(needed), .integers = static_cast<Int>(8 * least)};
}

template <auto kFunction, class T>
Int gehrd(Int n, LapackMatrix<T> a, T* factors, const LapackMemory<T>& memory) {
  const Int first = 1;
  Int info = 0;
  kFunction(&n, &first, &n, a.data, &a.stride, factors, memory.elements, &memory.sizes.elements, &info);
  return info;
}

template <auto kFunction, class T>
LapackSizes gehrd_sizes(Int n) {
  const Int ask = -1;
  const Int first = 1;
  Int info = 0;
  T answer{};
  T nothing{};
  kFunction(&n, &first, &n, &nothing, &n, &nothing, &answer, &ask, &info);
  return {.elements = size_of_answer(answer)};
}

// Eigenvalues are not wanted: they are on the diagonal.
template <auto kFunction, class T>
Int real_gees(Int n, LapackMatrix<T> a, LapackMatrix<T> z, const LapackMemory<T>& memory) {
  Int info = 0;
  Int count = 0;
  kFunction("V", "N", nullptr, &n, a.data, &a.stride, &count, memory.reals, memory.reals + n, z.data, &z.stride,
            memory.elements, &memory.sizes.elements, nullptr, &info, 1, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes real_gees_sizes(Int n) {
  const Int ask = -1;
  Int info = 0;
  Int count = 0;
  T answer{};
  T nothing{};
  kFunction("V", "N", nullptr, &n, &nothing, &n, &count, &nothing, &nothing, &nothing, &n, &answer, &ask, nullptr,
            &info, 1, 1);
  return {.elements = size_of_answer(answer), .reals = 2 * n};
}

template <auto kFunction, class T>
Int complex_gees(Int n, LapackMatrix<T> a, LapackMatrix<T> z, const LapackMemory<T>& memory) {
  Int info = 0;
  Int count = 0;
  const Int rest = memory.sizes.elements - n;
  kFunction("V", "N", nullptr, &n, a.data, &a.stride, &count, memory.elements, z.data, &z.stride, memory.elements + n,
            &rest, memory.reals, nullptr, &info, 1, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes complex_gees_sizes(Int n) {
  const Int ask = -1;
  Int info = 0;
  Int count = 0;
  T answer{};
  T nothing{};
  RealOf<T> reals{};
  kFunction("V", "N", nullptr, &n, &nothing, &n, &count, &nothing, &nothing, &n, &answer, &ask, &reals, nullptr, &info,
            1, 1);
  return {.elements = size_of_answer(answer) + n, .reals = n};
}

const char* wanted(bool vectors) { return vectors ? "V" : "N"; }

template <auto kFunction, class T>
Int real_geev(bool left, bool right, Int n, LapackMatrix<T> a, std::complex<T>* values, LapackMatrix<T> u,
              LapackMatrix<T> v, const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction(wanted(left), wanted(right), &n, a.data, &a.stride, memory.reals, memory.reals + n, u.data, &u.stride,
            v.data, &v.stride, memory.elements, &memory.sizes.elements, &info, 1, 1);
  for (Int i = 0; i < n; ++i) values[i] = {memory.reals[i], memory.reals[n + i]};
  return info;
}

template <auto kFunction, class T>
LapackSizes real_geev_sizes(bool left, bool right, Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  kFunction(wanted(left), wanted(right), &n, &nothing, &n, &nothing, &nothing, &nothing, &n, &nothing, &n, &answer,
            &ask, &info, 1, 1);
  return {.elements = size_of_answer(answer), .reals = 2 * n};
}

template <auto kFunction, class T>
Int complex_geev(bool left, bool right, Int n, LapackMatrix<T> a, T* values, LapackMatrix<T> u, LapackMatrix<T> v,
                 const LapackMemory<T>& memory) {
  Int info = 0;
  kFunction(wanted(left), wanted(right), &n, a.data, &a.stride, values, u.data, &u.stride, v.data, &v.stride,
            memory.elements, &memory.sizes.elements, memory.reals, &info, 1, 1);
  return info;
}

template <auto kFunction, class T>
LapackSizes complex_geev_sizes(bool left, bool right, Int n) {
  const Int ask = -1;
  Int info = 0;
  T answer{};
  T nothing{};
  RealOf<T> reals{};
  kFunction(wanted(left), wanted(right), &n, &nothing, &n, &nothing, &nothing, &n, &nothing, &n, &answer, &ask, &reals,
            &info, 1, 1);
  return {.elements = size_of_answer(answer), .reals = 2 * n};
}

}  // namespace

#define SHOAL_LAPACK_TABLE(p, T, square, unitary, reduction, product, kind)                                       \
  {                                                                                                               \
    .trsm = trsm<cblas_##p##trsm, T>, .trmm = trmm<cblas_##p##trmm, T>, .trsv = trsv<cblas_##p##trsv, T>,         \
    .subtract_product = subtract_product<cblas_##p##gemm, T>, .subtract_square = subtract_square<square, T>,      \
    .potrf = potrf<p##potrf_, T>, .getrf = getrf<p##getrf_, T>, .geqrf = geqrf<p##geqrf_, T>,                     \
    .geqrf_sizes = geqrf_sizes<p##geqrf_, T>, .ungqr = ungqr<unitary, T>, .ungqr_sizes = ungqr_sizes<unitary, T>, \
    .hetrd = hetrd<reduction, T>, .hetrd_sizes = hetrd_sizes<reduction, T>, .stedc = kind##_stedc<p##stedc_, T>,  \
    .stedc_sizes = kind##_stedc_sizes<p##stedc_, T>, .sterf = sterf<T>, .unmtr = unmtr<product, T>,               \
    .unmtr_sizes = unmtr_sizes, .gesdd = kind##_svd<p##gesdd_, T>, .gesdd_sizes = kind##_svd_sizes<p##gesdd_, T>, \
    .gehrd = gehrd<p##gehrd_, T>, .gehrd_sizes = gehrd_sizes<p##gehrd_, T>, .gees = kind##_gees<p##gees_, T>,     \
    .gees_sizes = kind##_gees_sizes<p##gees_, T>, .geev = kind##_geev<p##geev_, T>,                               \
    .geev_sizes = kind##_geev_sizes<p##geev_, T>                                                                  \
  }

LapackFunctions<float> slapack() { return SHOAL_LAPACK_TABLE(s, float, cblas_ssyrk, sorgqr_, ssytrd_, sormtr_, real); }
LapackFunctions<double> dlapack() {
  return SHOAL_LAPACK_TABLE(d, double, cblas_dsyrk, dorgqr_, dsytrd_, dormtr_, real);
}
LapackFunctions<Complex64> clapack() {
  return SHOAL_LAPACK_TABLE(c, Complex64, cblas_cherk, cungqr_, chetrd_, cunmtr_, complex);
}
LapackFunctions<Complex128> zlapack() {
  return SHOAL_LAPACK_TABLE(z, Complex128, cblas_zherk, zungqr_, zhetrd_, zunmtr_, complex);
}

}  // namespace shoal::cpu
