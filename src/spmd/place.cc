#include "spmd/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/device_list.h"
#include "ir/bodies.h"
#include "ir/explicit_axes.h"
#include "ops/builder.h"
#include "sharding/default_place.h"
#include "sharding/shared_grid.h"
#include "shoal/default_device.h"
#include "shoal/error.h"
#include "spmd/map_meshes.h"
#include "spmd/open_regions.h"

namespace shoal {
namespace {

// Something that names devices: an input, a constraint, a shard_map or an output.
struct Placed {
  std::string label;
  std::vector<Device> devices;
  std::optional<Mesh> mesh = {};
  std::optional<SourceLocation> where = {};
  bool is_input = false;  // Moved to the program's mesh if it lies on another one over the same devices.
};

Placed placed(std::string label, const Sharding& sharding, bool is_input) {
  Placed result{.label = std::move(label), .devices = sharding.device_list(), .is_input = is_input};
  if (const NamedSharding* named = sharding.named()) {
    result.mesh = named->mesh();
    if (!named->spec().unreduced().empty()) result.is_input = false;  // Summands stay where they are.
  }
  return result;
}

void collect(const Graph& graph, std::vector<Placed>& found) {
  const auto names_devices = [](const std::pair<std::string, Attr>& entry) {
    return std::holds_alternative<NamedSharding>(entry.second) || std::holds_alternative<Mesh>(entry.second);
  };
  for_each_eqn(graph, [&](const Eqn& eqn) {
    if (std::ranges::none_of(eqn.attrs.entries(), names_devices)) return;
    if (const auto* sharding = eqn.attrs.find_as<NamedSharding>("sharding")) {
      found.push_back({.label = "with_sharding_constraint",
                       .devices = sharding->mesh().devices(),
                       .mesh = sharding->mesh(),
                       .where = eqn.where});
    } else if (const auto* wanted = eqn.attrs.find_as<NamedSharding>("out_sharding")) {
      const Mesh& mesh = wanted->mesh();
      found.push_back({.label = "out_sharding", .devices = mesh.devices(), .mesh = mesh, .where = eqn.where});
    } else if (const auto* mesh = eqn.attrs.find_as<Mesh>("mesh")) {
      found.push_back({.label = "shard_map", .devices = mesh->devices(), .mesh = *mesh, .where = eqn.where});
    }
  });
}

// The sharding an input was given with, if `id` is one and the grid's meshes express it.
const Sharding* given_sharding(const Graph& graph, const Placing& placing, ValueId id) {
  const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
  if (input == graph.inputs.end()) return nullptr;
  const std::optional<Sharding>& sharding =
      placing.inputs[static_cast<std::size_t>(input - graph.inputs.begin())].sharding;
  const bool usable = sharding && sharding->named() != nullptr && placing.grid->covers(sharding->named()->mesh());
  return usable ? &*sharding : nullptr;
}

}  // namespace

Graph give_devices(Graph graph, Placing& placing) {
  const std::string name = graph.name;
  std::optional<Mesh> abstract;
  std::vector<Device> found = placing.devices;
  const auto look = [&](const Mesh& mesh) {
    if (mesh.is_abstract()) {
      abstract = mesh;
    } else if (found.empty()) {
      found = mesh.devices();
    }
    return mesh;
  };
  const auto give = [&](const Mesh& mesh) {
    if (!mesh.is_abstract()) return mesh;
    if (mesh.size() == static_cast<std::int64_t>(found.size())) return mesh.with_devices(found, placing.where);
    throw InvalidArgument(fmt::format("{}: {} stands for {} devices, but this is to run on {}", name, to_string(mesh),
                                      mesh.size(), describe_devices(found)),
                          placing.where);
  };
  const auto map_all = [&](auto&& f) {
    for (InputSpec& input : placing.inputs) {
      if (input.sharding) input.sharding = map_mesh(*input.sharding, f);
    }
    for (OutputSpec& output : placing.outputs) {
      if (output.sharding) output.sharding = map_mesh(*output.sharding, f);
    }
    return map_meshes(std::move(graph), f);
  };
  graph = map_all(look);
  if (!abstract) return graph;
  for (const InputSpec& input : placing.inputs) {
    if (found.empty() && input.sharding && input.sharding->single_device() != nullptr) {
      found = input.sharding->device_list();
    }
  }
  if (found.empty()) {
    throw InvalidArgument(
        fmt::format("{}: {} has no devices, and no array or mesh names any; pass arrays that lie on a "
                    "mesh, or compile for devices that you name: compile(devices())",
                    name, to_string(*abstract)),
        placing.where);
  }
  return map_all(give);
}

void choose_grid(const Graph& graph, Placing& placing) {
  std::vector<Placed> all;
  if (!placing.devices.empty()) all.push_back({.label = "the program", .devices = placing.devices});
  for (const InputSpec& input : placing.inputs) {
    if (input.sharding) all.push_back(placed(input.label, *input.sharding, true));
  }
  collect(graph, all);
  for (const OutputSpec& output : placing.outputs) {
    if (output.sharding) all.push_back(placed(output.label, *output.sharding, false));
  }
  if (const Mesh& mesh = default_place().mesh; all.empty() && !mesh.empty()) {
    all.push_back({.label = "set_mesh", .devices = mesh.devices(), .mesh = mesh});
  }
  placing.committed = !all.empty();
  if (all.empty()) {
    placing.grid = shared_grid(default_device());
    return;
  }
  for (const Placed& one : all) {
    if (one.devices == all[0].devices) continue;
    throw InvalidArgument(
        fmt::format("{}: incompatible devices: {} lies on {}, but {} lies on {}; all must name the same "
                    "devices in the same order",
                    graph.name, all[0].label, describe_devices(all[0].devices), one.label,
                    describe_devices(one.devices)),
        one.where.value_or(placing.where));
  }
  check_devices(all[0].devices, fmt::format("{}: {}", graph.name, all[0].label), all[0].where.value_or(placing.where));
  const auto first = std::find_if(all.begin(), all.end(), [](const Placed& one) { return one.mesh.has_value(); });
  if (first == all.end()) {
    placing.grid = shared_grid(all[0].devices.front());
    return;
  }
  placing.grid = shared_grid(*first->mesh);
  placing.meshes.push_back(*first->mesh);
  for (const Placed& one : all) {
    if (!one.mesh) continue;
    if (std::find(placing.meshes.begin(), placing.meshes.end(), *one.mesh) == placing.meshes.end())
      placing.meshes.push_back(*one.mesh);
    if (placing.grid->covers(*one.mesh) || one.is_input) continue;
    throw Unsupported(
        fmt::format("{}: {} uses {}, whose axes cannot be divided into the same parts as those of {} of {}", graph.name,
                    one.label, to_string(*one.mesh), to_string(*first->mesh), first->label),
        one.where.value_or(placing.where));
  }
}

Graph place(Graph graph, const Placing& placing) {
  graph.grid = placing.grid;
  graph = open_regions(std::move(graph));
  Builder build(graph, placing.where);
  for (std::size_t i = 0; i < placing.outputs.size(); ++i) {
    if (!placing.outputs[i].sharding) continue;
    const Sharding& wanted = *placing.outputs[i].sharding;
    ValueId& id = graph.outputs[i];
    wanted.check_compatible(graph.type(id).shape, placing.outputs[i].label, placing.where);
    if (graph.type(id).memory != wanted.memory_kind()) {
      id = build.to_memory(id, wanted.memory_kind());
    }
    if (wanted.named() != nullptr) {
      id = build.sharding_constraint(id, *wanted.named());
    }
  }
  return graph;
}

std::vector<std::optional<Placement>> fixed_inputs(const Graph& placed, const Placing& placing) {
  std::vector<std::optional<Placement>> fixed;
  for (std::size_t i = 0; i < placing.inputs.size(); ++i) {
    const std::optional<Sharding>& sharding = placing.inputs[i].sharding;
    const NamedSharding* named = sharding ? sharding->named() : nullptr;
    if (named != nullptr && placing.grid->covers(named->mesh())) {
      const std::size_t rank = placed.type(placed.inputs[i]).rank();
      fixed.push_back(Placement{.dims = placing.grid->dims_of(named->mesh(), named->spec(), rank), .partial = {}});
    } else {
      fixed.emplace_back();
    }
  }
  return fixed;
}

Sharding express(const Type& type, const Placing& placing, std::vector<Atoms>& dims) {
  const Grid& grid = *placing.grid;
  if (placing.meshes.empty()) return SingleDeviceSharding(grid.devices().front(), type.memory);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto is_explicit = [&](Atom atom) {
      return grid.mesh().axis_types()[grid.axis_of(atom)] == AxisType::kExplicit;
    };
    const auto other = std::find_if_not(dims[d].begin(), dims[d].end(), is_explicit);
    dims[d].erase(std::find_if(other, dims[d].end(), is_explicit), dims[d].end());
    while (type.shape[d] % grid.size_of(dims[d]) != 0) dims[d].pop_back();
  }
  // Where the type says all of it, it is taken at its word: also that axes of size 1 split a dimension.
  if (type.explicit_axes) {
    const NamedSharding typed(type.explicit_axes->mesh, spec_of(*type.explicit_axes), {.memory_kind = type.memory});
    const bool is_known = std::find(placing.meshes.begin(), placing.meshes.end(), typed.mesh()) != placing.meshes.end();
    if (is_known && grid.placement_of(typed.mesh(), typed.spec(), dims.size()).dims == dims) return typed;
  }
  // What is still to be summed, or reduced, is known to be so over the mesh of its type.
  const bool is_summed =
      type.explicit_axes && !(type.explicit_axes->unreduced.empty() && type.explicit_axes->reduced.empty());
  const std::vector<Mesh> meshes = is_summed ? std::vector{type.explicit_axes->mesh} : placing.meshes;
  const std::vector<std::string> unreduced = is_summed ? type.explicit_axes->unreduced : std::vector<std::string>();
  const std::vector<std::string> reduced = is_summed ? type.explicit_axes->reduced : std::vector<std::string>();
  // A type that says how Explicit axes split each dimension says so of those that are whole, too.
  const auto entries_over = [&](const Mesh& mesh, const PartitionSpec& spec) {
    std::vector<PartitionEntry> entries = spec.entries();
    const std::vector<AxisType>& types = mesh.axis_types();
    if (std::find(types.begin(), types.end(), AxisType::kExplicit) != types.end()) entries.resize(type.rank());
    return entries;
  };
  const auto spec_over_any_mesh = [&]() -> std::optional<NamedSharding> {
    for (const Mesh& mesh : meshes) {
      if (!grid.covers(mesh)) continue;
      const auto spec = grid.spec_of(mesh, dims);
      if (!spec) continue;
      return NamedSharding(mesh, PartitionSpec(entries_over(mesh, *spec), unreduced, reduced),
                           {.memory_kind = type.memory});
    }
    return std::nullopt;
  };
  std::optional<NamedSharding> sharding = spec_over_any_mesh();
  while (!sharding) {
    for (Atoms& atoms : dims) {
      if (!grid.spec_of(meshes[0], {atoms})) atoms.pop_back();
    }
    sharding = spec_over_any_mesh();
  }
  return *sharding;
}

void settle_outputs(Graph& propagated, Placing& placing) {
  for (std::size_t i = 0; i < propagated.outputs.size(); ++i) {
    ValueId& id = propagated.outputs[i];
    if (placing.outputs[i].sharding) {
      placing.output_shardings.push_back(*placing.outputs[i].sharding);
    } else if (const Sharding* given = given_sharding(propagated, placing, id)) {
      placing.output_shardings.push_back(*given);  // As it was written.
    } else {
      std::vector<Atoms> dims = propagated.value(id).placement->dims;
      placing.output_shardings.push_back(express(propagated.type(id), placing, dims));
      if (dims == propagated.value(id).placement->dims) continue;
      const NamedSharding& sharding = *placing.output_shardings.back().named();
      const Atoms partial = propagated.value(id).placement->partial;
      id = Builder(propagated, {}).sharding_constraint(id, sharding);
      propagated.value(id).placement = Placement{.dims = std::move(dims), .partial = partial};
    }
  }
}

void settle_inputs(const Graph& propagated, Placing& placing) {
  for (std::size_t i = 0; i < placing.inputs.size(); ++i) {
    const Value& value = propagated.value(propagated.inputs[i]);
    placing.input_placements.push_back(*value.placement);
    std::vector<Atoms> dims = value.placement->dims;
    placing.input_shardings.push_back(placing.inputs[i].sharding ? *placing.inputs[i].sharding
                                                                 : express(value.type, placing, dims));
  }
}

void report_shardings(const Graph& propagated, const Placing& placing) {
  for (const Eqn& eqn : propagated.eqns) {
    if (!eqn.op->when_compiled) continue;
    const auto& callback = eqn.attrs.get<CallbackAttr>("callback").callback;
    const Value& value = propagated.value(eqn.inputs[0]);
    std::vector<Atoms> dims = value.placement->dims;
    if (callback != nullptr) callback->on_sharding(express(value.type, placing, dims));
  }
}

Graph place_in_region(const Graph& body, const GridPtr& grid, const ManualRegion& region) {
  Graph placed;
  placed.name = body.name;
  placed.grid = grid;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    Type type = body.type(body.inputs[i]);
    type.varying = type.summands = type.reduced = {};
    type.explicit_axes = {};
    Value& input = placed.value(placed.add_input(std::move(type)));
    input.manual = region.manual;
    input.varying = region.varying[i];
  }
  const std::vector<ValueId> inputs = placed.inputs;
  placed.outputs = append_body(placed, body, region.mesh, region.manual, inputs);
  return placed;
}

}  // namespace shoal
