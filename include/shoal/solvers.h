// Solvers of matrices that devices share, by their names in ScaLAPACK, which are programs over those of linalg.h; and
// the block-cyclic layout of ScaLAPACK, for who has data in it.
//
// As there, matrices are [m, n] of f32, f64, c64 or c128, however they are split, and no device ever holds all of one.
// Throws TypeMismatch for other dtypes, and InvalidArgument for operands that do not fit, with the argument.
//
// @param a The matrix.
// @param b The other matrix, or right sides.
// @param layout How tiles are dealt out to devices.
// @param mesh The mesh to which operands are moved first, if it is given.
// @param in_specs The specs over it.
// @param return_status Whether the status is wanted.
// @param lower Which triangle is used.
// @param factors What lu_factor gives.
// @param factor What cho_factor gives.
// @param norm norm(a, 1) of the matrix that was factored.
// @param x What to_block_cyclic gives.
// @param rows The number of rows.
// @param columns The number of columns.
// @param row_tile The rows of a tile.
// @param column_tile The columns of a tile.
// @param spec Which axes of the mesh are the rows and the columns of the grid.
// @param descriptor ScaLAPACK's descriptor.
// @param context ScaLAPACK's context.
// @param row The row of the matrix.
// @param column The column of the matrix.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/linalg.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"
#include "shoal/sharding.h"

namespace shoal::linalg {

// ---- Factors.

/// The reduced factors Q [m, n], split as `a` [m, n] is, and R [n, n] of a matrix with no fewer rows than columns, as
/// qr. T_A counts columns. Throws InvalidArgument for matrices with more columns than rows.
QRResult geqrf(const Operand& a, const SolverOptions& options = {});
/// The least-squares solution of a x = b, for a matrix [m, n] whose n columns are independent and right sides b [m] or
/// [m, sides], by geqrf. The status is 0, or the first column that depends on those before it, counted from 1; where it
/// is not wanted and known, that is InvalidArgument. in_specs are those of `a` and b.
PotrsResult gels(const Operand& a, const Operand& b, const SolverOptions& options = {});
/// The inverse of a triangular matrix [n, n], of which the other triangle is not looked at; split as `a` is.
Array trtri(const Operand& a, bool lower = true, const SolverOptions& options = {});

// ---- Eigenvalues and singular values.

/// w and v with a v = b v diag(w), for a Hermitian `a` and a Hermitian positive definite b, of both of which the lower
/// triangle counts; v^H b v is the identity. By potrf of b, trsm and syevd. The status is 0, or 1 as of syevd, or n + 1
/// where b has no factor: then w and v are NaN, and without return_status it is InvalidArgument if it is known.
SyevdResult sygvd(const Operand& a, const Operand& b, const SolverOptions& options = {});

struct GesvdResult {
  Array s;       ///< The singular values [k], descending, k = min(m, n).
  Array u;       ///< If vectors are wanted: [m, k],
  Array vh;      ///< and [k, n].
  Array status;  ///< If wanted, i32: 0, or 1 where the matrix is not finite, or an iteration did not end.
};
/// a = u diag(s) vh, for a matrix [m, n]. By the polar factors of `a`, or of its triangle if it is not square, and the
/// eigenvalues of the Hermitian one of them: Nakatsukasa and Higham, "Stable and efficient spectral divide and conquer
/// algorithms for the symmetric eigenvalue decomposition and the SVD", 2013. return_eigenvectors stands for u and vh.
/// As syevd where there are none.
GesvdResult gesvd(const Operand& a, const SolverOptions& options = {});

// ---- Systems of equations.

struct GesvOptions {
  std::int64_t T_A = 0;  ///< This and what follows as in SolverOptions.
  std::optional<Mesh> mesh = {};
  std::vector<PartitionSpec> in_specs = {};
  /// For f64 and c128: the factors are of half as many bits, and the solution is refined by residuals of all bits,
  /// until it is as good as if the factors had been, too. Where that does not come about, they are computed so.
  bool refine = false;
  bool return_status = false;
};
struct GesvResult {
  Array x;
  Array rcond;  ///< The reciprocal of cond_estimate(a).
  Array steps;  ///< If refined, i32: how often, or -1 where factors of all bits were needed.
  Array
      status;  ///< If wanted, i32: 0; or i, where u(i, i) is 0, counted from 1; or n + 1 where rcond is below epsilon.
  operator const Array&() const { return x; }  // NOLINT(google-explicit-constructor): the solution is what is meant.
};
/// The x with a x = b, for a matrix [n, n] and right sides b [n] or [n, sides] of its dtype, by getrf. Throws
/// InvalidArgument if it is known here that the matrix is singular, or so nearly that x may have no right digit, unless
/// the status is wanted: with the estimate. The derivative is that of the exact solution.
GesvResult gesv(const Operand& a, const Operand& b, const GesvOptions& options = {});

struct SolveOptions {
  bool refine = false;  ///< As GesvOptions says.
};
/// solve(a, b) of a matrix, perhaps refined; a singular one gives infinity and NaN.
Array solve(const Operand& a, const Operand& b, const SolveOptions& options);

/// An estimate of norm(a, 1) norm(inv(a), 1), which is hardly ever too small by more than a factor of 3, and never too
/// great but for rounding: Higham and Tisseur, "A block algorithm for matrix 1-norm estimation", 2000, with one column
/// (LAPACK's lacn2). By a few solutions with a factor, and of `a` alone by getrf.
Array cond_estimate(const Operand& a, const SolverOptions& options = {});
/// The same of the matrix that was factored, whose norm(a, 1) is given.
Array cond_estimate(const lax::linalg::LuResult& factors, const Operand& norm);
Array cond_estimate(const CholeskyFactor& factor, const Operand& norm);

// ---- ScaLAPACK's layout.

/// How ScaLAPACK deals a matrix out to a grid of devices: tiles of rows and columns go to them in turn, and each holds
/// its tiles as one local matrix. `spec` says which axes of the mesh are the rows, and which the columns, of the grid.
class BlockCyclic {
 public:
  /// Of a matrix of rows × columns in tiles of row_tile × column_tile. Throws InvalidArgument for extents below 0,
  /// tiles below 1, and specs of more than two dimensions or unknown axes.
  BlockCyclic(std::int64_t rows, std::int64_t columns, std::int64_t row_tile, std::int64_t column_tile, Mesh mesh,
              PartitionSpec spec, std::source_location where = std::source_location::current());
  /// Of ScaLAPACK's descriptor of a dense matrix, whose first tile the first device has: {1, context, rows, columns,
  /// row_tile, column_tile, 0, 0, local rows}. Throws InvalidArgument for others.
  static BlockCyclic from_descriptor(std::span<const std::int64_t> descriptor, Mesh mesh, PartitionSpec spec,
                                     std::source_location where = std::source_location::current());
  std::array<std::int64_t, 9> descriptor(std::int64_t context = 0) const;

  std::int64_t rows() const { return rows_.extent; }
  std::int64_t columns() const { return columns_.extent; }
  const NamedSharding& sharding() const { return sharding_; }
  /// Of all local matrices one beside the other: multiples of the grid and the tiles.
  std::int64_t padded_rows() const { return rows_.padded(); }
  std::int64_t padded_columns() const { return columns_.padded(); }
  /// The row and column of the grid where a place of the matrix lies. Throws OutOfRange for others.
  std::pair<std::int64_t, std::int64_t> owner(std::int64_t row, std::int64_t column,
                                              std::source_location where = std::source_location::current()) const;
  /// A picture of which device holds which tile, a line for each row of tiles; of large matrices the first ones.
  std::string picture() const;

 private:
  struct Dim {
    std::int64_t extent;
    std::int64_t tile;
    std::int64_t devices;
    std::int64_t rounds() const { return (extent + tile * devices - 1) / (tile * devices); }
    std::int64_t padded() const { return rounds() * tile * devices; }
  };
  friend Array to_block_cyclic(const Operand& a, const BlockCyclic& layout);
  friend Array from_block_cyclic(const Operand& x, const BlockCyclic& layout);

  NamedSharding sharding_;
  Dim rows_;
  Dim columns_;
};

/// The local matrices of all devices, one beside the other, [padded_rows, padded_columns]: split by the layout's
/// sharding each device has its own as its shard. What lies behind the matrix is 0. A shard's rows lie one after the
/// other; ScaLAPACK's columns do, so that its layout of `a` is this one of the transpose.
Array to_block_cyclic(const Operand& a, const BlockCyclic& layout);
/// The matrix [rows, columns] of what to_block_cyclic gives, split by the layout's spec as far as that divides it.
Array from_block_cyclic(const Operand& x, const BlockCyclic& layout);
/// Whether x holds `a` in this layout, whatever lies behind. Both are known here.
bool verify_cyclic(const Operand& x, const Operand& a, const BlockCyclic& layout);

}  // namespace shoal::linalg
