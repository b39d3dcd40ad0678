// Matrix products of the cpu back end: every dot_general.
//
// The dimensions of the operands are merged into as few as describe them: batches, rows, columns, and those summed
// over. A library reads them in place where that gives matrices with rows or columns of adjacent elements: oneDNN in
// the small dtypes, if the machine has instructions for them, OpenBLAS if one is a vector. Shoal's own blocked product
// takes everything else. It packs an operand that several shards share once, and the bits of an element depend on
// nothing but how its sum is cut in blocks, so tiles may be computed together or apart.
//
// The work is cut in tiles on a grid that depends on the shapes and dtypes alone. A long contraction of a small result
// is cut along what is summed, on a fixed grid too, and the parts are added in a balanced tree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace shoal::cpu {

/// A finished rectangle of the result, seen as one matrix of all batches: batch after batch, and in each the left
/// operand's free dimensions, run along the rows, the right operand's along the columns.
struct DotTile {
  std::int64_t row;  ///< The first one.
  std::int64_t rows;
  std::int64_t column;  ///< The first one.
  std::int64_t columns;
  std::byte* data;          ///< Its first element, of the product's dtype.
  std::int64_t row_stride;  ///< Bytes from a row to the next; the elements of a row are adjacent.
};

/// What follows a product, on a tile that is still in the cache. The tiles cover the result, each element once; several
/// threads may be in it at once. `inputs` and `outputs` are the kernel's.
using DotEpilogue =
    std::function<void(const DotTile& tile, std::span<const TensorView> inputs, std::span<const TensorView> outputs)>;

/// The kernel of a dot_general. Integers wrap as in the reference; floats below f64 are summed in f32 and rounded once.
///
/// With an epilogue, the kernel's inputs are the operands and whatever the epilogue reads, its outputs what the
/// epilogue writes. If outputs[0] has as many elements of the same dtype as the product, that is where tiles lie: the
/// epilogue may leave them there or write over them. Else they lie in memory of their own, which is gone afterwards.
std::unique_ptr<Kernel> dot_kernel(const Graph& graph, const Eqn& eqn, DotEpilogue epilogue = {});

}  // namespace shoal::cpu
