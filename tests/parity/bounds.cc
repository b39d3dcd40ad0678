#include "bounds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "oracle.h"

namespace shoal::parity {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool is_inexact(Dtype dtype) { return is_floating(dtype) || is_complex(dtype); }

double unit_roundoff(Dtype dtype) {
  switch (real_dtype(dtype)) {
    case Dtype::kF16:
      return 0x1p-11;
    case Dtype::kBF16:
      return 0x1p-8;
    case Dtype::kF32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

double greatest(Dtype dtype) {
  switch (real_dtype(dtype)) {
    case Dtype::kF16:
      return 65504;
    case Dtype::kBF16:
    case Dtype::kF32:
      return 3e38;
    default:
      return 1e308;
  }
}

// The error of a sum of n terms with absolute values adding up to `scale`, beyond that of the terms.
double sum_error(Dtype dtype, double n, double scale, bool exact_terms) {
  if (exact_terms && scale <= 1 / unit_roundoff(dtype)) return 0;
  return (8 * unit_roundoff(dtype) + 2 * n * 0x1p-53) * scale * (is_complex(dtype) ? 4 : 1);
}

bool is_exact_integer(const Known& known) { return known.error == 0 && all_integers(known.value); }

double count_of(const Known& in, const Buffer& out) {
  const std::int64_t results = num_elements(out.shape());
  return results == 0 ? 0 : static_cast<double>(num_elements(in.value.shape()) / results);
}

// The number of products that make one element of a contraction or convolution.
double contracted_count(std::string_view name, const Known& lhs, const Known& rhs, const Attrs& attrs) {
  double extent = 1;
  if (name == "convolution") {
    const Shape& shape = rhs.value.shape();
    for (std::size_t d = 1; d < shape.size(); ++d) extent *= static_cast<double>(shape[d]);
    return extent;
  }
  for (std::int64_t d : attrs.get<Dims>("lhs_contract")) {
    extent *= static_cast<double>(lhs.value.shape()[static_cast<std::size_t>(d)]);
  }
  return extent;
}

// The numbers of one transform.
double transformed_count(const Attrs& attrs) {
  double count = 1;
  for (std::int64_t length : attrs.get<Shape>("lengths")) count *= static_cast<double>(length);
  return count;
}

// The most elements of which one is the sum or product.
double reduced_count(std::string_view name, const Attrs& attrs, const std::vector<Known>& in, const Buffer& out) {
  if (name == "reduce_window") return static_cast<double>(num_elements(attrs.get<Dims>("window")));
  if (name.starts_with("cum")) return static_cast<double>(num_elements(in[0].value.shape()));
  if (name != "scatter_reduce") return count_of(in[0], out);
  return in.size() > 1 ? static_cast<double>(num_elements(in[1].value.shape())) : 1;
}

bool is_sum_or_product(std::string_view name, const Attrs& attrs) {
  static const std::set<std::string_view> names = {"reduce_sum", "reduce_prod", "dot_general", "cumsum",
                                                   "cumprod",    "convolution", "fft"};
  if (name != "scatter_reduce" && name != "reduce_window") return names.contains(name);
  const std::string& kind = attrs.get<std::string>("kind");
  return kind == "sum" || kind == "prod";
}

// Sums, products and contractions.
void analyse_reduction(std::string_view name, const Attrs& attrs, const std::vector<Known>& in, Known& out) {
  const Dtype dtype = out.value.dtype();
  const Known& x = in[0];
  out.reduced = true;
  const bool has_kind = name == "scatter_reduce" || name == "reduce_window";
  if (name == "reduce_sum" || name == "cumsum" || (has_kind && attrs.get<std::string>("kind") == "sum")) {
    const double n = reduced_count(name, attrs, in, out.value);
    out.scale = n * x.scale;
    out.error = n * x.error + sum_error(dtype, n, out.scale, is_exact_integer(x));
  } else if (name == "fft") {
    const double n = transformed_count(attrs);
    out.scale = n * x.scale;
    out.error = n * x.error + sum_error(dtype, n, out.scale, false);
  } else if (name == "dot_general" || name == "convolution") {
    const Known& y = in[1];
    const double n = contracted_count(name, x, y, attrs);
    out.scale = n * x.scale * y.scale;
    out.error = n * (x.error * y.scale + y.error * x.scale + x.error * y.error) +
                sum_error(dtype, n, out.scale, is_exact_integer(x) && is_exact_integer(y));
  } else {
    const double n = reduced_count(name, attrs, in, out.value);
    out.scale = std::pow(std::max(x.scale, 1.0), n);
    const double relative = sum_error(dtype, n, 1, false) * magnitude_of(out.value) + n * out.scale * 1e-38;
    const bool exact = is_exact_integer(x) && out.scale <= 1 / unit_roundoff(dtype);
    out.error = exact ? 0 : x.error > 0 ? kInf : relative;
  }
  if (!(out.scale < greatest(dtype) / 4)) out.error = kInf;
  if (name != "scatter_reduce") return;
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].error > 0) out.error = kInf;  // An index that is not known.
  }
}

// Cotangents of queries have the same bits everywhere. Those of keys and values are sums over queries, of products with
// weights, which are at most 1, and with their slopes.
void analyse_attention_gradient(const std::vector<Known>& in, std::size_t result, Known& out) {
  const auto n = static_cast<double>(num_elements(in[0].value.shape()));
  out.scale = n * in[0].scale;
  if (result == 1) out.scale *= 2 * in[3].scale * static_cast<double>(in[3].value.shape().back()) * in[1].scale;
  out.error = result == 0 ? 0 : sum_error(out.value.dtype(), n, out.scale, false);
  if (std::any_of(in.begin(), in.end(), [](const Known& one) { return one.error > 0; })) out.error = kInf;
}

// Ops whose results have the error of their operand.
bool keeps_error(std::string_view name) {
  static const std::set<std::string_view> names = {"negative",
                                                   "real",
                                                   "imag",
                                                   "conj",
                                                   "reshape",
                                                   "transpose",
                                                   "slice",
                                                   "reverse",
                                                   "broadcast_in_dim",
                                                   "sharding_constraint",
                                                   "relax_axes",
                                                   "pcast",
                                                   "to_memory",
                                                   "abs",
                                                   "reduce_max",
                                                   "reduce_min"};
  return names.contains(name);
}

// Ops whose results hold elements of their operands. Indices among these are exact, or nothing is known of the result.
bool picks_elements(std::string_view name) {
  static const std::set<std::string_view> names = {"maximum", "minimum",       "concatenate",
                                                   "pad",     "dynamic_slice", "dynamic_update_slice"};
  return names.contains(name);
}

// Functions of real numbers with a derivative below 1.2.
bool is_tame(std::string_view name) {
  static const std::set<std::string_view> names = {"sin", "cos",  "tanh",   "logistic",
                                                   "erf", "erfc", "arctan", "arcsinh"};
  return names.contains(name);
}

// Functions that tell -0 from 0.
bool sees_sign_of_zero(std::string_view name) {
  static const std::set<std::string_view> names = {"divide",  "power",   "rsqrt",    "floor_divide", "reciprocal",
                                                   "arctan2", "signbit", "copysign", "nextafter",    "bitcast"};
  return names.contains(name);
}

// Functions of complex numbers that tell which side of a branch cut they are on by the sign of a zero.
bool has_branch_cut(std::string_view name) {
  static const std::set<std::string_view> names = {"log",    "log1p",   "sqrt",    "arcsin", "arccos",
                                                   "arctan", "arcsinh", "arccosh", "arctanh"};
  return names.contains(name);
}

void analyse_pointwise(std::string_view name, const std::vector<Known>& in, Known& out) {
  const Dtype dtype = out.value.dtype();
  const double u = unit_roundoff(dtype);
  const double magnitude = magnitude_of(out.value);
  const double error =
      std::max_element(in.begin(), in.end(), [](const Known& a, const Known& b) { return a.error < b.error; })->error;
  out.scale = magnitude;
  if (!is_inexact(dtype)) {
    out.error = error > 0 ? kInf : 0;
    out.reduced = false;
  } else if (name == "add" || name == "subtract") {
    out.scale = in[0].scale + in[1].scale;
    out.error = in[0].error + in[1].error;
    const bool exact = is_exact_integer(in[0]) && is_exact_integer(in[1]) && out.scale <= 1 / u;
    if (!exact) out.error += 16 * u * out.scale;  // Partial sums may be added before they are complete.
  } else if (error == 0) {
    out.error = 0;
  } else if (name == "multiply") {
    out.error = in[0].error * in[1].scale + in[1].error * in[0].scale + in[0].error * in[1].error +
                16 * u * in[0].scale * in[1].scale;
  } else if (picks_elements(name) || name == "complex" || (name == "select" && in[0].error == 0)) {
    out.error = error;
  } else if (is_tame(name) && !is_complex(dtype)) {
    out.error = 1.2 * error + 8 * u;
  } else if (name == "convert") {
    out.error = error + 2 * u * (magnitude + error);
  } else {
    out.error = kInf;
  }
  if (is_complex(dtype) && has_branch_cut(name)) out.error = kInf;
  if (sees_sign_of_zero(name) || !(magnitude < greatest(dtype) / 4)) out.error = kInf;
}

void analyse_call(const Eqn& eqn, const std::vector<Known>& in, Known& out) {
  out.reduced = true;
  out.scale = magnitude_of(out.value);
  const bool exact = std::all_of(in.begin(), in.end(), is_exact_integer) && all_integers(out.value) &&
                     out.scale * 64 <= 1 / unit_roundoff(out.value.dtype());
  const bool integers = !is_inexact(out.value.dtype()) &&
                        std::all_of(in.begin(), in.end(), [](const Known& one) { return one.error == 0; });
  out.error = exact || integers ? 0 : kInf;
  (void)eqn;
}

// Every value of a body, whose last results are its outputs.
std::vector<Known> analyse_body(const Graph& body, const std::vector<Known>& arguments) {
  std::vector<Known> values(body.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) values[slot(body.inputs[i])] = arguments[i];
  for (const Eqn& inner : body.eqns) {
    std::vector<Known> in;
    for (ValueId id : inner.inputs) in.push_back(values[slot(id)]);
    std::vector<Known> out = analyse(body, inner, in);
    for (std::size_t i = 0; i < out.size(); ++i) values[slot(inner.outputs[i])] = std::move(out[i]);
  }
  std::vector<Known> results;
  for (ValueId id : body.outputs) results.push_back(values[slot(id)]);
  return results;
}

// The results of a loop or branch: the oracle's values, and of each the worst that is known of any trip.
std::vector<Known> analyse_control(const Graph& graph, const Eqn& eqn, const std::vector<Known>& operands) {
  const auto& bodies = eqn.attrs.get<std::vector<GraphAttr>>("bodies");
  const Control control = eqn.op->control(eqn.attrs);
  std::vector<Buffer> data;
  for (const Known& operand : operands) data.push_back(operand.value);
  const std::vector<Buffer> values = evaluate(graph, eqn, data);
  std::vector<Known> results;
  for (const Buffer& value : values) results.push_back({.value = value, .scale = 0, .error = 0, .reduced = false});
  const auto take = [](Known& result, const Known& more) {
    result.scale = std::max(result.scale, more.scale);
    result.error = std::max(result.error, more.error);
    result.reduced = result.reduced || more.reduced;
  };
  if (!control.loops) {
    std::size_t chosen = 0;
    if (control.first_argument == 1) {
      std::int32_t index = 0;
      std::memcpy(&index, data[0].data(), sizeof index);
      chosen = static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, std::ssize(bodies) - 1));
    }
    return analyse_body(*bodies[chosen].graph,
                        {operands.begin() + static_cast<std::ptrdiff_t>(control.first_argument), operands.end()});
  }
  std::vector<Known> arguments = operands;
  const auto slice = [&](const Known& stack, std::int64_t at) {
    const auto& shape = stack.value.shape();
    const Shape rest(shape.begin() + 1, shape.end());
    Known one = stack;
    one.value = make_buffer(stack.value.dtype(), rest);
    const std::size_t bytes = one.value.size_bytes();
    if (bytes != 0) {
      std::memcpy(one.value.mutable_data(),
                  static_cast<const std::byte*>(stack.value.data()) + static_cast<std::size_t>(at) * bytes, bytes);
    }
    return one;
  };
  for (std::int64_t trip = 0;; ++trip) {
    if (control.trips && trip == *control.trips) break;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!control.is_slice(i)) continue;
      arguments[i] = slice(operands[i], control.reverse ? *control.trips - 1 - trip : trip);
    }
    if (control.asks) {
      const Known answer = analyse_body(*bodies[0].graph, arguments)[0];
      bool yes = false;
      std::memcpy(&yes, answer.value.data(), 1);
      if (!yes) break;
    }
    const std::vector<Known> yields = analyse_body(*bodies.back().graph, arguments);
    for (std::size_t i = 0; i < yields.size(); ++i) {
      if (i < control.carries) {
        arguments[i] = yields[i];
      } else {
        take(results[i], yields[i]);
      }
    }
  }
  for (std::size_t i = 0; i < control.carries; ++i) results[i] = arguments[i];
  return results;
}

}  // namespace

Known known_input(Buffer value) {
  const double scale = magnitude_of(value);
  return {.value = std::move(value), .scale = scale, .error = 0, .reduced = false};
}

std::vector<Known> analyse(const Graph& graph, const Eqn& eqn, const std::vector<Known>& operands) {
  std::vector<Known> results;
  if (eqn.op->name == "jit") return analyse_body(eqn.attrs.graph(), operands);
  if (eqn.op->op_class == OpClass::kControl) return analyse_control(graph, eqn, operands);
  std::vector<Buffer> data;
  bool reduced = false;
  for (const Known& operand : operands) {
    data.push_back(operand.value);
    reduced = reduced || operand.reduced;
  }
  for (Buffer& value : evaluate(graph, eqn, data)) {
    Known out{.value = std::move(value), .scale = 0, .error = 0, .reduced = reduced};
    const std::string_view name = eqn.op->name;
    const bool inexact = is_inexact(out.value.dtype());
    if (eqn.op->name == "shard_map") {
      analyse_call(eqn, operands, out);
    } else if (operands.empty()) {
      out.scale = magnitude_of(out.value);
    } else if (inexact && is_sum_or_product(name, eqn.attrs)) {
      analyse_reduction(name, eqn.attrs, operands, out);
    } else if (name == "attention_gradient") {
      analyse_attention_gradient(operands, results.size(), out);
    } else if (keeps_error(name)) {
      out.scale = operands[0].scale;
      out.error = operands[0].error;
    } else if (reduced) {
      analyse_pointwise(name, operands, out);
    } else {
      out.scale = magnitude_of(out.value);
    }
    if (std::isnan(out.error)) out.error = kInf;  // Of an infinity times nothing.
    results.push_back(std::move(out));
  }
  return results;
}

std::vector<Known> analyse(const Graph& graph, const std::vector<Buffer>& inputs) {
  std::vector<Known> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(graph.inputs[i])] = known_input(inputs[i]);
  }
  for (const Eqn& eqn : graph.eqns) {
    std::vector<Known> operands;
    for (ValueId id : eqn.inputs) operands.push_back(values[static_cast<std::size_t>(id)]);
    std::vector<Known> results = analyse(graph, eqn, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      values[static_cast<std::size_t>(eqn.outputs[i])] = std::move(results[i]);
    }
  }
  return values;
}

}  // namespace shoal::parity
