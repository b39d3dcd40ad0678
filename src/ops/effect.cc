// Ops that call the user's program: they have no results, and are there for what they do.
//
// `callback` is whom to call. From the placed stage on `axes` names the manual axes of the region that the equation
// stands in: the program is called once for each device along them.
#include <array>

#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> no_results(const InferContext&) { return {}; }

OpDef effect(std::string_view name, std::string_view doc, int arity, bool when_compiled) {
  return {.name = name,
          .doc = doc,
          .arity = arity,
          .op_class = OpClass::kEffect,
          .infer = no_results,
          .attributes = {{.name = "callback"}, {.name = "axes"}},
          .when_compiled = when_compiled};
}

const std::array kEffectOps = {
    effect("debug_callback", "Calls `callback` with the values of the operands, while the program runs.", -1, false),
    effect("inspect_sharding", "Calls `callback` with the sharding of the operand, when the program is compiled.", 1,
           true),
};

}  // namespace

std::span<const OpDef> effect_ops() { return kEffectOps; }

}  // namespace shoal
