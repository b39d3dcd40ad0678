// Layers of models as functions of their parameters, and losses, these by the names of Optax.
//
// A model is a tree of arrays, a struct or what holds them, and a function that calls these. nn.h has activations,
// softmax and attention; initializers.h makes first parameters; convolution.h convolves. All take floats; on f16 and
// bf16 means, variances and sums are f32, and results have the operand's dtype. Others throw TypeMismatch. What is a
// number by default (epsilon, rate, delta) may be a scalar array, by which derivatives are taken.
//
// @param x The array.
// @param bias What is added at the end.
// @param epsilon What is added to the variance or the mean of squares.
// @param predictions What the model gives.
// @param targets What it should give.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "shoal/array.h"
#include "shoal/convolution.h"
#include "shoal/lax.h"
#include "shoal/nn.h"

namespace shoal::nn {

// ---- Linear layers.

/// x [..., inputs] times kernel [inputs, outputs...], plus bias [outputs...].
/// @param kernel The weights.
/// @return [..., outputs...].
/// @example nn::dense(ones({2, 3}), ones({3, 1}))
/// @python jax.nn.layers.dense(jnp.ones([2, 3]), jnp.ones([3, 1]))
///   [[3.]
///    [3.]]
Array dense(const Operand& x, const Operand& kernel, const std::optional<Array>& bias = {});
/// The rows of table [tokens, features] that ids, integers of any shape, name: [ids' shape..., features]. Negative
/// ids count from the end; those out of bounds give NaN.
/// @param table The rows.
/// @param ids Which rows.
Array embed(const Operand& table, const Operand& ids);
struct ConvLayerOptions {
  Dims strides = {};                    ///< Default: 1.
  lax::WindowPadding padding = "SAME";  ///< "SAME", "VALID", or the number of elements before and after each dimension.
  Dims dilation = {};                   ///< Of the kernel; default: 1.
  std::int64_t feature_group_count = 1;  ///< The number of groups of features that are convolved separately.
};
/// x [batch, places..., inputs] convolved with kernel [window..., inputs, outputs], plus bias [outputs].
/// @param kernel The weights.
/// @return [batch, places..., outputs].
Array conv(const Operand& x, const Operand& kernel, const std::optional<Array>& bias = {},
           const ConvLayerOptions& options = {});
struct PoolOptions {
  Dims strides = {};                     ///< Default: 1.
  lax::WindowPadding padding = "VALID";  ///< As of ConvLayerOptions.
};
/// The greatest element in each place of a window over the middle dimensions of x [batch, places..., features].
/// @param window The extents of the window.
/// @return [batch, places..., features].
Array max_pool(const Operand& x, const Dims& window, const PoolOptions& options = {});
/// The mean there; what the padding adds does not count.
/// @param window The extents of the window.
/// @return [batch, places..., features].
Array avg_pool(const Operand& x, const Dims& window, const PoolOptions& options = {});

// ---- Norms.
// @return An array of the shape and dtype of x.

struct NormOptions {
  std::optional<Array> scale = {};  ///< Broadcasts to x.
  std::optional<Array> bias = {};
  Axes axis = -1;  ///< The dimensions of the mean and the variance, from the end if negative.
  Operand epsilon = 1e-6;
};
/// (x - mean) / sqrt(variance + epsilon), times scale, plus bias: Ba, Kiros and Hinton 2016, "Layer normalization".
Array layer_norm(const Operand& x, const NormOptions& options = {});
/// x / sqrt(mean of squares + epsilon), times scale, plus bias: Zhang and Sennrich 2019, "Root mean square layer
/// normalization".
Array rms_norm(const Operand& x, const NormOptions& options = {});
struct GroupNormOptions {
  std::optional<Array> scale = {};  ///< [features].
  std::optional<Array> bias = {};
  Operand epsilon = 1e-6;
};
/// layer_norm over the middle dimensions and each of num_groups groups of the features of x [batch, places...,
/// features]: Wu and He 2018, "Group normalization". Throws InvalidArgument if the features do not divide.
/// @param num_groups The number of groups.
Array group_norm(const Operand& x, std::int64_t num_groups, const GroupNormOptions& options = {});
/// The mean and the variance of each feature, as batch_norm keeps them between steps. A tree; no parameter: keep it
/// beside these, and donate it.
struct BatchStatistics {
  Array mean;      ///< [features].
  Array variance;  ///< [features].
};
/// Those before the first step: 0 and 1.
/// @param features The number of features.
/// @param dtype Their dtype.
BatchStatistics batch_statistics(std::int64_t features, Dtype dtype = float32,
                                 SourceLocation where = SourceLocation::current());
struct BatchNormOptions {
  std::optional<Array> scale = {};   ///< [features].
  std::optional<Array> bias = {};    ///< [features].
  bool use_running_average = false;  ///< Whether statistics are used as they are, as in evaluation.
  Operand momentum = 0.99;           ///< What part of the statistics stays.
  Operand epsilon = 1e-5;
  std::optional<AxisName> axis_name = {};  ///< In shard_map and pmap: whose devices hold parts of the batch.
};
/// (x - mean) / sqrt(variance + epsilon), times scale, plus bias, with the mean and variance of each feature of x
/// [..., features] over the whole batch, however it is split: Ioffe and Szegedy 2015, "Batch normalization". In jit
/// that is the global batch; in shard_map and pmap it is the batch of the device, unless axis_name is given. Throws
/// InvalidArgument for statistics of other shapes.
/// @param statistics What was kept of earlier steps.
/// @return An array of the shape and dtype of x; and the statistics with this batch in them: momentum times them plus
///   (1 - momentum) times its own (the variance divided by the number of elements, as in Flax), by which no derivative
///   is taken. With use_running_average they are those that were given.
std::pair<Array, BatchStatistics> batch_norm(const Operand& x, const BatchStatistics& statistics,
                                             const BatchNormOptions& options = {});

// ---- Dropout.

/// 0 with the probability rate, and else x / (1 - rate): Srivastava et al. 2014, "Dropout". The same elements are 0
/// however x is split. Throws InvalidArgument for a rate that is a number and not in [0, 1].
/// @param key A key of random numbers.
/// @param rate The probability of 0.
/// @return An array of the shape and dtype of x.
Array dropout(const Operand& key, const Operand& x, const Operand& rate);

// ---- Attention: nn::dot_product_attention, positions, and a cache for sampling.

/// x [..., T, heads, H] turned by angles that grow with the positions: integers [T], or [..., T]. Elements j and j +
/// H/2 are turned together by position / base^(2 j / H): Su et al. 2021, "RoFormer". Throws InvalidArgument if H is
/// odd.
/// @param positions The positions of the tokens.
/// @param base How slowly the slowest angle grows.
/// @return An array of the shape and dtype of x.
Array rotary_embedding(const Operand& x, const Operand& positions, double base = 10000);

/// The keys and values of the tokens so far, so that each further token computes its own alone. A tree; donate it to
/// the step that extends it, and a step writes only its rows.
struct KeyValueCache {
  Array keys;    ///< [batch, capacity, key heads, H],
  Array values;  ///< likewise;
  Array length;  ///< how many places are filled, int32.
};
/// A cache without tokens.
/// @param batch The number of sequences.
/// @param capacity How many tokens there is room for.
/// @param heads The number of key heads.
/// @param features The extent H of a head.
/// @param dtype The dtype of keys and values.
KeyValueCache key_value_cache(std::int64_t batch, std::int64_t capacity, std::int64_t heads, std::int64_t features,
                              Dtype dtype = float32, SourceLocation where = SourceLocation::current());
/// The cache with keys and values [batch, T, key heads, H] behind those it has. The caller sees to it that there is
/// room: what is beyond the capacity overwrites the last places. Throws InvalidArgument for other shapes.
/// @param cache The cache.
/// @param keys The keys of further tokens.
/// @param values Their values.
KeyValueCache extend(const KeyValueCache& cache, const Operand& keys, const Operand& values);
/// What the last T tokens of a cache see of all that it has up to them: queries [batch, T, heads, H] of these tokens
/// give an array of their shape.
/// @param query The queries.
/// @param cache The cache, which these tokens are in already.
/// @param scale Of the logits; default 1 / sqrt(H).
/// @return An array of the shape of the queries.
Array cached_attention(const Operand& query, const KeyValueCache& cache, const std::optional<Operand>& scale = {});

// ---- Losses. One for each example; take their mean. Targets have the shape of the predictions or are a scalar; others
// throw InvalidArgument: [8, 1] less [8] would be 64 losses.
// @return An array of the shape of the predictions.

/// The cross entropy of softmax(logits) over the last dimension and the class of each example, an integer. The classes
/// may be split over devices. A class out of bounds gives NaN.
/// @param logits [..., classes].
/// @param labels Integers [...].
/// @return [...].
Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels);
/// (predictions - targets)^2.
Array squared_error(const Operand& predictions, const Operand& targets = 0.0);
/// Half of it.
Array l2_loss(const Operand& predictions, const Operand& targets = 0.0);
/// l2_loss up to delta, and linear from there on: Huber 1964, "Robust estimation of a location parameter".
/// @param delta Where the loss becomes linear.
Array huber_loss(const Operand& predictions, const Operand& targets = 0.0, const Operand& delta = 1.0);
/// log(cosh(predictions - targets)).
Array log_cosh(const Operand& predictions, const Operand& targets = 0.0);
/// max(0, 1 - predictions targets), targets being -1 and 1.
Array hinge_loss(const Operand& predictions, const Operand& targets);
/// The divergence of exp(log_predictions) from targets, over the last dimension.
/// @param log_predictions The logarithms of probabilities.
/// @param targets Probabilities.
/// @return An array without the last dimension.
Array kl_divergence(const Operand& log_predictions, const Operand& targets);
/// Labels [..., classes], (1 - alpha) of them and alpha of equal ones.
/// @param labels Probabilities.
/// @param alpha The part of equal ones, 0 to 1.
/// @return An array of the shape of the labels.
Array smooth_labels(const Operand& labels, const Operand& alpha);
/// The mean of the losses of the examples that count: a mask that broadcasts to them, bool or weights. What an uneven
/// last batch is filled up with does not count. 0 where nothing does.
/// @param losses The losses.
/// @param mask Which count, or how much.
/// @return A scalar.
Array masked_mean(const Operand& losses, const Operand& mask);

}  // namespace shoal::nn
