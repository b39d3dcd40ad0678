// What a dot_general multiplies: its dimensions by what they mean, merged into as few as describe them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/attrs.h"
#include "shoal/shape.h"

namespace shoal::cpu {

/// A dimension of a product, and the elements from one index to the next in both operands and the result.
struct ProductAxis {
  std::int64_t extent;
  std::int64_t lhs;
  std::int64_t rhs;
  std::int64_t out;
};

using ProductAxes = std::vector<ProductAxis>;

/// How many indices the axes have together.
std::int64_t extent_of(const ProductAxes& axes);

/// Operands and result lie densely in row-major order; each list of axes runs from the outermost to the innermost.
struct Product {
  ProductAxes batch;
  ProductAxes rows;
  ProductAxes columns;
  ProductAxes inner;  ///< Those summed over, in the order in which they merge best.
};

/// The product of a dot_general with these attributes, on operands of these shapes.
Product product_of(const Attrs& attrs, const Shape& lhs, const Shape& rhs);

/// Elements from the first of each operand and of the result to those of one product of the batch.
struct ProductOffsets {
  std::int64_t lhs = 0;
  std::int64_t rhs = 0;
  std::int64_t out = 0;
};
ProductOffsets offsets_of(const ProductAxes& batch, std::int64_t product);

}  // namespace shoal::cpu
