// What attention does with a block of logits, whose columns are queries: compiled for each instruction set.
#pragma once

#include <cstdint>

namespace shoal::cpu {

/// A block of `rows` keys times `columns` queries, dense; the columns are a multiple of a vector's lanes.
template <class T>
struct ColumnBlock {
  T* data;
  std::int64_t rows;
  std::int64_t columns;
};

/// Each element becomes exp of it less the greatest in its column; `inverses` those of the columns' sums. Keys are
/// added up in their order.
void softmax_columns(ColumnBlock<float> logits, float* inverses);
void softmax_columns(ColumnBlock<double> logits, double* inverses);

/// `weights` are what softmax_columns made, and become the softmax itself. `slopes`, a block as large, become the
/// cotangents of the logits for these of the weights.
void softmax_gradient_columns(ColumnBlock<float> weights, const float* inverses, float* slopes);
void softmax_gradient_columns(ColumnBlock<double> weights, const double* inverses, double* slopes);

}  // namespace shoal::cpu
