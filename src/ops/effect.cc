// Ops that call the user's program.
//
// `callback` is whom to call, and `results` are the types of what it gives, as "f32[4,8]". From the placed stage on
// `axes` names the manual axes of the region that the equation stands in: the program is called once for each device
// along them, and all others get what it gave. `device` is the id of the one that calls outside of such regions; else
// it is the first.
#include <array>

#include "ops/batching.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> no_results(const InferContext&) { return {}; }

// What a pure function gives differs between devices only if what it is given does; any other, called for each device,
// may give each something else.
std::vector<Type> infer_results(const InferContext& context) {
  AxisNames varying = joint_varying(context);
  if (!context.op.is_pure) {
    for (const auto& axis : context.axes.axes()) varying = union_of(varying, {axis.first});
  }
  std::vector<Type> types = promised_results(context.attrs);
  for (Type& type : types) type.varying = varying;
  return types;
}

OpDef host_callback(std::string_view name, std::string_view doc, bool is_pure) {
  return {.name = name,
          .doc = doc,
          .arity = -1,
          .op_class = OpClass::kEffect,
          .infer = infer_results,
          .batch = batched_one_by_one,
          .attributes = {{.name = "callback"}, {.name = "axes"}, {.name = "results"}, {.name = "device"}},
          .is_pure = is_pure};
}

OpDef effect(std::string_view name, std::string_view doc, int arity, bool when_compiled) {
  return {.name = name,
          .doc = doc,
          .arity = arity,
          .op_class = OpClass::kEffect,
          .infer = no_results,
          .batch = batched_one_by_one,
          .attributes = {{.name = "callback"}, {.name = "axes"}},
          .when_compiled = when_compiled};
}

const std::array kEffectOps = {
    effect("debug_callback", "Calls `callback` with the values of the operands, while the program runs.", -1, false),
    effect("inspect_sharding", "Calls `callback` with the sharding of the operand, when the program is compiled.", 1,
           true),
    host_callback("pure_callback", "What `callback` gives for the values of the operands. Calls may be left out.",
                  true),
    host_callback("io_callback", "What `callback` gives for the values of the operands, with all that it does.", false),
};

}  // namespace

std::span<const OpDef> effect_ops() { return kEffectOps; }

}  // namespace shoal
