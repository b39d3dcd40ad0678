// Kernels of the ops that decompose matrices or solve with triangular ones: by LAPACK or, for small matrices and where
// LAPACK is not there, by Shoal's own code. Unsupported is thrown for matrices that are too large for LAPACK, and where
// it is not there for what Shoal has no code of its own for: the last four.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> cholesky_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> triangular_solve_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> lu_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> qr_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> eigh_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> svd_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> hessenberg_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> householder_product_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> schur_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> eig_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
