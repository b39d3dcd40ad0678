// The matrix product for everything that no library takes: every dtype, and operands that lie in memory in any way.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/products/product_kernels.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// A dimension of an array in memory; the stride is in elements.
struct StridedDim {
  std::int64_t extent;
  std::int64_t stride;
};

/// An operand as a matrix. Both of its indices run over dimensions of the array, the last one fastest.
struct ProductOperand {
  Dtype dtype;
  const void* data;
  std::span<const StridedDim> outer;  ///< The dimensions that the result keeps: its rows or its columns.
  std::span<const StridedDim> inner;  ///< Those summed over.
};

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

/// A part of a product: the result's rows and columns that are wanted, and the products that are summed.
struct ProductPart {
  Range rows;
  Range columns;
  Range inner;
};

/// Writes the part to `out`: elements of the arithmetic, `out_stride` of them from a row to the next. Every element is
/// summed over blocks of a fixed size, in order, so that it does not depend on the part's rows and columns.
///
/// Integers wrap. The operands' dtypes must convert to the arithmetic: floats to f32 and f64 without loss, integers and
/// bool to the other two and kBool, complex numbers to complex ones.
void blocked_product(Arithmetic arithmetic, const ProductOperand& lhs, const ProductOperand& rhs,
                     const ProductPart& part, void* out, std::int64_t out_stride);

/// Memory of this thread, `bytes` long and aligned to 64, until it asks for the same use again.
enum class ThreadMemory : std::uint8_t { kLhsBlock, kRhsBlock, kTile };
void* thread_memory(ThreadMemory use, std::size_t bytes);

}  // namespace shoal::cpu
