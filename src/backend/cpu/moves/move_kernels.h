// Kernels of ops that only move elements. Each takes an equation of its op.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// Whether an op says where each element of its operands goes and nothing else: those that have a row in the source.
bool only_moves(const OpDef& op);
/// The kernel of an equation of such an op; nullptr for others.
std::unique_ptr<Kernel> move_kernel(const Graph& graph, const Eqn& eqn);

/// One constant everywhere.
std::unique_ptr<Kernel> fill_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
