// Kernels of ops that only move elements. Each takes an equation of its op.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> broadcast_kernel(const Graph& graph, const Eqn& eqn);
/// For ops that leave all elements in their order.
std::unique_ptr<Kernel> reshape_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> transpose_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> slice_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> reverse_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> concatenate_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> pad_kernel(const Graph& graph, const Eqn& eqn);

/// One constant everywhere.
std::unique_ptr<Kernel> fill_kernel(const Graph& graph, const Eqn& eqn);

/// gather of whole rows, by an index each; nullptr for other gathers.
std::unique_ptr<Kernel> rows_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
