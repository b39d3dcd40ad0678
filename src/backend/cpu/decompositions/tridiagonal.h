// Eigenvalues and vectors of symmetric tridiagonal matrices by halves: Cuppen, "A divide and conquer method for the
// symmetric tridiagonal eigenproblem", 1981; Gu and Eisenstat, "A divide-and-conquer algorithm for the symmetric
// tridiagonal eigenproblem", 1995. What can be computed by several threads or processes is cut into pieces here, each
// computed by who calls, and the same whoever does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

/// Matrices as a whole, in f32 or f64: `diagonal` has n elements and `beside` n - 1, and both are lost but for the
/// eigenvalues, ascending, in place of the diagonal.
template <class Real>
class Tridiagonal {
 public:
  /// By LAPACK, or by plain loops for nullptr.
  explicit Tridiagonal(const LapackFunctions<Real>* lapack) : lapack_(lapack) {}
  /// That of the process.
  static const Tridiagonal& shared();

  /// The eigenvectors become the columns of z, each dense: as a matrix of n rows in row-major order it is the
  /// transpose. False if that does not converge.
  bool decompose(std::int64_t n, Real* diagonal, Real* beside, Real* z) const;
  /// The eigenvalues alone.
  bool values(std::int64_t n, Real* diagonal, Real* beside) const;

 private:
  const LapackFunctions<Real>* lapack_;
};

/// A tridiagonal matrix whose two halves, without the element that joins them, are diagonalised: q1 of the first `cut`
/// rows, and q2, as Tridiagonal gives them. All that is known of them lies in memory of the caller.
///
/// In the order of calls: prepare(); then keep_together() of each half, and find_roots() of all roots; then order();
/// find_weights() of all of them; and vectors() of any columns.
template <class Real>
class JoinedHalves {
 public:
  /// The bytes that are needed for n rows.
  static std::size_t memory_of(std::int64_t n);
  /// `joining` is the element beside the diagonal at the cut, whose magnitude was subtracted from those on the diagonal
  /// on both sides of it. `values` are the eigenvalues of both halves, which are copied. The matrix is of the size
  /// of 1.
  void prepare(std::int64_t n, std::int64_t cut, Real joining, const Real* values, const Real* q1, const Real* q2,
               std::byte* memory);
  /// How many of the n values are roots of the secular equation; the others are known already.
  std::int64_t roots() const { return roots_; }
  /// The roots begin … end - 1: each is the distance from the pole with this number.
  void find_roots(std::int64_t begin, std::int64_t end, std::int64_t* origins, Real* distances) const;
  /// Moves the columns of a half that vectors are made of to its beginning.
  void keep_together(int half, Real* q) const;
  /// All roots; the eigenvalues in ascending order.
  void order(const std::int64_t* origins, const Real* distances, Real* values);
  /// Of the poles begin … end - 1: the numbers for which the roots are exact.
  void find_weights(std::int64_t begin, std::int64_t end);
  /// The eigenvectors begin … end - 1, as columns of a matrix in row-major order.
  void vectors(std::int64_t begin, std::int64_t end, const Real* q1, const Real* q2, Real* to,
               std::int64_t stride) const;

 private:
  // Columns p and q are turned.
  struct Rotation {
    std::int64_t p;
    std::int64_t q;
    Real c;
    Real s;
  };

  void deflate();
  Real from_root(std::int64_t pole, std::int64_t root) const {
    return (poles_[pole] - poles_[origins_[root]]) - distances_[root];
  }

  std::int64_t n_;
  std::int64_t cut_;
  Real rho_;
  std::int64_t roots_;
  std::int64_t rotations_;
  std::int64_t kept_[2];  // How many columns of each half vectors are made of.
  Real* values_;          // By the numbers of columns.
  Real* joined_;          // What the halves are joined by, of each column.
  Rotation* rotation_;
  std::int64_t* columns_;  // Of each pole.
  std::int64_t* places_;   // Of each column, within its half, when they are kept together.
  std::int64_t* kinds_;    // Of each column.
  Real* poles_;
  Real* squares_;
  std::int64_t* origins_;  // Of each root.
  Real* distances_;
  Real* weights_;
  std::int64_t* order_;  // Of each eigenvalue the number of its root, or -1 - that of its column.
};

extern template class Tridiagonal<float>;
extern template class Tridiagonal<double>;
extern template class JoinedHalves<float>;
extern template class JoinedHalves<double>;

}  // namespace shoal::cpu
