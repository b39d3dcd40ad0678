// Ops without operands: arrays that the program makes.
#include <fmt/format.h>

#include <array>

#include "core/dispatch.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

Type created(const InferContext& context, Dtype dtype) {
  const Shape& shape = context.attrs.get<Dims>("shape");
  for (std::int64_t extent : shape) {
    if (extent < 0) infer_error(context, fmt::format("shape {} has a negative extent", to_string(shape)));
  }
  Type type{.dtype = dtype, .shape = shape, .weak = false, .memory = {}, .varying = {}};
  if (const auto* weak = context.attrs.find_as<bool>("weak")) type.weak = *weak;
  if (const auto* memory = context.attrs.find_as<MemoryKind>("memory")) type.memory = *memory;
  return type;
}

std::vector<Type> infer_full(const InferContext& context) {
  return {created(context, context.attrs.get<Scalar>("value").dtype)};
}

void full(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  const Scalar& value = context.attrs.get<Scalar>("value");
  with_element_type(out.dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(out.as<T>(), num_elements(out.shape), value.as<T>());
  });
}

std::vector<Type> infer_iota(const InferContext& context) {
  Type type = created(context, context.attrs.get<Dtype>("dtype"));
  const std::int64_t dim = context.attrs.get<std::int64_t>("dim");
  if (dim < 0 || static_cast<std::size_t>(dim) >= type.rank()) {
    infer_error(context, fmt::format("dim is {}, but shape {} has dimensions 0 to {}", dim, to_string(type.shape),
                                     static_cast<int>(type.rank()) - 1));
  }
  if (type.dtype == bool_) infer_error(context, "dtype bool cannot count");
  return {std::move(type)};
}

void iota(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  const auto dim = static_cast<std::size_t>(context.attrs.get<std::int64_t>("dim"));
  with_element_type(out.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_each_index(out.shape, [&](std::int64_t i, const Dims& at) {
      if constexpr (std::is_integral_v<T>) {
        out.as<T>()[i] = static_cast<T>(at[dim]);
      } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>) {
        out.as<T>()[i] = T(static_cast<double>(at[dim]));
      } else {
        out.as<T>()[i] = T(static_cast<float>(at[dim]));
      }
    });
  });
}

ShardingRule creation_rule(const RuleContext& context) {
  ShardingRule rule;
  rule.results.push_back(own_factors(rule, context.outputs[0].shape));
  if (const auto* dim = context.attrs.find_as<std::int64_t>("dim")) {
    rule.factors[static_cast<std::size_t>(*dim)].kind = FactorKind::kCounted;
  }
  return rule;
}

const std::array kCreationOps = {
    OpDef{.name = "full",
          .doc = "An array of `shape` with every element equal to `value`.",
          .arity = 0,
          .infer = infer_full,
          .rule = creation_rule,
          .localize = localize_shape,
          .reference = full,
          .attributes = {{.name = "shape", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "value"},
                         {.name = "weak"},
                         {.name = "memory"}}},
    OpDef{.name = "iota",
          .doc = "An array of `shape` whose elements count along dimension `dim`.",
          .arity = 0,
          .infer = infer_iota,
          .rule = creation_rule,
          .localize = localize_shape,
          .reference = iota,
          .attributes = {{.name = "shape", .role = AttrRole::kExtents, .of = AttrFact::kResult},
                         {.name = "dim", .role = AttrRole::kDim, .of = AttrFact::kResult},
                         {.name = "dtype"},
                         {.name = "weak"},
                         {.name = "memory"}},
          .counts = true},
};

}  // namespace

std::span<const OpDef> creation_ops() { return kCreationOps; }

}  // namespace shoal
