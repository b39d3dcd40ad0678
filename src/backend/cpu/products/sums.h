// What products are summed in, and how sums become elements of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/products/product_kernels.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// The dtypes of a product.
struct ProductTypes {
  Dtype operands;
  Dtype out;
  Arithmetic arithmetic;

  ProductTypes(Dtype operands, Dtype out);

  std::int64_t sum_size() const;  ///< Bytes of a sum.
  /// Whether sums are elements of the result as they are.
  bool sums_are_results() const;
};

/// Rows of sums, rounded to elements of the result. The strides are in sums and in elements.
void store_sums(const ProductTypes& types, const std::byte* sums, std::int64_t sums_stride, std::int64_t rows,
                std::int64_t columns, std::byte* to, std::int64_t to_stride);

/// Adds `n` sums to others.
void add_sums(Arithmetic arithmetic, const std::byte* from, std::int64_t n, std::byte* to);

}  // namespace shoal::cpu
