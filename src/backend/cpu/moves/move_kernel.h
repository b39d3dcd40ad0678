// Kernels of ops that only move elements: broadcast_in_dim, reshape, transpose, slice, reverse, concatenate, pad, full,
// and gather of whole rows.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// nullptr for other ops.
std::unique_ptr<Kernel> move_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
