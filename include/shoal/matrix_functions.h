// Functions of square matrices, as of jax.scipy.linalg, and equations whose unknown is a matrix; and what
// jax.lax.linalg computes by loops. They are made of decompositions and products, and have the derivatives of these.
//
// Throws TypeMismatch for dtypes other than f32, f64, c64 and c128 (integers and bool become floats), and
// InvalidArgument for operands whose extents do not fit. Those that say nothing of batches take one matrix.
//
// @param a A square matrix [n, n], with batches before.
// @param b A matrix.
// @param c A matrix.
// @param x A matrix [m, n], with batches before.
// @param d The diagonal [n].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "shoal/array.h"

namespace shoal {

namespace lax::linalg {

/// The upper triangular R' with R'^T R' = R^T R + w w^T, for an upper triangular R [n, n] and a vector w [n], both
/// real. By n rotations (Golub and Van Loan, 6.5.4).
/// @param r_matrix The factor R.
/// @param w_vector The vector w.
Array cholesky_update(const Operand& r_matrix, const Operand& w_vector);

/// The permutation [..., size] that exchanging row i with row pivots[i], one after the other, makes; pivots are i32
/// [..., k].
/// @param pivots With which row each row was exchanged.
/// @param permutation_size The number of rows.
Array lu_pivots_to_permutation(const Operand& pivots, std::int64_t permutation_size);

struct TridiagonalResult {
  Array a;     ///< The reflections (householder_product) below the first subdiagonal, or above the first superdiagonal.
  Array d;     ///< The diagonal [..., n], real.
  Array e;     ///< What lies beside it [..., n - 1], real.
  Array taus;  ///< The factors of the reflections [..., n - 1].
};
/// A Hermitian matrix [..., n, n], of which one triangle counts, as q t q^H with a tridiagonal t.
/// @param lower Whether the lower triangle counts.
TridiagonalResult tridiagonal(const Operand& a, bool lower = true);

/// The x [..., n, k] with A x = b for tridiagonal matrices: `d` [..., n] is the diagonal, dl[i] = A[i, i - 1] and du[i]
/// = A[i, i + 1] lie beside it. By Gaussian elimination with exchanges of neighbours, as LAPACK's gtsv. With
/// `perturb_singular` pivots that are nearly 0 become the least that count beside the greatest element.
/// @param dl What lies below the diagonal [..., n]; dl[0] does not count.
/// @param du What lies above the diagonal [..., n]; du[n - 1] does not count.
/// @param b Right sides [..., n, k].
/// @param perturb_singular Whether pivots that are nearly 0 are replaced.
Array tridiagonal_solve(const Operand& dl, const Operand& d, const Operand& du, const Operand& b,
                        bool perturb_singular = false);

struct QdwhOptions {
  std::int64_t max_iterations = 10;  ///< How many steps are made at most.
  std::optional<double> eps = {};  ///< How near to unitary u is to come; by default as near as numbers of the dtype do.
};
struct QdwhResult {
  Array u;
  Array h;
  std::int64_t num_iters;
  bool is_converged;
};
/// x = u h for x [..., m, n] of full rank, m >= n: u has orthonormal columns, and h is Hermitian and positive. By the
/// dynamically weighted Halley iteration of Nakatsukasa, Bai and Gygi (2010), whose weights follow from the dtype
/// alone.
QdwhResult qdwh(const Operand& x, const QdwhOptions& options = {});

}  // namespace lax::linalg

namespace linalg {

struct ExpmOptions {
  bool upper_triangular = false;    ///< The matrices are, which saves work.
  std::int64_t max_squarings = 16;  ///< Matrices that need more become NaN.
};
/// The exponential of matrices [..., n, n], by Padé approximants and repeated squaring (Higham 2005).
Array expm(const Operand& a, const ExpmOptions& options = {});
/// The exponential of a, and its derivative in the direction e; both [..., n, n].
/// @param e The direction.
std::pair<Array, Array> expm_frechet(const Operand& a, const Operand& e);
/// The complex matrix whose square is a. By Björck and Hammarling's method (1983), on the complex Schur form.
Array sqrtm(const Operand& a);
/// A function of scalars for a matrix, complex, by Parlett's recurrence on the complex Schur form (Golub and Van Loan,
/// 9.1.4). It is inaccurate where eigenvalues are equal or nearly so.
/// @param function The function, of arrays of scalars.
Array funm(const Operand& a, const std::function<Array(const Array&)>& function);

/// t and q with a = q t q^H: lax::linalg::schur for "real", which is complex of complex matrices, and an upper
/// triangular t for "complex". Throws InvalidArgument for another output.
/// @param output "real" or "complex".
std::pair<Array, Array> schur(const Operand& a, const std::string& output = "real");
/// From lax::linalg::schur's t and q of a real matrix to complex ones with an upper triangular t.
/// @param t The triangular factor.
/// @param q The unitary one.
std::pair<Array, Array> rsf2csf(const Operand& t, const Operand& q);
struct HessenbergResult {
  Array h;
  Array q;
};
/// a = q h q^H, [..., n, n], with h zero below its first subdiagonal and q unitary.
HessenbergResult hessenberg(const Operand& a);

struct PolarOptions {
  std::string side = "right";   ///< a = u p; "left": a = p u.
  std::string method = "qdwh";  ///< Or "svd". Where "qdwh" does not do (more columns than rows for "right", more rows
                                ///< for "left") "svd" does.
  lax::linalg::QdwhOptions qdwh = {};  ///< Of the method "qdwh".
};
/// The unitary u [..., m, n] and the positive semidefinite p. Throws InvalidArgument for other sides and methods.
std::pair<Array, Array> polar(const Operand& a, const PolarOptions& options = {});

struct QrMultiplyOptions {
  std::string mode = "right";  ///< c q; "left": q c.
  bool conjugate = false;      ///< With the conjugate of q.
};
/// The product of c with the orthonormal factor of a, and the triangular factor. A vector c is a row, or a column for
/// "left".
std::pair<Array, Array> qr_multiply(const Operand& a, const Operand& c, const QrMultiplyOptions& options = {});

struct SylvesterOptions {
  std::string method = "schur";  ///< By Bartels and Stewart's method (1972); "eigen": by eigenvectors.
  double tol = 1e-8;  ///< If a sum of eigenvalues of a and b is nearer to 0 there is no solution: all is NaN.
};
/// The x [m, n] with a x + x b = c.
Array solve_sylvester(const Operand& a, const Operand& b, const Operand& c, const SylvesterOptions& options = {});

/// Which eigenvalues, and how exactly.
struct EighTridiagonalOptions {
  /// The numbers of the first and the last eigenvalue that are wanted; default: all.
  std::optional<std::pair<std::int64_t, std::int64_t>> select_range = {};
  std::optional<double> tol = {};  ///< How long intervals may be; default: as short as numbers allow.
};
/// The eigenvalues of a tridiagonal Hermitian matrix, ascending. By bisection with Sturm's counts, all at once, until
/// intervals are as short as `tol`, or as numbers allow.
/// @param e What lies beside the diagonal [n - 1].
/// @return A vector of real numbers.
Array eigvalsh_tridiagonal(const Operand& d, const Operand& e, const EighTridiagonalOptions& options = {});
/// The same with eigenvectors, as columns.
/// @param e What lies beside the diagonal [n - 1].
std::pair<Array, Array> eigh_tridiagonal(const Operand& d, const Operand& e,
                                         const EighTridiagonalOptions& options = {});

}  // namespace linalg

/// The roots of a polynomial of these coefficients [n], the highest first: complex [n - 1]. Of leading zeros of them
/// the roots are NaN, and come last. As eigenvalues of the companion matrix.
/// @param p The coefficients.
Array roots(const Operand& p);

}  // namespace shoal
