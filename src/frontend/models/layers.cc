#include "shoal/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/derivatives.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/random.h"
#include "shoal/reduce.h"

namespace shoal::nn {
namespace {

// What f makes of the operands in f32 if they are narrower, in the dtype that they have.
template <class F, class... X>
Array floats(F&& f, const X&... x) {
  return at_least_f32(kFloats, f, x...);
}

// scale and bias in the dtype that x is computed in.
Array affine(const Array& x, const std::optional<Array>& scale, const std::optional<Array>& bias) {
  Array y = scale ? x * scale->astype(x.dtype()) : x;
  if (bias) y = y + bias->astype(x.dtype());
  return y;
}

ReduceOptions kept(const Axes& axis) { return {.axis = axis, .keepdims = true}; }

// "NDHWC" and the like.
std::string spec_letters(std::size_t places, char first, char last) {
  return first + std::string("0123456789").substr(0, places) + last;
}

// A dimension of the middle, between batch and features, for each extent of a window.
void check_window(const Array& x, std::size_t dims, const char* what) {
  if (dims == 0 || x.ndim() != dims + 2) {
    throw misuse<InvalidArgument>(
        "{} has {} dimensions, so that x should have {}, batch and features with them; it is {}", what, dims, dims + 2,
        type_of(x));
  }
}

Dims with_ends(const Dims& middle, std::size_t rank) {
  Dims all(rank, 1);
  std::copy(middle.begin(), middle.end(), all.begin() + 1);
  return all;
}

// What a window is surrounded by, with nothing at batch and features.
lax::WindowPadding padding_with_ends(const lax::WindowPadding& padding) {
  if (padding.name() != nullptr) return padding;
  std::vector<lax::WindowPadding::Pair> pairs = *padding.pairs();
  pairs.insert(pairs.begin(), {0, 0});
  pairs.emplace_back(0, 0);
  return pairs;
}

lax::ReduceWindowOptions window_options(const Array& x, const PoolOptions& options) {
  return {.window_strides = options.strides.empty() ? Dims(x.ndim(), 1) : with_ends(options.strides, x.ndim()),
          .padding = padding_with_ends(options.padding)};
}

Array window_sum(const Array& x, const Dims& window, const PoolOptions& options) {
  return lax::reduce_window(
      x, Array(0).astype(x.dtype()), [](const Array& a, const Array& b) { return a + b; }, with_ends(window, x.ndim()),
      window_options(x, options));
}

// What f makes of predictions and targets of one shape.
template <class F>
Array loss_of(F&& f, const Operand& predictions, const Operand& targets) {
  const Array p = to_array(predictions);
  const Array t = to_array(targets);
  if (t.ndim() != 0 && t.shape() != p.shape()) {
    throw misuse<InvalidArgument>("predictions are {} and targets {}, which should have that shape, or be a scalar",
                                  type_of(p), type_of(t));
  }
  return floats(f, predictions, targets);
}

}  // namespace

// ---- Linear layers.

Array dense(const Operand& x, const Operand& kernel, const std::optional<Array>& bias) {
  const Caller caller("dense", x.where());
  const Array inputs = to_array(x);
  const Array weights = to_array(kernel);
  if (inputs.ndim() < 1 || weights.ndim() < 2 || inputs.shape().back() != weights.shape()[0]) {
    throw misuse<InvalidArgument>(
        "x is {} and kernel {}: the last dimension of x should be the first of kernel, which has two or more",
        type_of(inputs), type_of(weights));
  }
  const Array y = tensordot(inputs, weights, 1);
  return bias ? y + *bias : y;
}

Array embed(const Operand& table, const Operand& ids) {
  const Caller caller("embed", table.where());
  return take(table, ids, {.axis = 0, .mode = IndexMode::kFill});
}

Array conv(const Operand& x, const Operand& kernel, const std::optional<Array>& bias, const ConvLayerOptions& options) {
  const Caller caller("conv", x.where());
  const Array inputs = to_array(x);
  const Array weights = to_array(kernel);
  const std::size_t places = weights.ndim() < 2 ? 0 : weights.ndim() - 2;
  check_window(inputs, places, "the window of kernel");
  const std::string batches = spec_letters(places, 'N', 'C');
  const std::string windows = std::string("0123456789").substr(0, places) + "IO";
  const Array y = lax::conv_general_dilated(
      inputs, weights, options.strides.empty() ? Dims(places, 1) : options.strides, options.padding,
      {.rhs_dilation = options.dilation,
       .dimension_numbers = lax::ConvDimensionNumbers{batches, windows, batches},
       .feature_group_count = options.feature_group_count});
  return bias ? y + *bias : y;
}

Array max_pool(const Operand& x, const Dims& window, const PoolOptions& options) {
  const Caller caller("max_pool", x.where());
  const Array inputs = to_array(x);
  check_window(inputs, window.size(), "the window");
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  return lax::reduce_window(
      inputs, Array(kLeast).astype(inputs.dtype()), [](const Array& a, const Array& b) { return maximum(a, b); },
      with_ends(window, inputs.ndim()), window_options(inputs, options));
}

Array avg_pool(const Operand& x, const Dims& window, const PoolOptions& options) {
  const Caller caller("avg_pool", x.where());
  const Array inputs = to_array(x);
  check_window(inputs, window.size(), "the window");
  return floats(
      [&](const Array& v) {
        const Array sum = window_sum(v, window, options);
        const bool is_whole = options.padding.name() != nullptr && *options.padding.name() == "VALID";
        if (is_whole) {
          return sum / static_cast<double>(
                           std::accumulate(window.begin(), window.end(), std::int64_t{1}, std::multiplies<>()));
        }
        Shape one = v.shape();
        one.front() = one.back() = 1;
        return sum / window_sum(ones(one, {.dtype = v.dtype()}), window, options);
      },
      x);
}

// ---- Norms.

Array layer_norm(const Operand& x, const NormOptions& options) {
  const Caller caller("layer_norm", x.where());
  canonical_axes(options.axis, to_array(x).ndim());
  return floats(
      [&](const Array& v) {
        const Array centred = v - mean(v, kept(options.axis));
        const Array variance = mean(centred * centred, kept(options.axis));
        return affine(centred * rsqrt(variance + options.epsilon), options.scale, options.bias);
      },
      x);
}

Array rms_norm(const Operand& x, const NormOptions& options) {
  const Caller caller("rms_norm", x.where());
  canonical_axes(options.axis, to_array(x).ndim());
  return floats(
      [&](const Array& v) {
        const Array square = mean(v * v, kept(options.axis));
        return affine(v * rsqrt(square + options.epsilon), options.scale, options.bias);
      },
      x);
}

Array group_norm(const Operand& x, std::int64_t num_groups, const GroupNormOptions& options) {
  const Caller caller("group_norm", x.where());
  const Array inputs = to_array(x);
  if (inputs.ndim() < 2 || num_groups < 1 || inputs.shape().back() % num_groups != 0) {
    throw misuse<InvalidArgument>("x is {}, whose features cannot be split into {} groups", type_of(inputs),
                                  num_groups);
  }
  return floats(
      [&](const Array& v) {
        Shape split = v.shape();
        split.back() = num_groups;
        split.push_back(v.shape().back() / num_groups);
        Dims axes;
        for (std::size_t d = 1; d < split.size(); ++d) {
          if (d + 2 != split.size()) axes.push_back(static_cast<std::int64_t>(d));
        }
        const Array groups = reshape(v, split);
        const Array centred = groups - mean(groups, kept(axes));
        const Array variance = mean(centred * centred, kept(axes));
        return affine(reshape(centred * rsqrt(variance + options.epsilon), v.shape()), options.scale, options.bias);
      },
      x);
}

BatchStatistics batch_statistics(std::int64_t features, Dtype dtype, SourceLocation where) {
  const Caller caller("batch_statistics", where);
  return {.mean = zeros({features}, {.dtype = dtype}), .variance = ones({features}, {.dtype = dtype})};
}

std::pair<Array, BatchStatistics> batch_norm(const Operand& x, const BatchStatistics& statistics,
                                             const BatchNormOptions& options) {
  const Caller caller("batch_norm", x.where());
  const Array inputs = to_array(x);
  if (inputs.ndim() < 2) throw misuse<InvalidArgument>("x is {}; it should be [..., features]", type_of(inputs));
  const Shape features{inputs.shape().back()};
  for (const Array* const kept : {&statistics.mean, &statistics.variance}) {
    if (kept->shape() == features) continue;
    throw misuse<InvalidArgument>("the statistics are {}, but x is {}: they should be {}", type_of(*kept),
                                  type_of(inputs), to_string(features));
  }
  BatchStatistics result = statistics;
  const Array y = floats(
      [&](const Array& v) {
        const auto normalized = [&](const Array& centred, const Array& variance) {
          return affine(centred * rsqrt(variance + options.epsilon), options.scale, options.bias);
        };
        if (options.use_running_average) {
          return normalized(v - statistics.mean.astype(v.dtype()), statistics.variance.astype(v.dtype()));
        }
        Dims batch(v.ndim() - 1);
        std::iota(batch.begin(), batch.end(), 0);
        const auto mean_of = [&](const Array& of) {
          const Array own = mean(of, {.axis = batch});
          return options.axis_name ? lax::pmean(own, *options.axis_name) : own;
        };
        const Array average = mean_of(v);
        const Array centred = v - average;
        const Array variance = mean_of(centred * centred);
        const auto moved = [&](const Array& kept, const Array& own) {
          const Array from = stop_gradient(own).astype(kept.dtype());
          return (options.momentum * kept + (1.0 - options.momentum) * from).astype(kept.dtype());
        };
        result = {.mean = moved(statistics.mean, average), .variance = moved(statistics.variance, variance)};
        return normalized(centred, variance);
      },
      x);
  return {y, result};
}

// ---- Dropout.

Array dropout(const Operand& key, const Operand& x, const Operand& rate) {
  const Caller caller("dropout", x.where());
  const Array inputs = to_array(x);
  if (rate.number() == nullptr) {
    const Array share = 1.0 - rate;
    // What is kept of nothing has no derivative that is infinite.
    const Array divisor = where(equal(share, 0), 1, share).astype(inputs.dtype());
    // An array of any dtype draws what its value as a number draws.
    const Array chance = share.astype(element_of(Operand(1.0)).dtype);
    return where(random::bernoulli(key, chance, inputs.shape()), inputs / divisor, 0);
  }
  const auto part = to_scalar(*rate.number(), float64).as<double>();
  if (!(part >= 0 && part <= 1)) throw misuse<InvalidArgument>("the rate is {}, and should be from 0 to 1", part);
  if (part == 0) return inputs;
  if (part == 1) return zeros_like(inputs);
  const Array is_kept = random::bernoulli(key, 1 - part, inputs.shape());
  return where(is_kept, inputs / (1 - part), 0);
}

// ---- Attention.

Array rotary_embedding(const Operand& x, const Operand& positions, double base) {
  const Caller caller("rotary_embedding", x.where());
  const Array inputs = to_array(x);
  const Array places = to_array(positions);
  if (inputs.ndim() < 3 || inputs.shape().back() % 2 != 0) {
    throw misuse<InvalidArgument>("x is {}, and should be [..., T, heads, H], H being even", type_of(inputs));
  }
  return floats(
      [&](const Array& v) {
        const std::int64_t half = v.shape().back() / 2;
        const Array frequency = exp(arange(half).astype(v.dtype()) * (-std::log(base) / static_cast<double>(half)));
        // [..., T, 1, H / 2]
        const Array angle = expand_dims(expand_dims(places.astype(v.dtype()), -1) * frequency, -2);
        const Array turn_cos = cos(angle);
        const Array turn_sin = sin(angle);
        const auto last = static_cast<std::int64_t>(v.ndim()) - 1;
        const Array low = lax::slice_in_dim(v, 0, half, 1, last);
        const Array high = lax::slice_in_dim(v, half, 2 * half, 1, last);
        return concatenate({low * turn_cos - high * turn_sin, high * turn_cos + low * turn_sin}, last);
      },
      x);
}

KeyValueCache key_value_cache(std::int64_t batch, std::int64_t capacity, std::int64_t heads, std::int64_t features,
                              Dtype dtype, SourceLocation where) {
  const Caller caller("key_value_cache", where);
  const Shape shape = {batch, capacity, heads, features};
  return {zeros(shape, {.dtype = dtype}), zeros(shape, {.dtype = dtype}), zeros({}, {.dtype = int32})};
}

KeyValueCache extend(const KeyValueCache& cache, const Operand& keys, const Operand& values) {
  const Caller caller("extend", keys.where());
  const Array next_keys = to_array(keys);
  const Array next_values = to_array(values);
  for (const Array* next : {&next_keys, &next_values}) {
    const Shape& shape = next->shape();
    const Shape& room = cache.keys.shape();
    if (shape.size() != 4 || shape[0] != room[0] || shape[1] > room[1] || shape[2] != room[2] || shape[3] != room[3]) {
      throw misuse<InvalidArgument>("keys are {} and values {}, which do not fit behind those of a cache of {}",
                                    type_of(next_keys), type_of(next_values), to_string(room));
    }
  }
  const auto written = [&](const Array& old, const Array& next) {
    return lax::dynamic_update_slice_in_dim(old, next.astype(old.dtype()), cache.length, 1);
  };
  return {written(cache.keys, next_keys), written(cache.values, next_values),
          cache.length + static_cast<std::int32_t>(next_keys.shape()[1])};
}

Array cached_attention(const Operand& query, const KeyValueCache& cache, const std::optional<Operand>& scale) {
  const Caller caller("cached_attention", query.where());
  const Array queries = to_array(query);
  if (queries.ndim() != 4) {
    throw misuse<InvalidArgument>("query is {}, and should be [batch, T, heads, H]", type_of(queries));
  }
  const std::int64_t tokens = queries.shape()[1];
  const Array place = arange(cache.keys.shape()[1]);                                     // Of a key,
  const Array last = cache.length - static_cast<std::int32_t>(tokens) + arange(tokens);  // and of each query.
  const Array mask = less_equal(expand_dims(place, 0), expand_dims(last, 1));
  return dot_product_attention(queries, cache.keys.astype(queries.dtype()), cache.values.astype(queries.dtype()),
                               {.mask = reshape(mask, {1, 1, tokens, cache.keys.shape()[1]}), .scale = scale});
}

// ---- Losses.

Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels) {
  const Caller caller("softmax_cross_entropy_with_integer_labels", logits.where());
  const Array classes = to_array(labels);
  const Array scores = to_array(logits);
  if (!is_integer(classes.dtype()) || scores.ndim() < 1 ||
      classes.shape() != Shape(scores.shape().begin(), scores.shape().end() - 1)) {
    throw misuse<InvalidArgument>(
        "logits are {} and labels {}; labels should be integers of that shape without its last dimension",
        type_of(scores), type_of(classes));
  }
  return floats(
      [&](const Array& v) {
        // Where a score is infinite, the loss of the others is: less an infinite maximum all of them would be NaN.
        const Array most = max(v, kept(-1));
        const Array rest = v - stop_gradient(where(isfinite(most), most, 0));
        // A comparison with positions, and no gather: it is a part of the sum's loop, its derivative is no scatter, and
        // classes that are split stay where they are.
        const Array wide = size_of(classes.dtype()) < size_of(int32) ? classes.astype(int32) : classes;
        const Array position = lax::broadcasted_iota(wide.dtype(), v.shape(), static_cast<std::int64_t>(v.ndim()) - 1);
        const Array chosen = where(equal(position, expand_dims(wide, -1)), rest, 0);
        const Array is_there = logical_and(greater_equal(wide, 0), less(wide, v.shape().back()));
        return where(is_there, log(exp(rest).sum(-1)) - chosen.sum(-1), std::numeric_limits<double>::quiet_NaN());
      },
      logits);
}

Array squared_error(const Operand& predictions, const Operand& targets) {
  const Caller caller("squared_error", predictions.where());
  return loss_of(
      [](const Array& p, const Array& t) {
        const Array error = p - t;
        return error * error;
      },
      predictions, targets);
}

Array l2_loss(const Operand& predictions, const Operand& targets) {
  const Caller caller("l2_loss", predictions.where());
  return 0.5 * squared_error(predictions, targets);
}

Array huber_loss(const Operand& predictions, const Operand& targets, const Operand& delta) {
  const Caller caller("huber_loss", predictions.where());
  return loss_of(
      [=](const Array& p, const Array& t) {
        const Array error = abs(p - t);
        const Array quadratic = minimum(error, delta);
        return 0.5 * quadratic * quadratic + delta * (error - quadratic);
      },
      predictions, targets);
}

Array log_cosh(const Operand& predictions, const Operand& targets) {
  const Caller caller("log_cosh", predictions.where());
  return loss_of(
      [](const Array& p, const Array& t) {
        const Array error = p - t;
        return logaddexp(error, -error) - std::log(2.0);
      },
      predictions, targets);
}

Array hinge_loss(const Operand& predictions, const Operand& targets) {
  const Caller caller("hinge_loss", predictions.where());
  return loss_of([](const Array& p, const Array& t) { return maximum(0, 1.0 - p * t); }, predictions, targets);
}

Array kl_divergence(const Operand& log_predictions, const Operand& targets) {
  const Caller caller("kl_divergence", log_predictions.where());
  return loss_of(
      [](const Array& p, const Array& t) {
        const Array log_targets = where(equal(t, 0), 0, log(where(equal(t, 0), 1, t)));
        return (t * (log_targets - p)).sum(-1);
      },
      log_predictions, targets);
}

Array smooth_labels(const Operand& labels, const Operand& alpha) {
  const Caller caller("smooth_labels", labels.where());
  const Array array = to_array(labels);
  if (array.ndim() < 1)
    throw misuse<InvalidArgument>("labels are {}, and should have classes as last dimension", type_of(array));
  const auto smoothed = [&](const auto& part) {
    return floats([&](const Array& l) { return (1.0 - part) * l + part / static_cast<double>(array.shape().back()); },
                  labels);
  };
  return alpha.number() == nullptr ? smoothed(*alpha.array())
                                   : smoothed(to_scalar(*alpha.number(), float64).as<double>());
}

Array masked_mean(const Operand& losses, const Operand& mask) {
  const Caller caller("masked_mean", losses.where());
  return floats(
      [&](const Array& l) {
        const Array weight = broadcast_to(to_array(mask).astype(l.dtype()), l.shape());
        const Array count = weight.sum();
        // Where nothing counts, losses of what fills the batch may be NaN: they are not multiplied by 0.
        return where(equal(weight, 0), 0, l * weight).sum() / where(equal(count, 0), 1, count);
      },
      losses);
}

}  // namespace shoal::nn
