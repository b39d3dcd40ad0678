#include "transform/region.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "transform/cut.h"
#include "transform/transpose.h"

namespace shoal {
namespace {

using Specs = std::vector<PartitionSpec>;

// What a region's attributes say.
struct Border {
  explicit Border(const Attrs& attrs)
      : body(attrs.graph()),
        mesh(attrs.get<Mesh>("mesh")),
        axes(attrs.get<std::vector<std::string>>("axes")),
        in_specs(attrs.get<Specs>("in_specs")),
        out_specs(attrs.get<Specs>("out_specs")),
        unchecked(attrs.contains("unchecked")) {}

  AxisNames sorted_axes() const {
    AxisNames sorted = axes;
    std::ranges::sort(sorted);
    return sorted;
  }
  // Without those over which the places of vmap are going to be split: along them each device has what belongs to its
  // own.
  AxisNames axes_of_copies() const { return difference_of(sorted_axes(), body.axes.places()); }
  // The axes, sorted, along which devices have copies of the cotangent of what enters or leaves by a spec, and how many
  // devices there are along them.
  AxisNames copies(const PartitionSpec& spec) const {
    AxisNames named;
    for (const PartitionEntry& entry : spec) named.insert(named.end(), entry.axes().begin(), entry.axes().end());
    std::ranges::sort(named);
    return difference_of(axes_of_copies(), union_of(named, spec.reduced()));
  }
  std::int64_t devices(const AxisNames& along) const {
    std::int64_t count = 1;
    for (const std::string& axis : along) count *= mesh.axis_size(axis);
    return count;
  }

  const Graph& body;
  const Mesh& mesh;
  const std::vector<std::string>& axes;
  const Specs& in_specs;
  const Specs& out_specs;
  bool unchecked;
};

Attrs with_border(Attrs attrs, Graph body, Specs in_specs, Specs out_specs) {
  attrs.set("body", GraphAttr{std::make_shared<const Graph>(std::move(body))});
  attrs.set("in_specs", std::move(in_specs));
  attrs.set("out_specs", std::move(out_specs));
  return attrs;
}

// By which the cotangent of what enters or leaves by a spec does.
PartitionSpec cotangent_spec(const PartitionSpec& spec) {
  return PartitionSpec(spec.entries(), spec.reduced(), spec.unreduced());
}

// What devices have of a value inside crosses the border as slices along a first dimension, by this spec, unless it is
// the same on all.
PartitionSpec slices_of(const Border& border, const Type& type) {
  const AxisNames differ = border.unchecked ? border.axes_of_copies() : type.varying;
  std::vector<std::string> axes = border.axes;
  std::erase_if(axes, [&](const std::string& axis) { return !std::ranges::binary_search(differ, axis); });
  return axes.empty() ? PartitionSpec() : PartitionSpec({PartitionEntry(axes)});
}

struct Left {
  ValueId value;  // The further output.
  PartitionSpec spec;
};

Left leave(const Border& border, Graph& body, ValueId id) {
  const Type type = body.type(id);
  const PartitionSpec spec = slices_of(border, type);
  if (!spec.empty()) {
    Shape shape = type.shape;
    shape.insert(shape.begin(), 1);
    id = Builder(body, {}).reshape(id, std::move(shape));
  }
  body.outputs.push_back(id);
  return {id, spec};
}

// The type of what left when it enters another region: summands are slices like others there.
Type type_on_border(Type type) {
  type.summands = type.reduced = {};
  return type;
}

// What left as `slice`, in another region.
ValueId enter(Graph& body, ValueId slice, const Type& type) {
  Builder build(body, {});
  if (build.type(slice).shape != type.shape) slice = build.reshape(slice, type.shape);
  return build.summed_as(slice, type);
}

// The graph of one region whose body takes operands by these specs; what the body gives leaves.
Graph graph_of_region(const OpDef& op, const Attrs& attrs, const Border& border, Graph body, Specs in_specs,
                      std::span<const Type> operands, SourceLocation where) {
  Specs out_specs;
  for (const ValueId id : std::exchange(body.outputs, {})) out_specs.push_back(leave(border, body, id).spec);
  Graph made;
  made.name = border.body.name;
  std::vector<ValueId> inputs;
  for (const Type& type : operands) inputs.push_back(made.add_input(type));
  made.outputs = made.add_eqn(op, with_border(attrs, std::move(body), std::move(in_specs), std::move(out_specs)),
                              std::move(inputs), where);
  return made;
}

}  // namespace

LinearizedEqn linearize_region(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                               const std::vector<bool>& with_tangent) {
  const Border border(attrs);
  Cut cut(border.body, with_tangent);
  const std::size_t count = cut.has_tangent.size();
  if (std::ranges::find(cut.has_tangent, true) == cut.has_tangent.end()) return without_tangents(attrs, count);
  Graph primal = cut.primal;
  Graph linear = empty_like(primal);
  Specs in_specs;
  Specs out_specs = border.out_specs;
  std::vector<std::size_t> from_operands;  // Of the linear region; those that are not operands here are residuals.
  const auto add_input = [&](std::size_t from, const Type& type, const PartitionSpec& spec) {
    from_operands.push_back(from);
    in_specs.push_back(spec);
    return linear.add_input(type);
  };
  const std::vector<bool> constants = made_of(cut.primal, std::vector<bool>(primal.inputs.size()));
  std::vector<ValueId> values = computed(cut.primal, cut.residuals, linear, [&](ValueId id) -> MaybeValue {
    if (constants[slot(id)]) return {};
    const Type& type = cut.primal.type(id);
    if (const auto input = std::ranges::find(primal.inputs, id); input != primal.inputs.end()) {
      const auto i = static_cast<std::size_t>(input - primal.inputs.begin());
      return add_input(i, type, border.in_specs[i]);
    }
    const std::size_t from = operands.size() + out_specs.size() - count;
    const Left left = leave(border, primal, id);
    out_specs.push_back(left.spec);
    return enter(linear, add_input(from, type_on_border(primal.type(left.value)), left.spec), type);
  });
  for (std::size_t i = 0; i < with_tangent.size(); ++i) {
    if (!with_tangent[i]) continue;
    in_specs.push_back(border.in_specs[i]);
    values.push_back(linear.add_input(cut.primal.type(cut.primal.inputs[i])));
  }
  linear.outputs = inline_graph(linear, cut.tangent, values);
  Specs linear_out;
  for (std::size_t i = 0; i < count; ++i) {
    if (cut.has_tangent[i]) linear_out.push_back(border.out_specs[i]);
  }
  LinearizedEqn made{.attrs = with_border(attrs, std::move(primal), border.in_specs, std::move(out_specs)),
                     .residuals = {},
                     .tangents = {}};
  const std::vector<Type> results =
      op.infer({.op = op, .inputs = operands, .attrs = made.attrs, .axes = {}, .where = Caller::line()});
  made.residuals.assign(results.begin() + static_cast<std::ptrdiff_t>(count), results.end());
  made.tangents = [&op, from_operands, num_operands = operands.size(), flags = cut.has_tangent,
                   linear_attrs = with_border(attrs, std::move(linear), std::move(in_specs), std::move(linear_out))](
                      std::span<const MaybeValue> tangents, std::span<const Type>, Primals& primals, Builder& build) {
    std::vector<ValueId> given;
    for (const std::size_t from : from_operands) {
      given.push_back(from < num_operands ? primals.operand(from) : primals.result(flags.size() + from - num_operands));
    }
    for (const MaybeValue& tangent : tangents) {
      if (tangent) given.push_back(*tangent);
    }
    return at_flags(flags, build.equation(op, linear_attrs, std::move(given)));
  };
  return made;
}

CutEqn recomputed_region(const Attrs& attrs, Recomputed parts, const std::vector<bool>& wanted) {
  const Border border(attrs);
  CutEqn made{.kept = {}, .again = {}, .operands = parts.inputs, .results = wanted};
  Specs in_specs;
  for (const std::size_t i : parts.inputs) in_specs.push_back(border.in_specs[i]);
  Specs out_specs;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) out_specs.push_back(border.out_specs[i]);
  }
  Graph again = empty_like(parts.again);
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < parts.inputs.size(); ++i) {
    values.push_back(again.add_input(parts.again.type(parts.again.inputs[i])));
  }
  Specs kept_specs = border.out_specs;
  const std::vector<ValueId> kept(parts.kept.outputs.begin() + static_cast<std::ptrdiff_t>(wanted.size()),
                                  parts.kept.outputs.end());
  parts.kept.outputs.resize(wanted.size());
  for (const ValueId id : kept) {
    made.operands.push_back(border.in_specs.size() + kept_specs.size() - wanted.size());
    const Left left = leave(border, parts.kept, id);
    kept_specs.push_back(left.spec);
    in_specs.push_back(left.spec);
    const ValueId entered = again.add_input(type_on_border(parts.kept.type(left.value)));
    values.push_back(enter(again, entered, parts.kept.type(id)));
  }
  again.outputs = inline_graph(again, parts.again, values);
  made.kept = with_border(attrs, std::move(parts.kept), border.in_specs, std::move(kept_specs));
  made.again = with_border(attrs, std::move(again), std::move(in_specs), std::move(out_specs));
  return made;
}

Graph graph_in_region(const OpDef& op, const Attrs& attrs, const Graph& graph, std::span<const Type> operands,
                      SourceLocation where) {
  const Border border(attrs);
  Graph body = empty_like(graph);
  Specs in_specs;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Type& type = graph.type(graph.inputs[i]);
    Type slice = type_on_border(type);
    const bool is_sliced = operands[i].shape.size() != type.shape.size();
    if (is_sliced) slice.shape.insert(slice.shape.begin(), 1);
    in_specs.push_back(is_sliced ? slices_of(border, type) : PartitionSpec());
    const ValueId input = body.add_input(std::move(slice));
    values.push_back(enter(body, input, type));
  }
  body.outputs = inline_graph(body, graph, values);
  return graph_of_region(op, attrs, border, std::move(body), std::move(in_specs), operands, where);
}

Graph arguments_in_region(const OpDef& op, const Attrs& attrs, std::span<const Type> operands, SourceLocation where) {
  const Border border(attrs);
  Graph body = empty_like(border.body);
  for (const ValueId id : border.body.inputs) body.outputs.push_back(body.add_input(border.body.type(id)));
  return graph_of_region(op, attrs, border, std::move(body), border.in_specs, operands, where);
}

std::vector<MaybeValue> cotangents_of_region(const TransposeContext& context) {
  const Border border(context.attrs);
  Graph ordered = border.body;
  ordered.inputs.clear();
  std::vector<std::size_t> linear;
  std::vector<ValueId> operands;
  Specs in_specs;
  for (const bool wanted : {false, true}) {
    for (std::size_t i = 0; i < context.operands.size(); ++i) {
      if (context.wants(i) != wanted) continue;
      ordered.inputs.push_back(border.body.inputs[i]);
      if (wanted) {
        linear.push_back(i);
      } else {
        operands.push_back(*context.values[i]);
        in_specs.push_back(border.in_specs[i]);
      }
    }
  }
  TransposeOptions options{
      .unchecked = border.unchecked ? union_of(context.unchecked, border.sorted_axes()) : context.unchecked,
      .given = {},
      .num_whole = linear.size(),
      .strong_zeros = context.strong_zeros};
  for (const MaybeValue& cotangent : context.cotangents) options.given.push_back(cotangent.has_value());
  const Transposed inner = transpose(ordered, operands.size(), options);

  Graph graph = empty_like(border.body);
  Builder build(graph, {});
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < operands.size(); ++i) values.push_back(graph.add_input(ordered.type(ordered.inputs[i])));
  for (std::size_t i = 0; i < options.given.size(); ++i) {
    if (!options.given[i]) continue;
    const Type type = cotangent_type(border.body.type(border.body.outputs[i]));
    ValueId cotangent = graph.add_input(type);
    operands.push_back(*context.cotangents[i]);
    in_specs.push_back(cotangent_spec(border.out_specs[i]));
    const std::int64_t devices = border.unchecked ? border.devices(border.copies(border.out_specs[i])) : 1;
    if (devices > 1) {
      const ValueId count = build.constant(static_cast<int>(devices), type.dtype);
      cotangent = build.with_weakness(build.divide(cotangent, build.broadcast_to(count, type.shape)), type.weak);
    }
    values.push_back(cotangent);
  }
  const std::vector<MaybeValue> made = at_flags(inner.has_cotangent, inline_graph(graph, inner.graph, values));
  std::vector<MaybeValue> all(context.operands.size());
  std::vector<std::size_t> given_back;
  Specs out_specs;
  for (std::size_t k = 0; k < linear.size(); ++k) {
    if (!made[k]) continue;
    ValueId cotangent = *made[k];
    const AxisNames copies = border.unchecked ? border.copies(border.in_specs[linear[k]]) : AxisNames();
    if (!copies.empty()) cotangent = build.all_reduce(cotangent, copies, ReduceKind::kSum);
    graph.outputs.push_back(cotangent);
    given_back.push_back(linear[k]);
    out_specs.push_back(cotangent_spec(border.in_specs[linear[k]]));
  }
  if (given_back.empty()) return all;
  const Attrs attrs = with_border(context.attrs, std::move(graph), std::move(in_specs), std::move(out_specs));
  const std::vector<ValueId> results = context.build.equation(context.op, attrs, std::move(operands));
  for (std::size_t k = 0; k < given_back.size(); ++k) all[given_back[k]] = results[k];
  return all;
}

}  // namespace shoal
