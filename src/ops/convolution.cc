// Windows that move over arrays: convolution and reduce_window.
//
// The result has one element for each place of the window. Batches, features and dimensions along which the window is
// one element wide stay where they are. Where a dimension along which it moves is split, the shards of the array take
// in what their windows reach of others; where positions in the window are summed over that are more than its places,
// as in the derivative by a window, these are split, and devices have sums of their own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "core/dispatch.h"
#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

// How windows move over an array, one entry for each dimension along which they do. Between neighbours of the array
// there are base_dilation - 1 gaps, and between those of the window window_dilation - 1.
struct Moves {
  const Dims& strides;
  Dims low;
  const Dims& high;
  const Dims& base_dilation;
  const Dims& window_dilation;

  explicit Moves(const Attrs& attrs)
      : strides(attrs.get<Dims>("strides")),
        low(attrs.get<Dims>("low")),
        high(attrs.get<Dims>("high")),
        base_dilation(attrs.get<Dims>("base_dilation")),
        window_dilation(attrs.get<Dims>("window_dilation")) {}

  // Those of a shard whose places, or positions in the window, begin where these say.
  void begin_at(std::size_t d, std::int64_t place, std::int64_t position) {
    low[d] = low_of_shard(low_of_shard(low[d], base_dilation[d], strides[d], place), base_dilation[d],
                          window_dilation[d], position);
  }

  // The number of places of a window along dimension d. Throws infer_error if what is passed over is too long to count.
  std::int64_t places(const InferContext& context, std::size_t d, std::int64_t extent, std::int64_t window) const {
    const auto spread = [&](std::int64_t n, std::int64_t step) {
      return n == 0 ? 0 : extent_sum(context, extent_product(context, n - 1, step), 1);
    };
    const std::int64_t padded =
        extent_sum(context, extent_sum(context, low[d], spread(extent, base_dilation[d])), high[d]);
    const std::int64_t covered = spread(window, window_dilation[d]);
    return padded < covered ? 0 : (padded - covered) / strides[d] + 1;
  }

  // The position along dimension d of the array that position `k` of the window meets in place `at`, or -1 where it
  // meets none.
  std::int64_t position(std::size_t d, std::int64_t extent, std::int64_t at, std::int64_t k) const {
    const std::int64_t spread = at * strides[d] + k * window_dilation[d] - low[d];
    if (spread < 0 || spread % base_dilation[d] != 0 || spread / base_dilation[d] >= extent) return -1;
    return spread / base_dilation[d];
  }

  // Whether each element is a place of its own.
  bool stays(std::size_t d, std::int64_t window) const {
    return window == 1 && strides[d] == 1 && low[d] == 0 && high[d] == 0 && base_dilation[d] == 1;
  }
};

void check_moves(const InferContext& context, std::size_t count) {
  for (const char* name : {"strides", "low", "high", "base_dilation", "window_dilation"}) {
    const Dims& values = context.attrs.get<Dims>(name);
    if (values.size() != count) {
      infer_error(context,
                  fmt::format("{} {} must have {} entries, one for each dimension along which the window moves", name,
                              to_string(values), count));
    }
    const bool is_padding = std::string(name) == "low" || std::string(name) == "high";
    if (!is_padding && std::any_of(values.begin(), values.end(), [](std::int64_t value) { return value < 1; })) {
      infer_error(context, fmt::format("{} {} must be at least 1", name, to_string(values)));
    }
  }
}

// ---- convolution: of (batch, features, places...) with (features of the result, features, window...).

// Features come in groups: those of a group of the result depend on those of the same group of the left operand.
std::int64_t groups_of(const Shape& lhs, const Shape& rhs) { return rhs[1] == 0 ? 1 : lhs[1] / rhs[1]; }

std::vector<Type> infer_convolution(const InferContext& context) {
  const Type& lhs = context.inputs[0];
  const Type& rhs = context.inputs[1];
  if (lhs.dtype != rhs.dtype) {
    infer_error(context, fmt::format("operands must be of one dtype, not {} and {}", to_string(lhs), to_string(rhs)));
  }
  if (lhs.rank() < 2 || lhs.rank() != rhs.rank()) {
    infer_error(context,
                fmt::format("operands {} and {} must be of one rank, at least 2", to_string(lhs), to_string(rhs)));
  }
  check_moves(context, lhs.rank() - 2);
  const bool fits = rhs.shape[1] == 0 ? lhs.shape[1] == 0 : lhs.shape[1] % rhs.shape[1] == 0;
  const std::int64_t groups = fits ? groups_of(lhs.shape, rhs.shape) : 0;
  if (groups == 0 || rhs.shape[0] % groups != 0) {
    infer_error(context, fmt::format("the features of {}, dimension 1, must be a multiple of those of {}, and that "
                                     "multiple must divide the features of the result, dimension 0 of the latter",
                                     to_string(lhs), to_string(rhs)));
  }
  const Moves moves(context.attrs);
  Shape shape = {lhs.shape[0], rhs.shape[0]};
  for (std::size_t d = 2; d < lhs.rank(); ++d)
    shape.push_back(moves.places(context, d - 2, lhs.shape[d], rhs.shape[d]));
  Type type = like_operands(context, std::move(shape));
  type.weak = lhs.weak && rhs.weak;
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) type.dtype = *dtype;
  return {std::move(type)};
}

void convolution(const KernelContext& context) {
  const TensorView& lhs = context.inputs[0];
  const TensorView& rhs = context.inputs[1];
  const TensorView& out = context.outputs[0];
  Moves moves(context.attrs);
  for (std::size_t d = 2; d < out.shape.size(); ++d) moves.begin_at(d - 2, out.start_of(d), rhs.start_of(d));
  const Dims lhs_strides = row_major_strides(lhs.shape);
  const Dims rhs_strides = row_major_strides(rhs.shape);
  const std::int64_t features = rhs.shape[1];
  const std::int64_t results_of_group = rhs.shape[0] / std::max<std::int64_t>(groups_of(lhs.shape, rhs.shape), 1);
  const Shape window(rhs.shape.begin() + 2, rhs.shape.end());
  with_element_type(lhs.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      using Sum = std::conditional_t<std::is_integral_v<T> && std::is_integral_v<Out>, Out, Accumulator<T>>;
      for_each_index(out.shape, [&](std::int64_t i, const Dims& at) {
        const std::int64_t first_feature = at[1] / results_of_group * features;
        Sum sum{};
        for_each_index(window, [&](std::int64_t, const Dims& k) {
          std::int64_t left = at[0] * lhs_strides[0] + first_feature * lhs_strides[1];
          std::int64_t right = at[1] * rhs_strides[0];
          for (std::size_t d = 2; d < lhs.shape.size(); ++d) {
            const std::int64_t position = moves.position(d - 2, lhs.shape[d], at[d], k[d - 2]);
            if (position < 0) return;
            left += position * lhs_strides[d];
            right += k[d - 2] * rhs_strides[d];
          }
          for (std::int64_t f = 0; f < features; ++f) {
            const auto x = static_cast<Sum>(lhs.as<T>()[left + f * lhs_strides[1]]);
            const auto y = static_cast<Sum>(rhs.as<T>()[right + f * rhs_strides[1]]);
            sum = reduce_two(ReduceKind::kSum, sum, reduce_two(ReduceKind::kProd, x, y));
          }
        });
        out.as<Out>()[i] = from_accumulator<Out>(sum);
      });
    });
  });
}

// What n elements cover with so many steps between neighbours.
std::int64_t covered_by(std::int64_t n, std::int64_t step) { return n == 0 ? 0 : (n - 1) * step + 1; }

// The padding at the end with which a window has just so many places. `window` and `array` are what they cover.
std::int64_t padding_at_the_end(std::int64_t places, std::int64_t stride, std::int64_t window, std::int64_t low,
                                std::int64_t array) {
  return (places - 1) * stride + window - low - array;
}

// Whether a window covers more of the array than its places do. What neighbouring shards need both is then less if
// positions in the window are split in the place of places.
bool is_wide(const Moves& moves, std::size_t d, std::int64_t window, std::int64_t places) {
  return covered_by(window, moves.window_dilation[d]) > covered_by(std::max<std::int64_t>(places, 1), moves.strides[d]);
}

ShardingRule convolution_rule(const RuleContext& context) {
  const Shape& lhs = context.inputs[0].shape;
  const Shape& rhs = context.inputs[1].shape;
  const Shape& out = context.outputs[0].shape;
  const Moves moves(context.attrs);
  const std::int64_t groups = groups_of(lhs, rhs);
  ShardingRule rule;
  const int batch = rule.add_factor(lhs[0]);
  const int group = groups > 1 ? rule.add_factor(groups) : -1;
  const int features = rule.add_factor(rhs[1], FactorKind::kReduction);
  const int results = rule.add_factor(rhs[0] / groups);
  // Dimensions of one factor may be split unevenly, so that groups are a factor of them only where there are several.
  const auto in_groups = [&](int factor) {
    if (groups <= 1) return DimFactors{factor};
    return rule.factors[static_cast<std::size_t>(factor)].size == 1 ? DimFactors{group} : DimFactors{group, factor};
  };
  TensorFactors left = {{batch}, in_groups(features)};
  TensorFactors right = {in_groups(results), {features}};
  TensorFactors result = {{batch}, in_groups(results)};
  for (std::size_t d = 2; d < lhs.size(); ++d) {
    if (is_wide(moves, d - 2, rhs[d], out[d])) {
      left.push_back({rule.add_factor(rhs[d], FactorKind::kWindowedReduction)});
      right.push_back(left.back());
      result.push_back({rule.add_factor(out[d], FactorKind::kNeedReplication)});
      continue;
    }
    const FactorKind kind = moves.stays(d - 2, rhs[d]) ? FactorKind::kPassThrough : FactorKind::kWindowed;
    left.push_back({rule.add_factor(out[d], kind)});
    right.push_back({rule.add_factor(rhs[d], FactorKind::kNeedReplication)});
    result.push_back(left.back());
  }
  rule.operands = {std::move(left), std::move(right)};
  rule.results = {std::move(result)};
  return rule;
}

// Attributes of shards that hold what their windows meet along entry d of them.
Attrs of_shards(Attrs attrs, std::size_t d, const Windows& windows, std::int64_t numbers, std::int64_t places,
                std::int64_t window) {
  const Moves moves(attrs);
  const std::int64_t first = windows.elements_of({0, numbers}).start;
  Dims low = moves.low;
  Dims high = moves.high;
  low[d] += first * moves.base_dilation[d];
  high[d] = padding_at_the_end(places, moves.strides[d], covered_by(window, moves.window_dilation[d]), low[d],
                               covered_by(windows.most_elements(numbers), moves.base_dilation[d]));
  attrs.set("low", std::move(low));
  attrs.set("high", std::move(high));
  return attrs;
}

Windows windows_of_convolution(const RuleContext& context, std::size_t dim) {
  const Shape& rhs = context.inputs[1].shape;
  const Shape& out = context.outputs[0].shape;
  const Moves moves(context.attrs);
  const std::size_t d = dim - 2;
  const bool by_window = is_wide(moves, d, rhs[dim], out[dim]);
  const std::int64_t step = by_window ? moves.strides[d] : moves.window_dilation[d];
  return {.numbers = by_window ? rhs[dim] : out[dim],
          .stride = by_window ? moves.window_dilation[d] : moves.strides[d],
          .low = moves.low[d],
          .covers = covered_by(by_window ? out[dim] : rhs[dim], step),
          .base = moves.base_dilation[d]};
}

constexpr WindowedOp kWindowedConvolution = {
    .windows = windows_of_convolution,
    .of_shards =
        [](const RuleContext& context, std::size_t dim, std::int64_t numbers) {
          const Shape& rhs = context.inputs[1].shape;
          const Shape& out = context.outputs[0].shape;
          const bool by_window = is_wide(Moves(context.attrs), dim - 2, rhs[dim], out[dim]);
          return of_shards(context.attrs, dim - 2, windows_of_convolution(context, dim), numbers,
                           by_window ? out[dim] : numbers, by_window ? numbers : rhs[dim]);
        },
    .padding = [](const RuleContext& context) { return Scalar::of(0).converted_to(context.inputs[0].dtype); },
};

// ---- reduce_window

ReduceKind window_reduction(const Attrs& attrs) {
  const std::string& kind = attrs.get<std::string>("kind");
  if (kind == "sum") return ReduceKind::kSum;
  if (kind == "prod") return ReduceKind::kProd;
  return kind == "max" ? ReduceKind::kMax : ReduceKind::kMin;
}

std::vector<Type> infer_reduce_window(const InferContext& context) {
  const Type& in = context.inputs[0];
  const std::string& kind = context.attrs.get<std::string>("kind");
  const bool orders = kind == "max" || kind == "min";
  if (!orders && kind != "sum" && kind != "prod") {
    infer_error(context, fmt::format("kind is '{}'; it must be 'sum', 'prod', 'max' or 'min'", kind));
  }
  if (orders) check_ordered(context, in);
  if (!orders && in.dtype == bool_) {
    infer_error(context, fmt::format("sums and products are of numbers; got {}", to_string(in)));
  }
  check_moves(context, in.rank());
  const Dims& window = context.attrs.get<Dims>("window");
  if (window.size() != in.rank() || std::any_of(window.begin(), window.end(), [](auto n) { return n < 1; })) {
    infer_error(context, fmt::format("window {} must have one entry for each dimension of operand {}, at least 1",
                                     to_string(window), to_string(in)));
  }
  const Moves moves(context.attrs);
  Shape shape;
  for (std::size_t d = 0; d < in.rank(); ++d) shape.push_back(moves.places(context, d, in.shape[d], window[d]));
  return {like_operands(context, std::move(shape))};
}

void reduce_window(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  const Dims& window = context.attrs.get<Dims>("window");
  Moves moves(context.attrs);
  for (std::size_t d = 0; d < out.shape.size(); ++d) moves.begin_at(d, out.start_of(d), 0);
  const ReduceKind kind = window_reduction(context.attrs);
  const Dims strides = row_major_strides(in.shape);
  with_element_type(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = Accumulator<T>;
    for_each_index(out.shape, [&](std::int64_t i, const Dims& at) {
      auto sum = neutral_element<Sum>(kind);
      for_each_index(window, [&](std::int64_t, const Dims& k) {
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < at.size(); ++d) {
          const std::int64_t position = moves.position(d, in.shape[d], at[d], k[d]);
          if (position < 0) return;
          offset += position * strides[d];
        }
        sum = reduce_two(kind, sum, static_cast<Sum>(in.as<T>()[offset]));
      });
      out.as<T>()[i] = from_accumulator<T>(sum);
    });
  });
}

ShardingRule reduce_window_rule(const RuleContext& context) {
  const Shape& in = context.inputs[0].shape;
  const Shape& out = context.outputs[0].shape;
  const Dims& window = context.attrs.get<Dims>("window");
  const Moves moves(context.attrs);
  ShardingRule rule;
  TensorFactors operand;
  TensorFactors result;
  for (std::size_t d = 0; d < in.size(); ++d) {
    // Few places of wide windows would be the work of few devices.
    if (is_wide(moves, d, window[d], out[d])) {
      operand.push_back({rule.add_factor(in[d], FactorKind::kNeedReplication)});
      result.push_back({rule.add_factor(out[d], FactorKind::kNeedReplication)});
      continue;
    }
    const FactorKind kind = moves.stays(d, window[d]) ? FactorKind::kPassThrough : FactorKind::kWindowed;
    operand.push_back({rule.add_factor(out[d], kind)});
    result.push_back(operand.back());
  }
  rule.operands = {std::move(operand)};
  rule.results = {std::move(result)};
  return rule;
}

Windows windows_of_reduction(const RuleContext& context, std::size_t dim) {
  const Moves moves(context.attrs);
  return {.numbers = context.outputs[0].shape[dim],
          .stride = moves.strides[dim],
          .low = moves.low[dim],
          .covers = covered_by(context.attrs.get<Dims>("window")[dim], moves.window_dilation[dim]),
          .base = moves.base_dilation[dim]};
}

// Where the order in which elements are reduced depends on their places in the array, shards have to know these:
// `origin` has what the first element of the first shard is in the array.
Attrs window_reduction_of_shards(const RuleContext& context, std::size_t dim, std::int64_t numbers) {
  const Windows windows = windows_of_reduction(context, dim);
  Attrs attrs = of_shards(context.attrs, dim, windows, numbers, numbers, context.attrs.get<Dims>("window")[dim]);
  const Dims* known = attrs.find_as<Dims>("origin");
  Dims origin = known != nullptr ? *known : Dims(context.inputs[0].rank(), 0);
  origin[dim] = windows.elements_of({0, numbers}).start;
  attrs.set("origin", std::move(origin));
  return attrs;
}

// The element that changes nothing.
Scalar padding_of_window_reduction(const RuleContext& context) {
  const ReduceKind kind = window_reduction(context.attrs);
  const Dtype dtype = context.inputs[0].dtype;
  if (dtype == Dtype::kBool) return Scalar::of(kind == ReduceKind::kMin);
  Scalar element;
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kIsComplexElement<T>) {
      element = Scalar::of(kind == ReduceKind::kProd ? 1 : 0);
    } else {
      element = Scalar::of(neutral_element<CombineType<T>>(kind));
    }
  });
  return element.converted_to(dtype);
}

constexpr WindowedOp kWindowedReduction = {
    .windows = windows_of_reduction, .of_shards = window_reduction_of_shards, .padding = padding_of_window_reduction};

// ---- Derivatives.

// A dimension of a window that moves in reverse, from the places to the array: what meets element q of the array in
// place p by position k of the window is found by p * strides = q * base_dilation + low - k * window_dilation.
struct ReverseMoves {
  Dims strides, low, high, base_dilation, window_dilation;

  ReverseMoves(const Attrs& attrs) {
    const Moves moves(attrs);
    strides = moves.base_dilation;
    base_dilation = moves.strides;
    window_dilation = moves.window_dilation;
  }
  void add(std::int64_t first, std::int64_t array, std::int64_t window, std::int64_t places) {
    const std::size_t d = low.size();
    low.push_back(first);
    high.push_back(padding_at_the_end(array, strides[d], covered_by(window, window_dilation[d]), first,
                                      covered_by(places, base_dilation[d])));
  }
  void write(Attrs& attrs) const {
    attrs.set("strides", strides);
    attrs.set("low", low);
    attrs.set("high", high);
    attrs.set("base_dilation", base_dilation);
    attrs.set("window_dilation", window_dilation);
  }
};

Shape with_front(Shape front, const Shape& shape, std::size_t from) {
  front.insert(front.end(), shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end());
  return front;
}

// Dimensions 0 to `count` - 1 in the given order, and the rest as it is.
Dims front_order(Dims order, std::size_t rank) {
  for (std::size_t d = order.size(); d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  return order;
}

// The convolution of the cotangent with the window reversed, whose features of operand and result have changed places.
ValueId cotangent_of_array(const TransposeContext& context, ValueId cotangent, ValueId window) {
  Builder& build = context.build;
  const Shape& lhs = context.operands[0].shape;
  const Shape& rhs = context.operands[1].shape;
  const Shape& out = context.results[0].shape;
  const std::int64_t groups = groups_of(lhs, rhs);
  const std::size_t rank = rhs.size();
  ReverseMoves reverse(context.attrs);
  const Dims& first = context.attrs.get<Dims>("low");
  Dims window_dims;
  for (std::size_t d = 2; d < rank; ++d) {
    reverse.add((rhs[d] - 1) * reverse.window_dilation[d - 2] - first[d - 2], lhs[d], rhs[d], out[d]);
    window_dims.push_back(static_cast<std::int64_t>(d));
  }
  window = build.reshape(window, with_front({groups, rhs[0] / groups, rhs[1]}, rhs, 2));
  window = build.transpose(window, front_order({0, 2, 1}, rank + 1));
  window = build.reshape(window, with_front({lhs[1], rhs[0] / groups}, rhs, 2));
  if (!window_dims.empty()) window = build.reverse(window, window_dims);
  Attrs attrs;
  reverse.write(attrs);
  return build.apply(context.op.name, std::move(attrs), {cotangent, window});
}

// The convolution of the array with the cotangent as its window, summed over batches.
ValueId cotangent_of_window(const TransposeContext& context, ValueId cotangent, ValueId array) {
  Builder& build = context.build;
  const Shape& lhs = context.operands[0].shape;
  const Shape& rhs = context.operands[1].shape;
  const Shape& out = context.results[0].shape;
  const std::int64_t groups = groups_of(lhs, rhs);
  const std::size_t rank = rhs.size();
  const Moves moves(context.attrs);
  Dims high;
  for (std::size_t d = 2; d < rank; ++d) {
    const std::size_t m = d - 2;
    high.push_back(padding_at_the_end(rhs[d], moves.window_dilation[m], covered_by(out[d], moves.strides[m]),
                                      moves.low[m], covered_by(lhs[d], moves.base_dilation[m])));
  }
  array = build.reshape(array, with_front({lhs[0], groups, rhs[1]}, lhs, 2));
  array = build.transpose(array, front_order({2, 1, 0}, rank + 1));
  array = build.reshape(array, with_front({rhs[1], groups * lhs[0]}, lhs, 2));
  Attrs attrs{{"strides", moves.window_dilation},
              {"low", moves.low},
              {"high", high},
              {"base_dilation", moves.base_dilation},
              {"window_dilation", moves.strides}};
  const ValueId product =
      build.apply(context.op.name, std::move(attrs), {array, build.transpose(cotangent, front_order({1, 0}, rank))});
  return build.transpose(product, front_order({1, 0}, rank));
}

std::vector<MaybeValue> transpose_convolution(const TransposeContext& context) {
  Builder& build = context.build;
  const std::size_t side = context.wants(0) ? 0 : 1;
  std::vector<MaybeValue> cotangents(2);
  const Type& wanted = context.operands[side];
  if (num_elements(context.results[0].shape) == 0 || num_elements(wanted.shape) == 0) return cotangents;
  const ValueId cotangent = context.cotangent();
  const Dtype wider = build.type(cotangent).dtype;
  ValueId other = *context.values[1 - side];
  if (build.type(other).dtype != wider) other = build.convert(other, wider);
  ValueId made =
      side == 0 ? cotangent_of_array(context, cotangent, other) : cotangent_of_window(context, cotangent, other);
  if (wanted.dtype != wider) made = build.convert(made, wanted.dtype);
  cotangents[side] = made;
  return cotangents;
}

std::vector<MaybeValue> transpose_reduce_window(const TransposeContext& context) {
  const Shape& in = context.operands[0].shape;
  const Dims& window = context.attrs.get<Dims>("window");
  const Dims& first = context.attrs.get<Dims>("low");
  if (num_elements(context.results[0].shape) == 0 || num_elements(in) == 0) return {std::nullopt};
  ReverseMoves reverse(context.attrs);
  for (std::size_t d = 0; d < in.size(); ++d) {
    reverse.add((window[d] - 1) * reverse.window_dilation[d] - first[d], in[d], window[d], context.results[0].shape[d]);
  }
  Attrs attrs = context.attrs;
  reverse.write(attrs);
  return {context.build.apply(context.op.name, std::move(attrs), {context.cotangent()})};
}

// The array with a dimension whole, if Explicit axes split it.
ValueId whole_along(Builder& build, ValueId array, std::size_t d) {
  Type type = build.type(array);
  if (!type.explicit_axes || type.explicit_axes->dims[d].empty()) return array;
  ExplicitAxes axes = *type.explicit_axes;
  axes.dims[d].clear();
  type.explicit_axes = std::move(axes);
  return build.split_as(array, type);
}

// Of the greatest or least element of a window the tangent, of equal ones that of the first. Along one dimension after
// the other, the last one first: of wide windows each element is then compared with a side of them, not all of them.
std::vector<MaybeValue> jvp_of_reduce_window(const JvpContext& context) {
  const ReduceKind kind = parse_reduce_kind(context.attrs.get<std::string>("kind"));
  const bool orders = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  if (!orders) return linear_tangents(context);
  if (num_elements(context.results[0].shape) == 0) return {std::nullopt};
  Builder& build = context.build;
  const Moves moves(context.attrs);
  const Dims& window = context.attrs.get<Dims>("window");
  const Shape& places = context.results[0].shape;
  const Dtype dtype = context.operands[0].dtype;
  const double worst = std::numeric_limits<double>::infinity();
  const ValueId nothing = build.full(Scalar::of(kind == ReduceKind::kMax ? -worst : worst).converted_to(dtype));
  const ValueId zero = build.constant(0, dtype);
  ValueId values = context.primals.operand(0);
  ValueId tangent = *context.tangents[0];
  std::size_t left = 0;  // Dimensions that are still to be reduced.
  for (std::size_t d = 0; d < window.size(); ++d) left += moves.stays(d, window[d]) ? 0U : 1U;
  for (std::size_t d = window.size(); d-- > 0;) {
    if (moves.stays(d, window[d])) continue;
    Attrs attrs = context.attrs;
    const auto along = [&](const char* name, std::int64_t otherwise) {
      Dims all(window.size(), otherwise);
      all[d] = context.attrs.get<Dims>(name)[d];
      attrs.set(name, all);
      return all;
    };
    along("window", 1);
    const Dims strides = along("strides", 1);
    const Dims low = along("low", 0);
    const Dims high = along("high", 0);
    Dims interior = along("base_dilation", 1);
    along("window_dilation", 1);
    for (std::int64_t& gap : interior) --gap;
    // With what surrounds it, the dimension is not split evenly.
    values = whole_along(build, values, d);
    tangent = whole_along(build, tangent, d);
    ValueId chosen = --left == 0 ? context.primals.result(0) : build.apply(context.op.name, std::move(attrs), {values});
    Type split = build.type(chosen);
    split.explicit_axes = build.type(values).explicit_axes;
    chosen = build.split_as(chosen, split);
    values = build.pad(values, nothing, low, high, interior);
    const ValueId tangents = build.pad(tangent, zero, low, high, interior);
    Dims starts(window.size(), 0);
    Dims limits = build.type(values).shape;
    const Type of_chosen = build.type(chosen);
    tangent = build.zeros(of_chosen);
    for (std::int64_t k = window[d]; k-- > 0;) {
      starts[d] = k * moves.window_dilation[d];
      limits[d] = starts[d] + (places[d] - 1) * moves.strides[d] + 1;
      const ValueId met = build.slice(values, starts, limits, strides);
      tangent = build.select(build.equal(met, chosen), build.slice(tangents, starts, limits, strides), tangent);
    }
    values = chosen;
  }
  return {build.split_as(tangent, context.results[0])};
}

// ---- Batches.

// The mapped dimension is one of batches if the left operand alone has it, one of features of the result, within each
// group, if the right one has, and one of groups if both have.
std::vector<Batched> batch_of_convolution(const BatchContext& context) {
  Builder& build = context.build;
  const auto convolved = [&](ValueId lhs, ValueId rhs) {
    return build.equation(context.op, context.attrs, {lhs, rhs})[0];
  };
  const std::int64_t size = context.size;
  if (!context.operands[1].dim) {
    const ValueId lhs = joined_with_next(build, context.mapped_at(0), 0);
    return {{dim_in_two(build, convolved(lhs, context.operands[1].value), 0, size), 0}};
  }
  if (context.operands[0].dim) {
    const ValueId lhs = joined_with_next(build, context.mapped_at(0, 1), 1);
    const ValueId rhs = joined_with_next(build, context.mapped_at(1), 0);
    return {{dim_in_two(build, convolved(lhs, rhs), 1, size), 1}};
  }
  const ValueId lhs = context.operands[0].value;
  ValueId rhs = context.mapped_at(1);
  Shape one = build.type(rhs).shape;
  one.erase(one.begin());
  const std::int64_t groups = groups_of(build.type(lhs).shape, one);
  rhs = mapped_at(build, {dim_in_two(build, rhs, 1, groups), 0}, size, 1);  // Groups, places, features of a group.
  rhs = joined_with_next(build, joined_with_next(build, rhs, 0), 0);
  ValueId result = dim_in_two(build, dim_in_two(build, convolved(lhs, rhs), 1, groups), 2, size);
  result = mapped_at(build, {result, 2}, size, 0);
  return {{joined_with_next(build, result, 2), 0}};
}

const std::array kConvolutionOps = {
    OpDef{.name = "convolution",
          .doc = "For each batch, feature of the result and place of the window, the sum over features and window of "
                 "the products of the operands' elements that meet. The left operand is surrounded by low[d] and "
                 "high[d] zeros.",
          .arity = 2,
          .infer = infer_convolution,
          .rule = convolution_rule,
          .windowed = &kWindowedConvolution,
          .reference = convolution,
          .flops = reduction_flops,
          .linear = Linear::kAlone,
          .transpose = transpose_convolution,
          .batch = batch_of_convolution,
          // These speak of places: which dimensions are the batch and the features is fixed.
          .attributes = {{.name = "strides"},
                         {.name = "low"},
                         {.name = "high"},
                         {.name = "base_dilation"},
                         {.name = "window_dilation"},
                         {.name = "dtype"}},
          .sees_start = true},
    OpDef{.name = "reduce_window",
          .doc = "For each place of a window of extents `window`, the elements that it meets, reduced by `kind`.",
          .infer = infer_reduce_window,
          .rule = reduce_window_rule,
          .windowed = &kWindowedReduction,
          .reference = reduce_window,
          .flops = reduction_flops,
          .linear = Linear::kTogether,
          .jvp = jvp_of_reduce_window,
          .transpose = transpose_reduce_window,
          .takes_whole_sums = true,  // Windows that overlap would have each sum taken several times.
          .attributes = {{.name = "kind"},
                         {.name = "window", .role = AttrRole::kPerDim, .neutral = 1},
                         {.name = "strides", .role = AttrRole::kPerDim, .neutral = 1},
                         {.name = "low", .role = AttrRole::kPerDim},
                         {.name = "high", .role = AttrRole::kPerDim},
                         {.name = "base_dilation", .role = AttrRole::kPerDim, .neutral = 1},
                         {.name = "window_dilation", .role = AttrRole::kPerDim, .neutral = 1},
                         {.name = "origin"}},
          .sees_start = true},
};

}  // namespace

std::span<const OpDef> convolution_ops() { return kConvolutionOps; }

}  // namespace shoal
