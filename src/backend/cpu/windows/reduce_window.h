// The kernel of reductions over windows.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// The kernel of a reduce_window, of any dtype and any window. Sums and products of half-precision floats are made in
/// f32 and rounded once, those of others in their own dtype. In what order the elements of a window are reduced depends
/// on the window and where it lies, not on who computes it.
std::unique_ptr<Kernel> reduce_window_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
