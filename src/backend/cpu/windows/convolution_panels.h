// The inner loops of convolutions, compiled for each instruction set and chosen when the program runs.
//
// A panel is a few rows times a few vectors of sums, all of which stay in registers. For each index of what is summed,
// an element for each row is multiplied by the vectors. One of the two sides is packed in the order in which it is
// read; the other is the array, whose elements lie where a table of offsets says.
#pragma once

#include <cstdint>

#include "backend/cpu/products/product_kernels.h"

namespace shoal::cpu {

/// The most rows and vectors of a panel, on any machine.
inline constexpr std::int64_t kMostConvolutionRows = 8;
inline constexpr std::int64_t kMostConvolutionVectors = 3;

struct ConvolutionPanel {
  /// Packed: for each index an element for each of the most rows of this machine, or the vectors.
  const void* packed;
  /// The array. Vectors of it begin at offsets[k]; elements of it lie at offsets[k] from that of the row.
  const void* array;
  const std::int64_t* rows;     ///< Where elements of the array are multiplied by packed vectors: those of the rows.
  const std::int64_t* offsets;  ///< One for each index.
  std::int64_t count;           ///< How many indices are summed, in order.
  void* out;                    ///< Sums of the arithmetic, whole vectors.
  std::int64_t out_stride;      ///< From a row to the next.
  bool accumulate;              ///< Whether sums are added to what `out` holds.
};

using ConvolutionLoop = void (*)(const ConvolutionPanel& panel);

struct ConvolutionLoops {
  std::int64_t lanes;    ///< Of a vector.
  std::int64_t rows;     ///< The most of a panel.
  std::int64_t vectors;  ///< The most of a panel.
  /// By rows - 1 and vectors - 1: with vectors of the array, and with elements of it.
  ConvolutionLoop of_vectors[kMostConvolutionRows][kMostConvolutionVectors];
  ConvolutionLoop of_elements[kMostConvolutionRows][kMostConvolutionVectors];
};

/// The loops of this machine. Sums of bools count what is true.
const ConvolutionLoops& convolution_loops(Arithmetic arithmetic);

}  // namespace shoal::cpu
