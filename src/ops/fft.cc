// Fourier transforms over one or more dimensions: fft.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dispatch.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

constexpr std::string_view kKinds[] = {"fft", "ifft", "rfft", "irfft"};

// What an equation transforms. The last of `dims` is the one that real transforms have half of.
struct Transform {
  bool inverse;
  bool real;
  Dims dims;
  Shape lengths;

  explicit Transform(const Attrs& attrs) : dims(attrs.get<Dims>("dims")), lengths(attrs.get<Shape>("lengths")) {
    const std::string& kind = attrs.get<std::string>("transform");
    inverse = kind == kKinds[1] || kind == kKinds[3];
    real = kind == kKinds[2] || kind == kKinds[3];
  }

  std::size_t last() const { return static_cast<std::size_t>(dims.back()); }
  std::int64_t half() const { return lengths.back() / 2 + 1; }
};

Dtype complex_of(Dtype dtype) { return real_dtype(dtype) == float64 ? complex128 : complex64; }

std::vector<Type> infer_fft(const InferContext& context) {
  const std::string& kind = context.attrs.get<std::string>("transform");
  if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) {
    infer_error(context, fmt::format("transform \"{}\" must be one of \"{}\"", kind, fmt::join(kKinds, "\", \"")));
  }
  const Type& in = context.inputs[0];
  checked_dims(context, "dims");
  const Transform transform(context.attrs);
  const bool takes_real = transform.real && !transform.inverse;
  if (takes_real ? in.dtype != float32 && in.dtype != float64 : !is_complex(in.dtype)) {
    infer_error(context, fmt::format("a transform \"{}\" takes {}, not {}", kind,
                                     takes_real ? "f32 and f64" : "c64 and c128", to_string(in)));
  }
  if (transform.dims.empty() || transform.dims.size() != transform.lengths.size()) {
    infer_error(context, fmt::format("there are {} dimensions and {} lengths; there must be as many, and one at least",
                                     transform.dims.size(), transform.lengths.size()));
  }
  Shape shape = in.shape;
  for (std::size_t i = 0; i < transform.dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(transform.dims[i]);
    const std::int64_t length = transform.lengths[i];
    const bool is_half = transform.real && d == transform.last();
    const std::int64_t wanted = is_half && transform.inverse ? transform.half() : length;
    if (length < 0 || (is_half && length < 1) || in.shape[d] != wanted) {
      infer_error(context, fmt::format("dimension {} of the operand {} does not fit length {} of a transform \"{}\"; "
                                       "it must have {} elements{}",
                                       d, to_string(in), length, kind, wanted,
                                       is_half && transform.inverse ? ", half of them and 1" : ""));
    }
    shape[d] = is_half && !transform.inverse ? transform.half() : length;
  }
  Type result = like_operands(context, std::move(shape));
  result.dtype = transform.real && transform.inverse ? real_dtype(in.dtype) : complex_of(in.dtype);
  result.weak = false;
  return {std::move(result)};
}

// The other dimensions pass.
ShardingRule fft_rule(const RuleContext& context) {
  const Dims& dims = context.attrs.get<Dims>("dims");
  ShardingRule rule;
  const Shape& in = context.inputs[0].shape;
  const Shape& out = context.outputs[0].shape;
  TensorFactors operand;
  TensorFactors result;
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end()) {
      operand.push_back({rule.add_factor(in[d], FactorKind::kPassThrough)});
      result.push_back(operand.back());
    } else {
      operand.push_back({rule.add_factor(in[d], FactorKind::kNeedReplication)});
      result.push_back({rule.add_factor(out[d], FactorKind::kNeedReplication)});
    }
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  return rule;
}

// ---- By the definition, in f64.

using Complex = std::complex<double>;

struct Line {
  std::int64_t start;
  std::int64_t stride;
};

// Calls f for the lines of a row-major array along a dimension, each with its start among lines of another extent too.
template <class F>
void for_each_fft_line(Shape shape, std::size_t dim, std::int64_t other_extent, F&& f) {
  const std::int64_t extent = shape[dim];
  const std::int64_t stride = row_major_strides(shape)[dim];
  shape[dim] = 1;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    const std::int64_t outer = i / stride;
    const std::int64_t inner = i % stride;
    f(Line{outer * extent * stride + inner, stride}, Line{outer * other_extent * stride + inner, stride});
  }
}

// The numbers exp(±2 pi i k / n).
std::vector<Complex> roots_of_one(std::int64_t n, bool inverse) {
  std::vector<Complex> roots;
  for (std::int64_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots.emplace_back(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
  }
  return roots;
}

// `given` elements of each line become `length`, those beyond being what element(line, k) says of them.
template <class Element>
std::vector<Complex> transformed(const Shape& shape, std::size_t dim, std::int64_t length, bool inverse,
                                 Element&& element) {
  Shape result_shape = shape;
  result_shape[dim] = length;
  std::vector<Complex> result(static_cast<std::size_t>(num_elements(result_shape)));
  const std::vector<Complex> roots = roots_of_one(length, inverse);
  for_each_fft_line(shape, dim, length, [&](const Line& from, const Line& to) {
    for (std::int64_t k = 0; k < length; ++k) {
      Complex sum = 0;
      for (std::int64_t j = 0; j < length; ++j) {
        sum += element(from, j) * roots[static_cast<std::size_t>(j * k % length)];
      }
      result[static_cast<std::size_t>(to.start + k * to.stride)] = inverse ? sum / static_cast<double>(length) : sum;
    }
  });
  return result;
}

void fft(const KernelContext& context) {
  const Transform transform(context.attrs);
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  std::vector<Complex> values(static_cast<std::size_t>(num_elements(in.shape)));
  with_element_type(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsComplexElement<T> || std::is_floating_point_v<T>) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = Complex(in.as<T>()[i]);
    }
  });
  Shape shape = in.shape;
  const auto at = [&](const Line& line, std::int64_t j) {
    return values[static_cast<std::size_t>(line.start + j * line.stride)];
  };
  for (std::size_t i = 0; i < transform.dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(transform.dims[i]);
    const std::int64_t n = transform.lengths[i];
    if (!(transform.real && transform.inverse && d == transform.last())) {
      values = transformed(shape, d, n, transform.inverse, at);
      continue;
    }
    // The other half has the conjugates in reverse, and what is its own conjugate is real.
    values = transformed(shape, d, n, true, [&](const Line& line, std::int64_t j) {
      if (j == 0 || 2 * j == n) return Complex(at(line, j).real());
      return 2 * j < n ? at(line, j) : std::conj(at(line, n - j));
    });
    shape[d] = n;
  }
  // Of the results of real numbers, the first half of the last dimension.
  with_element_type(out.dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsComplexElement<T> || std::is_floating_point_v<T>) {
      const Dims strides = row_major_strides(shape);
      for_each_index(out.shape, [&](std::int64_t i, const Dims& position) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < position.size(); ++d) offset += position[d] * strides[d];
        const Complex& value = values[static_cast<std::size_t>(offset)];
        if constexpr (kIsComplexElement<T>) {
          out.as<T>()[i] = static_cast<T>(value);
        } else {
          out.as<T>()[i] = static_cast<T>(value.real());
        }
      });
    }
  });
}

// As is usual, whatever the factors of the length are.
double fft_flops(const RuleContext& context) {
  const Transform transform(context.attrs);
  double elements = 1;
  for (std::size_t d = 0; d < context.inputs[0].rank(); ++d) {
    elements *= static_cast<double>(std::min(context.inputs[0].shape[d], context.outputs[0].shape[d]));
  }
  double steps = 0;
  for (std::int64_t length : transform.lengths)
    steps += std::log2(static_cast<double>(std::max<std::int64_t>(length, 1)));
  return 5 * elements * steps;
}

// ---- Derivatives.

// Of the numbers that a real transform has half of, 1 for those that stand for themselves alone and `doubled` for the
// others, along the last transformed dimension of a type.
// The type is a copy: those of the graph move when values are added.
ValueId weights_of_half(Builder& build, Type type, const Transform& transform, double doubled) {
  const bool is_even = transform.lengths.back() % 2 == 0;
  const auto scalar = [&](double x) { return Scalar::of(x).converted_to(type.dtype); };
  const ValueId inner = build.full(scalar(doubled), {transform.half() - 1 - (is_even ? 1 : 0)});
  const ValueId line = build.pad(inner, build.full(scalar(1)), {1}, {is_even ? 1 : 0}, {0});
  return build.broadcast_in_dim(line, type.shape, {transform.dims.back()});
}

std::vector<MaybeValue> transpose_fft(const TransposeContext& context) {
  Builder& build = context.build;
  const Transform transform(context.attrs);
  const ValueId given = context.cotangent();
  if (!transform.real) return {build.apply(context.op.name, context.attrs, {given})};
  Attrs attrs = context.attrs;
  attrs.set("transform", std::string(kKinds[transform.inverse ? 2 : 3]));
  double count = 1;
  for (std::int64_t length : transform.lengths) count *= static_cast<double>(length);
  const auto scaled = [&](ValueId x, double factor) {
    return build.multiply(x, build.full(Scalar::of(factor).converted_to(build.type(x).dtype)));
  };
  if (!transform.inverse) {
    const ValueId weights = weights_of_half(build, build.type(given), transform, 0.5);
    const ValueId halved = build.multiply(build.elementwise("conj", {given}), weights);
    return {scaled(build.apply(context.op.name, std::move(attrs), {halved}), count)};
  }
  const ValueId result = build.apply(context.op.name, std::move(attrs), {given});
  const ValueId weights = weights_of_half(build, build.type(result), transform, 2);
  return {build.elementwise("conj", {scaled(build.multiply(result, weights), 1 / count)})};
}

const std::array kFftOps = {
    OpDef{.name = "fft",
          .doc =
              "The Fourier transform over `dims`, whose extents are `lengths`: \"fft\", \"ifft\", \"rfft\" "
              "of real numbers, of which the last of the dimensions has the first half, or \"irfft\" of such a half. "
              "Inverses divide by the number of elements.",
          .infer = infer_fft,
          .rule = fft_rule,
          .reference = fft,
          .flops = fft_flops,
          .linear = Linear::kTogether,
          .transpose = transpose_fft,
          .attributes = {{.name = "transform"}, {.name = "dims", .role = AttrRole::kDims}, {.name = "lengths"}}},
};

}  // namespace

std::span<const OpDef> fft_ops() { return kFftOps; }

}  // namespace shoal
