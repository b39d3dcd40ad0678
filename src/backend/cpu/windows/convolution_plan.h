// How a convolution is computed for given shapes: what is decided from them alone.
//
// Along a dimension, the element that place q of the result meets by position k of the window is
// (q strides + k window_dilation - low) / base_dilation, where that is whole. Places whose numbers differ by a multiple
// of `period` meet elements by the same positions, `step` elements further on each time: these places are a phase,
// those positions are its taps, and nothing is ever multiplied by a gap. The array is copied with its padding into a
// grid in which the elements that the neighbouring places of a phase meet are neighbours: elements `step` apart make a
// line.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/sums.h"
#include "backend/cpu/windows/convolution_panels.h"
#include "backend/cpu/windows/window_dim.h"
#include "ir/attrs.h"
#include "shoal/shape.h"

namespace shoal::cpu {

struct ConvolutionPlan {
  Shape lhs_shape;
  Shape rhs_shape;
  Shape out_shape;
  Dims low;
  std::vector<WindowDim> dims;  ///< At least one: that of a single place where there are none.
  std::int64_t batch = 0;
  std::int64_t groups = 0;
  std::int64_t features = 0;  ///< Of a group.
  std::int64_t results = 0;   ///< Of a group.
  std::int64_t places = 0;    ///< Of all dimensions.
  std::int64_t window = 0;    ///< Positions of all dimensions.

  /// Whether vectors are made of neighbouring places, each result being a row, or else of results.
  bool vectors_of_places = true;
  std::size_t flat = 1;  ///< How many of the last dimensions vectors run over.

  /// A unit is a group of features, some images of the batch, and some places of the first dimension.
  std::int64_t images = 1;  ///< Of a unit.
  std::int64_t band = 1;    ///< Places of each phase of the first dimension.
  std::int64_t image_blocks = 0;
  std::int64_t bands = 0;
  std::int64_t units = 0;

  /// A tile is some units, some results, and all that is summed or a part of it.
  std::int64_t unit_tiles = 1;
  std::int64_t units_of_tile = 1;
  std::int64_t result_tiles = 1;
  std::int64_t results_of_tile = 1;
  std::int64_t part_tiles = 1;  ///< More than 1 only if there is one phase.
  std::int64_t tiles = 0;
};

/// `low` is the padding before each dimension of what a shard holds.
ConvolutionPlan plan_convolution(const Attrs& attrs, const ProductTypes& types, const Shape& lhs, const Shape& rhs,
                                 const Shape& out, const Dims& low);

/// The parts in which `count` products of `window` each are summed. Parts are summed by themselves and then added, in
/// their order, whoever computes them.
std::int64_t part_size(std::int64_t count, std::int64_t taps);

}  // namespace shoal::cpu
