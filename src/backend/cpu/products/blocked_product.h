// The matrix product for everything that no library takes: every dtype, and operands that lie in memory in any way.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/products/product_kernels.h"
#include "base/function_ref.h"
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
  friend bool operator==(const Range&, const Range&) = default;
};

/// A part of a product: the result's rows and columns that are wanted, and the products that are summed.
struct ProductPart {
  Range rows;
  Range columns;
  Range inner;
};

/// Rows of a product: those of one of several left operands that are multiplied by the same right one.
struct ProductRows {
  const void* lhs;          ///< The operand's first element.
  Range rows;               ///< Of the operand.
  void* out;                ///< Where the first of them goes: elements of the arithmetic.
  std::int64_t out_stride;  ///< Elements from a row to the next.
};

/// Products of several left operands and one right operand, computed together so that the right one is packed once.
struct BlockedProduct {
  Arithmetic arithmetic;
  ProductOperand lhs;  ///< All of them: `data` is in `rows`.
  ProductOperand rhs;
  std::span<const ProductRows> rows;
  Range columns;
  Range inner;
};

/// Called for parts of the result that are complete and still in a cache: an index of `rows`, and ranges within the
/// product's rows and columns.
using WhenComplete = FunctionRef<void(std::size_t index, Range rows, Range columns)>;

/// Computes it. Every element is summed over blocks of a fixed size, in order, so that it does not depend on what rows
/// and columns are computed with it.
///
/// Integers wrap. The operands' dtypes must convert to the arithmetic: floats to f32 and f64 without loss, integers and
/// bool to the other two and kBool, complex numbers to complex ones.
void blocked_product(const BlockedProduct& product, const WhenComplete* when_complete = nullptr);

/// Memory of this thread, `bytes` long and aligned to 64, until it asks for the same use again.
enum class ThreadMemory : std::uint8_t { kLhsBlock, kRhsBlock, kTile };
void* thread_memory(ThreadMemory use, std::size_t bytes);

}  // namespace shoal::cpu
