// Decompositions of batches of small matrices, many at once: one in each lane of vectors. What is computed of a matrix
// is the same alone and in any place of any batch.
//
// What functions compute is what ByLapack does; they take the first of `count` matrices that lie one after the other.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/matrix_problem.h"

namespace shoal::cpu {

/// Rows and columns of small matrices, and of their right sides, are no more. Larger ones do not fit the near caches so
/// many at a time.
inline constexpr std::int64_t kMostOfSmallMatrix = 32;

inline bool is_small(const MatrixProblem& problem) {
  return std::max({problem.rows, problem.columns, problem.sides}) <= kMostOfSmallMatrix;
}

template <class T>
class SmallFactors {
 public:
  explicit SmallFactors(std::int64_t count) : count_(count) {}

  void cholesky(const MatrixProblem& problem, const T* a, T* l) const;
  void triangular_solve(const MatrixProblem& problem, const T* a, const T* b, T* x) const;
  void lu(const MatrixProblem& problem, const T* a, T* lu, std::int32_t* pivots, std::int32_t* permutation) const;
  void qr(const MatrixProblem& problem, const T* a, T* q, T* r) const;

 private:
  std::int64_t count_;
};

template <class T>
class SmallSpectra {
 public:
  explicit SmallSpectra(std::int64_t count) : count_(count) {}

  /// Vectors that are not wanted have no place.
  void eigh(const MatrixProblem& problem, const T* a, RealOf<T>* values, T* vectors) const;
  void svd(const MatrixProblem& problem, const T* a, T* u, RealOf<T>* values, T* vh) const;

 private:
  std::int64_t count_;
};

/// All of them.
template <class T>
class SmallMatrices : public SmallFactors<T>, public SmallSpectra<T> {
 public:
  explicit SmallMatrices(std::int64_t count) : SmallFactors<T>(count), SmallSpectra<T>(count) {}
};

}  // namespace shoal::cpu
