// What the plugin `onednn` offers: oneDNN, one thread per call. Shared with the plugin.
#pragma once

#include <cstdint>

#include "shoal/dtype.h"

namespace shoal::cpu {

/// One product of matrices. The strides are in elements; of each operand at least one is 1.
struct OnednnProduct {
  Dtype operands;
  Dtype out;  ///< f32, or i32 for integers.
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t lhs_row_stride;
  std::int64_t lhs_inner_stride;
  std::int64_t rhs_inner_stride;
  std::int64_t rhs_column_stride;
  std::int64_t out_stride;  ///< Of the result's rows.
  friend bool operator==(const OnednnProduct&, const OnednnProduct&) = default;
};

/// The functions may be called from any number of threads at once, and start none.
struct OnednnApi {
  static constexpr std::uint64_t kVersion = 4;

  /// Whether this machine has instructions for such operands, with sums in f32 or exact ones in i32. The first call
  /// for a dtype that it has them for makes all static objects that products of it need, and then calls made().
  bool (*offers)(Dtype operands, void (*made)());
  /// Code that computes the product, made at the first call and kept for the process; nullptr if there is none.
  const void* (*prepare)(const OnednnProduct& product);
  void (*run)(const void* code, const void* lhs, const void* rhs, void* out);
};

}  // namespace shoal::cpu
