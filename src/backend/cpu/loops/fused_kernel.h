// Kernels that run fused loops.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

/// A kernel for a graph that fuse_loops has made, or that holds one loop op; nullptr if no loop computes it. A step
/// runs it on `shards` of them, one after the other.
std::unique_ptr<Kernel> fused_kernel(const Graph& body, std::int64_t shards);

}  // namespace shoal::cpu
