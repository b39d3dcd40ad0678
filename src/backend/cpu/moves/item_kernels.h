// Kernels of ops that reach into an array by index (src/ops/gather.cc). Each takes an equation of its op. Those that
// change an array do so where it lies, if nobody needs it any more.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// gather; nullptr where the result is of another dtype.
std::unique_ptr<Kernel> gather_kernel(const Graph& graph, const Eqn& eqn);
/// Whether a transposition of what a gather gives puts the dimensions of the indices, as they are, between those of the
/// array, as they are: its result is that of placed_gather_kernel().
bool places_items(const Graph& graph, const Eqn& gather, const Eqn& transpose);
/// Of a body that is such a pair.
std::unique_ptr<Kernel> placed_gather_kernel(const Graph& body);
std::unique_ptr<Kernel> scatter_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> scatter_reduce_kernel(const Graph& graph, const Eqn& eqn);
std::unique_ptr<Kernel> scatter_combine_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
