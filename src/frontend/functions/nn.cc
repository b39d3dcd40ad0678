#include "shoal/nn.h"

#include <fmt/format.h>

#include <cmath>

#include "frontend/array/term.h"
#include "frontend/array/trace.h"

namespace shoal::nn {
namespace {

// A function of each element, as a formula of a Term.
template <class F>
Array pointwise(const char* function, const Operand& x, F&& formula) {
  return at_least_f32(function, kFloats, formula, x);
}

Term softplus_of(const Term& x) { return x.then(logaddexp, x.number(0)); }
Term hard_sigmoid_of(const Term& x) { return at_most(at_least(x + 3.0, 0), 6) / 6.0; }

// x less its maximum over the dimensions: exp of it does not overflow, and the greatest is 1.
Term shifted(const Term& x, const Axes& axis) {
  ReduceOptions options{.axis = axis, .keepdims = true};
  if (x.array().size() == 0) options.initial = Array(0.0, x.where());  // Nothing has no maximum, and needs none.
  return x - x.then(shoal::max, options);
}

Term total(const Term& x, const Axes& axis, bool keepdims) {
  return x.then(shoal::sum, ReduceOptions{.axis = axis, .keepdims = keepdims});
}

Term log_softmax_of(const Term& x, const Axes& axis) {
  const Term rest = shifted(x, axis);
  return rest - total(rest.then(shoal::exp), axis, true).then(shoal::log);
}

// Throws what reductions throw of the axes, in the name of `function`.
void check_axes(const char* function, const Operand& x, const Axes& axis) {
  canonical_axes(function, axis, to_array(x).ndim(), x.where());
}

}  // namespace

Array sigmoid(const Operand& x) { return logistic(x); }
Array relu(const Operand& x) { return maximum(x, Operand(0, x.where())); }

Array relu6(const Operand& x) {
  return pointwise("relu6", x, [](const Term& v) { return at_most(at_least(v, 0), 6); });
}

Array leaky_relu(const Operand& x, double negative_slope) {
  return pointwise("leaky_relu", x,
                   [=](const Term& v) { return select(v.then(greater_equal, v.number(0)), v, v * negative_slope); });
}

Array elu(const Operand& x, double alpha) {
  return pointwise("elu", x, [=](const Term& v) { return select(v > 0, v, alpha * at_most(v, 0).then(expm1)); });
}

Array selu(const Operand& x) {
  // The fixed point of Klambauer et al. 2017, "Self-normalizing neural networks".
  const double alpha = 1.6732632423543772848170429916717;
  const double scale = 1.0507009873554804934193349852946;
  return pointwise("selu", x,
                   [=](const Term& v) { return scale * select(v > 0, v, alpha * at_most(v, 0).then(expm1)); });
}

Array celu(const Operand& x, double alpha) {
  return pointwise("celu", x,
                   [=](const Term& v) { return at_least(v, 0) + alpha * (at_most(v, 0) / alpha).then(expm1); });
}

Array gelu(const Operand& x, bool approximate) {
  return pointwise("gelu", x, [=](const Term& v) {
    if (!approximate) return 0.5 * v * (v * -std::sqrt(0.5)).then(erfc);
    const Term argument = std::sqrt(2 / M_PI) * (v + 0.044715 * (v * v * v));
    return 0.5 * v * (1.0 + argument.then(tanh));
  });
}

Array silu(const Operand& x) {
  return pointwise("silu", x, [](const Term& v) { return v * v.then(logistic); });
}
Array swish(const Operand& x) { return silu(x); }

Array mish(const Operand& x) {
  return pointwise("mish", x, [](const Term& v) { return v * softplus_of(v).then(tanh); });
}

Array softplus(const Operand& x) { return pointwise("softplus", x, softplus_of); }

Array squareplus(const Operand& x, double b) {
  return pointwise("squareplus", x, [=](const Term& v) { return 0.5 * (v + (v * v + b).then(sqrt)); });
}

Array sparse_plus(const Operand& x) {
  return pointwise("sparse_plus", x, [](const Term& v) {
    const Term clipped = at_least(v, -1) + 1.0;
    return select(v > 1, v, 0.25 * (clipped * clipped));
  });
}

Array sparse_sigmoid(const Operand& x) {
  return pointwise("sparse_sigmoid", x, [](const Term& v) { return 0.5 * (at_most(at_least(v, -1), 1) + 1.0); });
}

Array log_sigmoid(const Operand& x) {
  return pointwise("log_sigmoid", x, [](const Term& v) { return -softplus_of(-v); });
}

Array log1mexp(const Operand& x) {
  return pointwise("log1mexp", x, [](const Term& v) {
    // By whichever of exp(-x) and 1 - exp(-x) is small (Mächler 2012).
    return select(v > std::log(2.0), (-(-v).then(exp)).then(log1p), (-(-v).then(expm1)).then(log));
  });
}

Array soft_sign(const Operand& x) {
  return pointwise("soft_sign", x, [](const Term& v) { return v / (v.then(abs) + 1.0); });
}

Array hard_tanh(const Operand& x) {
  return pointwise("hard_tanh", x, [](const Term& v) { return at_most(at_least(v, -1), 1); });
}

Array hard_sigmoid(const Operand& x) { return pointwise("hard_sigmoid", x, hard_sigmoid_of); }

Array hard_silu(const Operand& x) {
  return pointwise("hard_silu", x, [](const Term& v) { return v * hard_sigmoid_of(v); });
}
Array hard_swish(const Operand& x) { return hard_silu(x); }

Array softmax(const Operand& x, const Axes& axis) {
  check_axes("softmax", x, axis);
  return pointwise("softmax", x, [&](const Term& v) {
    const Term powers = shifted(v, axis).then(exp);
    return powers / total(powers, axis, true);
  });
}

Array log_softmax(const Operand& x, const Axes& axis) {
  check_axes("log_softmax", x, axis);
  return pointwise("log_softmax", x, [&](const Term& v) { return log_softmax_of(v, axis); });
}

Array logmeanexp(const Operand& x, const ReduceOptions& options) {
  check_axes("logmeanexp", x, options.axis);
  if (options.where || options.initial) {
    throw InvalidArgument("logmeanexp: takes no mask `where` and no initial value", x.where());
  }
  return pointwise("logmeanexp", x, [&](const Term& v) {
    const Term sum = v.then(logsumexp, options);
    const auto ratio = static_cast<double>(v.array().size()) / static_cast<double>(sum.array().size());
    return sum - std::log(ratio);
  });
}

Array standardize(const Operand& x, const Axes& axis, double epsilon) {
  check_axes("standardize", x, axis);
  return pointwise("standardize", x, [&](const Term& v) {
    const Term centred = v - v.then(mean, ReduceOptions{.axis = axis, .keepdims = true});
    const Term variance = (centred * centred).then(mean, ReduceOptions{.axis = axis, .keepdims = true});
    return centred * (variance + epsilon).then(rsqrt);
  });
}

Array glu(const Operand& x, std::int64_t axis) {
  return pointwise("glu", x, [&](const Term& v) {
    const Shape& shape = v.array().shape();
    const auto d = static_cast<std::size_t>(canonical_axis("glu", axis, shape.size(), x.where()));
    if (shape[d] % 2 != 0) {
      throw InvalidArgument(
          fmt::format("glu: axis {} of {} has extent {}, which must be even", axis, type_of(v.array()), shape[d]),
          x.where());
    }
    const auto half = [&](std::int64_t start) {
      Dims starts(shape.size(), 0);
      Dims limits(shape.begin(), shape.end());
      starts[d] = start;
      limits[d] = start + shape[d] / 2;
      return Term(bind_one("slice", {{"starts", starts}, {"limits", limits}, {"strides", Dims(shape.size(), 1)}},
                           {v.array()}, x.where()),
                  x.where());
    };
    return half(0) * half(shape[d] / 2).then(logistic);
  });
}

namespace {

// A mask or bias in the shape of the logits, with the heads in groups.
Term grouped(const Array& array, const Shape& logits, SourceLocation where) {
  const Shape ungrouped = {logits[0], logits[1] * logits[2], logits[3], logits[4]};
  if (broadcast_shapes("dot_product_attention", array.shape(), ungrouped, where) != ungrouped) {
    throw InvalidArgument(fmt::format("dot_product_attention: a mask or bias of shape {} must broadcast to {}",
                                      to_string(array.shape()), to_string(ungrouped)),
                          where);
  }
  return {reshape({broadcast(array, ungrouped, where), where}, logits), where};
}

// Of operands with a batch dimension, and queries whose heads are in groups: b t k g h.
Term attention(const Term& query, const Term& key, const Term& value, const AttentionOptions& options) {
  const SourceLocation where = query.where();
  const double width = static_cast<double>(query.array().shape().back());
  const Term products(einsum("btkgh,bskh->bkgts", query, key), where);
  const Shape shape = products.array().shape();
  Term logits = products * options.scale.value_or(1 / std::sqrt(width));
  if (options.bias) logits = logits + grouped(*options.bias, shape, where);
  // Finite, so that a query that sees nothing has a mean of all values instead of NaN.
  const Term nothing(full({}, query.number(-1e38), {.dtype = logits.array().dtype()}), where);
  if (options.mask) logits = select({truth(grouped(*options.mask, shape, where)), where}, logits, nothing);
  if (options.is_causal) {
    const auto position = [&](std::int64_t dim) {
      return bind_one("iota", {{"shape", shape}, {"dtype", int32}, {"dim", dim}}, {}, where);
    };
    logits = select({less_equal({position(4), where}, {position(3), where}), where}, logits, nothing);
  }
  return {einsum("bkgts,bskh->btkgh", {softmax(logits), where}, value), where};
}

}  // namespace

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options) {
  const Shape q = to_array(query).shape();
  const Shape k = to_array(key).shape();
  const SourceLocation where = query.where();
  const bool is_batched = q.size() == 4;
  const std::size_t first = is_batched ? 1 : 0;
  const bool fits = (q.size() == 3 || q.size() == 4) && k.size() == q.size() && to_array(value).shape() == k &&
                    k.back() == q.back() && (!is_batched || k[0] == q[0]) && k[first + 1] > 0 &&
                    q[first + 1] % k[first + 1] == 0;
  if (!fits) {
    throw InvalidArgument(
        fmt::format(
            "dot_product_attention: queries, keys and values of shapes {}, {} and {} must be (batch, T, heads, H) "
            "and twice (batch, S, key heads, H), or all without a batch, and the key heads divide the heads",
            to_string(q), to_string(k), to_string(to_array(value).shape())),
        where);
  }
  const std::int64_t batch = is_batched ? q[0] : 1;
  const std::int64_t key_heads = k[first + 1];
  const Shape queries = {batch, q[first], key_heads, q[first + 1] / key_heads, q.back()};
  const Shape keys = {batch, k[first], key_heads, k.back()};
  // Every operand in the common dtype, but of its own shape.
  DtypeAndWeakness element = element_of("dot_product_attention", query);
  for (const Operand* operand : {&key, &value}) {
    element = promote_types(element, element_of("dot_product_attention", *operand));
  }
  if (!is_floating(element.dtype)) {
    throw TypeMismatch(fmt::format("dot_product_attention: takes floats, not {}", name_of(element.dtype)), where);
  }
  const bool is_half = size_of(element.dtype) < size_of(float32);
  const auto prepared = [&](const Operand& x, const Shape& shape) {
    const Array array = convert(to_array(x), is_half ? float32 : element.dtype, element.weak, where);
    return Term(reshape({array, where}, shape), where);
  };
  const Term result = attention(prepared(query, queries), prepared(key, keys), prepared(value, keys), options);
  return convert(reshape(result, q), element.dtype, element.weak, where);
}

Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels) {
  const auto entropy = [](const Term& x, const Term& y) { return y * softplus_of(-x) + (1.0 - y) * softplus_of(x); };
  return at_least_f32("sigmoid_binary_cross_entropy", kFloats, entropy, logits, labels);
}

Array softmax_cross_entropy(const Operand& logits, const Operand& labels, std::int64_t axis) {
  const Axes along(Dims{axis});
  const auto entropy = [&](const Term& x, const Term& y) {
    check_axes("softmax_cross_entropy", x, along);
    return -total(y * log_softmax_of(x, along), along, false);
  };
  return at_least_f32("softmax_cross_entropy", kFloats, entropy, logits, labels);
}

}  // namespace shoal::nn
