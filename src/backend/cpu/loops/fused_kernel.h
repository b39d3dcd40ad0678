// Kernels that run fused loops.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// A kernel for a graph that fuse_loops has made, or that holds one loop op; nullptr if no loop computes it.
std::unique_ptr<Kernel> fused_kernel(const Graph& body);

}  // namespace shoal::cpu
