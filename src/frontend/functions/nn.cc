#include "shoal/nn.h"

#include <fmt/format.h>

#include <cmath>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "shoal/derivatives.h"

namespace shoal::nn {
namespace {

// A function of each element, as a formula of a Array.
template <class F>
Array pointwise(const Operand& x, F&& formula) {
  return at_least_f32(kFloats, formula, x);
}

Array softplus_of(const Array& x) { return logaddexp(x, 0); }
Array hard_sigmoid_of(const Array& x) { return minimum(maximum(x + 3.0, 0), 6) / 6.0; }

// x less its maximum over the dimensions: exp of it does not overflow, and the greatest is 1. What is made of it does
// not depend on what is taken off, so that this is a constant to derivatives.
Array shifted(const Array& x, const Axes& axis) {
  ReduceOptions options{.axis = axis, .keepdims = true};
  if (x.size() == 0) options.initial = Array(0.0);  // Nothing has no maximum, and needs none.
  return x - stop_gradient(shoal::max(x, options));
}

Array total(const Array& x, const Axes& axis, bool keepdims) {
  return shoal::sum(x, ReduceOptions{.axis = axis, .keepdims = keepdims});
}

Array log_softmax_of(const Array& x, const Axes& axis) {
  const Array rest = shifted(x, axis);
  return rest - shoal::log(total(shoal::exp(rest), axis, true));
}

// Throws what reductions throw of the axes, in the name of `function`.
void check_axes(const Operand& x, const Axes& axis) { canonical_axes(axis, to_array(x).ndim()); }

}  // namespace

Array sigmoid(const Operand& x) {
  const Caller caller("sigmoid", x.where());
  return logistic(x);
}
Array relu(const Operand& x) {
  const Caller caller("relu", x.where());
  const Array array = to_array(x);
  if (!is_floating(array.dtype())) return maximum(array, 0);
  return where(less_equal(array, 0), 0, array);  // At 0 the derivative of maximum is 1/2.
}

Array relu6(const Operand& x) {
  const Caller caller("relu6", x.where());
  return pointwise(x, [](const Array& v) { return minimum(maximum(v, 0), 6); });
}

Array leaky_relu(const Operand& x, double negative_slope) {
  const Caller caller("leaky_relu", x.where());
  return pointwise(x, [=](const Array& v) { return where(greater_equal(v, 0), v, v * negative_slope); });
}

Array elu(const Operand& x, double alpha) {
  const Caller caller("elu", x.where());
  return pointwise(x, [=](const Array& v) { return where(v > 0, v, alpha * expm1(minimum(v, 0))); });
}

Array selu(const Operand& x) {
  const Caller caller("selu", x.where());
  // The fixed point of Klambauer et al. 2017, "Self-normalizing neural networks".
  const double alpha = 1.6732632423543772848170429916717;
  const double scale = 1.0507009873554804934193349852946;
  return pointwise(x, [=](const Array& v) { return scale * where(v > 0, v, alpha * expm1(minimum(v, 0))); });
}

Array celu(const Operand& x, double alpha) {
  const Caller caller("celu", x.where());
  return pointwise(x, [=](const Array& v) { return maximum(v, 0) + alpha * expm1(minimum(v, 0) / alpha); });
}

Array gelu(const Operand& x, bool approximate) {
  const Caller caller("gelu", x.where());
  return pointwise(x, [=](const Array& v) {
    if (!approximate) return 0.5 * v * erfc(v * -std::sqrt(0.5));
    const Array argument = std::sqrt(2 / M_PI) * (v + 0.044715 * (v * v * v));
    return 0.5 * v * (1.0 + tanh(argument));
  });
}

Array silu(const Operand& x) {
  const Caller caller("silu", x.where());
  return pointwise(x, [](const Array& v) { return v * logistic(v); });
}
Array swish(const Operand& x) {
  const Caller caller("swish", x.where());
  return silu(x);
}

Array mish(const Operand& x) {
  const Caller caller("mish", x.where());
  return pointwise(x, [](const Array& v) { return v * tanh(softplus_of(v)); });
}

Array softplus(const Operand& x) {
  const Caller caller("softplus", x.where());
  return pointwise(x, softplus_of);
}

Array squareplus(const Operand& x, double b) {
  const Caller caller("squareplus", x.where());
  return pointwise(x, [=](const Array& v) { return 0.5 * (v + sqrt(v * v + b)); });
}

Array sparse_plus(const Operand& x) {
  const Caller caller("sparse_plus", x.where());
  return pointwise(x, [](const Array& v) {
    const Array clipped = maximum(v, -1) + 1.0;
    return where(v > 1, v, 0.25 * (clipped * clipped));
  });
}

Array sparse_sigmoid(const Operand& x) {
  const Caller caller("sparse_sigmoid", x.where());
  return pointwise(x, [](const Array& v) { return 0.5 * (minimum(maximum(v, -1), 1) + 1.0); });
}

Array log_sigmoid(const Operand& x) {
  const Caller caller("log_sigmoid", x.where());
  return pointwise(x, [](const Array& v) { return -softplus_of(-v); });
}

Array log1mexp(const Operand& x) {
  const Caller caller("log1mexp", x.where());
  return pointwise(x, [](const Array& v) {
    // By whichever of exp(-x) and 1 - exp(-x) is small (Mächler 2012).
    return where(v > std::log(2.0), log1p(-exp(-v)), log(-expm1(-v)));
  });
}

Array soft_sign(const Operand& x) {
  const Caller caller("soft_sign", x.where());
  return pointwise(x, [](const Array& v) { return v / (abs(v) + 1.0); });
}

Array hard_tanh(const Operand& x) {
  const Caller caller("hard_tanh", x.where());
  return pointwise(x, [](const Array& v) { return minimum(maximum(v, -1), 1); });
}

Array hard_sigmoid(const Operand& x) {
  const Caller caller("hard_sigmoid", x.where());
  return pointwise(x, hard_sigmoid_of);
}

Array hard_silu(const Operand& x) {
  const Caller caller("hard_silu", x.where());
  return pointwise(x, [](const Array& v) { return v * hard_sigmoid_of(v); });
}
Array hard_swish(const Operand& x) {
  const Caller caller("hard_swish", x.where());
  return hard_silu(x);
}

Array softmax(const Operand& x, const Axes& axis) {
  const Caller caller("softmax", x.where());
  check_axes(x, axis);
  return pointwise(x, [&](const Array& v) {
    const Array powers = exp(shifted(v, axis));
    return powers / total(powers, axis, true);
  });
}

Array log_softmax(const Operand& x, const Axes& axis) {
  const Caller caller("log_softmax", x.where());
  check_axes(x, axis);
  return pointwise(x, [&](const Array& v) { return log_softmax_of(v, axis); });
}

Array logmeanexp(const Operand& x, const ReduceOptions& options) {
  const Caller caller("logmeanexp", x.where());
  check_axes(x, options.axis);
  if (options.where || options.initial) {
    throw misuse<InvalidArgument>("takes no mask `where` and no initial value");
  }
  return pointwise(x, [&](const Array& v) {
    const Array sum = logsumexp(v, options);
    const auto ratio = static_cast<double>(v.size()) / static_cast<double>(sum.size());
    return sum - std::log(ratio);
  });
}

Array standardize(const Operand& x, const Axes& axis, double epsilon) {
  const Caller caller("standardize", x.where());
  check_axes(x, axis);
  return pointwise(x, [&](const Array& v) {
    const Array centred = v - mean(v, ReduceOptions{.axis = axis, .keepdims = true});
    const Array variance = mean(centred * centred, ReduceOptions{.axis = axis, .keepdims = true});
    return centred * rsqrt(variance + epsilon);
  });
}

Array glu(const Operand& x, std::int64_t axis) {
  const Caller caller("glu", x.where());
  return pointwise(x, [&](const Array& v) {
    const Shape& shape = v.shape();
    const auto d = static_cast<std::size_t>(canonical_axis(axis, shape.size()));
    if (shape[d] % 2 != 0) {
      throw misuse<InvalidArgument>("axis {} of {} has extent {}, which must be even", axis, type_of(v), shape[d]);
    }
    const auto half = [&](std::int64_t start) {
      Dims starts(shape.size(), 0);
      Dims limits(shape.begin(), shape.end());
      starts[d] = start;
      limits[d] = start + shape[d] / 2;
      return bind_one("slice", {{"starts", starts}, {"limits", limits}, {"strides", Dims(shape.size(), 1)}}, {v});
    };
    return half(0) * logistic(half(shape[d] / 2));
  });
}

namespace {

// A mask or bias with the heads in groups, and 1 where it is the same for all.
Array grouped(const Array& array, const Shape& logits) {
  const Shape ungrouped = {logits[0], logits[1] * logits[2], logits[3], logits[4]};
  if (broadcast_shapes(array.shape(), ungrouped) != ungrouped) {
    throw misuse<InvalidArgument>("a mask or bias of shape {} must broadcast to {}", to_string(array.shape()),
                                  to_string(ungrouped));
  }
  Shape shape(4 - array.shape().size(), 1);
  shape.insert(shape.end(), array.shape().begin(), array.shape().end());
  const bool is_shared = shape[1] == 1;
  return reshape(array, {shape[0], is_shared ? 1 : logits[1], is_shared ? 1 : logits[2], shape[2], shape[3]});
}

bool is_small(Dtype dtype) { return size_of(dtype) < size_of(float32); }

// Of operands with a batch dimension, and queries whose heads are in groups: b t k g h.
Array attention(Array query, const Array& key, const Array& value, const AttentionOptions& options) {
  const Shape& q = query.shape();
  const Shape logits = {q[0], q[2], q[3], q[1], key.shape()[1]};
  double scale = 1 / std::sqrt(static_cast<double>(q.back()));
  if (options.scale && options.scale->array() != nullptr) {
    query = query * options.scale->array()->astype(query.dtype());
    scale = 1;
  } else if (options.scale) {
    scale = to_scalar(*options.scale->number(), float64).as<double>();
  }
  std::vector<Array> operands = {query, key, value};
  if (options.bias) {
    // In f32 it may be too large for smaller floats.
    const Array bias = grouped(*options.bias, logits);
    const bool is_wide = is_small(query.dtype()) && bias.dtype() != query.dtype();
    operands.push_back(bias.astype(is_wide ? float32 : query.dtype()));
  }
  if (options.mask) operands.push_back(truth(grouped(*options.mask, logits)));
  return bind("attention",
              {{"scale", Scalar::of(scale)},
               {"causal", options.is_causal},
               {"biased", options.bias.has_value()},
               {"masked", options.mask.has_value()}},
              operands)[0];
}

}  // namespace

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options) {
  const Caller caller("dot_product_attention", query.where());
  const Shape q = to_array(query).shape();
  const Shape k = to_array(key).shape();
  const bool is_batched = q.size() == 4;
  const std::size_t first = is_batched ? 1 : 0;
  const bool fits = (q.size() == 3 || q.size() == 4) && k.size() == q.size() && to_array(value).shape() == k &&
                    k.back() == q.back() && (!is_batched || k[0] == q[0]) && k[first + 1] > 0 &&
                    q[first + 1] % k[first + 1] == 0;
  if (!fits) {
    throw misuse<InvalidArgument>(
        "queries, keys and values of shapes {}, {} and {} must be (batch, T, heads, H) and twice (batch, S, key heads, "
        "H), or all without a batch, and the key heads divide the heads",
        to_string(q), to_string(k), to_string(to_array(value).shape()));
  }
  const std::int64_t batch = is_batched ? q[0] : 1;
  const std::int64_t key_heads = k[first + 1];
  const Shape queries = {batch, q[first], key_heads, q[first + 1] / key_heads, q.back()};
  const Shape keys = {batch, k[first], key_heads, k.back()};
  // Every operand in the common dtype, but of its own shape.
  DtypeAndWeakness element = element_of(query);
  for (const Operand* operand : {&key, &value}) {
    element = promote_types(element, element_of(*operand));
  }
  if (!is_floating(element.dtype)) {
    throw misuse<TypeMismatch>("takes floats, not {}", name_of(element.dtype));
  }
  // The product of queries and a scale that is an array would be rounded.
  const bool is_scaled = options.scale && options.scale->array() != nullptr;
  const Dtype inside = is_scaled && is_small(element.dtype) ? float32 : element.dtype;
  const auto prepared = [&](const Operand& x, const Shape& shape) {
    return reshape(convert(to_array(x), inside, element.weak), shape);
  };
  const Array result = attention(prepared(query, queries), prepared(key, keys), prepared(value, keys), options);
  return convert(reshape(result, q), element.dtype, element.weak);
}

Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels) {
  const Caller caller("sigmoid_binary_cross_entropy", logits.where());
  const auto entropy = [](const Array& x, const Array& y) { return y * softplus_of(-x) + (1.0 - y) * softplus_of(x); };
  return at_least_f32(kFloats, entropy, logits, labels);
}

Array softmax_cross_entropy(const Operand& logits, const Operand& labels, std::int64_t axis) {
  const Caller caller("softmax_cross_entropy", logits.where());
  const Axes along(Dims{axis});
  const auto entropy = [&](const Array& x, const Array& y) {
    check_axes(x, along);
    return -total(y * log_softmax_of(x, along), along, false);
  };
  return at_least_f32(kFloats, entropy, logits, labels);
}

}  // namespace shoal::nn
