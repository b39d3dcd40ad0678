// Ops that say where a value lies: sharding_constraint, to_memory.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> infer_constraint(const InferContext& context) {
  const NamedSharding& sharding = context.attrs.get<NamedSharding>("sharding");
  const Type& in = context.inputs[0];
  if (sharding.spec().size() > in.rank()) {
    infer_error(context, fmt::format("{} has {} entries, but operand {} has only {} dimensions",
                                     to_string(sharding.spec()), sharding.spec().size(), to_string(in), in.rank()));
  }
  return {in};
}

std::vector<Type> infer_to_memory(const InferContext& context) {
  Type type = context.inputs[0];
  type.memory = context.attrs.get<MemoryKind>("memory");
  return {std::move(type)};
}

void copy(const KernelContext& context) {
  const TensorView& out = context.outputs[0];
  std::memcpy(out.data, context.inputs[0].data, static_cast<std::size_t>(num_elements(out.shape)) * size_of(out.dtype));
}

const std::array kOps = {
    OpDef{.name = "sharding_constraint",
          .doc = "The operand, which shall lie as `sharding` says.",
          .op_class = OpClass::kConstraint,
          .infer = infer_constraint,
          .rule = pointwise_rule,
          .reference = copy,
          .partial = PartialRule::kNever},
    OpDef{.name = "to_memory",
          .doc = "The operand in another memory of the same devices.",
          .infer = infer_to_memory,
          .rule = pointwise_rule,
          .reference = copy,
          .partial = PartialRule::kNever},
};

}  // namespace

std::span<const OpDef> placement_ops() { return kOps; }

}  // namespace shoal
