// Ops that reach into an array by index: gather, scatter, scatter_reduce, and scatter_combine, which is what back ends
// make of the last and an array that its result is combined with.
//
// They share one form. Each dimension in `dims` of the array is addressed by an operand of its own, an array of
// indices; all of these have one shape. The dimensions `array_batch` of the array go along with the dimensions
// `index_batch` of the indices, pair by pair. The array's other dimensions are taken whole. So an array of *items* has
// the dimensions of the indices, then those taken whole: gather reads items, the scatters write them.
//
// An index outside the array addresses nothing. Users' rules for such indices, and for negative ones, are computations
// with the indices, which the frontend writes down. Thus the ops also work on a shard of the array: it holds those
// items whose indices lie within it, and the others are another shard's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "core/dispatch.h"
#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

template <class T>
std::optional<std::size_t> position_in(const T& list, std::size_t value) {
  const auto found = std::find(list.begin(), list.end(), static_cast<std::int64_t>(value));
  if (found == list.end()) return {};
  return static_cast<std::size_t>(found - list.begin());
}

struct Form {
  const Dims& dims;
  const Dims& array_batch;
  const Dims& index_batch;

  explicit Form(const Attrs& attrs)
      : dims(attrs.get<Dims>("dims")),
        array_batch(attrs.get<Dims>("array_batch")),
        index_batch(attrs.get<Dims>("index_batch")) {}

  /// The dimensions of an array that are taken whole.
  Dims whole(std::size_t rank) const {
    Dims result;
    for (std::size_t d = 0; d < rank; ++d) {
      if (!position_in(dims, d) && !position_in(array_batch, d)) result.push_back(static_cast<std::int64_t>(d));
    }
    return result;
  }
};

// ---- Types.

void check_distinct_dims(const InferContext& context, std::string_view name, const Dims& dims, std::size_t rank) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool inside = dims[i] >= 0 && static_cast<std::size_t>(dims[i]) < rank;
    if (inside && std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) ==
                      dims.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    infer_error(context, fmt::format("{} {} must be distinct dimensions below {}", name, to_string(dims), rank));
  }
}

// The shape of the items. Throws unless the form fits an array of `shape` and the indices.
Shape checked_items(const InferContext& context, const Shape& shape, std::span<const Type> indices) {
  const Form form(context.attrs);
  if (indices.size() != form.dims.size()) {
    infer_error(context, fmt::format("has {} operands of indices for the {} dimensions {}", indices.size(),
                                     form.dims.size(), to_string(form.dims)));
  }
  Dims addressed = form.dims;
  addressed.insert(addressed.end(), form.array_batch.begin(), form.array_batch.end());
  check_distinct_dims(context, "dims and array_batch", addressed, shape.size());
  const Shape outer = indices.empty() ? Shape{} : indices[0].shape;
  for (const Type& type : indices) {
    if (!is_integer(type.dtype)) {
      infer_error(context, fmt::format("indices must be integers, not {}", to_string(type)));
    }
    if (type.shape != outer) {
      infer_error(context, fmt::format("indices must have one shape, but have {} and {}", to_string(outer),
                                       to_string(type.shape)));
    }
  }
  check_distinct_dims(context, "index_batch", form.index_batch, outer.size());
  if (form.array_batch.size() != form.index_batch.size()) {
    infer_error(context, fmt::format("array_batch {} and index_batch {} must go together", to_string(form.array_batch),
                                     to_string(form.index_batch)));
  }
  for (std::size_t i = 0; i < form.array_batch.size(); ++i) {
    const std::int64_t ours = shape[static_cast<std::size_t>(form.array_batch[i])];
    const std::int64_t theirs = outer[static_cast<std::size_t>(form.index_batch[i])];
    if (ours == theirs) continue;
    infer_error(context, fmt::format("batch dimension {} of the array {} has extent {}, but dimension {} of the "
                                     "indices {} has extent {}",
                                     form.array_batch[i], to_string(shape), ours, form.index_batch[i], to_string(outer),
                                     theirs));
  }
  Shape items = outer;
  for (std::int64_t d : form.whole(shape.size())) items.push_back(shape[static_cast<std::size_t>(d)]);
  return items;
}

void check_updates(const InferContext& context, const Type& updates, const Shape& items) {
  if (updates.shape == items) return;
  infer_error(context, fmt::format("updates {} must have shape {}, that of the items they replace", to_string(updates),
                                   to_string(items)));
}

std::vector<Type> infer_gather(const InferContext& context) {
  if (context.inputs.empty()) infer_error(context, "needs an array");
  Type type = like_operands(context, checked_items(context, context.inputs[0].shape, context.inputs.subspan(1)));
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) type.dtype = *dtype;
  return {std::move(type)};
}

std::vector<Type> infer_scatter(const InferContext& context) {
  if (context.inputs.size() < 2) infer_error(context, "needs an array and updates");
  const Type& array = context.inputs[0];
  const Type& updates = context.inputs[1];
  check_updates(context, updates, checked_items(context, array.shape, context.inputs.subspan(2)));
  if (updates.dtype != array.dtype) {
    infer_error(context,
                fmt::format("updates {} must have the dtype of the array {}", to_string(updates), to_string(array)));
  }
  return {like_operands(context, array.shape)};
}

void check_kind(const InferContext& context, const Type& updates) {
  const std::string& kind = context.attrs.get<std::string>("kind");
  const bool orders = kind == "max" || kind == "min";
  if (kind != "sum" && kind != "prod" && !orders) {
    infer_error(context, fmt::format("kind must be sum, prod, max or min, not {}", kind));
  }
  if (orders) check_ordered(context, updates);
}

std::vector<Type> infer_scatter_combine(const InferContext& context) {
  std::vector<Type> types = infer_scatter(context);
  check_kind(context, context.inputs[1]);
  return types;
}

std::vector<Type> infer_scatter_reduce(const InferContext& context) {
  if (context.inputs.empty()) infer_error(context, "needs updates");
  const Type& updates = context.inputs[0];
  const Shape& shape = context.attrs.get<Dims>("shape");
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; })) {
    infer_error(context, fmt::format("shape {} has a negative extent", to_string(shape)));
  }
  check_updates(context, updates, checked_items(context, shape, context.inputs.subspan(1)));
  check_kind(context, updates);
  Type type = like_operands(context, shape);
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) type.dtype = *dtype;
  return {std::move(type)};
}

// ---- Kernels.

// Calls f(i, offset) for each of the items, in order: element i of them stands for the element at `offset` of this
// shard of the array, or, if the offset is empty, for none of it.
template <class F>
void for_each_item(const Attrs& attrs, const TensorView& array, std::span<const TensorView> indices, const Shape& items,
                   F&& f) {
  const Form form(attrs);
  const Dims whole = form.whole(array.shape.size());
  const Dims strides = row_major_strides(array.shape);
  const std::size_t outer = items.size() - whole.size();
  const Dims index_strides =
      row_major_strides(Shape(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(outer)));
  std::vector<std::vector<std::int64_t>> positions;
  for (const TensorView& view : indices) {
    positions.emplace_back(static_cast<std::size_t>(num_elements(view.shape)));
    with_element_type(view.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_integral_v<T>) {
        std::transform(view.as<T>(), view.as<T>() + positions.back().size(), positions.back().begin(),
                       [](T index) { return static_cast<std::int64_t>(index); });
      }
    });
  }
  for_each_index(items, [&](std::int64_t i, const Dims& at) {
    std::int64_t index = 0;
    for (std::size_t b = 0; b < outer; ++b) index += at[b] * index_strides[b];
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < form.dims.size(); ++k) {
      const auto d = static_cast<std::size_t>(form.dims[k]);
      const std::int64_t position = positions[k][static_cast<std::size_t>(index)];
      const std::int64_t start = array.start_of(d);
      if (position < start || position >= start + array.shape[d]) return f(i, std::optional<std::int64_t>());
      offset += (position - start) * strides[d];
    }
    for (std::size_t b = 0; b < form.array_batch.size(); ++b) {
      offset +=
          at[static_cast<std::size_t>(form.index_batch[b])] * strides[static_cast<std::size_t>(form.array_batch[b])];
    }
    for (std::size_t w = 0; w < whole.size(); ++w)
      offset += at[outer + w] * strides[static_cast<std::size_t>(whole[w])];
    f(i, std::optional(offset));
  });
}

void gather(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& out = context.outputs[0];
  with_element_type(in.dtype, [&](auto in_tag) {
    using T = decltype(in_tag);
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      if constexpr (std::is_same_v<T, Out> || (kIsSmallFloat<T> && std::is_same_v<Out, float>)) {
        for_each_item(context.attrs, in, context.inputs.subspan(1), out.shape,
                      [&](std::int64_t i, std::optional<std::int64_t> offset) {
                        out.as<Out>()[i] = offset ? Out(in.as<T>()[*offset]) : nothing<Out>();
                      });
      }
    });
  });
}

void scatter(const KernelContext& context) {
  const TensorView& in = context.inputs[0];
  const TensorView& updates = context.inputs[1];
  const TensorView& out = context.outputs[0];
  const std::size_t size = size_of(out.dtype);
  auto* to = static_cast<std::byte*>(out.data);
  std::memcpy(to, in.data, static_cast<std::size_t>(num_elements(out.shape)) * size);
  for_each_item(context.attrs, out, context.inputs.subspan(2), updates.shape,
                [&](std::int64_t i, std::optional<std::int64_t> offset) {
                  if (!offset) return;
                  std::memcpy(to + static_cast<std::size_t>(*offset) * size,
                              static_cast<const std::byte*>(updates.data) + static_cast<std::size_t>(i) * size, size);
                });
}

void scatter_reduce(const KernelContext& context) {
  const TensorView& updates = context.inputs[0];
  const TensorView& out = context.outputs[0];
  const ReduceKind kind = parse_reduce_kind(context.attrs.get<std::string>("kind"));
  with_element_type(updates.dtype, [&](auto tag) {
    using T = decltype(tag);
    using Sum = Accumulator<T>;
    const auto count = static_cast<std::size_t>(num_elements(out.shape));
    const auto sums = std::make_unique<Sum[]>(count);  // Not a vector: that of bool has no elements to refer to.
    std::fill_n(sums.get(), count, kind == ReduceKind::kSum ? nothing<Sum>() : neutral_element<Sum>(kind));
    for_each_item(context.attrs, out, context.inputs.subspan(1), updates.shape,
                  [&](std::int64_t i, std::optional<std::int64_t> offset) {
                    if (!offset) return;
                    Sum& sum = sums[static_cast<std::size_t>(*offset)];
                    sum = reduce_two(kind, sum, static_cast<Sum>(updates.as<T>()[i]));
                  });
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      for (std::size_t i = 0; i < count; ++i) out.as<Out>()[i] = from_accumulator<Out>(sums[i]);
    });
  });
}

void scatter_combine(const KernelContext& context) {
  const TensorView& array = context.inputs[0];
  const TensorView& out = context.outputs[0];
  std::vector<TensorView> operands(context.inputs.begin() + 1, context.inputs.end());
  std::vector<std::byte> elements(static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
  TensorView reduced = out;
  reduced.data = elements.data();
  scatter_reduce({.op = context.op, .attrs = context.attrs, .inputs = operands, .outputs = {&reduced, 1}});
  std::vector<std::byte> both(elements.size());
  combine(parse_reduce_kind(context.attrs.get<std::string>("kind")), out.dtype, array.data, reduced.data, both.data(),
          num_elements(out.shape));
  const std::size_t size = size_of(out.dtype);
  std::memcpy(out.data, array.data, both.size());
  for_each_item(context.attrs, out, context.inputs.subspan(2), context.inputs[1].shape,
                [&](std::int64_t, std::optional<std::int64_t> offset) {
                  if (!offset) return;
                  const std::size_t at = static_cast<std::size_t>(*offset) * size;
                  std::memcpy(static_cast<std::byte*>(out.data) + at, both.data() + at, size);
                });
}

// ---- Sharding rules.

// Factors of the array, of the indices and of the items.
struct FormFactors {
  TensorFactors array;
  TensorFactors indices;
  TensorFactors items;
};

// Batch dimensions and those taken whole pass through. The addressed dimensions of the array are of kind `addressed`,
// the other dimensions of the indices of kind `counted`.
FormFactors form_factors(ShardingRule& rule, const Attrs& attrs, const Shape& array, const Shape& items,
                         FactorKind addressed, FactorKind counted) {
  const Form form(attrs);
  FormFactors result;
  result.array = own_factors(rule, array);
  for (std::int64_t d : form.dims) rule.factors[static_cast<std::size_t>(d)].kind = addressed;
  const Dims whole = form.whole(array.size());
  for (std::size_t b = 0; b < items.size() - whole.size(); ++b) {
    const auto pair = position_in(form.index_batch, b);
    result.indices.push_back(pair ? result.array[static_cast<std::size_t>(form.array_batch[*pair])]
                                  : DimFactors{rule.add_factor(items[b], counted)});
  }
  result.items = result.indices;
  for (std::int64_t d : whole) result.items.push_back(result.array[static_cast<std::size_t>(d)]);
  return result;
}

ShardingRule gather_rule(const RuleContext& context) {
  ShardingRule rule;
  const FormFactors factors = form_factors(rule, context.attrs, context.inputs[0].shape, context.outputs[0].shape,
                                           FactorKind::kReduction, FactorKind::kPassThrough);
  rule.operands.assign(context.inputs.size(), factors.indices);
  rule.operands[0] = factors.array;
  rule.results.push_back(factors.items);
  return rule;
}

ShardingRule scatter_rule(const RuleContext& context) {
  ShardingRule rule;
  // Of several updates of one element the last one stays, so that all of them must be at hand.
  const FormFactors factors = form_factors(rule, context.attrs, context.inputs[0].shape, context.inputs[1].shape,
                                           FactorKind::kPassThrough, FactorKind::kNeedReplication);
  rule.operands.assign(context.inputs.size(), factors.indices);
  rule.operands[0] = factors.array;
  rule.operands[1] = factors.items;
  rule.results.push_back(factors.array);
  return rule;
}

ShardingRule scatter_reduce_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.reduction = parse_reduce_kind(context.attrs.get<std::string>("kind"));
  const FormFactors factors = form_factors(rule, context.attrs, context.outputs[0].shape, context.inputs[0].shape,
                                           FactorKind::kPassThrough, FactorKind::kReduction);
  rule.operands.assign(context.inputs.size(), factors.indices);
  rule.operands[0] = factors.items;
  rule.results.push_back(factors.array);
  return rule;
}

// ---- Derivatives.

std::vector<ValueId> with_indices(std::vector<ValueId> operands, std::span<const MaybeValue> indices) {
  for (const MaybeValue& one : indices) operands.push_back(one.value());
  return operands;
}

// The attributes that all ops of the family have.
Attrs form_of(const Attrs& attrs) {
  Attrs form;
  for (const char* name : {"dims", "array_batch", "index_batch"}) form.set(name, attrs.get<Dims>(name));
  return form;
}

ValueId sum_at(const TransposeContext& context, ValueId items, const Shape& shape,
               std::span<const MaybeValue> indices) {
  Attrs attrs = form_of(context.attrs);
  attrs.set("shape", shape);
  attrs.set("kind", std::string(name_of(ReduceKind::kSum)));
  // Where there is no item it gives -0.
  return context.build.add(context.build.constant(0, context.build.type(items).dtype, shape),
                           context.build.apply("scatter_reduce", std::move(attrs), with_indices({items}, indices)));
}

ValueId items_at(const TransposeContext& context, ValueId array, std::span<const MaybeValue> indices) {
  return context.build.apply("gather", form_of(context.attrs), with_indices({array}, indices));
}

// Zeros with an item in each row, where a row is what the batch dimensions count and there are some. Its place is
// compared with all positions: a loop does so along with what else it does, and needs no array of zeros. Nothing where
// the rows have more items, or none.
MaybeValue one_item_each(const TransposeContext& context, ValueId items, const Type& array,
                         std::span<const MaybeValue> indices) {
  const Form form(context.attrs);
  if (form.index_batch.empty() || array.explicit_axes) return {};
  Builder& build = context.build;
  const Shape outer = build.type(*indices[0]).shape;
  Shape kept;
  Dims places;  // Of the kept dimensions in the array.
  for (std::size_t d = 0; d < outer.size(); ++d) {
    const auto pair = position_in(form.index_batch, d);
    if (!pair && outer[d] != 1) return {};
    if (!pair) continue;
    kept.push_back(outer[d]);
    places.push_back(form.array_batch[*pair]);
  }
  const auto spread = [&](ValueId value, const Shape& shape, const Dims& dims) {
    return build.broadcast_in_dim(build.reshape(value, shape), array.shape, dims);
  };
  Shape shape_of_items = kept;
  Dims dims_of_items = places;
  for (const std::int64_t d : form.whole(array.rank())) {
    shape_of_items.push_back(array.shape[static_cast<std::size_t>(d)]);
    dims_of_items.push_back(d);
  }
  if (!std::ranges::is_sorted(dims_of_items)) return {};
  const ValueId zero = build.constant(0, build.type(items).dtype);
  ValueId chosen = spread(build.add(items, zero), shape_of_items, dims_of_items);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ValueId index = spread(*indices[i], kept, places);
    // Small integers do not count as far.
    if (size_of(build.type(index).dtype) < size_of(int32)) index = build.convert(index, int32);
    const ValueId position = build.iota(build.type(index).dtype, array.shape, static_cast<std::size_t>(form.dims[i]));
    chosen = build.select(build.equal(index, position), chosen, zero);
  }
  return chosen;
}

std::vector<MaybeValue> transpose_gather(const TransposeContext& context) {
  std::vector<MaybeValue> cotangents(context.operands.size());
  const Type& array = context.operands[0];
  const std::span<const MaybeValue> indices = context.values.subspan(1);
  cotangents[0] = one_item_each(context, context.cotangent(), array, indices);
  if (!cotangents[0]) cotangents[0] = sum_at(context, context.cotangent(), array.shape, indices);
  return cotangents;
}

std::vector<MaybeValue> transpose_scatter_reduce(const TransposeContext& context) {
  std::vector<MaybeValue> cotangents(context.operands.size());
  ValueId items = items_at(context, context.cotangent(), context.values.subspan(1));
  const Dtype dtype = context.operands[0].dtype;
  if (context.build.type(items).dtype != dtype) items = context.build.convert(items, dtype);
  cotangents[0] = items;
  return cotangents;
}

// Of items at the same place the last one stays: the others have no part in the result.
std::vector<MaybeValue> transpose_scatter(const TransposeContext& context) {
  Builder& build = context.build;
  const std::span<const MaybeValue> indices = context.values.subspan(2);
  std::vector<MaybeValue> cotangents(context.operands.size());
  const Type& items = context.operands[1];
  if (context.wants(0)) {
    cotangents[0] =
        build.apply("scatter", form_of(context.attrs),
                    with_indices({context.cotangent(), build.constant(0, items.dtype, items.shape)}, indices));
  }
  if (context.wants(1)) {
    const std::int64_t count = num_elements(items.shape);
    const Dtype number = count > std::numeric_limits<std::int32_t>::max() ? int64 : int32;
    const ValueId numbers = build.reshape(build.iota(number, {count}, 0), items.shape);
    const ValueId nobody = build.constant(-1, number, context.operands[0].shape);
    const ValueId last = build.apply("scatter", form_of(context.attrs), with_indices({nobody, numbers}, indices));
    const ValueId stays = build.equal(items_at(context, last, indices), numbers);
    cotangents[1] =
        build.select(stays, items_at(context, context.cotangent(), indices), build.constant(0, items.dtype));
  }
  return cotangents;
}

// Of the items of a place: a share in the greatest or least, or the product of the others by what is left without it.
std::vector<MaybeValue> jvp_of_scatter_reduce(const JvpContext& context) {
  const ReduceKind kind = parse_reduce_kind(context.attrs.get<std::string>("kind"));
  if (kind == ReduceKind::kSum) return linear_tangents(context);
  Builder& build = context.build;
  std::vector<ValueId> indices;
  for (std::size_t i = 1; i < context.operands.size(); ++i) indices.push_back(context.primals.operand(i));
  const auto at = [&](std::string_view op, Attrs attrs, ValueId first) {
    std::vector<ValueId> operands = {first};
    operands.insert(operands.end(), indices.begin(), indices.end());
    return build.apply(op, std::move(attrs), std::move(operands));
  };
  const auto sums = [&](ValueId items) {
    Attrs attrs = context.attrs;
    attrs.set("kind", std::string(name_of(ReduceKind::kSum)));
    return at("scatter_reduce", std::move(attrs), items);
  };
  const ValueId items = context.primals.operand(0);
  const ValueId results = at("gather", form_of(context.attrs), context.primals.result(0));
  const Dtype dtype = context.operands[0].dtype;
  const ValueId zero = build.constant(0, dtype);
  const ValueId one = build.constant(1, dtype);
  if (kind == ReduceKind::kProd) {
    // The product of the others is 0 if one of these is; else what divides by the item, unless that is 0.
    const ValueId is_zero = build.equal(items, zero);
    const ValueId nonzero = build.select(is_zero, one, items);
    const ValueId product = at("gather", form_of(context.attrs), at("scatter_reduce", context.attrs, nonzero));
    const ValueId zeros = at("gather", form_of(context.attrs), sums(build.convert(is_zero, dtype)));
    const ValueId of_others = build.subtract(zeros, build.convert(is_zero, dtype));
    const ValueId others = build.select(build.equal(of_others, zero), build.divide(product, nonzero), zero);
    return {sums(build.multiply(*context.tangents[0], others))};
  }
  const ValueId chosen = build.equal(items, results);
  const ValueId tangents = build.select(chosen, *context.tangents[0], zero);
  const ValueId count = sums(build.convert(chosen, dtype));
  return {build.divide(sums(tangents), build.select(build.equal(count, zero), one, count))};
}

// ---- Batches. Where indices are mapped, the mapped dimensions of array and indices go along with each other.

std::vector<Batched> batch_of_gather(const BatchContext& context) {
  const bool by_index = context.is_mapped(1);
  std::vector<ValueId> operands;
  std::vector<std::optional<std::size_t>> dims;
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const bool is_mapped = i == 0 ? context.operands[0].dim.has_value() : by_index;
    operands.push_back(is_mapped ? context.mapped_at(i) : context.operands[i].value);
    dims.push_back(is_mapped ? std::optional<std::size_t>(0) : std::nullopt);
  }
  return batched_alike(context, std::move(operands), std::move(dims));
}

const std::array kGatherOps = {
    OpDef{.name = "gather",
          .doc = "The items of an array at the given indices, the other operands; -0 where there is none.",
          .arity = -1,
          .infer = infer_gather,
          .rule = gather_rule,
          .reference = gather,
          .flops = reduction_flops,
          .linear = {Linear::kTogether, Linear::kNo},
          .transpose = transpose_gather,
          .batch = batch_of_gather,
          .attributes = {{.name = "dims", .role = AttrRole::kDims, .of = 0},
                         {.name = "array_batch", .role = AttrRole::kBatchDims, .of = 0},
                         {.name = "index_batch", .role = AttrRole::kBatchDims, .of = 1},
                         {.name = "dtype"}},
          .sees_start = true,
          .takes_keys = true},
    OpDef{.name = "scatter",
          .doc = "The first operand with the items at the given indices replaced by the second; the last one stays.",
          .arity = -1,
          .infer = infer_scatter,
          .rule = scatter_rule,
          .reference = scatter,
          .linear = {Linear::kMoved, Linear::kMoved, Linear::kNo},
          .transpose = transpose_scatter,
          .attributes = {{.name = "dims", .role = AttrRole::kDims, .of = 0},
                         {.name = "array_batch", .role = AttrRole::kBatchDims, .of = 0},
                         {.name = "index_batch", .role = AttrRole::kBatchDims, .of = 2}},
          .sees_start = true,
          .updates = true},
    OpDef{.name = "scatter_reduce",
          .doc = "An array of `shape`: the reduction of those items of the first operand that have the same indices.",
          .arity = -1,
          .infer = infer_scatter_reduce,
          .rule = scatter_reduce_rule,
          .localize = localize_shape,
          .reference = scatter_reduce,
          .flops = reduction_flops,
          .linear = {Linear::kTogether, Linear::kNo},
          .jvp = jvp_of_scatter_reduce,
          .transpose = transpose_scatter_reduce,
          .combined = "scatter_combine",
          .attributes = {{.name = "shape", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "dims", .role = AttrRole::kDims, .of = AttrFact::kResult},
                         {.name = "array_batch", .role = AttrRole::kBatchDims, .of = AttrFact::kResult},
                         {.name = "index_batch", .role = AttrRole::kBatchDims, .of = 1},
                         {.name = "kind"},
                         {.name = "dtype"}},
          .sees_start = true},
    OpDef{.name = "scatter_combine",
          .doc = "The first operand, where there are items combined with what scatter_reduce gives for the others.",
          .arity = -1,
          .infer = infer_scatter_combine,
          .rule = scatter_rule,
          .reference = scatter_combine,
          .flops = reduction_flops,
          .linear = {Linear::kTogether, Linear::kTogether, Linear::kNo},
          .attributes = {{.name = "dims", .role = AttrRole::kDims, .of = 0},
                         {.name = "array_batch", .role = AttrRole::kBatchDims, .of = 0},
                         {.name = "index_batch", .role = AttrRole::kBatchDims, .of = 2},
                         {.name = "kind"}},
          .sees_start = true,
          .updates = true},
};

}  // namespace

std::span<const OpDef> gather_ops() { return kGatherOps; }

}  // namespace shoal
