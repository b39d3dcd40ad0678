// Layers of models as functions of their parameters, and losses, these by the names of Optax.
//
// A model is a tree of arrays, a struct or what holds them, and a function that calls these. nn.h has activations,
// softmax and attention; initializers.h makes first parameters; convolution.h convolves. All take floats; on f16 and
// bf16 means, variances and sums are f32, and results have the operand's dtype. Others throw TypeMismatch. What is a
// number by default (epsilon, rate, delta) may be a scalar array, by which derivatives are taken.
#pragma once

#include <cstdint>
#include <optional>

#include "shoal/array.h"
#include "shoal/convolution.h"
#include "shoal/nn.h"

namespace shoal::nn {

// ---- Linear layers.

/// x [..., inputs] times kernel [inputs, outputs...], plus bias [outputs...].
Array dense(const Operand& x, const Operand& kernel, const std::optional<Array>& bias = {});
/// The rows of table [tokens, features] that ids, integers of any shape, name: [ids' shape..., features]. Negative
/// ids count from the end; those out of bounds give NaN.
Array embed(const Operand& table, const Operand& ids);
struct ConvLayerOptions {
  Dims strides = {};  ///< Default: 1.
  lax::WindowPadding padding = "SAME";
  Dims dilation = {};  ///< Of the kernel; default: 1.
  std::int64_t feature_group_count = 1;
};
/// x [batch, places..., inputs] convolved with kernel [window..., inputs, outputs], plus bias [outputs].
Array conv(const Operand& x, const Operand& kernel, const std::optional<Array>& bias = {},
           const ConvLayerOptions& options = {});
struct PoolOptions {
  Dims strides = {};  ///< Default: 1.
  lax::WindowPadding padding = "VALID";
};
/// The greatest element in each place of a window over the middle dimensions of x [batch, places..., features].
Array max_pool(const Operand& x, const Dims& window, const PoolOptions& options = {});
/// The mean there; what the padding adds does not count.
Array avg_pool(const Operand& x, const Dims& window, const PoolOptions& options = {});

// ---- Norms.

struct NormOptions {
  std::optional<Array> scale = {};  ///< Broadcasts to x.
  std::optional<Array> bias = {};
  Axes axis = -1;
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
Array group_norm(const Operand& x, std::int64_t num_groups, const GroupNormOptions& options = {});

// ---- Dropout.

/// 0 with the probability rate, and else x / (1 - rate): Srivastava et al. 2014, "Dropout". The same elements are 0
/// however x is split. Throws InvalidArgument for a rate that is a number and not in [0, 1].
Array dropout(const Operand& key, const Operand& x, const Operand& rate);

// ---- Attention: nn::dot_product_attention, positions, and a cache for sampling.

/// x [..., T, heads, H] turned by angles that grow with the positions: integers [T], or [..., T]. Elements j and j +
/// H/2 are turned together by position / base^(2 j / H): Su et al. 2021, "RoFormer". Throws InvalidArgument if H is
/// odd.
Array rotary_embedding(const Operand& x, const Operand& positions, double base = 10000);

/// The keys and values of the tokens so far, so that each further token computes its own alone. A tree; donate it to
/// the step that extends it, and a step writes only its rows.
struct KeyValueCache {
  Array keys;    ///< [batch, capacity, key heads, H],
  Array values;  ///< likewise;
  Array length;  ///< how many places are filled, int32.
};
KeyValueCache key_value_cache(std::int64_t batch, std::int64_t capacity, std::int64_t heads, std::int64_t features,
                              Dtype dtype = float32, SourceLocation where = SourceLocation::current());
/// The cache with keys and values [batch, T, key heads, H] behind those it has. The caller sees to it that there is
/// room: what is beyond the capacity overwrites the last places. Throws InvalidArgument for other shapes.
KeyValueCache extend(const KeyValueCache& cache, const Operand& keys, const Operand& values);
/// What the last T tokens of a cache see of all that it has up to them: queries [batch, T, heads, H] of these tokens
/// give an array of their shape.
Array cached_attention(const Operand& query, const KeyValueCache& cache, const std::optional<Operand>& scale = {});

// ---- Losses. One for each example; take their mean. Targets have the shape of the predictions or are a scalar; others
// throw InvalidArgument: [8, 1] less [8] would be 64 losses.

/// The cross entropy of softmax(logits) over the last dimension and the class of each example, an integer. The classes
/// may be split over devices. A class out of bounds gives NaN.
Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels);
/// (predictions - targets)^2.
Array squared_error(const Operand& predictions, const Operand& targets = 0.0);
/// Half of it.
Array l2_loss(const Operand& predictions, const Operand& targets = 0.0);
/// l2_loss up to delta, and linear from there on: Huber 1964, "Robust estimation of a location parameter".
Array huber_loss(const Operand& predictions, const Operand& targets = 0.0, const Operand& delta = 1.0);
/// log(cosh(predictions - targets)).
Array log_cosh(const Operand& predictions, const Operand& targets = 0.0);
/// max(0, 1 - predictions targets), targets being -1 and 1.
Array hinge_loss(const Operand& predictions, const Operand& targets);
/// The divergence of exp(log_predictions) from targets, over the last dimension.
Array kl_divergence(const Operand& log_predictions, const Operand& targets);
/// Labels [..., classes], (1 - alpha) of them and alpha of equal ones.
Array smooth_labels(const Operand& labels, const Operand& alpha);
/// The mean of the losses of the examples that count: a mask that broadcasts to them, bool or weights. What an uneven
/// last batch is filled up with does not count. 0 where nothing does.
Array masked_mean(const Operand& losses, const Operand& mask);

}  // namespace shoal::nn
