// Linear algebra of matrices, which are the last two dimensions of an array; the dimensions before are batches, and
// arrays that are split along these stay where they are. Matrices are f32, f64, c64 or c128, and decompositions are
// computed in their dtype. Integers of 64 bits are taken as f64, others and bool as f32.
//
// Throws TypeMismatch for other dtypes, and InvalidArgument for operands that are not matrices, or not
// square where they must be. A matrix without a solution gives infinity and NaN, as a division by 0 does.
//
// @param x A matrix [n, n] or [m, n], with batches before.
// @param a A matrix [n, n] or [m, n], with batches before.
// @param b Right sides: a vector [m], or a matrix [m, k], with batches before.
// @param p The number of the norm.
// @param name "fro" or "nuc".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/array.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"

namespace shoal {

// ---- The functions of jax.lax.linalg.

namespace lax::linalg {

/// The lower triangular l with l l^H = x, for positive definite Hermitian matrices; for others the lower triangle is
/// NaN. Of a matrix that is not Hermitian, its Hermitian part is used or, if not `symmetrize_input`, its lower
/// triangle.
/// @param symmetrize_input Whether the Hermitian part of x is used, not its lower triangle.
/// @return A matrix [n, n], with zeros above its diagonal.
Array cholesky(const Operand& x, bool symmetrize_input = true);

struct TriangularSolveOptions {
  bool left_side = false;      ///< Solve op(a) x = b, not x op(a) = b.
  bool lower = false;          ///< Which triangle of `a` is used.
  bool transpose_a = false;    ///< Whether `a` is transposed.
  bool conjugate_a = false;    ///< Whether `a` is conjugated.
  bool unit_diagonal = false;  ///< The diagonal of `a` counts as 1.
};
/// Solves triangular systems by substitution; op(a) is `a` transposed, conjugated, both or neither. `b` has the dtype
/// and the batches of `a`, or is one vector for each batch. Throws InvalidArgument for extents that do not fit.
/// @param a Triangular matrices [n, n]; the other triangle is not read.
/// @param b Right sides, n × k, or k × n if the unknown is on the left.
/// @return The unknown, of the shape of `b`.
Array triangular_solve(const Operand& a, const Operand& b, const TriangularSolveOptions& options = {});

/// Triangular factors, and how rows were exchanged, i32.
struct LuResult {
  Array lu;           ///< Both factors in one: the lower one has ones on its diagonal.
  Array pivots;       ///< With which row each row was exchanged, in this order.
  Array permutation;  ///< x[permutation] is the product of the factors.
};
/// The LU decomposition, by Gaussian elimination; the pivot is the greatest element of its column, by |re| + |im|.
LuResult lu(const Operand& x);

/// q and r with x = q r: the columns of q are orthonormal, and r is upper triangular with a real diagonal. By
/// Householder reflections, with the signs of LAPACK. With full matrices q is square.
/// @param full_matrices Whether q is square; otherwise it has as many columns as the lesser extent.
std::pair<Array, Array> qr(const Operand& x, bool full_matrices = true);

struct EighOptions {
  bool lower = true;             ///< Which triangle is used if not symmetrize_input.
  bool symmetrize_input = true;  ///< The Hermitian part of the matrix is used.
};
/// The eigenvectors of Hermitian matrices, as columns, and their eigenvalues, ascending. NaN for non-finite matrices.
std::pair<Array, Array> eigh(const Operand& x, const EighOptions& options = {});

/// x = q h q^H with h zero below its first subdiagonal. The first result [..., n, n] has h and, below the subdiagonal,
/// the reflections whose product is q; the second has their factors [..., n - 1]. By Householder reflections, as
/// LAPACK's gehrd.
std::pair<Array, Array> hessenberg(const Operand& x);
/// The first n columns [..., m, n] of the product of k reflections I - t v v^H, k <= n <= m: v has a 1 on the diagonal
/// of a [..., m, n], and below it the elements of `a`; `taus` [..., k] are the factors t. Takes what hessenberg and
/// LAPACK's geqrf return. Throws InvalidArgument for extents or dtypes that do not fit.
/// @param taus The factors of the reflections.
Array householder_product(const Operand& a, const Operand& taus);
struct OrmqrOptions {
  bool left = true;        ///< Q c; otherwise c Q.
  bool transpose = false;  ///< Use the adjoint of Q.
};
/// The product of a matrix c with the square Q whose reflections a [..., m, k] holds, from the left or from the right.
/// @param taus The factors of the reflections.
/// @param c The matrix to multiply.
/// @return A matrix of the shape of c.
Array ormqr(const Operand& a, const Operand& taus, const Operand& c, const OrmqrOptions& options = {});

/// t and q, [..., n, n], with x = q t q^H and q unitary. For complex matrices t is upper triangular; for real ones a
/// pair of complex eigenvalues has two rows, with equal numbers on the diagonal. By the QR algorithm, as LAPACK's gees.
/// NaN for non-finite matrices.
std::pair<Array, Array> schur(const Operand& x);

struct EigOptions {
  bool compute_left_eigenvectors = true;   ///< Whether the result has `vl`.
  bool compute_right_eigenvectors = true;  ///< Whether the result has `vr`.
  /// Whether the vectors have a derivative, which is right if all eigenvalues differ and no vector has two greatest
  /// elements. Without it their derivative throws Unsupported, and eigenvalues have one if no vectors are computed.
  bool enable_eigvec_derivs = false;
};
struct EigResult {
  Array w;                  ///< The eigenvalues [..., n], complex, in the order of LAPACK.
  std::optional<Array> vl;  ///< Columns u_j [..., n, n] with u_j^H x = w_j u_j^H.
  std::optional<Array> vr;  ///< Columns v_j with x v_j = w_j v_j.
};
/// Eigenvalues and eigenvectors of general square matrices. Vectors have length 1, and their greatest element is real.
/// As LAPACK's geev. NaN for non-finite matrices.
EigResult eig(const Operand& x, const EigOptions& options = {});

}  // namespace lax::linalg

// ---- The functions of jax.numpy.linalg, and some of jax.scipy.linalg.

namespace linalg {
/// Which norm: a number p, "fro" or "nuc". Default: the root of the sum of squares.
class NormOrder {
 public:
  NormOrder() = default;
  NormOrder(int p) : value_(static_cast<double>(p)) {}
  NormOrder(double p) : value_(p) {}
  NormOrder(const char* name) : value_(std::string(name)) {}
  NormOrder(std::string name) : value_(std::move(name)) {}
  const std::variant<std::monostate, double, std::string>& get() const { return value_; }

 private:
  std::variant<std::monostate, double, std::string> value_;
};

struct NormOptions {
  NormOrder ord = {};     ///< Which norm: a number, "fro" or "nuc"; default: the root of the sum of squares.
  Axes axis = {};         ///< One dimension for norms of vectors, two for norms of matrices; default: all.
  bool keepdims = false;  ///< Reduced dimensions stay, with extent 1.
};

/// The norm of vectors or matrices; real. For vectors, p is any number: infinity gives the greatest magnitude,
/// -infinity the least, 0 the number of elements that are not 0, others the p-th root of the sum of p-th powers. For
/// matrices, "fro" is the root of the sum of squares; 1 and -1 give the greatest and the least sum of magnitudes of a
/// column, infinity and -infinity of a row; 2, -2 and "nuc" the greatest, the least and the sum of the singular values.
/// Without `ord` any number of dimensions may be given. Throws InvalidArgument for other orders and numbers of
/// dimensions.
/// @param x An array.
/// @return An array without the dimensions that the norm is taken over.
/// @example linalg::norm(array({3.0f, 4.0f}))
///   5.0
Array norm(const Operand& x, const NormOptions& options = {});

// ---- Decompositions.

struct CholeskyOptions {
  bool upper = false;            ///< Return the adjoint of the factor.
  bool symmetrize_input = true;  ///< The Hermitian part of the matrix is used; otherwise its lower triangle.
};
/// As lax::linalg::cholesky.
/// @return A matrix [n, n].
/// @example linalg::cholesky(array({{4.0f, 2.0f}, {2.0f, 5.0f}}))
///   [[2. 0.]
///    [1. 2.]]
Array cholesky(const Operand& a, const CholeskyOptions& options = {});

struct QRResult {
  Array Q;
  Array R;
};
/// As lax::linalg::qr. `mode` is "reduced" or "complete"; throws InvalidArgument for others.
/// @param mode "reduced": Q has as many columns as the lesser extent; "complete": Q is square.
QRResult qr(const Operand& a, const std::string& mode = "reduced");

struct EighResult {
  Array eigenvalues;
  Array eigenvectors;
};
struct UploOptions {
  std::string UPLO = "L";        ///< Which triangle is used if not symmetrize_input: "L" or "U".
  bool symmetrize_input = true;  ///< The Hermitian part of the matrix is used.
};
/// As lax::linalg::eigh, values first. Throws InvalidArgument for another UPLO.
EighResult eigh(const Operand& a, const UploOptions& options = {});
/// The eigenvalues of Hermitian matrices, ascending. Throws InvalidArgument for another UPLO.
/// @return An array [..., n], real.
/// @example linalg::eigvalsh(array({{2.0f, 0.0f}, {0.0f, 1.0f}}))
///   [1. 2.]
Array eigvalsh(const Operand& a, const UploOptions& options = {});

/// The eigenvalues, complex, and right eigenvectors of square matrices, as lax::linalg::eig. Only eigvals has a
/// derivative.
EighResult eig(const Operand& a);
/// The eigenvalues of square matrices, in the order of LAPACK. They have a derivative.
/// @return An array [..., n], complex.
Array eigvals(const Operand& a);

struct SVDResult {
  Array U;
  Array S;   ///< The singular values, descending; real.
  Array Vh;  ///< The adjoint of V: rows are orthonormal.
};
/// The singular value decomposition a = U diag(S) Vh. With full matrices U and Vh are square. Small matrices become
/// bidiagonal by reflections, and diagonal by rotations with implicit shifts; larger ones are decomposed by LAPACK's
/// gesdd, and large ones that are split as in gesvd (shoal/solvers.h). NaN for non-finite matrices.
/// @param full_matrices Whether U and Vh are square; otherwise they have as many columns and rows as the lesser extent.
SVDResult svd(const Operand& a, bool full_matrices = true);
/// The singular values, descending.
/// @return An array [..., min(m, n)], real.
Array svdvals(const Operand& a);

// ---- Systems of equations. Batches of matrices and right sides broadcast; a right side of one dimension is a vector.

/// The x with a x = b, by Gaussian elimination. Throws InvalidArgument for extents that do not fit.
/// @return The x, of the shape of b, batches broadcast.
/// @example linalg::solve(array({{2.0f, 0.0f}, {0.0f, 4.0f}}), array({2.0f, 2.0f}))
///   [1.  0.5]
Array solve(const Operand& a, const Operand& b);
/// The inverse of square matrices. Of a singular one it has infinity and NaN.
/// @return An array of the shape of a.
/// @example linalg::inv(array({{2.0f, 0.0f}, {0.0f, 4.0f}}))
///   [[0.5  0.  ]
///    [0.   0.25]]
Array inv(const Operand& a);
/// The pseudoinverse: singular values that are not greater than rtol times the greatest count as 0. By default rtol is
/// 10 times the greater extent times the distance of 1 to the next number.
/// @param rtol Below which part of the greatest singular value others count as 0.
/// @return An array [..., n, m].
Array pinv(const Operand& a, const std::optional<Operand>& rtol = {});

struct LstsqResult {
  Array x;
  Array residuals;  ///< The squared lengths of b - a x.
  Array rank;       ///< The number of singular values that count, i32.
  Array s;          ///< The singular values.
};
/// The shortest of the x for which a x is nearest to b, for a matrix and a vector or matrix. Singular values below
/// rcond times the greatest count as 0; by default rcond is the greater extent times the distance of 1 to the next
/// number.
/// @param rcond Below which part of the greatest singular value others count as 0.
LstsqResult lstsq(const Operand& a, const Operand& b, std::optional<double> rcond = {});

/// A Cholesky factor, and whether it is the lower one.
struct CholeskyFactor {
  Array factor;
  bool lower;
};
/// A Cholesky factor for cho_solve.
/// @param lower Whether the lower factor is returned, not the upper one.
CholeskyFactor cho_factor(const Operand& a, bool lower = false);
/// The x with a x = b, for the matrix a that was factored.
/// @param factored What cho_factor returned.
/// @return The x, of the shape of b.
Array cho_solve(const CholeskyFactor& factored, const Operand& b);
/// lax::linalg::lu of square matrices.
lax::linalg::LuResult lu_factor(const Operand& a);
/// The x with a x = b, for the matrix a that was factored; with `trans` 1 of its transpose, with 2 of its adjoint.
/// @param factored What lu_factor returned.
/// @param trans Which system: 0, 1 or 2.
/// @return The x, of the shape of b.
Array lu_solve(const lax::linalg::LuResult& factored, const Operand& b, int trans = 0);

struct SolveTriangularOptions {
  bool lower = false;          ///< Which triangle of `a` is used.
  int trans = 0;               ///< 1: solve for the transpose of `a`; 2: for its adjoint.
  bool unit_diagonal = false;  ///< The diagonal of `a` counts as 1.
};
/// The x with a x = b for triangular matrices a.
/// @return The x, of the shape of b.
Array solve_triangular(const Operand& a, const Operand& b, const SolveTriangularOptions& options = {});

// ---- Solvers of matrices that devices share, by their names in ScaLAPACK. However a matrix is split, its devices and
// processes work on tiles of it together, and none of them ever holds all of it. The functions above do the same where
// matrices of 512 rows and more are split, also inside jit, loops and derivatives.

struct SolverOptions {
  /// Rows and columns of the tiles that are worked on at once; 0: chosen to suit the extent and the shards. The bits of
  /// results depend on it, but not on the number of processes or threads.
  std::int64_t T_A = 0;
  /// If set, operands are first moved to this mesh, sharded by `in_specs`: one for the matrix, and one for right sides.
  std::optional<Mesh> mesh = {};
  std::vector<PartitionSpec> in_specs = {};  ///< The specs over `mesh`.
  bool return_status = false;                ///< Whether the status is wanted.
  bool return_logdet = false;                ///< Whether the logarithm of the determinant is wanted.
  bool return_eigenvectors = true;           ///< Whether eigenvectors are wanted.
};

struct PotrsResult {
  Array x;
  Array status;  ///< If wanted, i32: 0, or the number of rows of the smallest leading block that is not positive
                 ///< definite.
  Array logdet;  ///< If wanted: the logarithm of the determinant of the matrix.
  operator const Array&() const { return x; }  // NOLINT(google-explicit-constructor): the solution is what is meant.
};

/// The lower triangular l with l l^H = a, for a Hermitian positive definite a [n, n] of f32, f64, c64 or c128, of which
/// the lower triangle is used; split as `a` is. Throws InvalidArgument if it is known at the call that `a` is not
/// positive definite; in a traced function l is NaN instead. Throws InvalidArgument, too, for operands that do not fit,
/// naming the argument.
Array potrf(const Operand& a, const SolverOptions& options = {});
/// The x with a x = b, by potrf, for right sides b [n] or [n, sides]; split as `in_specs` say for b. If the status is
/// wanted, it replaces the error for a matrix that is not positive definite, and x is NaN then.
PotrsResult potrs(const Operand& a, const Operand& b, const SolverOptions& options = {});
/// The inverse of a Hermitian positive definite matrix, with both of its triangles; by potrf, and otherwise as potrs.
PotrsResult potri(const Operand& a, const SolverOptions& options = {});

struct SyevdResult {
  Array w;       ///< The eigenvalues [n], ascending, which every device has.
  Array v;       ///< If wanted: the eigenvectors, as columns, split as the matrix is.
  Array status;  ///< If wanted, i32: 0, or 1 where the matrix is not finite, or an iteration did not end.
};
/// The eigenvalues of a Hermitian a [n, n] of f32, f64, c64 or c128, of which the lower triangle is used, and its
/// eigenvectors unless the options say otherwise. By reflections to tridiagonal form, and divide and conquer. Throws
/// InvalidArgument if it is known at the call that there are none; if the status is wanted, and in a traced function, w
/// and v are NaN instead. Throws it, too, for operands that do not fit, naming the argument.
SyevdResult syevd(const Operand& a, const SolverOptions& options = {});

// ---- Numbers that belong to matrices.

/// The determinant of square matrices.
/// @return An array of the batches.
/// @example linalg::det(array({{2.0f, 0.0f}, {0.0f, 4.0f}}))
///   8.0
Array det(const Operand& a);
struct SlogdetResult {
  Array sign;       ///< For a complex determinant the number of length 1 in its direction; 0 if it is 0.
  Array logabsdet;  ///< The logarithm of its magnitude; -infinity if it is 0.
};
/// The determinant of square matrices, as its sign and the logarithm of its magnitude.
/// @return Arrays of the batches.
SlogdetResult slogdet(const Operand& a);
/// The number of singular values that are greater than rtol, i32; by default rtol is the greatest of them times the
/// greater extent times the distance of 1 to the next number. For a vector or scalar, whether it is not 0.
/// @param rtol Up to which value singular values count as 0.
/// @return An array of the batches, i32.
Array matrix_rank(const Operand& a, const std::optional<Operand>& rtol = {});
/// norm(a) norm(inv(a)), by default with the norm 2: the greatest singular value divided by the least. Infinity where
/// that is undefined for a matrix without NaN. Throws InvalidArgument for matrices without elements.
/// @param p Which norm, as of norm.
/// @return An array of the batches, real.
Array cond(const Operand& x, const NormOrder& p = {});

// ---- Products.

/// The n-th power of matrices a; if n is negative, of their inverses; the identity if n is 0.
/// @param n The power.
/// @return An array of the shape of a.
/// @example linalg::matrix_power(array({{1.0f, 1.0f}, {0.0f, 1.0f}}), 3)
///   [[1. 3.]
///    [0. 1.]]
Array matrix_power(const Operand& a, std::int64_t n);
/// The product of all arrays in the order that takes fewest multiplications. The first and the last may be vectors.
/// @param arrays Two matrices or more.
/// @return A matrix; a vector or scalar if one or both ends are vectors.
Array multi_dot(const Operands& arrays);
/// The last two dimensions exchanged.
/// @param x An array of at least two dimensions.
/// @return An array [..., n, m].
Array matrix_transpose(const Operand& x);

}  // namespace linalg
}  // namespace shoal
