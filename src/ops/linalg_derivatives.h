// The derivatives of decompositions and of triangular systems (src/ops/linalg.cc).
#pragma once

#include <vector>

#include "ops/derivatives.h"

namespace shoal {

std::vector<MaybeValue> jvp_of_cholesky(const JvpContext& context);
std::vector<MaybeValue> jvp_of_cholesky_inverse(const JvpContext& context);
std::vector<MaybeValue> jvp_of_triangular_inverse(const JvpContext& context);
/// Where one device has all of the matrix: the solution of both triangular systems.
GraphPtr expand_cholesky_inverse(const ExpandContext& context);
GraphPtr expand_triangular_inverse(const ExpandContext& context);
std::vector<MaybeValue> jvp_of_triangular_solve(const JvpContext& context);
std::vector<MaybeValue> transpose_triangular_solve(const TransposeContext& context);
std::vector<MaybeValue> jvp_of_lu(const JvpContext& context);
/// Of matrices with at least as many rows as columns, if q is not square for more. Throws Unsupported for others.
std::vector<MaybeValue> jvp_of_qr(const JvpContext& context);
/// Of the eigenvalues, and of vectors that the attribute `differentiable` says to have a derivative. Throws Unsupported
/// for others.
std::vector<MaybeValue> jvp_of_eig(const JvpContext& context);
/// Where eigenvalues are equal the vectors have no derivative: NaN or infinite.
std::vector<MaybeValue> jvp_of_eigh(const JvpContext& context);
/// Not of the full u and vh of matrices that are not square: throws Unsupported. As jvp_of_eigh for equal values.
std::vector<MaybeValue> jvp_of_svd(const JvpContext& context);

}  // namespace shoal
