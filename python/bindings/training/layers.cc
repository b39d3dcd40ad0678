// shoal.nn.layers: layers as functions of their parameters, and losses.
#include "shoal/layers.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "bindings/core/numbers.h"
#include "bindings/training/training.h"

namespace shoal::python {
namespace {

lax::WindowPadding window_padding(nb::handle x, const char* function) {
  if (PyUnicode_Check(x.ptr())) return nb::cast<std::string>(x);
  std::vector<lax::WindowPadding::Pair> pairs;
  for (const nb::handle pair : x) {
    const Dims ends = dims(pair, fmt::format("{}: padding", function));
    if (ends.size() != 2) value_error(fmt::format("{}: padding must be a name or pairs of numbers", function));
    pairs.emplace_back(ends[0], ends[1]);
  }
  return pairs;
}

Dims some_dims(nb::handle x, const char* function, const char* argument) {
  return maybe_dims(x, fmt::format("{}: {}", function, argument)).value_or(Dims());
}

template <Array (*f)(const Operand&, const Operand&)>
void bind_loss(nb::module_& m, const char* name, bool has_default, const char* doc) {
  const auto call = [name](nb::handle predictions, nb::handle targets) {
    const Operand p = operand(predictions, name, "predictions");
    const Operand t = targets.is_none() ? Operand(0.0, p.where()) : operand(targets, name, "targets");
    return unlocked([&] { return f(p, t); });
  };
  if (has_default) {
    m.def(name, call, "predictions"_a.none(), "targets"_a = nb::none(), doc);
  } else {
    m.def(name, call, "predictions"_a.none(), "targets"_a.none(), doc);
  }
}

void bind_linear(nb::module_& m) {
  m.def(
      "dense",
      [](nb::handle x, nb::handle kernel, nb::handle bias) {
        const Operand given = operand(x, "dense");
        const Operand weights = operand(kernel, "dense", "kernel");
        const auto added = maybe_array(bias, "dense", "bias");
        return unlocked([&] { return nn::dense(given, weights, added); });
      },
      "x"_a.none(), "kernel"_a.none(), "bias"_a = nb::none(),
      "x [..., inputs] times kernel [inputs, outputs...], plus bias [outputs...].");
  m.def(
      "embed",
      [](nb::handle table, nb::handle ids) {
        const Operand rows = operand(table, "embed", "table");
        const Operand which = operand(ids, "embed", "ids");
        return unlocked([&] { return nn::embed(rows, which); });
      },
      "table"_a.none(), "ids"_a.none(),
      "The rows of table [tokens, features] that ids, integers of any shape, name. Ids out of bounds give NaN.");
  m.def(
      "conv",
      [](nb::handle x, nb::handle kernel, nb::handle bias, nb::handle strides, nb::handle padding, nb::handle dilation,
         std::int64_t groups) {
        const Operand given = operand(x, "conv");
        const Operand weights = operand(kernel, "conv", "kernel");
        const auto added = maybe_array(bias, "conv", "bias");
        const nn::ConvLayerOptions options{.strides = some_dims(strides, "conv", "strides"),
                                           .padding = window_padding(padding, "conv"),
                                           .dilation = some_dims(dilation, "conv", "kernel_dilation"),
                                           .feature_group_count = groups};
        return unlocked([&] { return nn::conv(given, weights, added, options); });
      },
      "x"_a.none(), "kernel"_a.none(), "bias"_a = nb::none(), "strides"_a = nb::none(), "padding"_a = "SAME",
      "kernel_dilation"_a = nb::none(), "feature_group_count"_a = 1,
      "x [batch, places..., inputs] convolved with kernel [window..., inputs, outputs], plus bias [outputs].");
  const auto pool = [&m](const char* name, auto f, const char* doc) {
    m.def(
        name,
        [name, f](nb::handle x, nb::handle window, nb::handle strides, nb::handle padding) {
          const Operand given = operand(x, name);
          const Dims extents = some_dims(window, name, "window_shape");
          const nn::PoolOptions options{.strides = some_dims(strides, name, "strides"),
                                        .padding = window_padding(padding, name)};
          return unlocked([&] { return f(given, extents, options); });
        },
        "x"_a.none(), "window_shape"_a, "strides"_a = nb::none(), "padding"_a = "VALID", doc);
  };
  pool("max_pool", &nn::max_pool,
       "The greatest element in each place of a window over the middle dimensions of x [batch, places..., features].");
  pool("avg_pool", &nn::avg_pool, "The mean there; what the padding adds does not count.");
}

void bind_norms(nb::module_& m) {
  const auto norm = [&m](const char* name, auto f, const char* doc) {
    m.def(
        name,
        [name, f](nb::handle x, nb::handle scale, nb::handle bias, nb::handle axis, nb::handle epsilon) {
          const Operand given = operand(x, name);
          const nn::NormOptions options{.scale = maybe_array(scale, name, "scale"),
                                        .bias = maybe_array(bias, name, "bias"),
                                        .axis = axes(axis),
                                        .epsilon = number_or_array(epsilon, name, "epsilon")};
          return unlocked([&] { return f(given, options); });
        },
        "x"_a.none(), "scale"_a = nb::none(), "bias"_a = nb::none(), "axis"_a = -1, "epsilon"_a = 1e-6, doc);
  };
  norm("layer_norm", &nn::layer_norm, "(x - mean) / sqrt(variance + epsilon), times scale, plus bias.");
  norm("rms_norm", &nn::rms_norm, "x / sqrt(mean of squares + epsilon), times scale, plus bias.");
  m.def(
      "group_norm",
      [](nb::handle x, std::int64_t groups, nb::handle scale, nb::handle bias, nb::handle epsilon) {
        const Operand given = operand(x, "group_norm");
        const nn::GroupNormOptions options{.scale = maybe_array(scale, "group_norm", "scale"),
                                           .bias = maybe_array(bias, "group_norm", "bias"),
                                           .epsilon = number_or_array(epsilon, "group_norm", "epsilon")};
        return unlocked([&] { return nn::group_norm(given, groups, options); });
      },
      "x"_a.none(), "num_groups"_a, "scale"_a = nb::none(), "bias"_a = nb::none(), "epsilon"_a = 1e-6,
      "layer_norm over the middle dimensions and each of num_groups groups of the features of x [batch, places..., "
      "features].");
  m.def(
      "batch_statistics",
      [](std::int64_t features, nb::handle type) {
        const SourceLocation where = user_line();
        const Dtype elements = maybe_dtype(type).value_or(float32);
        const nn::BatchStatistics made = unlocked([&] { return nn::batch_statistics(features, elements, where); });
        return nb::make_tuple(made.mean, made.variance);
      },
      "features"_a, "dtype"_a = nb::none(), "The statistics (mean, variance) before the first step.");
  m.def(
      "batch_norm",
      [](nb::handle x, nb::handle statistics, nb::handle scale, nb::handle bias, bool use_running_average,
         nb::handle momentum, nb::handle epsilon, nb::handle axis_name) {
        const Operand given = operand(x, "batch_norm");
        std::vector<Array> parts;
        for (const nb::handle part : statistics) parts.push_back(to_array(part, "batch_norm", "statistics"));
        if (parts.size() != 2) value_error("batch_norm: statistics are (mean, variance)");
        nn::BatchNormOptions options{.scale = maybe_array(scale, "batch_norm", "scale"),
                                     .bias = maybe_array(bias, "batch_norm", "bias"),
                                     .use_running_average = use_running_average,
                                     .momentum = number_or_array(momentum, "batch_norm", "momentum"),
                                     .epsilon = number_or_array(epsilon, "batch_norm", "epsilon")};
        if (!axis_name.is_none()) options.axis_name = AxisName(names(axis_name, "batch_norm: axis_name"));
        const auto [y, moved] = unlocked([&] { return nn::batch_norm(given, {parts[0], parts[1]}, options); });
        return nb::make_tuple(y, nb::make_tuple(moved.mean, moved.variance));
      },
      "x"_a.none(), "statistics"_a, "scale"_a = nb::none(), "bias"_a = nb::none(), "use_running_average"_a = false,
      "momentum"_a = 0.99, "epsilon"_a = 1e-5, "axis_name"_a = nb::none(),
      "(x - mean) / sqrt(variance + epsilon) with the mean and variance of each feature over the batch, and the "
      "statistics with this batch in them.");
  m.def(
      "dropout",
      [](nb::handle key, nb::handle x, nb::handle rate) {
        const Operand given = operand(x, "dropout");
        const Operand random = operand(key, "dropout", "key");
        const Operand share = number_or_array(rate, "dropout", "rate");
        return unlocked([&] { return nn::dropout(random, given, share); });
      },
      "key"_a.none(), "x"_a.none(), "rate"_a,
      "0 with the probability rate, and else x / (1 - rate). The same elements are 0 however x is split.");
}

void bind_attention(nb::module_& m) {
  m.def(
      "rotary_embedding",
      [](nb::handle x, nb::handle positions, nb::handle base) {
        const Operand given = operand(x, "rotary_embedding");
        const Operand places = operand(positions, "rotary_embedding", "positions");
        const double number = *maybe_number(base, "rotary_embedding: base");
        return unlocked([&] { return nn::rotary_embedding(given, places, number); });
      },
      "x"_a.none(), "positions"_a.none(), "base"_a = 10000.0,
      "x [..., T, heads, H] turned by angles that grow with the positions [T], or [..., T]: elements j and j + H/2 "
      "together by position / base^(2 j / H).");
  const auto cache_of = [](nb::handle cache, const char* function) {
    std::vector<Array> parts;
    for (const nb::handle part : cache) parts.push_back(to_array(part, function, "cache"));
    if (parts.size() != 3) value_error(fmt::format("{}: a cache is (keys, values, length)", function));
    return nn::KeyValueCache{parts[0], parts[1], parts[2]};
  };
  const auto object_of = [](const nn::KeyValueCache& cache) {
    return nb::make_tuple(cache.keys, cache.values, cache.length);
  };
  m.def(
      "key_value_cache",
      [object_of](std::int64_t batch, std::int64_t capacity, std::int64_t heads, std::int64_t features,
                  nb::handle type) {
        const SourceLocation where = user_line();
        const Dtype elements = maybe_dtype(type).value_or(float32);
        return object_of(
            unlocked([&] { return nn::key_value_cache(batch, capacity, heads, features, elements, where); }));
      },
      "batch"_a, "capacity"_a, "heads"_a, "features"_a, "dtype"_a = nb::none(),
      "An empty cache of the keys and values of tokens: (keys [batch, capacity, heads, features], values, length).");
  m.def(
      "extend",
      [=](nb::handle cache, nb::handle keys, nb::handle values) {
        const nn::KeyValueCache before = cache_of(cache, "extend");
        const Operand k = operand(keys, "extend", "keys");
        const Operand v = operand(values, "extend", "values");
        return object_of(unlocked([&] { return nn::extend(before, k, v); }));
      },
      "cache"_a.none(), "keys"_a.none(), "values"_a.none(),
      "The cache with keys and values [batch, T, heads, features] behind those it has. Donate it, and only their rows "
      "are written.");
  m.def(
      "cached_attention",
      [=](nb::handle query, nb::handle cache, nb::handle scale) {
        const Operand given = operand(query, "cached_attention", "query");
        const nn::KeyValueCache filled = cache_of(cache, "cached_attention");
        std::optional<Operand> factor;
        if (!scale.is_none()) factor = number_or_array(scale, "cached_attention", "scale");
        return unlocked([&] { return nn::cached_attention(given, filled, factor); });
      },
      "query"_a.none(), "cache"_a.none(), "scale"_a = nb::none(),
      "What the last T tokens of a cache, of which the queries [batch, T, heads, features] are, see of all up to "
      "them.");
}

void bind_losses(nb::module_& m) {
  m.def(
      "softmax_cross_entropy_with_integer_labels",
      [](nb::handle logits, nb::handle labels) {
        const char* name = "softmax_cross_entropy_with_integer_labels";
        const Operand scores = operand(logits, name, "logits");
        const Operand classes = operand(labels, name, "labels");
        return unlocked([&] { return nn::softmax_cross_entropy_with_integer_labels(scores, classes); });
      },
      "logits"_a.none(), "labels"_a.none(),
      "The cross entropy of softmax(logits) over the last dimension and the class of each example, an integer.");
  bind_loss<&nn::squared_error>(m, "squared_error", true, "(predictions - targets)^2.");
  bind_loss<&nn::l2_loss>(m, "l2_loss", true, "Half of (predictions - targets)^2.");
  bind_loss<&nn::log_cosh>(m, "log_cosh", true, "log(cosh(predictions - targets)).");
  bind_loss<&nn::hinge_loss>(m, "hinge_loss", false, "max(0, 1 - predictions targets), targets being -1 and 1.");
  bind_loss<&nn::kl_divergence>(m, "kl_divergence", false,
                                "The divergence of exp(predictions) from targets, over the last dimension.");
  m.def(
      "huber_loss",
      [](nb::handle predictions, nb::handle targets, nb::handle delta) {
        const Operand p = operand(predictions, "huber_loss", "predictions");
        const Operand t = targets.is_none() ? Operand(0.0, p.where()) : operand(targets, "huber_loss", "targets");
        const Operand bound = number_or_array(delta, "huber_loss", "delta");
        return unlocked([&] { return nn::huber_loss(p, t, bound); });
      },
      "predictions"_a.none(), "targets"_a = nb::none(), "delta"_a = 1.0,
      "l2_loss up to delta, and linear from there on.");
  m.def(
      "smooth_labels",
      [](nb::handle labels, nb::handle alpha) {
        const Operand given = operand(labels, "smooth_labels", "labels");
        const Operand part = number_or_array(alpha, "smooth_labels", "alpha");
        return unlocked([&] { return nn::smooth_labels(given, part); });
      },
      "labels"_a.none(), "alpha"_a, "(1 - alpha) of labels [..., classes] and alpha of equal ones.");
  m.def(
      "masked_mean",
      [](nb::handle losses, nb::handle mask) {
        const Operand given = operand(losses, "masked_mean", "losses");
        const Operand weights = operand(mask, "masked_mean", "mask");
        return unlocked([&] { return nn::masked_mean(given, weights); });
      },
      "losses"_a.none(), "mask"_a.none(),
      "The mean of the losses of the examples that count: a mask that broadcasts to them, bool or weights. 0 where "
      "nothing does.");
}

}  // namespace

void bind_layers(nb::module_& m) {
  bind_linear(m);
  bind_norms(m);
  bind_attention(m);
  bind_losses(m);
}

}  // namespace shoal::python
