// shoal.nn: the functions of neural networks.
#include "bindings/nn/nn.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <limits>

#include "base/caller.h"
#include "base/misuse.h"
#include "bindings/core/convert.h"
#include "bindings/core/flag.h"
#include "bindings/core/numbers.h"
#include "bindings/numpy/complex_order.h"
#include "bindings/numpy/numpy.h"
#include "frontend/array/promotion.h"
#include "shoal/nn.h"
#include "shoal/shoal.h"

namespace shoal::python {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- Functions of each element.

// Integers as numbers of Python are taken: JAX computes them with such.
Operand as_weak_float(const Operand& x) {
  const Dtype dtype = type_of_operand(x).dtype;
  if (!is_integer(dtype) && dtype != bool_) return x;
  const Caller caller("convert", x.where());
  return {convert(shoal::to_array(x), default_float(), true), x.where()};
}

template <Array (*f)(const Operand&)>
Array weakly(const Operand& x) {
  return f(as_weak_float(x));
}

template <Array (*f)(const Operand&)>
void unary(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](nb::handle x) {
        const Operand given = operand(x, name);
        return unlocked([&] { return f(given); });
      },
      "x"_a.none(), doc);
}

// A function with a parameter, which is a number, or an array that broadcasts against x.
template <class OfNumber, class OfArray>
void with_parameter(nb::module_& m, const char* name, const char* parameter, double otherwise, const char* doc,
                    const OfNumber& of_number, const OfArray& of_array) {
  const bool is_weak = std::string_view(name) != "squareplus";
  m.def(
      name,
      [=](nb::handle x, nb::handle value) {
        const Operand given = is_weak ? as_weak_float(operand(x, name)) : operand(x, name);
        if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) {
          const double number = *maybe_number(value, fmt::format("{}: {}", name, parameter));
          return unlocked([&] { return of_number(given, number); });
        }
        const Operand array = operand(value, name, parameter);
        return unlocked([&] {
          const Caller caller(name, given.where());
          return at_least_f32(kFloats, of_array, given, array);
        });
      },
      "x"_a.none(), nb::arg(parameter) = otherwise, doc);
}

Array hard_tanh(const Operand& x) {
  const Caller caller("hard_tanh", x.where());
  return is_integer(type_of_operand(x).dtype) ? clip(x, -1, 1) : nn::hard_tanh(x);
}

// f as it is, and g of complex numbers.
template <Array (*f)(const Operand&), Array (*g)(const Operand&)>
Array or_complex(const Operand& x) {
  return is_complex_operand(x) ? g(x) : f(x);
}

Array identity(const Operand& x) { return shoal::to_array(x); }

void bind_elementwise(nb::module_& m) {
  unary<&identity>(m, "identity", "x itself.");
  unary<&nn::sigmoid>(m, "sigmoid", "1 / (1 + exp(-x)).");
  unary<&or_complex<&nn::relu, &complex_relu>>(m, "relu", "max(x, 0).");
  unary<&weakly<&nn::relu6>>(m, "relu6", "min(max(x, 0), 6).");
  unary<&weakly<&nn::selu>>(m, "selu", "elu with the constants of self-normalization.");
  unary<&or_complex<&nn::silu, &complex_silu>>(m, "silu", "x sigmoid(x).");
  unary<&or_complex<&nn::silu, &complex_silu>>(m, "swish", "x sigmoid(x).");
  unary<&nn::mish>(m, "mish", "x tanh(softplus(x)).");
  unary<&or_complex<&nn::softplus, &complex_softplus>>(m, "softplus", "log(1 + exp(x)).");
  unary<&weakly<&nn::sparse_plus>>(m, "sparse_plus", "0 up to -1, x from 1 on, and (x + 1)^2 / 4 between them.");
  unary<&weakly<&nn::sparse_sigmoid>>(m, "sparse_sigmoid", "(x + 1) / 2, clipped to 0 and 1.");
  unary<&nn::log_sigmoid>(m, "log_sigmoid", "log(sigmoid(x)).");
  unary<&or_complex<&nn::log1mexp, &complex_log1mexp>>(m, "log1mexp", "log(1 - exp(-x)), for positive x.");
  unary<&nn::soft_sign>(m, "soft_sign", "x / (|x| + 1).");
  unary<&hard_tanh>(m, "hard_tanh", "x clipped to -1 and 1.");
  unary<&weakly<&nn::hard_sigmoid>>(m, "hard_sigmoid", "relu6(x + 3) / 6.");
  unary<&weakly<&nn::hard_silu>>(m, "hard_silu", "x hard_sigmoid(x).");
  unary<&weakly<&nn::hard_swish>>(m, "hard_swish", "x hard_sigmoid(x).");
  unary<&tanh>(m, "tanh", "The hyperbolic tangent.");
  with_parameter(m, "leaky_relu", "negative_slope", 0.01, "x, times the slope where it is negative.", &nn::leaky_relu,
                 [](const Array& v, const Array& slope) { return shoal::where(v >= 0, v, v * slope); });
  with_parameter(
      m, "elu", "alpha", 1, "x, or alpha (exp(x) - 1) where it is negative.", &nn::elu,
      [](const Array& v, const Array& alpha) { return shoal::where(v > 0, v, alpha * expm1(minimum(v, 0))); });
  with_parameter(
      m, "celu", "alpha", 1, "max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1).", &nn::celu,
      [](const Array& v, const Array& alpha) { return maximum(v, 0) + alpha * expm1(minimum(v, 0) / alpha); });
  with_parameter(m, "squareplus", "b", 4, "(x + sqrt(x^2 + b)) / 2.", &nn::squareplus,
                 [](const Array& v, const Array& b) { return (v + sqrt(v * v + b)) / 2.0; });
  m.def(
      "gelu",
      [](nb::handle x, Flag approximate) {
        const Operand given = operand(x, "gelu");
        return unlocked([&] {
          const bool is_complex = approximate && is_complex_operand(given);
          return is_complex ? complex_gelu(given) : nn::gelu(given, approximate);
        });
      },
      "x"_a.none(), "approximate"_a = true,
      "x times the normal distribution of x, or of it by its approximation with tanh.");
}

// ---- Functions over dimensions.

ReduceOptions over(const Axes& axis, const std::optional<Array>& mask, bool keepdims = true) {
  return {.axis = axis, .keepdims = keepdims, .where = mask};
}

// x less its greatest element that counts, a constant to derivatives, and minus infinity where it does not count.
Array shifted(const Array& x, const Axes& axis, const Array& mask) {
  ReduceOptions options = over(axis, mask);
  options.initial = Array(-kInfinity);
  return shoal::where(truth(mask), x, -kInfinity) - stop_gradient(max(x, options));
}

Array softmax(const Operand& x, const Axes& axis, const std::optional<Array>& mask) {
  const Caller caller("softmax", x.where());
  if (!mask && is_complex_operand(x)) return complex_softmax(x, axis);
  if (!mask) return nn::softmax(x, axis);
  const auto formula = [&](const Array& v) {
    const Array powers = exp(shifted(v, axis, *mask));
    return shoal::where(truth(*mask), powers / sum(powers, over(axis, mask)), 0);
  };
  return at_least_f32(kFloats, formula, x);
}

Array log_softmax(const Operand& x, const Axes& axis, const std::optional<Array>& mask) {
  const Caller caller("log_softmax", x.where());
  if (!mask && is_complex_operand(x)) return complex_log_softmax(x, axis);
  if (!mask) return nn::log_softmax(x, axis);
  const auto formula = [&](const Array& v) {
    const Array rest = shifted(v, axis, *mask);
    return shoal::where(truth(*mask), rest - log(sum(exp(rest), over(axis, mask))), -kInfinity);
  };
  return at_least_f32(kFloats, formula, x);
}

// log |sum(b exp(x))|, and the sign of the sum.
std::pair<Array, Array> log_of_weighted_sum(const Operand& x, const Operand& b, const ReduceOptions& options) {
  const Caller caller("logsumexp", x.where());
  std::optional<Array> sign;
  const auto formula = [&](const Array& v, const Array& weights) {
    const Array kept = shoal::where(not_equal(weights, 0), v, -kInfinity);
    ReduceOptions greatest = over(options.axis, options.where);
    greatest.initial = Array(-kInfinity);
    const Array top = stop_gradient(max(kept, greatest));
    const Array finite = shoal::where(isfinite(top), top, 0);
    const Array total = sum(weights * exp(kept - finite), over(options.axis, options.where));
    sign = shoal::sign(total);
    const Array logarithm = log(abs(total)) + finite;
    if (options.keepdims) return logarithm;
    sign = squeeze(*sign, options.axis.get() ? options.axis : Axes());
    return squeeze(logarithm, options.axis.get() ? options.axis : Axes());
  };
  const Array result = at_least_f32(kFloats, formula, x, b);
  return {result, astype(*sign, result.dtype())};
}

Array logmeanexp(const Operand& x, const ReduceOptions& options) {
  if (!options.where) return nn::logmeanexp(x, options);
  const Caller caller("logmeanexp", x.where());
  const Array total = logsumexp(x, options);
  const Array mask = broadcast_to(truth(*options.where), shoal::to_array(x).shape());
  const Array count = sum(mask, {.axis = options.axis, .keepdims = options.keepdims});
  return total - log(astype(count, total.dtype()));
}

struct Moments {
  std::optional<Array> mean;
  std::optional<Array> variance;
  std::optional<Array> mask;
};

Array standardize(const Operand& x, const Axes& axis, const Moments& given, const Operand& epsilon) {
  const Caller caller("standardize", x.where());
  const auto formula = [&](const Array& v) {
    const Array centred = v - (given.mean ? *given.mean : mean(v, over(axis, given.mask)));
    const Array variance = given.variance ? *given.variance : mean(centred * centred, over(axis, given.mask));
    return centred * rsqrt(add(variance, epsilon));
  };
  return at_least_f32(kFloats, formula, x);
}

void bind_dimensions(nb::module_& m) {
  const auto normalised = [&](const char* name, Array (*f)(const Operand&, const Axes&, const std::optional<Array>&),
                              const char* doc) {
    m.def(
        name,
        [name, f](nb::handle x, nb::handle axis, nb::handle where) {
          const Operand given = operand(x, name);
          const Axes over_axes = axes(axis, fmt::format("{}: axis", name));
          const std::optional<Array> mask = maybe_array(where, name, "where");
          return unlocked([&] { return f(given, over_axes, mask); });
        },
        "x"_a.none(), "axis"_a.none() = -1, "where"_a = nb::none(), doc);
  };
  normalised("softmax", &softmax, "exp(x), divided by its sum over the dimensions.");
  normalised("log_softmax", &log_softmax, "log(softmax(x)), without underflow on the way.");
  m.def(
      "logsumexp",
      [](nb::handle a, nb::handle axis, nb::handle b, Flag keepdims, Flag return_sign, nb::handle where) -> nb::object {
        const Operand x = operand(a, "logsumexp", "a");
        const ReduceOptions options{.axis = axes(axis, "logsumexp: axis"),
                                    .keepdims = keepdims,
                                    .where = maybe_array(where, "logsumexp", "where")};
        const std::optional<Operand> weights = maybe_operand(b, "logsumexp", "b");
        if (!weights && !return_sign && is_complex_operand(x)) {
          return nb::cast(unlocked([&] { return complex_logsumexp(x, options); }));
        }
        if (!weights && !return_sign) return nb::cast(unlocked([&] { return logsumexp(x, options); }));
        auto [result, sign] =
            unlocked([&] { return log_of_weighted_sum(x, weights ? *weights : Operand(1.0, x.where()), options); });
        if (return_sign) return nb::make_tuple(result, sign);
        return nb::cast(unlocked([&] {
          const Caller caller("logsumexp", x.where());
          return shoal::where(sign < 0, std::numeric_limits<double>::quiet_NaN(), result);
        }));
      },
      "a"_a.none(), "axis"_a = nb::none(), "b"_a = nb::none(), "keepdims"_a = false, "return_sign"_a = false,
      "where"_a = nb::none(), "log(sum(b exp(a))), without overflow on the way; with return_sign of the magnitude.");
  m.def(
      "logmeanexp",
      [](nb::handle x, nb::handle axis, nb::handle where, Flag keepdims) {
        const Operand given = operand(x, "logmeanexp");
        const ReduceOptions options{.axis = axes(axis, "logmeanexp: axis"),
                                    .keepdims = keepdims,
                                    .where = maybe_array(where, "logmeanexp", "where")};
        return unlocked([&] { return logmeanexp(given, options); });
      },
      "x"_a.none(), "axis"_a = nb::none(), "where"_a = nb::none(), "keepdims"_a = false, "log(mean(exp(x))).");
  m.def(
      "standardize",
      [](nb::handle x, nb::handle axis, nb::handle mean, nb::handle variance, nb::handle epsilon, nb::handle where,
         const std::string& algorithm) {
        const Operand given = operand(x, "standardize");
        const Axes over_axes = axes(axis, "standardize: axis");
        const Moments moments{.mean = maybe_array(mean, "standardize", "mean"),
                              .variance = maybe_array(variance, "standardize", "variance"),
                              .mask = maybe_array(where, "standardize", "where")};
        const Operand correction = operand(epsilon, "standardize", "epsilon");
        if (algorithm != "fast" && algorithm != "stable") {
          value_error(fmt::format("standardize: algorithm must be 'fast' or 'stable', got '{}'", algorithm));
        }
        return unlocked([&] { return standardize(given, over_axes, moments, correction); });
      },
      "x"_a.none(), "axis"_a.none() = -1, "mean"_a = nb::none(), "variance"_a = nb::none(), "epsilon"_a = 1e-5,
      "where"_a = nb::none(), nb::kw_only(), "algorithm"_a = "fast", "(x - mean) / sqrt(variance + epsilon).");
  m.def(
      "glu",
      [](nb::handle x, nb::handle axis) {
        const Operand given = operand(x, "glu");
        const std::int64_t dim = integer(axis, "glu: axis");
        return unlocked([&] { return nn::glu(given, dim); });
      },
      "x"_a.none(), "axis"_a = -1, "The first half of a dimension, times the sigmoid of the second.");
}

// ---- One-hot codes and attention.

// Along an axis of devices: whether x names the device's place.
Array one_hot_along(const Operand& x, std::int64_t num_classes, const AxisName& axis, Dtype dtype) {
  const Caller caller("one_hot", x.where());
  const std::int64_t size = lax::axis_size(axis);
  if (size != num_classes) {
    throw misuse<InvalidArgument>("num_classes, {}, must be the size of the axis, {}", num_classes, size);
  }
  return astype(equal(x, lax::axis_index(axis)), dtype);
}

Operand array_or_list(nb::handle x) {
  if (!PyList_Check(x.ptr()) && !PyTuple_Check(x.ptr())) return operand(x, "one_hot");
  const nb::object array = nb::module_::import_("shoal._core").attr("_array")(x);
  return operand(array, "one_hot");
}

// The keys that a query may see: those that the mask allows, in the window around it and among the first ones of its
// sequence. Without a value if that is all.
struct Visible {
  std::optional<Array> mask;
  std::optional<std::pair<std::int64_t, std::int64_t>> window;
  std::optional<Array> query_lengths;
  std::optional<Array> key_lengths;

  std::optional<Array> combine(std::int64_t queries, std::int64_t keys) const {
    std::optional<Array> all;
    if (mask) all = truth(*mask);
    const auto also = [&](const Array& more) { all = all ? logical_and(*all, more) : more; };
    const Array query = positions(queries, 2);
    const Array key = positions(keys, 3);
    if (window) {
      also(query <= key + window->first);
      also(query >= key - window->second);
    }
    if (query_lengths) also(query < lengths(*query_lengths));
    if (key_lengths) also(key < lengths(*key_lengths));
    return all;
  }

  // 0, 1, 2, … along one of the dimensions batch, head, query and key.
  static Array positions(std::int64_t extent, std::size_t dim) {
    Shape shape{1, 1, 1, 1};
    shape[dim] = extent;
    return lax::broadcasted_iota(int32, shape, static_cast<std::int64_t>(dim));
  }
  static Array lengths(const Array& of_batches) { return reshape(of_batches, {-1, 1, 1, 1}); }
};

Array attention(const Operand& query, const Operand& key, const Operand& value, nn::AttentionOptions options,
                const Visible& visible) {
  const Caller caller("dot_product_attention", query.where());
  const Shape q = shoal::to_array(query).shape();
  const Shape k = shoal::to_array(key).shape();
  if (q.size() >= 3 && k.size() >= 3) options.mask = visible.combine(q[q.size() - 3], k[k.size() - 3]);
  const Array result = nn::dot_product_attention(query, key, value, options);
  if (!visible.query_lengths) return result;
  // Queries behind the end of their sequence give zeros.
  const Array place = reshape(Visible::positions(q[q.size() - 3], 2), {1, -1, 1, 1});
  const Array counts = place < Visible::lengths(*visible.query_lengths);
  return reshape(result * astype(counts, result.dtype()), q);
}

std::optional<std::pair<std::int64_t, std::int64_t>> window_of(nb::handle x) {
  if (x.is_none()) return std::nullopt;
  const Dims sizes = dims(x, "dot_product_attention: local_window_size");
  if (sizes.size() > 2 || sizes.empty()) {
    value_error("dot_product_attention: local_window_size must be one integer, or those before and after a query");
  }
  return std::pair(sizes[0], sizes.back());
}

void bind_attention(nb::module_& m) {
  m.def(
      "one_hot",
      [](nb::handle x, nb::handle num_classes, nb::handle dtype, nb::handle axis, nb::handle out_sharding) {
        if (!out_sharding.is_none()) not_implemented("one_hot: out_sharding is not offered");
        const Operand given = array_or_list(x);
        const std::int64_t classes = integer(num_classes, "one_hot: num_classes");
        const Dtype wanted = maybe_dtype(dtype).value_or(default_float());
        if (PyIndex_Check(axis.ptr()) == 0) {
          const AxisName mapped(names(axis, "one_hot: axis"));
          return unlocked([&] { return one_hot_along(given, classes, mapped, wanted); });
        }
        const nn::OneHotOptions options{.dtype = wanted, .axis = integer(axis, "one_hot: axis")};
        return unlocked([&] { return nn::one_hot(given, classes, options); });
      },
      "x"_a.none(), "num_classes"_a, nb::kw_only(), "dtype"_a = nb::none(), "axis"_a = -1,
      "out_sharding"_a = nb::none(), "A new dimension with 1 at the place that each element names, and 0 elsewhere.");
  m.def(
      "dot_product_attention",
      [](nb::handle query, nb::handle key, nb::handle value, nb::handle bias, nb::handle mask, nb::handle scale,
         Flag is_causal, nb::handle query_seq_lengths, nb::handle key_value_seq_lengths, nb::handle local_window_size,
         nb::handle implementation, Flag return_residual) {
        const char* name = "dot_product_attention";
        if (return_residual) not_implemented("dot_product_attention: return_residual is not offered");
        if (!implementation.is_none() && nb::cast<std::string>(nb::str(implementation)) != "xla") {
          value_error(fmt::format("dot_product_attention: implementation must be None or 'xla', got {}",
                                  nb::cast<std::string>(nb::repr(implementation))));
        }
        const Operand q = operand(query, name, "query");
        const Operand k = operand(key, name, "key");
        const Operand v = operand(value, name, "value");
        const nn::AttentionOptions options{
            .bias = maybe_array(bias, name, "bias"),
            .scale = scale.is_none() ? std::nullopt : std::optional(number_or_array(scale, name, "scale")),
            .is_causal = is_causal};
        const Visible visible{.mask = maybe_array(mask, name, "mask"),
                              .window = window_of(local_window_size),
                              .query_lengths = maybe_array(query_seq_lengths, name, "query_seq_lengths"),
                              .key_lengths = maybe_array(key_value_seq_lengths, name, "key_value_seq_lengths")};
        if (visible.mask && visible.mask->dtype() != bool_) {
          value_error(fmt::format("mask dtype should be bool, but got {}", name_of(visible.mask->dtype())));
        }
        return unlocked([&] { return attention(q, k, v, options, visible); });
      },
      "query"_a.none(), "key"_a.none(), "value"_a.none(), "bias"_a = nb::none(), "mask"_a = nb::none(), nb::kw_only(),
      "scale"_a = nb::none(), "is_causal"_a = false, "query_seq_lengths"_a = nb::none(),
      "key_value_seq_lengths"_a = nb::none(), "local_window_size"_a = nb::none(), "implementation"_a = nb::none(),
      "return_residual"_a = false,
      "Each query's mean of the values, weighted by the softmax of its products with the keys.");
}

}  // namespace

void bind_nn(nb::module_& m) {
  bind_elementwise(m);
  bind_dimensions(m);
  bind_attention(m);
}

}  // namespace shoal::python
