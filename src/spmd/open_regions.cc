#include "spmd/open_regions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ir/bodies.h"
#include "ops/builder.h"

namespace shoal {
namespace {

// The spec of an operand outside where Explicit axes go on to split it inside.
PartitionSpec joined_spec(const PartitionSpec& spec, const Type& inside) {
  if (!inside.explicit_axes) return spec;
  std::vector<PartitionEntry> entries;
  for (std::size_t d = 0; d < inside.rank(); ++d) {
    std::vector<std::string> axes = d < spec.size() ? spec[d].axes() : std::vector<std::string>();
    const std::vector<std::string>& more = inside.explicit_axes->dims[d];
    axes.insert(axes.end(), more.begin(), more.end());
    entries.emplace_back(std::move(axes));
  }
  const ExplicitAxes& own = *inside.explicit_axes;
  return PartitionSpec(std::move(entries), union_of(spec.unreduced(), own.unreduced),
                       union_of(spec.reduced(), own.reduced));
}

// Whether opening changes nothing of an equation outside of regions.
bool stays_outside(const Eqn& eqn) {
  if (eqn.op->op_class == OpClass::kTyping) return eqn.op->relaxes_axes || !eqn.attrs.contains("axes");
  return eqn.op->op_class == OpClass::kCompute || eqn.op->op_class == OpClass::kConstraint;
}

class Opener {
 public:
  Opener(Graph& target, const Mesh& mesh, AtomSet manual) : target_(target), mesh_(mesh), manual_(manual) {}

  // Once.
  std::vector<ValueId> append(const Graph& body, std::span<const ValueId> arguments) {
    SHOAL_CHECK(arguments.size() == body.inputs.size(), "a body takes as many arguments as it has inputs");
    renamed_.resize(body.values.size(), -1);
    for (std::size_t i = 0; i < arguments.size(); ++i) renamed_[slot(body.inputs[i])] = arguments[i];
    for (const Eqn& eqn : body.eqns) {
      Eqn copy = eqn;
      for (ValueId& id : copy.inputs) id = renamed_[slot(id)];
      if (eqn.op->op_class == OpClass::kRegion) {
        open(eqn, copy.inputs, body.types(eqn.outputs));
        continue;
      }
      if (eqn.op->op_class == OpClass::kTyping && !eqn.op->relaxes_axes && eqn.attrs.contains("axes")) {
        renamed_[slot(eqn.outputs[0])] = copy.inputs[0];  // Types say nothing of manual axes any more.
        continue;
      }
      if (eqn.op->op_class == OpClass::kCollective) {
        const auto& axes = eqn.attrs.get<std::vector<std::string>>("axes");
        copy.attrs = over_axes(std::move(copy.attrs), target_.grid->axis_refs(atoms_on(*target_.grid, mesh_, axes)));
        copy.attrs.erase("reduced");
      }
      if (eqn.op->op_class == OpClass::kControl) {
        map_bodies(copy, [&](const Graph& inner) { return opened(inner); });
      }
      if (eqn.op->op_class == OpClass::kEffect) {
        copy.attrs = over_axes(std::move(copy.attrs), target_.grid->axis_refs(manual_.sorted()));
      }
      for (ValueId& id : copy.outputs) id = add(id, body.type(id));
      target_.eqns.push_back(std::move(copy));
    }
    std::vector<ValueId> results;
    for (ValueId id : body.outputs) results.push_back(renamed_[slot(id)]);
    return results;
  }

 private:
  // A body of its own, in the same region.
  Graph opened(const Graph& body) const {
    Graph result;
    result.name = body.name;
    result.grid = target_.grid;
    for (ValueId id : body.inputs) {
      Type type = body.type(id);
      type.varying = type.summands = type.reduced = {};
      result.value(result.add_input(std::move(type))).manual = manual_;
    }
    const std::vector<ValueId> inputs = result.inputs;
    result.outputs = Opener(result, mesh_, manual_).append(body, inputs);
    return result;
  }

  ValueId add(ValueId old_id, Type type) {
    type.varying = type.summands = type.reduced = {};
    const ValueId id = target_.add_value(std::move(type));
    target_.value(id).manual = manual_;
    renamed_[slot(old_id)] = id;
    return id;
  }

  void open(const Eqn& eqn, std::span<const ValueId> operands, const std::vector<Type>& types) {
    const Mesh& mesh = eqn.attrs.get<Mesh>("mesh");
    const auto& axes = eqn.attrs.get<std::vector<std::string>>("axes");
    const auto& in_specs = eqn.attrs.get<std::vector<PartitionSpec>>("in_specs");
    const auto& out_specs = eqn.attrs.get<std::vector<PartitionSpec>>("out_specs");
    const AtomSet inside = manual_ | AtomSet(atoms_on(*target_.grid, mesh, axes));
    Builder build(target_, eqn.where);
    const auto of_region = [&](ValueId id, AtomSet manual) {
      target_.value(id).manual = manual;
      return id;
    };
    std::vector<ValueId> arguments;
    const Graph& body = eqn.attrs.graph();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      // A value of its own, as the same operand may enter several regions by different specs.
      const NamedSharding sharding(mesh, joined_spec(in_specs[i], body.type(body.inputs[i])), {}, eqn.where);
      const ValueId placed = of_region(build.sharding_constraint(operands[i], sharding), manual_);
      arguments.push_back(of_region(build.enter_manual(placed, axes, NamedSharding(mesh, in_specs[i])), inside));
    }
    const std::vector<ValueId> results = Opener(target_, mesh, inside).append(body, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ValueId left = of_region(build.leave_manual(results[i], axes, NamedSharding(mesh, out_specs[i])), manual_);
      target_.value(left).type.explicit_axes = types[i].explicit_axes;
      renamed_[slot(eqn.outputs[i])] = left;
    }
  }

  Graph& target_;
  const Mesh& mesh_;
  AtomSet manual_;
  std::vector<ValueId> renamed_;
};

}  // namespace

Atoms atoms_on(const Grid& grid, const Mesh& mesh, const std::vector<std::string>& axes) {
  Atoms atoms;
  for (const std::string& axis : axes) {
    const Atoms some = grid.dims_of(mesh, PartitionSpec({axis}), 1)[0];
    atoms.insert(atoms.end(), some.begin(), some.end());
  }
  return atoms;
}

std::vector<ValueId> append_body(Graph& target, const Graph& body, const Mesh& mesh, AtomSet manual,
                                 std::span<const ValueId> arguments) {
  return Opener(target, mesh, manual).append(body, arguments);
}

Graph open_regions(Graph graph) {
  graph.axes = {};
  if (std::ranges::all_of(graph.eqns, &stays_outside)) return graph;
  Graph result;
  result.name = graph.name;
  result.grid = graph.grid;
  for (ValueId id : graph.inputs) result.add_input(graph.type(id));
  const std::vector<ValueId> inputs = result.inputs;
  result.outputs = append_body(result, graph, graph.grid->mesh(), {}, inputs);
  return result;
}

}  // namespace shoal
