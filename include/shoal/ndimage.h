// Elements of an array between its own, as in jax.scipy.ndimage.
#pragma once

#include <string>
#include <vector>

#include "shoal/array.h"

namespace shoal::ndimage {

struct MapOptions {
  /// What lies outside: "constant": cval; "nearest": the outermost element; "wrap": the array again; "mirror" and
  /// "reflect": the array mirrored, at the middle of its outermost elements or at their edges.
  std::string mode = "constant";
  Operand cval = 0.0;  ///< What lies outside, with "constant".
};
/// The elements at `coordinates`, an array for each dimension, which broadcast together: the nearest ones (order 0), or
/// linear between neighbours (order 1). In the dtype of the input; integers are rounded, halves away from zero. Throws
/// InvalidArgument for another number of coordinates and for unknown modes, and Unsupported for other orders.
/// @param input The array.
/// @param coordinates Positions along each dimension.
/// @param order 0 or 1.
/// @return An array of the shape of the coordinates.
Array map_coordinates(const Operand& input, const std::vector<Array>& coordinates, int order,
                      const MapOptions& options = {});

}  // namespace shoal::ndimage
