// The text of arrays in host memory, in NumPy's layout.
//
// Columns are aligned, floats show the fewest digits that identify them (at most `precision` after the point), lines
// break at `linewidth`, and large arrays show only their corners. bfloat16 values have six significant digits and are
// not aligned, as NumPy prints them for JAX.
#pragma once

#include <string>

#include "shoal/dtype.h"
#include "shoal/shape.h"

namespace shoal {

struct PrintOptions {
  int linewidth = 75;     ///< Characters per line; at least one element is put on each line all the same.
  int threshold = 1000;   ///< An array with more elements than this shows only its corners.
  int edgeitems = 3;      ///< Elements at either end of a dimension that a corner has; at least 1.
  int precision = 8;      ///< Digits after the point, at most; the scalar form of array_str shows all that are needed.
  bool suppress = false;  ///< Show small numbers without an exponent, as 0 if need be.
};

/// As str() of NumPy: "[1. 2. 3.]"; a scalar is the bare number.
/// `data` holds the row-major elements of `shape` in the type of C++ that `dtype` is; it may be null if there are none.
std::string array_str(Dtype dtype, const Shape& shape, const void* data, const PrintOptions& options = {});

/// As repr() of JAX: "Array([1., 2., 3.], dtype=float32)", "Array(2, dtype=int32, weak_type=True)".
std::string array_repr(Dtype dtype, bool weak, const Shape& shape, const void* data, const PrintOptions& options = {});

}  // namespace shoal
