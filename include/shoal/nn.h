// The functions of jax.nn, and the usual losses.
//
// They take floats; integers of 64 bits are taken as f64, others and bool as f32, unless the function says otherwise.
// On f16 and bf16 they compute in f32 and round once at the end. Throws TypeMismatch for other dtypes.
//
// @param x An array or a number.
// @return An array of the shape of x.
#pragma once

#include <cstdint>
#include <optional>

#include "shoal/array.h"
#include "shoal/numpy.h"

namespace shoal::nn {

// ---- Of each element.

/// 1 / (1 + exp(-x)); also of complex numbers.
/// @example nn::sigmoid(0.0f)
///   0.5
Array sigmoid(const Operand& x);
/// max(x, 0); also of integers.
/// @example nn::relu(array({-1.0f, 2.0f}))
///   [0. 2.]
Array relu(const Operand& x);
Array relu6(const Operand& x);  ///< min(max(x, 0), 6).
/// x, times the slope where it is negative.
/// @param negative_slope The factor where x is negative.
/// @example nn::leaky_relu(array({-1.0f, 2.0f}))
///   [-0.01  2.  ]
Array leaky_relu(const Operand& x, double negative_slope = 0.01);
/// x, or alpha (exp(x) - 1) where it is negative.
/// @param alpha The negative of the limit for x far below 0.
Array elu(const Operand& x, double alpha = 1);
Array selu(const Operand& x);  ///< elu with the constants of self-normalization.
/// max(x, 0) + alpha (exp(min(x, 0)/alpha) - 1).
/// @param alpha The negative of the limit for x far below 0, and the scale of x there.
Array celu(const Operand& x, double alpha = 1);
/// x times the normal distribution of x, or of it by its approximation with tanh.
/// @param approximate Whether the approximation with tanh is used.
Array gelu(const Operand& x, bool approximate = true);
Array silu(const Operand& x);      ///< x sigmoid(x).
Array swish(const Operand& x);     ///< silu.
Array mish(const Operand& x);      ///< x tanh(softplus(x)).
Array softplus(const Operand& x);  ///< log(1 + exp(x)).
/// (x + sqrt(x^2 + b)) / 2.
/// @param b How smooth it is near 0: 0 gives relu.
Array squareplus(const Operand& x, double b = 4);
Array sparse_plus(const Operand& x);     ///< 0 up to -1, x from 1 on, and (x + 1)^2 / 4.
Array sparse_sigmoid(const Operand& x);  ///< (x + 1) / 2 clipped to 0 and 1.
Array log_sigmoid(const Operand& x);     ///< log(sigmoid(x)).
Array log1mexp(const Operand& x);        ///< log(1 - exp(-x)), for positive x.
Array soft_sign(const Operand& x);       ///< x / (|x| + 1).
Array hard_tanh(const Operand& x);       ///< x clipped to -1 and 1.
Array hard_sigmoid(const Operand& x);    ///< relu6(x + 3) / 6.
Array hard_silu(const Operand& x);       ///< x hard_sigmoid(x).
Array hard_swish(const Operand& x);      ///< hard_silu.

// ---- Over dimensions.
// @param axis The dimensions, from the end if negative.

/// exp(x), divided by its sum over the dimensions.
/// @return An array of the shape of x, whose sums over the dimensions are 1.
/// @example nn::softmax(array({0.0f, 0.0f}))
///   [0.5 0.5]
Array softmax(const Operand& x, const Axes& axis = -1);
/// log(softmax(x)), without underflow on the way.
Array log_softmax(const Operand& x, const Axes& axis = -1);
using shoal::logsumexp;
/// log(mean(exp(x))).
/// @return An array without the dimensions that are reduced.
Array logmeanexp(const Operand& x, const ReduceOptions& options = {});
/// (x - mean) / sqrt(variance + epsilon), over the dimensions.
/// @param epsilon What is added to the variance.
Array standardize(const Operand& x, const Axes& axis = -1, double epsilon = 1e-5);
/// The first half of a dimension, times the sigmoid of the second. Throws InvalidArgument if its extent is odd.
/// @param axis The dimension, from the end if negative.
/// @return An array with half the extent of x along the dimension.
Array glu(const Operand& x, std::int64_t axis = -1);

struct AttentionOptions {
  std::optional<Array> bias = {};     ///< Added to the logits; broadcasts to their shape, batch × heads × T × S.
  std::optional<Array> mask = {};     ///< Which keys a query may see; broadcasts likewise. Default: all.
  std::optional<Operand> scale = {};  ///< Of the logits; default 1 / sqrt(H).
  bool is_causal = false;             ///< Whether a query sees no keys after its own position.
};
/// Each query's mean of the values, weighted by the softmax of its products with the keys. Queries have shape
/// batch × T × heads × H, keys and values batch × S × key heads × H, and all may lack the batch; each key head serves
/// an equal number of neighbouring heads. Weights are computed for a few queries at a time, and again for a gradient,
/// so that there is no array of all of them (Dao et al. 2022, "FlashAttention"); second derivatives, those forward and
/// that by a bias have one. Throws InvalidArgument for other shapes.
/// @param query Queries.
/// @param key Keys.
/// @param value Values.
/// @return An array of the shape and dtype of the queries.
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

// ---- Losses. Labels broadcast against the logits.

/// The cross entropy of independent probabilities, sigmoid(logits), and labels between 0 and 1; one for each element.
/// @param logits The logarithms of the odds.
/// @param labels Numbers between 0 and 1.
/// @return An array of the shape to which both broadcast.
Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels);
/// The cross entropy of softmax(logits) over a dimension, and labels that are one-hot, or probabilities, along it.
/// @param logits The logarithms of probabilities, up to a constant.
/// @param labels Probabilities.
/// @param axis The dimension of the classes, from the end if negative.
/// @return An array without the dimension.
Array softmax_cross_entropy(const Operand& logits, const Operand& labels, std::int64_t axis = -1);

struct OneHotOptions {
  Dtype dtype = float32;   ///< The dtype of the result.
  std::int64_t axis = -1;  ///< Where the new dimension goes.
};
/// A new dimension of extent num_classes, with 1 at the place that each element of x names and 0 elsewhere; all 0 if
/// there is no such place.
/// @param x Integers.
/// @param num_classes The extent of the new dimension.
/// @return An array with one dimension more than x.
/// @example nn::one_hot(array({0, 2}), 3)
///   [[1. 0. 0.]
///    [0. 0. 1.]]
Array one_hot(const Operand& x, std::int64_t num_classes, const OneHotOptions& options = {});

}  // namespace shoal::nn
