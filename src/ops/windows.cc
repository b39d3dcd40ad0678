// Ops that join arrays, and that take, replace or surround windows of them: concatenate, pad, reverse, dynamic_slice,
// dynamic_update_slice; and bitcast, which reads the same bytes as another dtype.
//
// What is sharded along a dimension that these ops leave alone stays where it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/dispatch.h"
#include "ir/makers.h"
#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

// A rule of operands that have the result's rank, then `scalars` operands that have none, for ops that move elements
// along the touched dimensions: all may be split along them.
template <class F>
ShardingRule rearranging_rule(const RuleContext& context, std::size_t scalars, F&& touched) {
  ShardingRule rule;
  const Shape& result = context.outputs[0].shape;
  TensorFactors dims;
  for (std::size_t d = 0; d < result.size(); ++d) {
    dims.push_back({rule.add_factor(result[d], touched(d) ? FactorKind::kRearranged : FactorKind::kPassThrough)});
  }
  rule.operands.assign(context.inputs.size() - scalars, dims);
  rule.operands.resize(context.inputs.size());
  rule.results.push_back(std::move(dims));
  return rule;
}

Dims with_entry(Dims dims, std::size_t d, std::int64_t value) {
  dims[d] = value;
  return dims;
}

void check_same_dtype(const InferContext& context, const Type& a, const Type& b) {
  if (a.dtype == b.dtype) return;
  infer_error(context,
              fmt::format("operands {} and {} have different dtypes; they must be equal", to_string(a), to_string(b)));
}

bool is_weak(std::span<const Type> types) {
  return std::all_of(types.begin(), types.end(), [](const Type& type) { return type.weak; });
}

// ---- concatenate

std::vector<Type> infer_concatenate(const InferContext& context) {
  if (context.inputs.empty()) infer_error(context, "there are no operands; it takes at least one");
  const Type& first = context.inputs[0];
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  if (dim < 0 || static_cast<std::size_t>(dim) >= first.rank()) {
    infer_error(context,
                fmt::format("dim is {}, but operand {} has {} dimensions", dim, to_string(first), first.rank()));
  }
  Shape shape = first.shape;
  shape[static_cast<std::size_t>(dim)] = 0;
  for (const Type& type : context.inputs) {
    check_same_dtype(context, first, type);
    bool fits = type.rank() == first.rank();
    for (std::size_t d = 0; fits && d < first.rank(); ++d) {
      fits = d == static_cast<std::size_t>(dim) || type.shape[d] == first.shape[d];
    }
    if (!fits) {
      infer_error(context, fmt::format("operands {} and {} do not fit: all dimensions but {}, along which they are "
                                       "joined, must be equal",
                                       to_string(first), to_string(type), dim));
    }
    std::int64_t& extent = shape[static_cast<std::size_t>(dim)];
    extent = extent_sum(context, extent, type.shape[static_cast<std::size_t>(dim)]);
  }
  Type result = like_operands(context, std::move(shape));
  result.weak = is_weak(context.inputs);
  return {std::move(result)};
}

void concatenate(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  const Dims strides = row_major_strides(out.shape);
  std::int64_t start = 0;
  for (const TensorView& in : context.inputs) {
    scatter_elements(in, out, [&](const Dims& at) {
      std::int64_t offset = start * strides[dim];
      for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
      return offset;
    });
    start += in.shape[dim];
  }
}

ShardingRule concatenate_rule(const RuleContext& context) {
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  return rearranging_rule(context, 0, [&](std::size_t d) { return d == dim; });
}

Rearrangement rearrange_concatenate(const RuleContext& context, std::size_t dim) {
  Rearrangement joined{.runs = {}, .operands = {}, .fill = {}, .rest = {}};
  std::int64_t start = 0;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const std::int64_t extent = context.inputs[i].shape[dim];
    joined.runs.push_back({.operand = static_cast<std::int64_t>(i), .count = extent, .out_start = start});
    joined.operands.push_back(i);
    start += extent;
  }
  return joined;
}

// ---- pad

std::vector<Type> infer_pad(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Type& value = context.inputs[1];
  const Dims& low = context.attrs.get<Dims>("low");
  const Dims& high = context.attrs.get<Dims>("high");
  const Dims& interior = context.attrs.get<Dims>("interior");
  check_same_dtype(context, in, value);
  if (value.rank() != 0) {
    infer_error(context, fmt::format("the padding value is {}; it must be a scalar", to_string(value)));
  }
  if (low.size() != in.rank() || high.size() != in.rank() || interior.size() != in.rank()) {
    infer_error(context, fmt::format("low {}, high {} and interior {} must have one entry for each dimension of "
                                     "operand {}",
                                     to_string(low), to_string(high), to_string(interior), to_string(in)));
  }
  Shape shape;
  for (std::size_t d = 0; d < in.rank(); ++d) {
    if (interior[d] < 0) {
      infer_error(context, fmt::format("interior {} has a negative entry", to_string(interior)));
    }
    const std::int64_t spread =
        in.shape[d] == 0 ? 0 : extent_sum(context, in.shape[d], extent_product(context, in.shape[d] - 1, interior[d]));
    shape.push_back(extent_sum(context, extent_sum(context, low[d], spread), high[d]));
    if (shape[d] < 0) {
      infer_error(context,
                  fmt::format("dimension {} of operand {} would have extent {} after padding by {} below and {} "
                              "above; it must be at least 0",
                              d, to_string(in), shape[d], low[d], high[d]));
    }
  }
  Type result = like_operands(context, std::move(shape));
  result.weak = is_weak(context.inputs);
  return {std::move(result)};
}

void pad(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  const Dims& low = context.attrs.get<Dims>("low");
  const Dims& interior = context.attrs.get<Dims>("interior");
  const Dims strides = row_major_strides(out.shape);
  gather_elements(context.inputs[1], out, [](const Dims&) { return 0; });
  scatter_elements(in, out, [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const std::int64_t position = low[d] + at[d] * (interior[d] + 1);
      if (position < 0 || position >= out.shape[d]) return std::int64_t{-1};  // Cut off by negative padding.
      offset += position * strides[d];
    }
    return offset;
  });
}

bool is_padded(const Attrs& attrs, std::size_t d) {
  return attrs.get<Dims>("low")[d] != 0 || attrs.get<Dims>("high")[d] != 0 || attrs.get<Dims>("interior")[d] != 0;
}

ShardingRule pad_rule(const RuleContext& context) {
  return rearranging_rule(context, 1, [&](std::size_t d) { return is_padded(context.attrs, d); });
}

Rearrangement rearrange_pad(const RuleContext& context, std::size_t dim) {
  const Run run{.count = context.inputs[0].shape[dim],
                .out_start = context.attrs.get<Dims>("low")[dim],
                .out_step = context.attrs.get<Dims>("interior")[dim] + 1};
  Rearrangement padded{.runs = {run}, .operands = {0}, .fill = 1, .rest = {}};
  Attrs rest = context.attrs;
  for (const char* name : {"low", "high", "interior"}) rest.set(name, with_entry(rest.get<Dims>(name), dim, 0));
  for (std::size_t d = 0; d < context.inputs[0].rank(); ++d) {
    if (is_padded(rest, d)) padded.rest = rest;
  }
  return padded;
}

// ---- reverse

std::vector<Type> infer_reverse(const InferContext& context) {
  checked_dims(context, "dims");
  return {like_operands(context, context.inputs[0].shape)};
}

bool is_reversed(const Attrs& attrs, std::size_t d) {
  const Dims& dims = attrs.get<Dims>("dims");
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
}

void reverse(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const Dims strides = row_major_strides(in.shape);
  gather_elements(in, context.outputs[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      offset += strides[d] * (is_reversed(context.attrs, d) ? in.shape[d] - 1 - at[d] : at[d]);
    }
    return offset;
  });
}

ShardingRule reverse_rule(const RuleContext& context) {
  return rearranging_rule(context, 0, [&](std::size_t d) { return is_reversed(context.attrs, d); });
}

Rearrangement rearrange_reverse(const RuleContext& context, std::size_t dim) {
  const std::int64_t extent = context.inputs[0].shape[dim];
  Rearrangement reversed{.runs = {{.count = extent, .in_start = extent - 1, .in_step = -1}}};
  Dims dims = context.attrs.get<Dims>("dims");
  dims.erase(std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(dim)));
  if (!dims.empty()) reversed.rest = Attrs{{"dims", std::move(dims)}};
  return reversed;
}

// ---- roll

std::vector<Type> infer_roll(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Dims& shifts = context.attrs.get<Dims>("shifts");
  bool inside = shifts.size() == in.rank();
  for (std::size_t d = 0; inside && d < in.rank(); ++d)
    inside = shifts[d] == 0 || (shifts[d] > 0 && shifts[d] < in.shape[d]);
  if (!inside) {
    infer_error(context, fmt::format("shifts {} must have one entry for each dimension of operand {}, at least 0 and "
                                     "below its extent",
                                     to_string(shifts), to_string(in)));
  }
  return {like_operands(context, in.shape)};
}

void roll(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const Dims& shifts = context.attrs.get<Dims>("shifts");
  const Dims strides = row_major_strides(in.shape);
  gather_elements(in, context.outputs[0], [&](const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      offset += strides[d] * (at[d] >= shifts[d] ? at[d] - shifts[d] : at[d] - shifts[d] + in.shape[d]);
    }
    return offset;
  });
}

ShardingRule roll_rule(const RuleContext& context) {
  return rearranging_rule(context, 0, [&](std::size_t d) { return context.attrs.get<Dims>("shifts")[d] != 0; });
}

Rearrangement rearrange_roll(const RuleContext& context, std::size_t dim) {
  const Dims& shifts = context.attrs.get<Dims>("shifts");
  const std::int64_t extent = context.inputs[0].shape[dim];
  const std::int64_t shift = shifts[dim];
  Rearrangement rolled{
      .runs = {{.count = shift, .in_start = extent - shift}, {.count = extent - shift, .out_start = shift}}};
  Dims rest = with_entry(shifts, dim, 0);
  if (std::any_of(rest.begin(), rest.end(), [](std::int64_t more) { return more != 0; })) {
    rolled.rest = Attrs{{"shifts", std::move(rest)}};
  }
  return rolled;
}

// ---- dynamic_slice and dynamic_update_slice
//
// Where a split dimension is cut, each shard takes or changes what it holds of the window. So the ops see where their
// shards begin, and for shards the attributes `extents` and `window` give the extents of the whole operand and window.

// The operands from `first` on must be integer scalars, one for each dimension of operand 0.
void check_starts(const InferContext& context, std::size_t first) {
  const Type& in = context.inputs[0];
  if (context.inputs.size() != first + in.rank()) {
    infer_error(context, fmt::format("operand {} needs {} start indices, one for each dimension; got {}", to_string(in),
                                     in.rank(), context.inputs.size() - first));
  }
  for (const Type& start : context.inputs.subspan(first)) {
    if (start.rank() == 0 && is_integer(start.dtype)) continue;
    infer_error(context, fmt::format("a start index is {}; it must be an integer scalar", to_string(start)));
  }
}

// Where the window begins in the whole operand, moved so that it lies inside.
Dims window_start(const Attrs& attrs, std::span<const TensorView> starts, const Shape& local_shape,
                  const Shape& local_window) {
  const auto* extents = attrs.find_as<Dims>("extents");
  const Shape& shape = extents != nullptr ? *extents : local_shape;
  const Shape& window = extents != nullptr ? attrs.get<Dims>("window") : local_window;
  Dims result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t start = with_element_type(starts[d].dtype, [&](auto tag) -> std::int64_t {
      using T = decltype(tag);
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        const T value = *starts[d].as<T>();
        return std::in_range<std::int64_t>(value) ? static_cast<std::int64_t>(value)
                                                  : std::numeric_limits<std::int64_t>::max();
      } else {
        throw InternalError("a start index is an integer");
      }
    });
    result.push_back(std::clamp<std::int64_t>(start, 0, shape[d] - window[d]));
  }
  return result;
}

// The offset in a shard of the element at the given position of the whole, or nothing if another shard holds it.
std::optional<std::int64_t> offset_in(const TensorView& shard, const Dims& position, const Dims& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < position.size(); ++d) {
    const std::int64_t here = position[d] - shard.start_of(d);
    if (here < 0 || here >= shard.shape[d]) return std::nullopt;
    offset += here * strides[d];
  }
  return offset;
}

// The position in the whole operand of an element of a shard of the window.
Dims position_of(const Dims& at, const TensorView& shard, const Dims& window_start) {
  Dims position = at;
  for (std::size_t d = 0; d < at.size(); ++d) position[d] += shard.start_of(d) + window_start[d];
  return position;
}

// The extents of the whole operand, of which this one may be a shard.
const Shape& whole_extents(const InferContext& context) {
  const auto* extents = context.attrs.find_as<Dims>("extents");
  return extents != nullptr ? *extents : context.inputs[0].shape;
}

std::vector<Type> infer_dynamic_slice(const InferContext& context) {
  if (context.inputs.empty()) infer_error(context, "there is no operand to slice");
  const Type& in = context.inputs[0];
  const Dims& sizes = context.attrs.get<Dims>("sizes");
  check_starts(context, 1);
  const Shape& extents = whole_extents(context);
  bool inside = sizes.size() == in.rank();
  for (std::size_t d = 0; inside && d < in.rank(); ++d) inside = sizes[d] >= 0 && sizes[d] <= extents[d];
  if (!inside) {
    infer_error(context, fmt::format("sizes {} must have one entry for each dimension of operand {}, between 0 and its "
                                     "extent",
                                     to_string(sizes), to_string(in)));
  }
  Type result = like_operands(context, sizes);
  // Partial results of small floats are kept in f32.
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) result.dtype = *dtype;
  return {std::move(result)};
}

void dynamic_slice(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  const Dims start = window_start(context.attrs, context.inputs.subspan(1), in.shape, out.shape);
  const Dims strides = row_major_strides(in.shape);
  with_element_type(in.dtype, [&](auto in_tag) {
    using T = decltype(in_tag);
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      if constexpr (std::is_same_v<T, Out> || (kIsSmallFloat<T> && std::is_same_v<Out, float>)) {
        for_each_index(out.shape, [&](std::int64_t i, const Dims& at) {
          const auto offset = offset_in(in, position_of(at, out, start), strides);
          out.as<Out>()[i] = offset ? Out(in.as<T>()[*offset]) : nothing<Out>();
        });
      }
    });
  });
}

// The window is a sum over the shards of a dimension that it cuts; its own shards may be any part of it.
ShardingRule dynamic_slice_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  const Shape& out = context.outputs[0].shape;
  ShardingRule rule;
  rule.operands.resize(context.inputs.size());
  rule.operands[0] = own_factors(rule, in);
  rule.results.push_back(rule.operands[0]);
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (in[d] == out[d]) continue;
    rule.factors[d].kind = FactorKind::kReduction;
    rule.results[0][d] = {rule.add_factor(out[d])};
  }
  return rule;
}

Attrs localize_dynamic_slice(const LocalizeContext& context) {
  Attrs attrs = context.attrs;
  attrs.set("extents", context.inputs[0].shape);
  attrs.set("window", context.attrs.get<Dims>("sizes"));
  attrs.set("sizes", context.local_outputs[0].shape);
  return attrs;
}

std::vector<Type> infer_dynamic_update_slice(const InferContext& context) {
  if (context.inputs.size() < 2) infer_error(context, "it takes an operand and an update");
  const Type& in = context.inputs[0];
  const Type& update = context.inputs[1];
  check_same_dtype(context, in, update);
  const Shape& extents = whole_extents(context);
  bool inside = update.rank() == in.rank();
  for (std::size_t d = 0; inside && d < in.rank(); ++d) inside = update.shape[d] <= extents[d];
  if (!inside) {
    infer_error(context, fmt::format("the update {} must have the rank of operand {} and no greater extents",
                                     to_string(update), to_string(in)));
  }
  check_starts(context, 2);
  return {like_operands(context, in.shape)};
}

void dynamic_update_slice(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& update = context.inputs[1];
  const TensorView& out = context.outputs[0];
  const Dims start = window_start(context.attrs, context.inputs.subspan(2), in.shape, update.shape);
  const Dims strides = row_major_strides(out.shape);
  std::memcpy(out.data, in.data, static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
  scatter_elements(update, out, [&](const Dims& at) {
    return offset_in(out, position_of(at, update, start), strides).value_or(-1);
  });
}

// Along a dimension that the window cuts, each shard needs the whole update to find what it holds of it.
ShardingRule dynamic_update_slice_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  const Shape& update = context.inputs[1].shape;
  ShardingRule rule;
  rule.operands.resize(context.inputs.size());
  rule.operands[0] = own_factors(rule, in);
  rule.operands[1] = rule.operands[0];
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (in[d] != update[d]) rule.operands[1][d] = {rule.add_factor(update[d], FactorKind::kNeedReplication)};
  }
  rule.results.push_back(rule.operands[0]);
  return rule;
}

Attrs localize_dynamic_update_slice(const LocalizeContext& context) {
  Attrs attrs = context.attrs;
  attrs.set("extents", context.inputs[0].shape);
  attrs.set("window", context.inputs[1].shape);
  return attrs;
}

// ---- bitcast

std::vector<Type> infer_bitcast(const InferContext& context) {
  const Type& in = context.inputs[0];
  const Dtype dtype = context.attrs.get<Dtype>("dtype");
  const auto has_bits = [](Dtype type) { return type != bool_ && !is_complex(type); };
  if (in.dtype != dtype && (!has_bits(in.dtype) || !has_bits(dtype))) {
    infer_error(context, fmt::format("operand {} cannot be read as {}: bool and complex numbers have no other reading",
                                     to_string(in), name_of(dtype)));
  }
  const auto from = static_cast<std::int64_t>(size_of(in.dtype));
  const auto to = static_cast<std::int64_t>(size_of(dtype));
  Shape shape = in.shape;
  if (from > to) {
    shape.push_back(from / to);
  } else if (from < to) {
    if (shape.empty() || shape.back() * from != to) {
      infer_error(context, fmt::format("operand {} cannot be read as {}: its last dimension must have extent {}, the "
                                       "elements that make one",
                                       to_string(in), name_of(dtype), to / from));
    }
    shape.pop_back();
  }
  Type result = like_operands(context, std::move(shape));
  result.dtype = dtype;
  result.weak = false;
  return {std::move(result)};
}

// Where the window begins along a dimension of the operand, if that is a constant.
std::optional<std::int64_t> constant_start(const Eqn* maker, std::int64_t last) {
  if (maker == nullptr || maker->op->name != "full") return std::nullopt;
  const Scalar& value = maker->attrs.get<Scalar>("value");
  const bool is_beyond = value.dtype == uint64 && value.as<std::uint64_t>() > static_cast<std::uint64_t>(last);
  return is_beyond ? last : std::clamp<std::int64_t>(value.converted_to(int64).as<std::int64_t>(), 0, last);
}

// A window that begins where the program says is a slice, which shards exchange by what they need of each other.
std::optional<ValueId> simplify_dynamic_slice(Eqn& eqn, const Makers& makers) {
  const Type& in = makers.type(eqn.inputs[0]);
  if (in.explicit_axes || eqn.attrs.contains("extents") || eqn.attrs.contains("dtype")) return std::nullopt;
  const Dims sizes = eqn.attrs.get<Dims>("sizes");
  Dims starts;
  Dims limits;
  for (std::size_t d = 0; d < in.rank(); ++d) {
    const auto start = constant_start(makers.of(eqn.inputs[d + 1]), in.shape[d] - sizes[d]);
    if (!start) return std::nullopt;
    starts.push_back(*start);
    limits.push_back(*start + sizes[d]);
  }
  eqn.op = &op_named("slice");
  eqn.attrs = {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", Dims(in.rank(), 1)}};
  eqn.inputs.resize(1);
  return eqn.inputs[0];  // Of everything, if shapes are equal.
}

std::optional<ValueId> simplify_bitcast(Eqn& eqn, const Makers& makers) {
  const bool is_same = makers.type(eqn.inputs[0]).dtype == eqn.attrs.get<Dtype>("dtype");
  return is_same ? std::optional(eqn.inputs[0]) : std::nullopt;
}

void bitcast(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  std::memcpy(out.data, context.inputs[0].data, static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
}

// The dimension of the parts of one element is on one side only, and whole.
ShardingRule bitcast_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  const Shape& out = context.outputs[0].shape;
  ShardingRule rule;
  const TensorFactors common = own_factors(rule, in.size() < out.size() ? in : out);
  TensorFactors with_parts = common;
  if (in.size() != out.size()) {
    const Shape& longer = in.size() > out.size() ? in : out;
    with_parts.push_back({rule.add_factor(longer.back(), FactorKind::kNeedReplication)});
  }
  rule.operands.push_back(in.size() > out.size() ? with_parts : common);
  rule.results.push_back(in.size() < out.size() ? with_parts : common);
  return rule;
}

// ---- Derivatives.

std::vector<MaybeValue> transpose_concatenate(const TransposeContext& context) {
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  std::vector<MaybeValue> cotangents(context.operands.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    const Shape& shape = context.operands[i].shape;
    Dims starts(shape.size(), 0);
    Dims limits = shape;
    starts[dim] = begin;
    begin += shape[dim];
    limits[dim] = begin;
    if (context.wants(i)) {
      cotangents[i] =
          context.build.slice(context.cotangent(), std::move(starts), std::move(limits), Dims(shape.size(), 1));
    }
  }
  return cotangents;
}

std::vector<MaybeValue> transpose_pad(const TransposeContext& context) {
  const auto negated = [](Dims dims) {
    for (std::int64_t& one : dims) one = -one;
    return dims;
  };
  const Dims& interior = context.attrs.get<Dims>("interior");
  const std::size_t rank = interior.size();
  Builder& build = context.build;
  const ValueId cotangent = context.cotangent();
  // What was cut off comes back as zeros; then the gaps go.
  const ValueId zero = build.constant(0, context.operands[0].dtype);
  const ValueId whole = build.pad(cotangent, zero, negated(context.attrs.get<Dims>("low")),
                                  negated(context.attrs.get<Dims>("high")), Dims(rank, 0));
  Dims strides = interior;
  for (std::int64_t& stride : strides) ++stride;
  const ValueId array = build.slice(whole, Dims(rank, 0), build.type(whole).shape, std::move(strides));
  std::vector<MaybeValue> cotangents(2);
  if (context.wants(0)) cotangents[0] = array;
  if (context.wants(1)) {
    Dims dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    cotangents[1] =
        build.subtract(build.reduce(ReduceKind::kSum, cotangent, dims), build.reduce(ReduceKind::kSum, array, dims));
  }
  return cotangents;
}

// Of ops that, with the same attributes or others, are their own transposes.
std::vector<MaybeValue> transpose_reverse(const TransposeContext& context) {
  return {context.build.apply(context.op.name, context.attrs, {context.cotangent()})};
}

std::vector<MaybeValue> transpose_roll(const TransposeContext& context) {
  Attrs attrs = context.attrs;
  Dims shifts = attrs.get<Dims>("shifts");
  const Shape& shape = context.operands[0].shape;
  for (std::size_t d = 0; d < shifts.size(); ++d) {
    if (shifts[d] != 0) shifts[d] = shape[d] - shifts[d];
  }
  attrs.set("shifts", std::move(shifts));
  return {context.build.apply(context.op.name, std::move(attrs), {context.cotangent()})};
}

std::vector<ValueId> with_starts(std::vector<ValueId> operands, std::span<const MaybeValue> starts) {
  for (const MaybeValue& start : starts) operands.push_back(start.value());
  return operands;
}

std::vector<MaybeValue> transpose_dynamic_slice(const TransposeContext& context) {
  std::vector<MaybeValue> cotangents(context.operands.size());
  const Type& array = context.operands[0];
  const ValueId zeros = context.build.constant(0, array.dtype, array.shape);
  cotangents[0] = context.build.apply("dynamic_update_slice", {},
                                      with_starts({zeros, context.cotangent()}, context.values.subspan(1)));
  return cotangents;
}

std::vector<MaybeValue> transpose_dynamic_update_slice(const TransposeContext& context) {
  std::vector<MaybeValue> cotangents(context.operands.size());
  const std::span<const MaybeValue> starts = context.values.subspan(2);
  if (context.wants(0)) {
    const ValueId zeros = context.build.constant(0, context.operands[1].dtype, context.operands[1].shape);
    cotangents[0] = context.build.apply(context.op.name, {}, with_starts({context.cotangent(), zeros}, starts));
  }
  if (context.wants(1)) {
    cotangents[1] = context.build.apply("dynamic_slice", {{"sizes", context.operands[1].shape}},
                                        with_starts({context.cotangent()}, starts));
  }
  return cotangents;
}

// ---- Batches.

// What is padded with differs from place to place: the places of padding are told by padding a mask.
std::vector<Batched> batch_of_pad(const BatchContext& context) {
  const ValueId array = context.mapped_at(0);
  if (!context.operands[1].dim) return batched_alike(context, {array, context.operands[1].value}, {0, std::nullopt});
  Builder& build = context.build;
  const Type type = build.type(array);
  const std::vector<Batched> padded = batched_alike(context, {array, build.constant(0, type.dtype)}, {0, std::nullopt});
  const Shape inside(type.shape.begin() + 1, type.shape.end());
  const ValueId mask =
      build.pad(build.constant(1, bool_, inside), build.constant(0, bool_), context.attrs.get<Dims>("low"),
                context.attrs.get<Dims>("high"), context.attrs.get<Dims>("interior"));
  const Shape& shape = build.type(padded[0].value).shape;
  const ValueId fill = build.broadcast_in_dim(context.operands[1].value, shape, {0});
  return {{build.select(mapped_at(build, {mask, {}}, context.size, 0), padded[0].value, fill), 0}};
}

// The positions that a window takes along those dimensions that it cuts, clamped as starts are, one array for each such
// dimension: of the mapped dimension, then of the window's extents along these.
struct WindowIndices {
  std::vector<ValueId> indices;
  Dims dims;  // Cut ones, of an array in one place,
  Dims rest;  // and the others.
};

WindowIndices window_indices(const BatchContext& context, std::size_t first_start, const Shape& extents,
                             const Shape& window) {
  Builder& build = context.build;
  WindowIndices made;
  Shape shape = {context.size};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    (window[d] == extents[d] ? made.rest : made.dims).push_back(static_cast<std::int64_t>(d));
    if (window[d] != extents[d]) shape.push_back(window[d]);
  }
  for (std::size_t k = 0; k < made.dims.size(); ++k) {
    const auto d = static_cast<std::size_t>(made.dims[k]);
    const ValueId start = build.broadcast_in_dim(context.mapped_at(first_start + d), shape, {0});
    const Dtype dtype = build.type(start).dtype;
    const auto last = Scalar::of(extents[d] - window[d]).converted_to(dtype);
    const ValueId clamped = build.combine(
        ReduceKind::kMin, build.combine(ReduceKind::kMax, start, build.constant(0, dtype)), build.full(last));
    made.indices.push_back(build.add(clamped, build.iota(dtype, shape, k + 1)));
  }
  return made;
}

// The order in which gather has the dimensions of a window, after the mapped one.
Dims gathered_order(const WindowIndices& window) {
  Dims order = window.dims;
  order.insert(order.end(), window.rest.begin(), window.rest.end());
  return order;
}

// Dims that each go one up, as the mapped one is first.
Dims after_mapped(Dims dims) {
  for (std::int64_t& d : dims) ++d;
  return dims;
}

Attrs form_of_window(const WindowIndices& window, bool is_array_mapped) {
  return {{"dims", is_array_mapped ? after_mapped(window.dims) : window.dims},
          {"array_batch", is_array_mapped ? Dims{0} : Dims{}},
          {"index_batch", is_array_mapped ? Dims{0} : Dims{}}};
}

// The op itself on arrays that are mapped, with the start 0 along the mapped dimension.
std::vector<Batched> batched_from_start(const BatchContext& context, std::size_t num_arrays) {
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < num_arrays; ++i) operands.push_back(context.mapped_at(i));
  const bool has_starts = context.operands.size() > num_arrays;
  const Dtype dtype = has_starts ? context.build.type(context.operands[num_arrays].value).dtype : int32;
  operands.push_back(context.build.constant(0, dtype));
  for (std::size_t i = num_arrays; i < context.operands.size(); ++i) operands.push_back(context.operands[i].value);
  std::vector<std::optional<std::size_t>> dims(operands.size());
  std::fill_n(dims.begin(), num_arrays, 0);
  return batched_alike(context, std::move(operands), std::move(dims));
}

std::vector<Batched> batch_of_dynamic_slice(const BatchContext& context) {
  Builder& build = context.build;
  if (!context.is_mapped(1)) return batched_from_start(context, 1);
  const Batched& array = context.operands[0];
  const ValueId value = array.dim ? context.mapped_at(0) : array.value;
  Shape extents = build.type(value).shape;
  if (array.dim) extents.erase(extents.begin());
  const WindowIndices window = window_indices(context, 1, extents, context.attrs.get<Dims>("sizes"));
  if (window.dims.empty()) return {array};
  std::vector<ValueId> operands = {value};
  operands.insert(operands.end(), window.indices.begin(), window.indices.end());
  const ValueId items = build.apply("gather", form_of_window(window, array.dim.has_value()), std::move(operands));
  const Dims order = gathered_order(window);
  Dims perm(order.size() + 1, 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    perm[static_cast<std::size_t>(order[k]) + 1] = static_cast<std::int64_t>(k) + 1;
  }
  return {{build.transpose(items, std::move(perm)), 0}};
}

std::vector<Batched> batch_of_dynamic_update_slice(const BatchContext& context) {
  Builder& build = context.build;
  if (!context.is_mapped(2)) return batched_from_start(context, 2);
  const ValueId array = context.mapped_at(0);
  const ValueId update = context.mapped_at(1);
  const Shape all = build.type(array).shape;
  const Shape sizes = build.type(update).shape;
  const WindowIndices window =
      window_indices(context, 2, Shape(all.begin() + 1, all.end()), Shape(sizes.begin() + 1, sizes.end()));
  if (window.dims.empty()) return {{update, 0}};
  Dims perm = after_mapped(gathered_order(window));
  perm.insert(perm.begin(), 0);
  std::vector<ValueId> operands = {array, build.transpose(update, std::move(perm))};
  operands.insert(operands.end(), window.indices.begin(), window.indices.end());
  return {{build.apply("scatter", form_of_window(window, true), std::move(operands)), 0}};
}

const std::array kWindowOps = {
    OpDef{.name = "concatenate",
          .doc = "The operands one after the other along dimension `dim`.",
          .arity = -1,
          .infer = infer_concatenate,
          .rule = concatenate_rule,
          .rearrange = rearrange_concatenate,
          .reference = concatenate,
          .linear = Linear::kMoved,
          .transpose = transpose_concatenate,
          .attributes = {{.name = "dim", .role = AttrRole::kDim}}},
    OpDef{.name = "pad",
          .doc = "The first operand with low[d] elements before, high[d] after and interior[d] between those of each "
                 "dimension, equal to the second operand; negative low and high cut elements off.",
          .arity = 2,
          .infer = infer_pad,
          .rule = pad_rule,
          .rearrange = rearrange_pad,
          .reference = pad,
          .linear = Linear::kMoved,
          .transpose = transpose_pad,
          .batch = batch_of_pad,
          .attributes = {{.name = "low", .role = AttrRole::kPerDim},
                         {.name = "high", .role = AttrRole::kPerDim},
                         {.name = "interior", .role = AttrRole::kPerDim}}},
    OpDef{.name = "reverse",
          .doc = "The operand with the elements of each of the dimensions `dims` in reverse order.",
          .infer = infer_reverse,
          .rule = reverse_rule,
          .rearrange = rearrange_reverse,
          .reference = reverse,
          .linear = Linear::kMoved,
          .transpose = transpose_reverse,
          .attributes = {{.name = "dims", .role = AttrRole::kDims}}},
    OpDef{.name = "roll",
          .doc = "The operand with its elements moved by shifts[d] along each dimension; those pushed out at the end "
                 "come in at the beginning.",
          .infer = infer_roll,
          .rule = roll_rule,
          .rearrange = rearrange_roll,
          .reference = roll,
          .linear = Linear::kMoved,
          .transpose = transpose_roll,
          .attributes = {{.name = "shifts", .role = AttrRole::kPerDim}}},
    OpDef{.name = "dynamic_slice",
          .doc = "The window of extents `sizes` that begins at the further operands, or as near as it fits; -0 where a "
                 "shard holds none of it.",
          .arity = -1,
          .infer = infer_dynamic_slice,
          .rule = dynamic_slice_rule,
          .localize = localize_dynamic_slice,
          .reference = dynamic_slice,
          .simplify = simplify_dynamic_slice,
          .flops = reduction_flops,
          .linear = {Linear::kTogether, Linear::kNo},
          .transpose = transpose_dynamic_slice,
          .batch = batch_of_dynamic_slice,
          .attributes = {{.name = "sizes", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "extents", .role = AttrRole::kExtents},
                         {.name = "window", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "dtype"}},
          .sees_start = true,
          .takes_keys = true},
    OpDef{.name = "dynamic_update_slice",
          .doc = "The first operand with the second in place of the window that begins at the further operands, or as "
                 "near as it fits.",
          .arity = -1,
          .infer = infer_dynamic_update_slice,
          .rule = dynamic_update_slice_rule,
          .localize = localize_dynamic_update_slice,
          .reference = dynamic_update_slice,
          .linear = {Linear::kMoved, Linear::kMoved, Linear::kNo},
          .transpose = transpose_dynamic_update_slice,
          .batch = batch_of_dynamic_update_slice,
          .attributes = {{.name = "extents", .role = AttrRole::kExtents},
                         {.name = "window", .role = AttrRole::kExtents, .of = 1}},
          .sees_start = true,
          .updates = true},
    OpDef{.name = "bitcast",
          .doc = "The operand's bytes as elements of `dtype`. If these are smaller, those of one element become a new "
                 "last dimension; if larger, the last dimension becomes one element.",
          .infer = infer_bitcast,
          .rule = bitcast_rule,
          .reference = bitcast,
          .simplify = simplify_bitcast,
          .is_flat = true,
          .attributes = {{.name = "dtype"}},
          .takes_keys = true},
};

}  // namespace

std::span<const OpDef> window_ops() { return kWindowOps; }

}  // namespace shoal
