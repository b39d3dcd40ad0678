#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/env.h"
#include "base/log.h"
#include "comm/record/communicator.h"
#include "core/host_allocator.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/inline_calls.h"
#include "passes/simplify.h"
#include "runtime/compile_report.h"
#include "runtime/lane.h"
#include "runtime/rematerialize.h"
#include "runtime/result_checks.h"
#include "runtime/transfer_guard.h"
#include "sharding/default_place.h"
#include "shoal/default_device.h"
#include "shoal/error.h"
#include "spmd/map_meshes.h"
#include "spmd/open_regions.h"
#include "spmd/overlap.h"
#include "spmd/partition.h"
#include "spmd/propagate.h"

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
  for (const Eqn& eqn : graph.eqns) {
    if (const Attr* attr = eqn.attrs.find("sharding")) {
      const auto& sharding = std::get<NamedSharding>(*attr);
      found.push_back({.label = "with_sharding_constraint",
                       .devices = sharding.mesh().devices(),
                       .mesh = sharding.mesh(),
                       .where = eqn.where});
    } else if (const Attr* wanted = eqn.attrs.find("out_sharding")) {
      const Mesh& mesh = std::get<NamedSharding>(*wanted).mesh();
      found.push_back({.label = "out_sharding", .devices = mesh.devices(), .mesh = mesh, .where = eqn.where});
    } else if (const Attr* mesh = eqn.attrs.find("mesh")) {
      found.push_back({.label = "shard_map",
                       .devices = std::get<Mesh>(*mesh).devices(),
                       .mesh = std::get<Mesh>(*mesh),
                       .where = eqn.where});
      collect(eqn.attrs.graph(), found);
    }
  }
}

bool is_small(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Value& value : graph.values) {
    elements += num_elements(value.type.shape) * graph.grid->size_of(value.varying);
    if (elements > Lane::kSmallElements) return false;
  }
  return true;
}

// What a program may take beside its arguments. They are in use already, unless it is compiled before they are made.
std::size_t memory_left(std::size_t argument_bytes) {
  const HostAllocator& memory = HostAllocator::shared();
  const std::size_t used = std::max(memory.bytes_in_use(), argument_bytes);
  return memory.limit() - std::min(memory.limit(), used);
}

bool checks_graphs() {
#ifdef SHOAL_CHECKED
  return true;
#else
  static const bool checked = env_bool("SHOAL_CHECKED").value_or(false);
  return checked;
#endif
}

}  // namespace

Program::Program(Graph traced, std::vector<InputSpec> inputs, std::vector<OutputSpec> outputs, SourceLocation where,
                 std::vector<Device> devices)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), devices_(std::move(devices)), dump_(traced.name) {
  CompileReport report(traced, where);
  add_stage("traced", std::move(traced));
  Graph simplified = stages_.back().graph;
  using Pass = Graph (*)(const Graph&);
  constexpr std::pair<const char*, Pass> kPasses[] = {
      {"inline_calls", inline_calls}, {"simplify", simplify}, {"cse", cse}};
  for (const auto& [name, pass] : kPasses) {
    simplified = pass(simplified);
    look_at(simplified, name);
    report.end_stage(name);
  }
  add_stage("simplified", dce(simplified));
  report.end_stage("dce");
  give_devices(where);
  choose_grid(stages_.back().graph, where);
  add_stage("placed", place(stages_.back().graph, where));
  report.end_stage("place");
  std::vector<std::optional<Placement>> fixed;
  const Graph& placed_graph = stages_.back().graph;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::size_t rank = placed_graph.type(placed_graph.inputs[i]).rank();
    const NamedSharding* named = inputs_[i].sharding ? inputs_[i].sharding->named() : nullptr;
    if (named != nullptr && grid_->covers(named->mesh())) {
      fixed.push_back(Placement{.dims = grid_->dims_of(named->mesh(), named->spec(), rank), .partial = {}});
    } else {
      fixed.emplace_back();
    }
  }
  Graph propagated = propagate(placed_graph, fixed);
  settle_outputs(propagated);
  settle_inputs(propagated);
  report_shardings(propagated);
  add_stage("propagated", std::move(propagated));
  report.end_stage("propagate");
  add_stage("partitioned", partition(stages_.back().graph));
  report.end_stage("partition");
  make_executable();
  report.end_stage("make kernels");
  report.finish(grid_->devices().size());
}

namespace {

// Structure, shapes, placements and literals; no names and no lines.
Digest digest_of_program(Graph graph) {
  graph.name.clear();
  // Callbacks are counted through the process: here they are by their first use.
  std::map<std::int64_t, std::int64_t> numbers;
  for (Eqn& eqn : graph.eqns) {
    const Attr* attr = eqn.attrs.find("callback");
    if (attr == nullptr || !std::holds_alternative<CallbackAttr>(*attr)) continue;
    CallbackAttr callback = std::get<CallbackAttr>(*attr);
    callback.number = numbers.try_emplace(callback.number, static_cast<std::int64_t>(numbers.size())).first->second;
    eqn.attrs.set("callback", callback);
  }
  return digest_of(to_text(graph));
}

}  // namespace

void Program::make_executable() {
  const Graph& partitioned = stages_.back().graph;
  small_ = is_small(partitioned);
  const std::vector<Reuse> reuses = match_donations(partitioned);
  const Backend& backend = current_backend();
  if (!grid_->is_local()) digest_ = digest_of_program(partitioned);  // Fusion may depend on the processor.
  add_stage("fused", overlap(backend.fuse(partitioned)));
  const auto make = [&](Graph graph) {
    return std::make_unique<Executable>(std::move(graph), backend, reuses, digest_);
  };
  executable_ = make(stages_.back().graph);
  const std::size_t room = memory_left(executable_->argument_bytes());
  if (executable_->launch_bytes() > room) fit_into(room, make);
  settle_kinds();
}

// Memory is short: looks for an executable that takes less, at the price of time.
void Program::fit_into(std::size_t room, FunctionRef<std::unique_ptr<Executable>(Graph)> make) {
  const std::size_t before = executable_->launch_bytes();
  LeanExecutable lean = rematerialize(std::move(executable_), room, make);
  executable_ = std::move(lean.executable);
  const std::size_t after = executable_->launch_bytes();
  if (after < before) add_stage("rematerialized", executable_->graph());
  if (!log_enabled(LogTopic::kCompile)) return;
  log_info(LogTopic::kCompile,
           fmt::format("{}: a launch would take {} bytes, and {} are left: it takes {} ({} fewer){}, with {} steps "
                       "that compute something again{}",
                       stages_.front().graph.name, before, room, after, before - after,
                       lean.is_reordered ? " in another order" : "", lean.recomputed,
                       after > room ? "; that is too much" : ""));
}

void Program::look_at(const Graph& graph, std::string_view name) {
  if (checks_graphs()) verify(graph, name);
  dump_.write(name, graph);
}

void Program::add_stage(std::string name, Graph graph) {
  look_at(graph, name);
  stages_.push_back({std::move(name), std::move(graph)});
}

const Graph& Program::stage(std::string_view name) const {
  std::vector<std::string> names;
  for (const Stage& stage : stages_) {
    if (stage.name == name) return stage.graph;
    names.push_back(stage.name);
  }
  throw InvalidArgument(
      fmt::format("as_text: no stage is named '{}'; the stages are {}", name, fmt::join(names, ", ")));
}

// Replaces abstract meshes, in the last stage and of inputs and outputs, by meshes over the devices of the program.
void Program::give_devices(SourceLocation where) {
  std::optional<Mesh> abstract;
  std::vector<Device> found = devices_;
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
    if (mesh.size() == static_cast<std::int64_t>(found.size())) return mesh.with_devices(found, where);
    throw InvalidArgument(fmt::format("{}: {} stands for {} devices, but this is to run on {}",
                                      stages_.back().graph.name, to_string(mesh), mesh.size(), describe_devices(found)),
                          where);
  };
  const auto map_all = [&](auto&& f) {
    for (InputSpec& input : inputs_) {
      if (input.sharding) input.sharding = map_mesh(*input.sharding, f);
    }
    for (OutputSpec& output : outputs_) {
      if (output.sharding) output.sharding = map_mesh(*output.sharding, f);
    }
    return map_meshes(stages_.back().graph, f);
  };
  map_all(look);
  if (!abstract) return;
  for (const InputSpec& input : inputs_) {
    if (found.empty() && input.sharding && input.sharding->single_device() != nullptr) {
      found = input.sharding->device_list();
    }
  }
  if (found.empty()) {
    throw InvalidArgument(
        fmt::format("{}: {} has no devices, and no array or mesh names any; pass arrays that lie on a "
                    "mesh, or compile for devices that you name: compile(devices())",
                    stages_.back().graph.name, to_string(*abstract)),
        where);
  }
  stages_.back().graph = map_all(give);
}

void Program::choose_grid(const Graph& graph, SourceLocation where) {
  std::vector<Placed> all;
  if (!devices_.empty()) all.push_back({.label = "the program", .devices = devices_});
  for (const InputSpec& input : inputs_) {
    if (input.sharding) all.push_back(placed(input.label, *input.sharding, true));
  }
  collect(graph, all);
  for (const OutputSpec& output : outputs_) {
    if (output.sharding) all.push_back(placed(output.label, *output.sharding, false));
  }
  if (const Mesh& mesh = default_place().mesh; all.empty() && !mesh.empty()) {
    all.push_back({.label = "set_mesh", .devices = mesh.devices(), .mesh = mesh});
  }
  committed_ = !all.empty();
  if (all.empty()) {
    grid_ = shared_grid(default_device());
    return;
  }
  for (const Placed& one : all) {
    if (one.devices == all[0].devices) continue;
    throw InvalidArgument(
        fmt::format("{}: incompatible devices: {} lies on {}, but {} lies on {}; all must name the same "
                    "devices in the same order",
                    graph.name, all[0].label, describe_devices(all[0].devices), one.label,
                    describe_devices(one.devices)),
        one.where.value_or(where));
  }
  check_devices(all[0].devices, fmt::format("{}: {}", graph.name, all[0].label), all[0].where.value_or(where));
  const auto first = std::find_if(all.begin(), all.end(), [](const Placed& one) { return one.mesh.has_value(); });
  if (first == all.end()) {
    grid_ = shared_grid(all[0].devices.front());
    return;
  }
  grid_ = shared_grid(*first->mesh);
  meshes_.push_back(*first->mesh);
  for (const Placed& one : all) {
    if (!one.mesh) continue;
    if (std::find(meshes_.begin(), meshes_.end(), *one.mesh) == meshes_.end()) meshes_.push_back(*one.mesh);
    if (grid_->covers(*one.mesh) || one.is_input) continue;
    throw Unsupported(
        fmt::format("{}: {} uses {}, whose axes cannot be divided into the same parts as those of {} of {}", graph.name,
                    one.label, to_string(*one.mesh), to_string(*first->mesh), first->label),
        one.where.value_or(where));
  }
}

// Opens manual regions and writes what is wanted of outputs into the graph.
Graph Program::place(Graph graph, SourceLocation where) const {
  graph.grid = grid_;
  graph = open_regions(graph);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].sharding) continue;
    const Sharding& wanted = *outputs_[i].sharding;
    ValueId& id = graph.outputs[i];
    wanted.check_compatible(graph.type(id).shape, outputs_[i].label, where);
    if (graph.type(id).memory != wanted.memory_kind()) {
      id = graph.add_eqn(op_named("to_memory"), {{"memory", wanted.memory_kind()}}, {id}, where)[0];
    }
    if (wanted.named() != nullptr) {
      id = graph.add_eqn(op_named("sharding_constraint"), {{"sharding", *wanted.named()}}, {id}, where)[0];
    }
  }
  return graph;
}

// The sharding of an output that the caller leaves open, and lies as `dims` say. Atoms that a partition spec cannot
// express (as those of Explicit axes after others), or that do not divide the output evenly, are dropped from the minor
// end.
Sharding Program::express(const Type& type, std::vector<Atoms>& dims) const {
  if (meshes_.empty()) return SingleDeviceSharding(grid_->devices().front(), type.memory);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto is_explicit = [&](Atom atom) {
      return grid_->mesh().axis_types()[grid_->axis_of(atom)] == AxisType::kExplicit;
    };
    const auto other = std::find_if_not(dims[d].begin(), dims[d].end(), is_explicit);
    dims[d].erase(std::find_if(other, dims[d].end(), is_explicit), dims[d].end());
    while (type.shape[d] % grid_->size_of(dims[d]) != 0) dims[d].pop_back();
  }
  // Where the type says all of it, it is taken at its word: also that axes of size 1 split a dimension.
  if (type.explicit_axes) {
    const NamedSharding typed(type.explicit_axes->mesh, spec_of(*type.explicit_axes), {.memory_kind = type.memory});
    const bool is_known = std::find(meshes_.begin(), meshes_.end(), typed.mesh()) != meshes_.end();
    if (is_known && grid_->placement_of(typed.mesh(), typed.spec(), dims.size()).dims == dims) return typed;
  }
  // What is still to be summed is known to be so over the mesh of its type.
  const bool is_summed = type.explicit_axes && !type.explicit_axes->unreduced.empty();
  const std::vector<Mesh> meshes = is_summed ? std::vector{type.explicit_axes->mesh} : meshes_;
  const std::vector<std::string> unreduced = is_summed ? type.explicit_axes->unreduced : std::vector<std::string>();
  // A type that says how Explicit axes split each dimension says so of those that are whole, too.
  const auto entries_over = [&](const Mesh& mesh, const PartitionSpec& spec) {
    std::vector<PartitionEntry> entries = spec.entries();
    const std::vector<AxisType>& types = mesh.axis_types();
    if (std::find(types.begin(), types.end(), AxisType::kExplicit) != types.end()) entries.resize(type.rank());
    return entries;
  };
  const auto spec_over_any_mesh = [&]() -> std::optional<NamedSharding> {
    for (const Mesh& mesh : meshes) {
      if (!grid_->covers(mesh)) continue;
      const auto spec = grid_->spec_of(mesh, dims);
      if (!spec) continue;
      return NamedSharding(mesh, PartitionSpec(entries_over(mesh, *spec), unreduced), {.memory_kind = type.memory});
    }
    return std::nullopt;
  };
  std::optional<NamedSharding> sharding = spec_over_any_mesh();
  while (!sharding) {
    for (Atoms& atoms : dims) {
      if (!grid_->spec_of(meshes[0], {atoms})) atoms.pop_back();
    }
    sharding = spec_over_any_mesh();
  }
  return *sharding;
}

// The sharding an input was given with, if `id` is one and the grid's meshes express it.
const Sharding* Program::given_sharding(const Graph& graph, ValueId id) const {
  const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
  if (input == graph.inputs.end()) return nullptr;
  const std::optional<Sharding>& sharding = inputs_[static_cast<std::size_t>(input - graph.inputs.begin())].sharding;
  const bool usable = sharding && sharding->named() != nullptr && grid_->covers(sharding->named()->mesh());
  return usable ? &*sharding : nullptr;
}

// Gives every output a sharding; one that had to change is constrained to it.
void Program::settle_outputs(Graph& graph) {
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    ValueId& id = graph.outputs[i];
    if (outputs_[i].sharding) {
      output_shardings_.push_back(*outputs_[i].sharding);
    } else if (const Sharding* given = given_sharding(graph, id)) {
      output_shardings_.push_back(*given);  // As it was written.
    } else {
      std::vector<Atoms> dims = graph.value(id).placement->dims;
      output_shardings_.push_back(express(graph.type(id), dims));
      if (dims == graph.value(id).placement->dims) continue;
      const NamedSharding& sharding = *output_shardings_.back().named();
      const Atoms partial = graph.value(id).placement->partial;
      id = graph.add_eqn(op_named("sharding_constraint"), {{"sharding", sharding}}, {id}, {})[0];
      graph.value(id).placement = Placement{.dims = std::move(dims), .partial = partial};
    }
  }
}

// The shardings that arguments should have so that nothing moves.
void Program::settle_inputs(const Graph& graph) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    input_placements_.push_back(*value.placement);
    std::vector<Atoms> dims = value.placement->dims;
    input_shardings_.push_back(inputs_[i].sharding ? *inputs_[i].sharding : express(value.type, dims));
  }
}

// Tells those who asked where their values lie.
void Program::report_shardings(const Graph& propagated) const {
  for (const Eqn& eqn : propagated.eqns) {
    if (eqn.op->name != "inspect_sharding") continue;
    const auto& callback = eqn.attrs.get<CallbackAttr>("callback").callback;
    const Value& value = propagated.value(eqn.inputs[0]);
    std::vector<Atoms> dims = value.placement->dims;
    if (callback != nullptr) callback->on_sharding(express(value.type, dims));
  }
}

// Pairs donated inputs with outputs of their type and placement, each with the first that is left.
std::vector<Reuse> Program::match_donations(const Graph& graph) {
  std::vector<Reuse> reuses;
  std::vector<bool> taken(graph.outputs.size(), false);
  donations_.assign(inputs_.size(), false);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Value& input = graph.value(graph.inputs[i]);
    for (std::size_t o = 0; o < graph.outputs.size() && inputs_[i].donated && !donations_[i]; ++o) {
      const Value& output = graph.value(graph.outputs[o]);
      const bool alike = input.type.dtype == output.type.dtype && input.type.memory == output.type.memory &&
                         input.global->shape == output.global->shape &&
                         input.global->placement == output.global->placement;
      if (taken[o] || !alike) continue;
      taken[o] = true;
      donations_[i] = true;
      reuses.push_back({.input = i, .output = o});
    }
  }
  return reuses;
}

// Tells of the error being handled, where no result can.
void Program::warn_of_failure() const {
  const std::string& name = stages_.front().graph.name;
  try {
    throw;
  } catch (const std::exception& error) {
    log_warning(fmt::format("{} failed, and has no result that would throw: {}", name, error.what()));
  } catch (...) {
    log_warning(fmt::format("{} failed, and has no result that would throw", name));
  }
}

// What is the same in each call.
void Program::settle_kinds() {
  donates_ = std::ranges::count(donations_, true) != 0;
  const Graph& graph = executable_->graph();
  const Device& device = grid_->devices().front();
  for (ValueId id : graph.inputs) {
    input_spaces_.push_back(&current_backend().address_space(device, graph.type(id).memory));
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Value& value = graph.value(graph.outputs[i]);
    Type type = value.type;
    type.shape = value.global->shape;
    output_kinds_.push_back(kind_of(type, output_shardings_[i], committed_));
    SHOAL_CHECK(output_kinds_.back()->layout.placement == value.global->placement,
                "an output lies as its sharding says");
  }
}

// Numbers go wherever they are needed.
void Program::check_transfers(const DeviceArrays& arguments, SourceLocation where) const {
  if (!is_guarded(TransferKind::kDeviceToDevice)) return;
  for (const DeviceArray& argument : arguments) {
    const Type& type = argument.type();
    if (std::ranges::is_permutation(argument.grid()->devices(), grid_->devices()) || (type.weak && type.shape.empty()))
      continue;
    check_transfer(TransferKind::kDeviceToDevice,
                   fmt::format("{} from {} to {}", to_string(type), describe_devices(argument.grid()->devices()),
                               describe_devices(grid_->devices())),
                   where);
  }
}

DeviceArrays Program::call(DeviceArrays arguments, SourceLocation where) const {
  check_transfers(arguments, where);
  DeviceArrays results;
  LaunchCall call;
  Digest lineage;
  if (!grid_->is_local()) {
    call = Communicator::of(grid_->processes()).call(executable_->graph().name, where);
    lineage = lineage_of(arguments);
  }
  for (std::size_t i = 0; i < output_kinds_.size(); ++i) {
    const Digest origin = grid_->is_local() ? Digest() : digest_of(lineage, i);
    results.push_back({output_kinds_[i], ShardFuture::pending(origin)});
  }
  if (const Lane::Turn turn(small_); turn) {
    fulfil(arguments, results, lineage, call);
  } else {
    Lane::shared().submit(small_, [self = shared_from_this(), held = std::move(arguments), results, lineage,
                                   call]() mutable { self->fulfil(held, results, lineage, call); });
  }
  if (are_results_checked()) check_results(results, executable_->graph().name, where);
  return results;
}

// Where results come from that span processes: the program and its arguments. Those of this process alone count as what
// they hold.
Digest Program::lineage_of(const DeviceArrays& arguments) const {
  Digest lineage = digest_;
  for (const DeviceArray& argument : arguments) {
    if (argument.grid()->is_local()) {
      const Buffer whole = to_host(argument);
      lineage = digest_of(whole.data(), whole.size_bytes(), lineage);
    } else {
      lineage = digest_of(argument.lineage().data(), sizeof lineage, lineage);
    }
  }
  return lineage;
}

// Runs the program, and gives the results their shards, or the error.
void Program::fulfil(DeviceArrays& arguments, const DeviceArrays& results, const Digest& lineage,
                     const LaunchCall& call) const {
  try {
    std::vector<ShardSet> outputs = run(arguments, lineage, call);
    for (std::size_t i = 0; i < outputs.size(); ++i) results[i].shards.set(std::move(outputs[i]));
  } catch (...) {
    // The others wait for what this process cannot give.
    if (!grid_->is_local()) Communicator::of(grid_->processes()).fail(std::current_exception());
    for (const DeviceArray& result : results) result.shards.fail(std::current_exception());
    if (results.empty()) warn_of_failure();
  }
}

std::vector<ShardSet> Program::run(DeviceArrays& arguments, const Digest& lineage, const LaunchCall& call) const {
  std::vector<ShardSet> inputs;
  inputs.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const KindPtr kind = std::move(arguments[i].kind);
    const Digest lineage_of_argument = arguments[i].lineage();
    const Placement& wanted = input_placements_[i];
    ShardSet shards = std::move(arguments[i].shards).take();
    const Buffer* any = shards.any();
    if (shards.grid == grid_ && kind->layout.placement == wanted && any != nullptr &&
        &any->space() == input_spaces_[i]) {
      inputs.push_back(std::move(shards));
    } else {
      inputs.push_back(redistribute(shards, kind->type, kind->layout.placement, grid_, wanted, *input_spaces_[i],
                                    lineage_of_argument));
    }
  }
  arguments.clear();  // So that memory which was given away has no other owner.
  std::vector<ShardSet> outputs = executable_->run(std::move(inputs), lineage, call);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const AtomSet varying = output_kinds_[i]->layout.placement.varying();
    if (outputs[i].varying != varying) outputs[i] = outputs[i].widened_to(varying);
  }
  return outputs;
}

}  // namespace shoal
