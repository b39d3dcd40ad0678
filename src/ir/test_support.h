// A few ops to write graphs of: this layer knows no others.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace shoal::test_support {

/// source {shape = (2, 3)} gives f32 elements, copy its operand, join its first operand, swap both operands in the
/// other order, sink nothing; call holds a graph, and refuse throws.
inline const OpDef* find_op(std::string_view name) {
  static const std::array<OpDef, 6> kOps = {
      OpDef{.name = "source",
            .doc = "",
            .arity = 0,
            .infer =
                [](const InferContext& context) {
                  return std::vector<Type>{{.dtype = float32,
                                            .shape = context.attrs.get<Dims>("shape"),
                                            .weak = false,
                                            .memory = {},
                                            .varying = {}}};
                }},
      OpDef{.name = "copy",
            .doc = "",
            .infer = [](const InferContext& context) { return std::vector<Type>{context.inputs[0]}; }},
      OpDef{.name = "join",
            .doc = "",
            .arity = -1,
            .infer = [](const InferContext& context) { return std::vector<Type>{context.inputs[0]}; },
            .attributes = {{.name = "body"}, {.name = "dim", .role = AttrRole::kDim}}},
      OpDef{.name = "swap",
            .doc = "",
            .arity = 2,
            .infer =
                [](const InferContext& context) {
                  return std::vector<Type>{context.inputs[1], context.inputs[0]};
                }},
      OpDef{.name = "sink", .doc = "", .infer = [](const InferContext&) { return std::vector<Type>{}; }},
      OpDef{.name = "refuse",
            .doc = "",
            .infer = [](const InferContext&) -> std::vector<Type> { throw InvalidArgument("refuse: not today"); }},
  };
  const auto* found = std::find_if(kOps.begin(), kOps.end(), [&](const OpDef& op) { return op.name == name; });
  return found == kOps.end() ? nullptr : found;
}

inline const OpDef& op_named(std::string_view name) { return *find_op(name); }

inline Type type_of(Dtype dtype, Shape shape) {
  return {.dtype = dtype, .shape = std::move(shape), .weak = false, .memory = {}, .varying = {}};
}

}  // namespace shoal::test_support
