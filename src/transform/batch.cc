#include "transform/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/misuse.h"
#include "ir/bodies.h"
#include "ir/dim_attrs.h"
#include "transform/custom.h"
#include "transform/settle.h"

namespace shoal {
namespace {

using MaybeDim = std::optional<std::size_t>;

std::vector<Batched> at_front(const std::vector<ValueId>& values, const std::vector<bool>& mapped) {
  std::vector<Batched> made;
  for (std::size_t i = 0; i < values.size(); ++i) made.push_back({values[i], mapped[i] ? MaybeDim(0) : MaybeDim()});
  return made;
}

// An equation with the mapped axis, as those of this file see it.
struct Equation {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Batched> operands;
  const MappedAxis& axis;
  Builder& build;

  std::vector<bool> mapped() const {
    std::vector<bool> flags;
    for (const Batched& one : operands) flags.push_back(one.dim.has_value());
    return flags;
  }
  // An operand with the dimension at `dim` if `mapped`.
  ValueId operand(std::size_t i, bool mapped, std::size_t dim = 0) const {
    return mapped ? mapped_at(build, operands[i], axis.size, dim, axis.split) : operands[i].value;
  }
};

AxisNames sorted(AxisNames axes) {
  std::ranges::sort(axes);
  return axes;
}

GraphAttr as_attr(Graph graph) { return {std::make_shared<const Graph>(std::move(graph))}; }

std::vector<Batched> batch_call(const Equation& eqn) {
  const std::vector<bool> mapped = eqn.mapped();
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < mapped.size(); ++i) operands.push_back(eqn.operand(i, mapped[i]));
  std::vector<Type> types;
  for (const ValueId operand : operands) types.push_back(eqn.build.type(operand));
  if (const std::optional<BatchedGraph> made = batched_by_rules(eqn.attrs, types, mapped, eqn.axis)) {
    return at_front(eqn.build.inlined(made->graph, operands), made->mapped);
  }
  Attrs attrs = batched_rules(eqn.attrs, mapped, eqn.axis);
  // What the body has the same in all places may differ in what the user says of it.
  const bool all = attrs.contains("rules") || attrs.contains("transposed");
  std::vector<bool> results;
  if (attrs.contains("body")) {
    const Graph& called = eqn.attrs.graph();
    BatchedGraph body = batch(called, mapped, eqn.axis, std::vector<bool>(called.outputs.size(), all), types);
    attrs.set("body", as_attr(std::move(body.graph)));
    results = std::move(body.mapped);
  }
  const std::vector<ValueId> made = eqn.build.equation(eqn.op, std::move(attrs), std::move(operands));
  results.resize(made.size(), true);
  return at_front(made, results);
}

// ---- Regions. The dimension is whole on each device, or split over the axes of the mesh that it is to go with.

std::vector<PartitionSpec> with_mapped(std::vector<PartitionSpec> specs, const std::vector<bool>& mapped,
                                       const PartitionEntry& entry) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!mapped[i]) continue;
    std::vector<PartitionEntry> entries = specs[i].entries();
    entries.insert(entries.begin(), entry);
    specs[i] = PartitionSpec(std::move(entries), specs[i].unreduced(), specs[i].reduced());
  }
  return specs;
}

// An axis over which the places are split has none left for what is in one.
void check_specs(const Attrs& attrs, const std::vector<std::string>& split) {
  for (const char* specs : {"in_specs", "out_specs"}) {
    for (const PartitionSpec& spec : attrs.get<std::vector<PartitionSpec>>(specs)) {
      for (const PartitionEntry& entry : spec) {
        for (const std::string& axis : entry.axes()) {
          if (std::ranges::find(split, axis) == split.end()) continue;
          throw misuse<InvalidArgument>(
              "the mapped dimension is split over '{}', which therefore cannot appear in {} of a shard_map inside, "
              "but one of them is {}",
              axis, specs, to_string(spec));
        }
      }
    }
  }
}

std::vector<Batched> batch_region(const Equation& eqn) {
  using Specs = std::vector<PartitionSpec>;
  const auto& axes = eqn.attrs.get<std::vector<std::string>>("axes");
  const std::vector<std::string>& split = eqn.axis.split.axes;
  check_specs(eqn.attrs, split);
  const bool splits = !split.empty() && std::ranges::all_of(split, [&](const std::string& axis) {
    return std::ranges::find(axes, axis) != axes.end();
  });
  MappedAxis inside = eqn.axis;
  // Inside, a name that the region gives is that of its own axis.
  if (std::ranges::find(axes, inside.name) != axes.end()) inside.name.clear();
  if (splits) {
    const Mesh& mesh = eqn.attrs.get<Mesh>("mesh");
    std::int64_t devices = 1;
    for (const std::string& axis : split) devices *= mesh.axis_size(axis);
    if (inside.size % devices != 0) {
      throw misuse<IndivisibleError>("spmd_axis_name ({}) has {} devices, which do not divide the {} places evenly",
                                     fmt::join(split, ", "), devices, inside.size);
    }
    const Eqn region{.op = &eqn.op, .attrs = eqn.attrs, .inputs = {}, .outputs = {}, .where = {}};
    if (is_over_axis(region, inside.name)) {
      throw misuse<Unsupported>(
          "a collective over the axis '{}' of vmap cannot be inside a shard_map over ({}), as spmd_axis_name splits "
          "the places over it; name these axes in the collective, or leave spmd_axis_name out",
          inside.name, fmt::join(split, ", "));
    }
    inside.size /= devices;
    inside.split = {};
    inside.varying = union_of(inside.varying, sorted(split));
  }
  const PartitionEntry entry = splits ? PartitionEntry(split) : PartitionEntry();
  const std::vector<bool> mapped = eqn.mapped();
  BatchedGraph body = batch(eqn.attrs.graph(), mapped, inside);
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < mapped.size(); ++i) operands.push_back(eqn.operand(i, mapped[i]));
  Attrs attrs = eqn.attrs;
  attrs.set("in_specs", with_mapped(eqn.attrs.get<Specs>("in_specs"), mapped, entry));
  attrs.set("out_specs", with_mapped(eqn.attrs.get<Specs>("out_specs"), body.mapped, entry));
  attrs.set("body", as_attr(std::move(body.graph)));
  return at_front(eqn.build.equation(eqn.op, std::move(attrs), std::move(operands)), body.mapped);
}

// ---- Control

// Where the mapped dimension is in an operand of a loop or branch, or in a result: after that of the slices.
std::size_t dim_around(bool is_stack) { return is_stack ? 1 : 0; }

// The bodies for arguments of which some are mapped.
struct Bodies {
  std::vector<BatchedGraph> graphs;
  BodyFlags flags;  // What is mapped.
};

Bodies batch_bodies(const Equation& eqn, const Control& control, std::vector<bool> arguments) {
  const std::span<const GraphAttr> all = bodies_in(eqn.attrs);
  const std::span<const GraphAttr> bodies = all.subspan(control.asks ? 1 : 0);
  Bodies made;
  made.flags = settle(
      control, std::move(arguments), bodies[0].graph->outputs.size(), bodies.size(),
      [&](std::size_t b, const BodyFlags& flags) {
        if (b == 0) made.graphs.clear();
        return made.graphs.emplace_back(batch(*bodies[b].graph, flags.arguments, eqn.axis, flags.results)).mapped;
      });
  return made;
}

// A condition, mapped, for all elements of a value of this shape that is mapped, too.
ValueId choose(Builder& build, ValueId condition, ValueId then, ValueId otherwise) {
  const Type type = build.type(then);
  if (build.type(condition).memory != type.memory) condition = build.to_memory(condition, type.memory);
  return build.select(build.broadcast_in_dim(condition, type.shape, {0}), then, otherwise);
}

// The same value; derivatives by it pass only where the condition holds. What is infinite or NaN on a way that a place
// does not go is none of its business.
ValueId differing_where(Builder& build, ValueId condition, ValueId value) {
  const Dtype dtype = build.type(value).dtype;
  if (!is_floating(dtype) && !is_complex(dtype)) return value;
  return choose(build, condition, value, build.apply("stop_gradient", {}, {value}));
}

// A loop goes on as long as one place does; those that have ended keep what they have.
void go_on_together(Bodies& bodies, Graph& question, const Control& control) {
  Graph& body = bodies.graphs[0].graph;
  Builder build(body, {});
  const ValueId goes_on = inline_graph(body, question, body.inputs)[0];
  for (std::size_t i = 0; i < control.carries; ++i) {
    body.outputs[i] = choose(build, goes_on, body.outputs[i], body.inputs[i]);
  }
  question.outputs[0] = Builder(question, {}).reduce(ReduceKind::kOr, question.outputs[0], {0});
}

std::vector<Batched> batch_switch(const Equation& eqn) {
  // Each place goes its own way: all ways are gone, and each takes its own.
  Builder& build = eqn.build;
  const std::vector<GraphAttr>& bodies = bodies_in(eqn.attrs);
  const std::vector<bool> all = eqn.mapped();
  const std::vector<bool> mapped(all.begin() + 1, all.end());
  const ValueId index = eqn.operand(0, true);
  const std::size_t count = bodies[0].graph->outputs.size();
  std::vector<ValueId> chosen;
  for (std::size_t b = bodies.size(); b-- > 0;) {
    if (any_eqn(*bodies[b].graph, [](const Eqn& inner) { return has_effect(inner); })) {
      throw misuse<Unsupported>(
          "a branch that calls the user's program cannot be chosen place by place, by an index or predicate that is "
          "mapped");
    }
    BatchedGraph body = batch(*bodies[b].graph, mapped, eqn.axis, std::vector<bool>(count, true));
    std::vector<ValueId> operands;
    const ValueId number = build.constant(static_cast<int>(b), int32);
    // An index that is too small is the first, one that is too large the last.
    const bool is_end = b == 0 || b + 1 == bodies.size();
    const ValueId takes = build.elementwise(!is_end  ? "equal"
                                            : b == 0 ? "less_equal"
                                                     : "greater_equal",
                                            {index, number});
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      const ValueId operand = eqn.operand(i + 1, mapped[i]);
      operands.push_back(mapped[i] ? differing_where(build, takes, operand) : operand);
    }
    const std::vector<ValueId> results = build.inlined(body.graph, operands);
    if (chosen.empty()) {
      chosen = results;
      continue;
    }
    const ValueId is_this = build.elementwise("less_equal", {index, number});
    for (std::size_t i = 0; i < count; ++i) chosen[i] = choose(build, is_this, results[i], chosen[i]);
  }
  return at_front(chosen, std::vector<bool>(count, true));
}

std::vector<Batched> batch_control(const Equation& eqn) {
  const Control control = eqn.op.control(eqn.attrs);
  const std::vector<bool> mapped = eqn.mapped();
  if (control.first_argument > 0 && mapped[0]) return batch_switch(eqn);
  std::vector<bool> arguments(mapped.begin() + static_cast<std::ptrdiff_t>(control.first_argument), mapped.end());
  Bodies bodies = batch_bodies(eqn, control, arguments);
  std::vector<Graph> graphs;
  if (control.asks) {
    BatchedGraph question = batch(*bodies_in(eqn.attrs)[0].graph, bodies.flags.arguments, eqn.axis);
    if (question.mapped[0]) {
      std::fill_n(arguments.begin(), control.carries, true);
      bodies = batch_bodies(eqn, control, arguments);
      question = batch(*bodies_in(eqn.attrs)[0].graph, bodies.flags.arguments, eqn.axis);
      go_on_together(bodies, question.graph, control);
    }
    graphs.push_back(std::move(question.graph));
  }
  for (BatchedGraph& one : bodies.graphs) graphs.push_back(std::move(one.graph));
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < control.first_argument; ++i) operands.push_back(eqn.operands[i].value);
  for (std::size_t i = 0; i < bodies.flags.arguments.size(); ++i) {
    operands.push_back(
        eqn.operand(control.first_argument + i, bodies.flags.arguments[i], dim_around(control.is_slice(i))));
  }
  const std::vector<ValueId> results =
      eqn.build.equation(eqn.op, with_bodies(eqn.attrs, std::move(graphs)), std::move(operands));
  std::vector<Batched> made;
  for (std::size_t i = 0; i < results.size(); ++i) {
    made.push_back({results[i], bodies.flags.results[i] ? MaybeDim(dim_around(control.is_stack(i))) : MaybeDim()});
  }
  return made;
}

}  // namespace

AxisEnv without_axis(const AxisEnv& axes, const MappedAxis& axis) {
  AxisEnv others;
  for (const auto& [name, size] : axes.axes()) {
    if (name != axis.name) others.bind(name, size);
  }
  // Those over which they are split now, here or in a region around.
  others.split_places(difference_of(difference_of(axes.places(), sorted(axis.split.axes)), axis.varying));
  return others;
}

bool is_over_axis(const Eqn& eqn, std::string_view axis) {
  if (axis.empty()) return false;
  const OpClass op_class = eqn.op->op_class;
  if (op_class == OpClass::kCollective || op_class == OpClass::kTyping || op_class == OpClass::kRegion) {
    const auto* axes = eqn.attrs.find_as<std::vector<std::string>>("axes");
    const bool names = axes != nullptr && std::ranges::find(*axes, axis) != axes->end();
    if (op_class != OpClass::kRegion) return names;
    if (names) return false;  // Inside, the name is that of its own axis.
  }
  return std::ranges::any_of(bodies_of(eqn), [&](const Graph* body) {
    return std::ranges::any_of(body->eqns, [&](const Eqn& one) { return is_over_axis(one, axis); });
  });
}

std::vector<Batched> batch_eqn(const OpDef& op, const Attrs& attrs, std::span<const Batched> operands,
                               const MappedAxis& axis, Builder& build) {
  const Equation eqn{.op = op, .attrs = attrs, .operands = operands, .axis = axis, .build = build};
  switch (op.op_class) {
    case OpClass::kCall:
      return batch_call(eqn);
    case OpClass::kControl:
      return batch_control(eqn);
    case OpClass::kRegion:
      return batch_region(eqn);
    default:
      return batched_by_record({.op = op,
                                .attrs = attrs,
                                .operands = operands,
                                .size = axis.size,
                                .axis = axis.name,
                                .split = axis.split,
                                .build = build});
  }
}

BatchedGraph batch(const Graph& graph, const std::vector<bool>& mapped, const MappedAxis& axis,
                   const std::vector<bool>& wanted, std::span<const Type> types) {
  BatchedGraph made{.graph = {}, .mapped = {}};
  Graph& result = made.graph;
  result.name = graph.name;
  result.axes = without_axis(graph.axes, axis);
  std::vector<Batched> values(graph.values.size());
  const auto outside = [&](Type type, bool is_mapped) {
    type.varying = axis.name.empty() ? type.varying : difference_of(type.varying, {axis.name});
    if (!is_mapped) return type;
    type.varying = union_of(type.varying, axis.varying);
    type = with_dim(std::move(type), 0, axis.size);
    return type.explicit_axes ? split_at(std::move(type), 0, axis.split, result.axes) : type;
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    Type type = outside(graph.type(graph.inputs[i]), mapped[i]);
    if (!types.empty()) type.explicit_axes = types[i].explicit_axes;
    const ValueId input = result.add_input(std::move(type));
    values[slot(graph.inputs[i])] = {input, mapped[i] ? MaybeDim(0) : MaybeDim()};
  }
  for (const Eqn& eqn : graph.eqns) {
    Builder build(result, eqn.where);
    std::vector<Batched> operands;
    for (const ValueId id : eqn.inputs) operands.push_back(values[slot(id)]);
    const bool is_mapped = std::ranges::any_of(operands, [](const Batched& one) { return one.dim.has_value(); });
    std::vector<Batched> results;
    if (is_mapped || is_over_axis(eqn, axis.name)) {
      results = batch_eqn(*eqn.op, eqn.attrs, operands, axis, build);
    } else {
      std::vector<ValueId> same;
      for (const Batched& one : operands) same.push_back(one.value);
      for (const ValueId id : build.equation(*eqn.op, eqn.attrs, std::move(same))) results.push_back({id, {}});
    }
    for (std::size_t i = 0; i < results.size(); ++i) values[slot(eqn.outputs[i])] = results[i];
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Batched& value = values[slot(graph.outputs[i])];
    made.mapped.push_back(value.dim.has_value() || (!wanted.empty() && wanted[i]));
    Builder build(result, {});
    const ValueId output = made.mapped.back() ? mapped_at(build, value, axis.size, 0, axis.split) : value.value;
    result.outputs.push_back(build.with_weakness(output, graph.type(graph.outputs[i]).weak));
  }
  return made;
}

}  // namespace shoal
