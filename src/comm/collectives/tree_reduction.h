// Reductions over many arrays at once, in a fixed balanced tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal {

/// The tree over arrays that stand for one or more positions each, positions[i] for array i: the left half has the
/// greatest power of two below the number of positions. Of each node that is no array, how many arrays are on its left:
/// first of the whole, then those of its left side, then those of its right. Each array must be a node of the tree.
std::vector<std::int32_t> tree_splits(std::span<const std::int64_t> positions);

/// Reduces the elements at byte `offset` of `count` >= 1 arrays into the `n` elements at `out`, which overlap none of
/// them, in the order of `splits`. If it `streams`, past the caches.
///
/// The bits depend on the tree over positions alone, and not on which of its nodes were reduced before and stored.
/// Each array is read once, and up to eight are reduced in registers.
using TreeReduction = void (*)(const std::byte* const* arrays, const std::int32_t* splits, std::size_t count,
                               std::size_t offset, std::byte* out, std::int64_t n, bool streams);

/// The one for a kind and dtype. Throws InternalError for an order of complex numbers and bits of floats.
TreeReduction tree_reduction(ReduceKind kind, Dtype dtype);

}  // namespace shoal
