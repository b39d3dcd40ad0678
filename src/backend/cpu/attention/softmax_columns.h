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

/// The softmax of columns that come in blocks (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"):
/// for each column, what is known of its blocks so far.
template <class T>
struct RunningSoftmax {
  T* most;     ///< The greatest element; at first the least finite number.
  T* totals;   ///< The sum of the powers of elements less the greatest; at first 0.
  T* factors;  ///< By what powers of earlier blocks, and their sums, are multiplied since the last block.
};

/// Each element becomes exp of it less the greatest in its column so far. Keys are added up in their order.
void softmax_columns(ColumnBlock<float> logits, const RunningSoftmax<float>& softmax);
void softmax_columns(ColumnBlock<double> logits, const RunningSoftmax<double>& softmax);

/// Multiplies columns by factors, if any of them is not 1.
void scale_columns(ColumnBlock<float> block, const float* factors);
void scale_columns(ColumnBlock<double> block, const double* factors);

/// sums = sums * factors + the columns' sums of weights times slopes.
void add_products_of_columns(ColumnBlock<float> weights, const float* slopes, const float* factors, float* sums);
void add_products_of_columns(ColumnBlock<double> weights, const double* slopes, const double* factors, double* sums);

/// Weights are multiplied by factors. Slopes, which are cotangents of the weights, become those of the logits: weights
/// times the difference of slopes and means.
void softmax_gradient_columns(ColumnBlock<float> weights, const float* factors, const float* means, float* slopes);
void softmax_gradient_columns(ColumnBlock<double> weights, const double* factors, const double* means, double* slopes);

/// factors = exp(x - most), where none is positive.
void power_columns(const float* x, const float* most, std::int64_t columns, float* factors);
void power_columns(const double* x, const double* most, std::int64_t columns, double* factors);

}  // namespace shoal::cpu
