#include "spmd/manual_region.h"

#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace shoal {
namespace {

AtomSet varying_after(const OpDef& op, AtomSet before, AtomSet atoms) {
  if (op.name == "all_reduce" || op.name == "all_gather") return before - atoms;
  if (op.name == "pvary") return before;
  return before | atoms;
}

Atoms atoms_of(const Grid& grid, const Mesh& mesh, const std::vector<std::string>& axes) {
  Atoms atoms;
  for (const std::string& axis : axes) {
    const Atoms some = grid.dims_of(mesh, PartitionSpec({axis}), 1)[0];
    atoms.insert(atoms.end(), some.begin(), some.end());
  }
  return atoms;
}

}  // namespace

std::vector<ValueId> inline_manual_region(Graph& target, const Graph& body, const Mesh& mesh,
                                          std::span<const ValueId> arguments) {
  SHOAL_CHECK(arguments.size() == body.inputs.size(), "a manual region takes as many arguments as it has inputs");
  std::unordered_map<ValueId, ValueId> renamed;
  for (std::size_t i = 0; i < arguments.size(); ++i) renamed[body.inputs[i]] = arguments[i];
  for (const Eqn& eqn : body.eqns) {
    Eqn copy = eqn;
    AtomSet varying;
    for (ValueId& id : copy.inputs) {
      id = renamed.at(id);
      varying = varying | target.value(id).varying;
    }
    if (eqn.op->op_class == OpClass::kCollective) {
      const Atoms atoms = atoms_of(*target.grid, mesh, eqn.attrs.get<std::vector<std::string>>("axes"));
      copy.attrs.set("axes", target.grid->axis_refs(atoms));
      varying = varying_after(*eqn.op, varying, AtomSet(atoms));
    }
    for (ValueId& id : copy.outputs) {
      Type type = body.type(id);
      type.varying = {};
      const ValueId fresh = target.add_value(std::move(type));
      target.value(fresh).varying = varying;
      renamed[id] = fresh;
      id = fresh;
    }
    target.eqns.push_back(std::move(copy));
  }
  std::vector<ValueId> results;
  for (ValueId id : body.outputs) results.push_back(renamed.at(id));
  return results;
}

}  // namespace shoal
