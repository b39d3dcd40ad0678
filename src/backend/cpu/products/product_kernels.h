// The inner loops of the blocked product, compiled for each instruction set and chosen when the program runs.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "shoal/dtype.h"

namespace shoal::cpu {

/// What a product computes in. Operands are converted to its elements when they are packed.
enum class Arithmetic : std::uint8_t {
  kF32,
  kF64,
  kI32,   ///< Elements std::uint32_t: sums wrap, whether signed or not.
  kI64,   ///< Elements std::uint64_t.
  kBool,  ///< Elements std::uint32_t, 0 or 1: the or of ands.
  kC64,
  kC128,
};

/// Calls f(T{}) with the element type of `arithmetic`.
template <class F>
auto with_arithmetic_type(Arithmetic arithmetic, F&& f) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return f(float{});
    case Arithmetic::kF64:
      return f(double{});
    case Arithmetic::kI64:
      return f(std::uint64_t{});
    case Arithmetic::kC64:
      return f(std::complex<float>{});
    case Arithmetic::kC128:
      return f(std::complex<double>{});
    case Arithmetic::kI32:
    case Arithmetic::kBool:
      break;
  }
  return f(std::uint32_t{});
}

/// A panel of the left operand is at most this many rows; packed, it is stored column by column.
inline constexpr std::int64_t kPanelRows = 6;
/// The rows of panels of a block of `rows` rows: of few rows each panel gets as many. Eight rows are 4 and 4, since one
/// of 2 would take nearly as long as one of 6.
inline std::int64_t panel_rows_of(std::int64_t rows) {
  const std::int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  return panels == 0 ? kPanelRows : (rows + panels - 1) / panels;
}
/// A panel of the right operand is this many columns on this machine; packed, it is stored row by row.
std::int64_t panel_columns(Arithmetic arithmetic);
/// The most inner indices of a block of any machine, and of this one. A panel of the right operand then takes up to two
/// thirds of the first level of the cache, so that panels of the left one pass by it. Sums are cut at multiples of
/// this.
inline constexpr std::int64_t kMostInner = 384;
std::int64_t inner_of_block();

/// Where the elements of a block lie, by their distances in elements. The lines of a left block are rows; those of a
/// right one are columns, and lie side by side.
struct PanelLayout {
  std::int64_t line;   ///< From a line to the next in its panel.
  std::int64_t inner;  ///< From an index of the inner dimension to the next.
  std::int64_t panel;  ///< From a panel to the next.

  /// That of packed panels, the last of which is filled up. Between two of them is a gap of a line of the cache, or
  /// they would lie in few sets of it, from which writing them by turns would drive them out again.
  static PanelLayout packed(std::int64_t lines, std::int64_t inner, std::int64_t element_size) {
    return {1, lines, lines * inner + 64 / element_size};
  }
};

/// A block of the left operand, in panels of panel_rows rows, times a block of the right operand, in panels of
/// panel_columns. All columns of the last panel on the right can be read, those of whole panels that are not packed.
struct PanelProduct {
  Arithmetic arithmetic;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  const void* lhs;
  PanelLayout lhs_layout;
  const void* rhs;
  PanelLayout rhs_layout;
  void* out;                ///< Elements of the arithmetic, row by row.
  std::int64_t out_stride;  ///< Elements from a row to the next.
  bool accumulate;          ///< Whether the product is added to what `out` holds.
  std::int64_t panel_rows = kPanelRows;
};

/// Each element is summed in the order of the inner dimension, whatever the sizes of the block.
void multiply_panels(const PanelProduct& product);

// Conversions, rounding to nearest even.
void convert(const float16_t* from, std::int64_t n, float* to);
void convert(const float* from, std::int64_t n, float16_t* to);
void convert(const float* from, std::int64_t n, bfloat16_t* to);

}  // namespace shoal::cpu
