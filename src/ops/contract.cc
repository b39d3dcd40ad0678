// Contractions: dot_general.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>

#include "core/dispatch.h"
#include "ops/batching.h"
#include "ops/derivatives.h"
#include "ops/reduction.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

struct Contraction {
  const Dims& lhs_contract;
  const Dims& rhs_contract;
  const Dims& lhs_batch;
  const Dims& rhs_batch;

  explicit Contraction(const Attrs& attrs)
      : lhs_contract(attrs.get<Dims>("lhs_contract")),
        rhs_contract(attrs.get<Dims>("rhs_contract")),
        lhs_batch(attrs.get<Dims>("lhs_batch")),
        rhs_batch(attrs.get<Dims>("rhs_batch")) {}
};

bool contains(const Dims& dims, std::size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
}

Dims free_dims(std::size_t rank, const Dims& contract, const Dims& batch) {
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!contains(contract, d) && !contains(batch, d)) dims.push_back(static_cast<std::int64_t>(d));
  }
  return dims;
}

std::int64_t extent(const Shape& shape, std::int64_t d) { return shape[static_cast<std::size_t>(d)]; }

void check_pairs(const InferContext& context, std::string_view what, const Dims& lhs, const Dims& rhs) {
  const Type& a = context.inputs[0];
  const Type& b = context.inputs[1];
  if (lhs.size() != rhs.size()) {
    infer_error(context, fmt::format("{} dimensions {} of the left and {} of the right operand differ in number", what,
                                     to_string(lhs), to_string(rhs)));
  }
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    const bool known = lhs[i] >= 0 && static_cast<std::size_t>(lhs[i]) < a.rank() && rhs[i] >= 0 &&
                       static_cast<std::size_t>(rhs[i]) < b.rank();
    if (!known) {
      infer_error(context, fmt::format("{} dimensions {} and {} must be dimensions of operands {} and {}", what,
                                       to_string(lhs), to_string(rhs), to_string(a), to_string(b)));
    }
    if (extent(a.shape, lhs[i]) != extent(b.shape, rhs[i])) {
      infer_error(context, fmt::format("{} dimension {} of the left operand {} has extent {}, but dimension {} of the "
                                       "right operand {} has extent {}",
                                       what, lhs[i], to_string(a), extent(a.shape, lhs[i]), rhs[i], to_string(b),
                                       extent(b.shape, rhs[i])));
    }
  }
}

void check_distinct(const InferContext& context, std::string_view side, const Dims& contract, const Dims& batch) {
  Dims all = contract;
  all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end()) {
    infer_error(context, fmt::format("dimension {} of the {} operand is named twice: contracted {}, batch {}", *twice,
                                     side, to_string(contract), to_string(batch)));
  }
}

std::vector<Type> infer_dot(const InferContext& context) {
  const Type& a = context.inputs[0];
  const Type& b = context.inputs[1];
  if (a.dtype != b.dtype) {
    infer_error(context, fmt::format("operands must be of one dtype, not {} and {}", to_string(a), to_string(b)));
  }
  const Contraction dims(context.attrs);
  check_pairs(context, "contracted", dims.lhs_contract, dims.rhs_contract);
  check_pairs(context, "batch", dims.lhs_batch, dims.rhs_batch);
  check_distinct(context, "left", dims.lhs_contract, dims.lhs_batch);
  check_distinct(context, "right", dims.rhs_contract, dims.rhs_batch);
  Shape shape;
  for (std::int64_t d : dims.lhs_batch) shape.push_back(extent(a.shape, d));
  for (std::int64_t d : free_dims(a.rank(), dims.lhs_contract, dims.lhs_batch)) shape.push_back(extent(a.shape, d));
  for (std::int64_t d : free_dims(b.rank(), dims.rhs_contract, dims.rhs_batch)) shape.push_back(extent(b.shape, d));
  Type type = like_operands(context, std::move(shape));
  type.weak = a.weak && b.weak;
  if (const auto* dtype = context.attrs.find_as<Dtype>("dtype")) type.dtype = *dtype;
  return {std::move(type)};
}

// The offsets of all elements that the given dimensions reach, in row-major order of those dimensions.
std::vector<std::int64_t> offsets_along(const Shape& shape, const Dims& dims) {
  const Dims strides = row_major_strides(shape);
  Shape extents;
  for (std::int64_t d : dims) extents.push_back(extent(shape, d));
  std::vector<std::int64_t> offsets;
  for_each_index(extents, [&](std::int64_t, const Dims& at) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) offset += extent(strides, dims[i]) * at[i];
    offsets.push_back(offset);
  });
  return offsets;
}

void dot(const KernelContext& context) {
  const TensorView& a = context.inputs[0];
  const TensorView& b = context.inputs[1];
  const TensorView& out = context.outputs[0];
  const Contraction dims(context.attrs);
  const auto a_batch = offsets_along(a.shape, dims.lhs_batch);
  const auto b_batch = offsets_along(b.shape, dims.rhs_batch);
  const auto a_free = offsets_along(a.shape, free_dims(a.shape.size(), dims.lhs_contract, dims.lhs_batch));
  const auto b_free = offsets_along(b.shape, free_dims(b.shape.size(), dims.rhs_contract, dims.rhs_batch));
  const auto a_inner = offsets_along(a.shape, dims.lhs_contract);
  const auto b_inner = offsets_along(b.shape, dims.rhs_contract);
  with_element_type(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_element_type(out.dtype, [&](auto out_tag) {
      using Out = decltype(out_tag);
      // Integers are added in the result's dtype, which may be wider than theirs.
      using Sum = std::conditional_t<std::is_integral_v<T> && std::is_integral_v<Out>, Out, Accumulator<T>>;
      Out* next = out.as<Out>();
      for (std::size_t g = 0; g < a_batch.size(); ++g) {
        for (std::int64_t row : a_free) {
          for (std::int64_t column : b_free) {
            Sum sum{};
            for (std::size_t k = 0; k < a_inner.size(); ++k) {
              const auto x = static_cast<Sum>(a.as<T>()[a_batch[g] + row + a_inner[k]]);
              const auto y = static_cast<Sum>(b.as<T>()[b_batch[g] + column + b_inner[k]]);
              sum = reduce_two(ReduceKind::kSum, sum, reduce_two(ReduceKind::kProd, x, y));
            }
            *next++ = from_accumulator<Out>(sum);
          }
        }
      }
    });
  });
}

ShardingRule dot_rule(const RuleContext& context) {
  const Shape& a = context.inputs[0].shape;
  const Shape& b = context.inputs[1].shape;
  const Contraction dims(context.attrs);
  ShardingRule rule;
  TensorFactors lhs(a.size());
  TensorFactors rhs(b.size());
  TensorFactors result;
  const auto pair = [&](const Dims& left, const Dims& right, FactorKind kind) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      const int factor = rule.add_factor(extent(a, left[i]), kind);
      lhs[static_cast<std::size_t>(left[i])] = {factor};
      rhs[static_cast<std::size_t>(right[i])] = {factor};
      if (kind == FactorKind::kPassThrough) result.push_back({factor});
    }
  };
  const auto free = [&](const Shape& shape, TensorFactors& tensor, const Dims& list) {
    for (std::int64_t d : list) {
      const int factor = rule.add_factor(extent(shape, d));
      tensor[static_cast<std::size_t>(d)] = {factor};
      result.push_back({factor});
    }
  };
  pair(dims.lhs_batch, dims.rhs_batch, FactorKind::kPassThrough);
  free(a, lhs, free_dims(a.size(), dims.lhs_contract, dims.lhs_batch));
  free(b, rhs, free_dims(b.size(), dims.rhs_contract, dims.rhs_batch));
  pair(dims.lhs_contract, dims.rhs_contract, FactorKind::kReduction);
  rule.operands = {std::move(lhs), std::move(rhs)};
  rule.results = {std::move(result)};
  return rule;
}

// The product of the cotangent and the other operand, which are summed over what the result has of that one.
std::vector<MaybeValue> transpose_dot(const TransposeContext& context) {
  const Contraction dims(context.attrs);
  const std::size_t side = context.wants(0) ? 0 : 1;
  const Dims& contract = side == 0 ? dims.lhs_contract : dims.rhs_contract;
  const Dims& batch = side == 0 ? dims.lhs_batch : dims.rhs_batch;
  const Dims& other_contract = side == 0 ? dims.rhs_contract : dims.lhs_contract;
  const Dims& other_batch = side == 0 ? dims.rhs_batch : dims.lhs_batch;
  const Dims kept = free_dims(context.operands[side].rank(), contract, batch);
  const Dims other_kept = free_dims(context.operands[1 - side].rank(), other_contract, other_batch);
  const auto range = [](std::size_t begin, std::size_t count) {
    Dims result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::int64_t>(begin + i));
    return result;
  };
  const std::size_t before = batch.size() + (side == 0 ? kept.size() : 0);
  Builder& build = context.build;
  const ValueId cotangent = context.cotangent();
  ValueId other = *context.values[1 - side];
  const Dtype wider = build.type(cotangent).dtype;
  if (build.type(other).dtype != wider) other = build.convert(other, wider);
  // Of the operand the product has the batch, then what is kept and what was contracted, which comes in the order of
  // the other one; if the other one stands first, these two change places.
  std::vector<std::size_t> pairs(contract.size());
  std::iota(pairs.begin(), pairs.end(), 0);
  std::ranges::sort(pairs, {}, [&](std::size_t i) { return other_contract[i]; });
  Dims contracted;
  for (const std::size_t i : pairs) contracted.push_back(contract[i]);
  const auto order = [&](const Dims& first, const Dims& second) {
    Dims has = batch;
    has.insert(has.end(), first.begin(), first.end());
    has.insert(has.end(), second.begin(), second.end());
    Dims perm(has.size());
    for (std::size_t i = 0; i < has.size(); ++i) perm[static_cast<std::size_t>(has[i])] = static_cast<std::int64_t>(i);
    return perm;
  };
  const Dims summed = range(before, other_kept.size());
  const Dims batches = range(0, batch.size());
  Dims perm = order(contracted, kept);
  const bool swapped = std::ranges::is_sorted(perm);
  if (!swapped) perm = order(kept, contracted);
  ValueId result = swapped ? build.dot_general(other, cotangent, {other_kept, summed, other_batch, batches})
                           : build.dot_general(cotangent, other, {summed, other_kept, batches, other_batch});
  if (!std::ranges::is_sorted(perm)) result = build.transpose(result, std::move(perm));
  const Dtype dtype = context.operands[side].dtype;
  if (build.type(result).dtype != dtype) result = build.convert(result, dtype);
  std::vector<MaybeValue> cotangents(2);
  cotangents[side] = result;
  return cotangents;
}

// A batch if both operands are mapped; one of them alone keeps the dimension where it is.
std::vector<Batched> batch_of_dot_general(const BatchContext& context) {
  const Batched& lhs = context.operands[0];
  const Batched& rhs = context.operands[1];
  if (!lhs.dim || !rhs.dim) return batched_alike(context, {lhs.value, rhs.value}, {lhs.dim, rhs.dim});
  return batched_alike(context, {context.mapped_at(0), context.mapped_at(1)}, {0, 0});
}

const std::array kContractOps = {
    OpDef{.name = "dot_general",
          .doc = "Products summed over the contracted dimensions. The result has the batch dimensions, then the left "
                 "operand's free dimensions, then the right operand's.",
          .arity = 2,
          .infer = infer_dot,
          .rule = dot_rule,
          .reference = dot,
          .flops = [](const RuleContext& context) { return 2 * reduction_flops(context); },  // A product and a sum.
          .linear = Linear::kAlone,
          .transpose = transpose_dot,
          .batch = batch_of_dot_general,
          .attributes = {{.name = "lhs_batch", .role = AttrRole::kBatchDims},
                         {.name = "lhs_contract", .role = AttrRole::kDims},
                         {.name = "rhs_batch", .role = AttrRole::kBatchDims, .of = 1},
                         {.name = "rhs_contract", .role = AttrRole::kDims, .of = 1},
                         {.name = "dtype"}}},
};

}  // namespace

std::span<const OpDef> contract_ops() { return kContractOps; }

}  // namespace shoal
