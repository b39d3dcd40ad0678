// Reductions over many arrays at once, in a fixed balanced tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal {

/// Reduces the elements at byte `offset` of `count` >= 1 arrays into the `n` elements at `out`, which overlap none of
/// them. If it `streams`, past the caches.
///
/// The tree: the left half has the greatest power of two below the number of arrays, so that the bits depend on that
/// number alone. Each array is read once, and up to eight are reduced in registers.
using TreeReduction = void (*)(const std::byte* const* arrays, std::size_t count, std::size_t offset, std::byte* out,
                               std::int64_t n, bool streams);

/// The one for a kind and dtype. Throws InternalError for an order of complex numbers and bits of floats.
TreeReduction tree_reduction(ReduceKind kind, Dtype dtype);

}  // namespace shoal
