#include "transform/custom.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "base/misuse.h"
#include "ir/bodies.h"
#include "ir/dim_attrs.h"
#include "ops/builder.h"
#include "transform/cut.h"

namespace shoal {
namespace {

// The type in one place of what is mapped along its first dimension.
Type in_one_place(Type type, bool is_mapped, const MappedAxis& axis) {
  if (!is_mapped) return type;
  type.varying = difference_of(type.varying, axis.varying);
  return without_dim(std::move(type), 0);
}

// Rules in every place: what they give, batched.
CallbackAttr rules_in_places(const CallbackAttr& rules, const std::vector<bool>& mapped, const MappedAxis& axis) {
  const auto on_tangents = [rules, mapped, axis](std::span<const Type> operands,
                                                 const std::vector<bool>& with_tangent) {
    std::vector<Type> types;
    for (std::size_t i = 0; i < operands.size(); ++i) types.push_back(in_one_place(operands[i], mapped[i], axis));
    const Linearized cut = rules.callback->on_tangents(types, with_tangent);
    const std::size_t count = cut.has_tangent.size();
    std::vector<bool> all(cut.primal.outputs.size());
    std::fill_n(all.begin(), count, true);
    BatchedGraph primal = batch(cut.primal, mapped, axis, all);
    std::vector<bool> arguments(primal.mapped.begin() + static_cast<std::ptrdiff_t>(count), primal.mapped.end());
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      if (with_tangent[i]) arguments.push_back(mapped[i]);
    }
    BatchedGraph tangent = batch(cut.tangent, arguments, axis, std::vector<bool>(cut.tangent.outputs.size(), true));
    return Linearized{.primal = std::move(primal.graph),
                      .tangent = std::move(tangent.graph),
                      .num_residuals = cut.num_residuals,
                      .has_tangent = cut.has_tangent};
  };
  return CallbackAttr::of({.on_tangents = on_tangents});
}

// A transpose in every place. What is linear and the same in all places has a part of its cotangent in each.
Graph transposed_in_places(const Graph& transposed, const std::vector<bool>& mapped, const MappedAxis& axis) {
  const std::size_t count = transposed.outputs.size();
  const std::size_t num_others = mapped.size() - count;
  std::vector<bool> arguments(transposed.inputs.size() - num_others, true);
  arguments.insert(arguments.end(), mapped.begin() + static_cast<std::ptrdiff_t>(count), mapped.end());
  Graph made = batch(transposed, arguments, axis, std::vector<bool>(count, true)).graph;
  for (std::size_t i = 0; i < count; ++i) {
    if (!mapped[i]) made.outputs[i] = Builder(made, {}).reduce(ReduceKind::kSum, made.outputs[i], {0});
  }
  return made;
}

// The rules of a linear_call in every place.
CallbackAttr pullback_in_places(const CallbackAttr& rules, std::size_t count, const std::vector<bool>& mapped,
                                const MappedAxis& axis) {
  const auto on_tangents = [rules, count, mapped, axis](std::span<const Type> operands,
                                                        const std::vector<bool>& given) {
    std::vector<Type> types;
    std::vector<bool> arguments;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool is_mapped = i < given.size() || mapped[count + i - given.size()];
      types.push_back(in_one_place(operands[i], is_mapped, axis));
      if (i >= given.size() || given[i]) arguments.push_back(is_mapped);
    }
    Linearized made = rules.callback->on_tangents(types, given);
    made.primal = batch(made.primal, arguments, axis, std::vector<bool>(made.primal.outputs.size(), true)).graph;
    auto output = made.primal.outputs.begin();
    for (std::size_t i = 0; i < count; ++i) {
      if (!made.has_tangent[i]) continue;
      // What is linear and the same in all places has a part of its cotangent in each.
      if (!mapped[i]) *output = Builder(made.primal, {}).reduce(ReduceKind::kSum, *output, {0});
      ++output;
    }
    return made;
  };
  return CallbackAttr::of({.on_tangents = on_tangents});
}

// The rules of a call, or nullptr.
const Callback* rules_of(const Attrs& attrs) {
  const auto* rules = attrs.find_as<CallbackAttr>("rules");
  if (rules == nullptr) return nullptr;
  if (rules->callback == nullptr) {
    throw misuse<Unsupported>("the rules of a function that was read from text are not there");
  }
  return rules->callback.get();
}

// What of a graph can have a tangent gets one, though it may be zero.
std::vector<bool> all_tangents(const Graph& graph) {
  std::vector<bool> wanted;
  for (const ValueId id : graph.outputs) wanted.push_back(has_tangents(graph.type(id).dtype));
  return wanted;
}

// Appends to `to` what the outputs of a graph change by, at these inputs, of which some change by these tangents.
std::vector<ValueId> write_tangents(Graph& to, const Graph& graph, std::span<const ValueId> inputs,
                                    std::span<const ValueId> tangents, const std::vector<bool>& with_tangent) {
  const Linearized parts = linearize(graph, with_tangent, all_tangents(graph));
  const std::vector<ValueId> primals = inline_graph(to, parts.primal, inputs);
  std::vector<ValueId> given(primals.end() - static_cast<std::ptrdiff_t>(parts.num_residuals), primals.end());
  given.insert(given.end(), tangents.begin(), tangents.end());
  return inline_graph(to, parts.tangent, given);
}

// The rule for vmap of a derivative: the derivative of what the rule gives. Operands are those of the call, then the
// tangents of some of them. Where one of the two is mapped both are.
CallbackAttr derivative_of_rule(const CallbackAttr& rule, std::size_t count, const std::vector<bool>& with_tangent) {
  const auto on_batch = [rule, count, with_tangent](std::span<const Type> operands, const std::vector<bool>& mapped,
                                                    const MappedAxis& axis) {
    Graph graph;
    std::vector<ValueId> all;
    for (const Type& type : operands) all.push_back(graph.add_input(type));
    std::vector<bool> both(mapped.begin(), mapped.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < count; ++i) {
      if (!with_tangent[i]) continue;
      both[i] = both[i] || mapped[count + changed.size()];
      changed.push_back(i);
    }
    Builder build(graph, {});
    const auto in_all_places = [&](std::size_t operand, std::size_t i) {
      if (!both[i] || mapped[operand]) return;
      Shape shape = operands[operand].shape;
      Dims dims(shape.size());
      std::iota(dims.begin(), dims.end(), 1);
      shape.insert(shape.begin(), axis.size);
      all[operand] = build.broadcast_in_dim(all[operand], std::move(shape), std::move(dims));
    };
    for (std::size_t i = 0; i < count; ++i) in_all_places(i, i);
    for (std::size_t k = 0; k < changed.size(); ++k) in_all_places(count + k, changed[k]);
    const std::span<const ValueId> values(all);
    const std::vector<Type> types = graph.types(values.first(count));
    const BatchedGraph made = rule.callback->on_batch(types, both, axis);
    graph.name = made.graph.name;
    graph.axes = made.graph.axes;
    graph.outputs = write_tangents(graph, made.graph, values.first(count), values.subspan(count), with_tangent);
    BatchedGraph result{.graph = std::move(graph), .mapped = {}};
    const std::vector<bool> wanted = all_tangents(made.graph);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) result.mapped.push_back(made.mapped[k]);
    }
    return result;
  };
  return CallbackAttr::of({.on_batch = on_batch});
}

}  // namespace

bool has_rule_for_vmap_alone(const Attrs& attrs) {
  const Callback* rules = rules_of(attrs);
  return rules != nullptr && rules->on_batch && !rules->on_tangents;
}

LinearizedEqn linearize_with_rule_for_vmap(const OpDef& op, const Attrs& attrs, const std::vector<bool>& with_tangent) {
  const Graph& body = attrs.graph();
  Graph graph;
  graph.name = body.name;
  graph.axes = body.axes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> tangents;
  for (const ValueId id : body.inputs) inputs.push_back(graph.add_input(body.type(id)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (with_tangent[i]) tangents.push_back(graph.add_input(body.type(body.inputs[i])));
  }
  graph.outputs = write_tangents(graph, body, inputs, tangents, with_tangent);
  const CallbackAttr rule = derivative_of_rule(*attrs.find_as<CallbackAttr>("rules"), inputs.size(), with_tangent);
  const Attrs call = {
      {"body", GraphAttr{std::make_shared<const Graph>(std::move(graph))}}, {"name", body.name}, {"rules", rule}};
  return {.attrs = attrs,
          .residuals = {},
          .tangents = [&op, call, count = inputs.size(), wanted = all_tangents(body)](
                          std::span<const MaybeValue> given, std::span<const Type>, Primals& primals, Builder& build) {
            std::vector<ValueId> operands;
            for (std::size_t i = 0; i < count; ++i) operands.push_back(primals.operand(i));
            for (const MaybeValue& tangent : given) {
              if (tangent) operands.push_back(*tangent);
            }
            return at_flags(wanted, build.equation(op, call, std::move(operands)));
          }};
}

Attrs without_rules(Attrs attrs) {
  attrs.erase("rules");
  const auto has_rules = [](const Eqn& eqn) { return eqn.attrs.contains("rules"); };
  if (std::ranges::none_of(bodies_of(attrs), [&](const Graph* body) { return any_eqn(*body, has_rules); }))
    return attrs;
  map_bodies(attrs, [](const Graph& body) {
    Graph graph = body;
    for (Eqn& eqn : graph.eqns) eqn.attrs = without_rules(std::move(eqn.attrs));
    return graph;
  });
  return attrs;
}

Linearized linearize_by_rules(const Attrs& attrs, std::span<const Type> operands,
                              const std::vector<bool>& with_tangent) {
  const Callback* rules = rules_of(attrs);
  return rules != nullptr && rules->on_tangents ? rules->on_tangents(operands, with_tangent)
                                                : linearize(attrs.graph(), with_tangent);
}

std::vector<MaybeValue> cotangents_by_rules(const TransposeContext& context) {
  const std::size_t count = context.attrs.graph("transposed").outputs.size();
  std::vector<Type> types(context.results.begin(), context.results.end());
  std::vector<bool> given;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < context.results.size(); ++i) {
    given.push_back(context.cotangents[i].has_value());
    if (given.back()) {
      operands.push_back(context.build.with_weakness(*context.cotangents[i], context.results[i].weak));
    }
  }
  for (std::size_t i = count; i < context.operands.size(); ++i) {
    if (context.wants(i)) throw misuse<Unsupported>("operand {} of a linear_call is one that it is not linear in", i);
    types.push_back(context.operands[i]);
    operands.push_back(*context.values[i]);
  }
  const Linearized made = rules_of(context.attrs)->on_tangents(types, given);
  std::vector<MaybeValue> cotangents = at_flags(made.has_tangent, context.build.inlined(made.primal, operands));
  cotangents.resize(context.operands.size());
  return cotangents;
}

std::optional<BatchedGraph> batched_by_rules(const Attrs& attrs, std::span<const Type> operands,
                                             const std::vector<bool>& mapped, const MappedAxis& axis) {
  const Callback* rules = rules_of(attrs);
  if (rules == nullptr || !rules->on_batch) return {};
  return rules->on_batch(operands, mapped, axis);
}

LinearizedEqn linearize_linear_call(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                                    const std::vector<bool>& with_tangent) {
  const std::size_t count = attrs.graph("transposed").outputs.size();
  const bool in_others = std::find(with_tangent.begin() + static_cast<std::ptrdiff_t>(count), with_tangent.end(),
                                   true) != with_tangent.end();
  if (in_others && !attrs.contains("body")) {
    throw misuse<Unsupported>("a linear_call without a body has no derivative by what it is not linear in");
  }
  if (in_others) {
    Attrs call = attrs;
    call.erase("transposed");
    return linearized_call(call, linearize(attrs.graph(), with_tangent));
  }
  return {
      .attrs = attrs,
      .residuals = {},
      .tangents = [&op, attrs, count, types = std::vector<Type>(operands.begin(), operands.end())](
                      std::span<const MaybeValue> tangents, std::span<const Type>, Primals& primals, Builder& build) {
        std::vector<ValueId> given;
        for (std::size_t i = 0; i < types.size(); ++i) {
          given.push_back(i >= count ? primals.operand(i) : tangents[i] ? *tangents[i] : build.zeros(types[i]));
        }
        const std::vector<ValueId> made = build.equation(op, attrs, std::move(given));
        return std::vector<MaybeValue>(made.begin(), made.end());
      }};
}

Attrs batched_rules(Attrs attrs, const std::vector<bool>& mapped, const MappedAxis& axis) {
  if (const auto* rules = attrs.find_as<CallbackAttr>("rules")) {
    rules_of(attrs);  // They are there.
    const CallbackAttr made = attrs.contains("transposed")
                                  ? pullback_in_places(*rules, attrs.graph("transposed").outputs.size(), mapped, axis)
                                  : rules_in_places(*rules, mapped, axis);
    attrs.set("rules", made);
  }
  if (attrs.contains("transposed")) {
    Graph made = transposed_in_places(attrs.graph("transposed"), mapped, axis);
    attrs.set("transposed", GraphAttr{std::make_shared<const Graph>(std::move(made))});
  }
  return attrs;
}

}  // namespace shoal
