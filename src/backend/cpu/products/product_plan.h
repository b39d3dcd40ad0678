// How a product is computed on operands of given shapes.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/library_product.h"
#include "backend/cpu/products/product.h"
#include "backend/cpu/products/sums.h"
#include "backend/cpu/products/tiling.h"

namespace shoal::cpu {

struct ProductPlan {
  Shape lhs_shape;
  Shape rhs_shape;
  std::optional<LibraryProduct> library;  ///< What computes it; Shoal's blocked product if there is none.
  ProductAxes batch;
  std::vector<StridedDim> lhs_outer;
  std::vector<StridedDim> lhs_inner;
  std::vector<StridedDim> rhs_outer;
  std::vector<StridedDim> rhs_inner;
  ProductExtents extents;
  std::int64_t width = 1;  ///< Of all columns of the result, of which those of a product may be a part.
  Tiling tiling;
  /// Whether the blocked product writes elements of the result, each of them one sum: these have the same bits in any
  /// tiles. `false` for a product without elements, or without anything to sum.
  bool has_plain_sums = false;
};

ProductPlan plan_product(const Attrs& attrs, const ProductTypes& types, const Shape& lhs, const Shape& rhs);

}  // namespace shoal::cpu
