#include "ops/rules.h"

#include <fmt/format.h>

#include <charconv>

#include "base/caller.h"
#include "base/check.h"
#include "base/shape_mismatch.h"
#include "ir/graph.h"

namespace shoal {

void infer_error(const InferContext& context, std::string_view text) {
  throw ShapeMismatch(fmt::format("{}: {}", Caller::function_or(context.op.name), text), context.where);
}

void check_ordered(const InferContext& context, const Type& type) {
  if (!is_complex(type.dtype)) return;
  throw TypeMismatch(
      fmt::format("{}: complex numbers have no order; got {}", Caller::function_or(context.op.name), user_string(type)),
      context.where);
}

MemoryKind common_memory(const InferContext& context) {
  if (context.inputs.empty()) return {};
  for (const Type& type : context.inputs) {
    if (type.memory == context.inputs[0].memory) continue;
    infer_error(context, fmt::format("all operands must live in one memory, but one is {} in '{}' and another is {} in "
                                     "'{}'; move one with device_put",
                                     to_string(context.inputs[0]), context.inputs[0].memory.name(), to_string(type),
                                     type.memory.name()));
  }
  return context.inputs[0].memory;
}

AxisNames joint_varying(const InferContext& context) {
  AxisNames names;
  for (const Type& type : context.inputs) names = union_of(names, type.varying);
  return names;
}

std::vector<Type> promised_results(const Attrs& attrs) {
  std::vector<Type> types;
  for (const std::string_view text : attrs.get<std::vector<std::string>>("results")) {
    const std::size_t bracket = text.find('[');
    SHOAL_CHECK(bracket != std::string_view::npos && text.ends_with(']'), "a result's type is written as f32[4,8]");
    Type& type = types.emplace_back(Type{.dtype = parse_dtype(text.substr(0, bracket)), .shape = {}});
    const char* at = text.data() + bracket + 1;
    const char* const end = text.data() + text.size() - 1;
    while (at < end) {
      std::int64_t extent = 0;
      const auto [next, error] = std::from_chars(at, end, extent);
      SHOAL_CHECK(error == std::errc() && extent >= 0, "a result's type is written as f32[4,8]");
      type.shape.push_back(extent);
      at = next == end ? end : next + 1;
    }
  }
  return types;
}

std::string promise_of(const Type& type) { return to_string(Type{.dtype = type.dtype, .shape = type.shape}); }

Type like_operands(const InferContext& context, Shape shape) {
  return {.dtype = context.inputs[0].dtype,
          .shape = std::move(shape),
          .weak = context.inputs[0].weak,
          .memory = common_memory(context),
          .varying = joint_varying(context)};
}

const Dims& checked_dims(const InferContext& context, std::string_view name) {
  const Dims& dims = context.attrs.get<Dims>(name);
  const std::size_t rank = context.inputs[0].rank();
  std::vector<bool> seen(rank, false);
  for (std::int64_t d : dims) {
    if (d < 0 || static_cast<std::size_t>(d) >= rank) {
      infer_error(context, fmt::format("{} {} names dimension {}, but the operand {} has dimensions 0 to {}", name,
                                       to_string(dims), d, to_string(context.inputs[0]), static_cast<int>(rank) - 1));
    }
    if (seen[static_cast<std::size_t>(d)]) {
      infer_error(context, fmt::format("{} {} names dimension {} twice", name, to_string(dims), d));
    }
    seen[static_cast<std::size_t>(d)] = true;
  }
  return dims;
}

TensorFactors own_factors(ShardingRule& rule, const Shape& shape, FactorKind kind) {
  TensorFactors dims;
  for (std::int64_t extent : shape) dims.push_back({rule.add_factor(extent, kind)});
  return dims;
}

double reduction_flops(const RuleContext& context) {
  const ShardingRule rule = context.op.rule(context);
  double count = 1;
  bool reduces = false;
  for (const Factor& factor : rule.factors) {
    reduces = reduces || factor.kind == FactorKind::kReduction;
    count *= static_cast<double>(factor.size);
  }
  return reduces ? count : 0;
}

bool is_full_of(const Eqn& eqn, std::int64_t element) {
  if (eqn.op->name != "full") return false;
  const Scalar& value = eqn.attrs.get<Scalar>("value");
  return value == Scalar::of(element).converted_to(value.dtype);
}

std::optional<ValueId> simplify_identity(Eqn& eqn, const Makers&) { return eqn.inputs[0]; }

Attrs localize_shape(const LocalizeContext& context) {
  Attrs attrs = context.attrs;
  attrs.set("shape", context.local_outputs[0].shape);
  return attrs;
}

ShardingRule pointwise_rule(const RuleContext& context) {
  ShardingRule rule;
  const TensorFactors result = own_factors(rule, context.outputs[0].shape);
  for (const Type& type : context.inputs) rule.operands.push_back(type.rank() == 0 ? TensorFactors{} : result);
  for (std::size_t i = 0; i < context.outputs.size(); ++i) rule.results.push_back(result);
  return rule;
}

std::int64_t extent_sum(const InferContext& context, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    infer_error(context, fmt::format("the result would have an extent of {} + {}, more than 2^63 - 1", a, b));
  }
  return sum;
}

std::int64_t extent_product(const InferContext& context, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    infer_error(context, fmt::format("the result would have an extent of {} * {}, more than 2^63 - 1", a, b));
  }
  return product;
}

}  // namespace shoal
