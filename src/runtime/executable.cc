#include "runtime/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/local_collectives.h"
#include "ops/collective.h"
#include "runtime/device_array.h"

namespace shoal {

ExecutionCounters& execution_counters() {
  static ExecutionCounters counters;
  return counters;
}

Executable::Executable(Graph graph, const Backend& backend, const std::vector<Reuse>& reuses)
    : graph_(std::move(graph)), backend_(backend) {
  std::vector<bool> needed_later(graph_.values.size(), false);
  for (ValueId id : graph_.outputs) needed_later[static_cast<std::size_t>(id)] = true;
  steps_.resize(graph_.eqns.size());
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Eqn& eqn = graph_.eqns[i];
    Step& step = steps_[i];
    step.eqn = &eqn;
    if (eqn.op->op_class == OpClass::kCompute) step.kernel = backend_.compile(graph_, eqn);
    const auto note = [&](ValueId id) {
      if (needed_later[static_cast<std::size_t>(id)]) return;
      needed_later[static_cast<std::size_t>(id)] = true;
      step.last_uses.push_back(id);
    };
    for (ValueId id : eqn.inputs) note(id);
    for (ValueId id : eqn.outputs) note(id);  // Of results that nobody uses.
    step.memory.assign(eqn.outputs.size(), -1);
  }
  for (const Reuse& reuse : reuses) plan_reuse(graph_.inputs[reuse.input], graph_.outputs[reuse.output]);
}

// Lets the step that makes `output` take the memory of `input`, if it is free by then.
void Executable::plan_reuse(ValueId input, ValueId output) {
  const Type& from = graph_.type(input);
  const Type& to = graph_.type(output);
  if (from.dtype != to.dtype || from.shape != to.shape || from.memory != to.memory) return;
  const auto makes = [&](const Step& step) { return std::ranges::count(step.eqn->outputs, output) != 0; };
  const auto frees = [&](const Step& step) { return std::ranges::count(step.last_uses, input) != 0; };
  const auto maker = std::ranges::find_if(steps_, makes);
  const auto last = std::ranges::find_if(steps_, frees);
  if (maker == steps_.end() || maker->kernel == nullptr) return;
  // An input that no step uses is free, too, unless it is an output.
  const bool used = last != steps_.end();
  if (!used && std::ranges::count(graph_.outputs, input) != 0) return;
  if (used && last > maker) return;
  if (used && last == maker && !maker->kernel->may_overwrite(0, 0)) return;
  // The memory lives until then.
  if (used) std::erase(last->last_uses, input);
  maker->last_uses.push_back(input);
  maker
      ->memory[static_cast<std::size_t>(std::ranges::find(maker->eqn->outputs, output) - maker->eqn->outputs.begin())] =
      input;
}

AddressSpace& Executable::space_of(MemoryKind kind) const {
  return backend_.address_space(graph_.grid->devices().front(), kind);
}

Shape Executable::shard_shape(const Value& value, std::int64_t position) const {
  if (!value.global) return value.type.shape;
  return local_shape(*graph_.grid, value.global->shape, value.global->placement, position);
}

std::vector<ShardSet> Executable::run(std::vector<ShardSet> inputs) const {
  SHOAL_CHECK(inputs.size() == graph_.inputs.size(), "an executable takes as many inputs as its graph");
  std::vector<ShardSet> values(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(graph_.inputs[i])] = std::move(inputs[i]);
  }
  for (const Step& step : steps_) {
    std::vector<ShardSet> results;
    try {
      results = run_step(step, values);
    } catch (const OutOfMemory& error) {
      if (error.where()) throw;
      throw OutOfMemory(fmt::format("{}: {}", step.eqn->op->name, error.what()), step.eqn->where);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      values[static_cast<std::size_t>(step.eqn->outputs[i])] = std::move(results[i]);
    }
    for (ValueId id : step.last_uses) values[static_cast<std::size_t>(id)] = {};
  }
  std::vector<ShardSet> outputs;
  for (ValueId id : graph_.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

std::vector<ShardSet> Executable::run_step(const Step& step, const std::vector<ShardSet>& values) const {
  if (step.kernel != nullptr) return run_kernel(step, values);
  if (step.eqn->op->op_class == OpClass::kEffect) {
    run_effect(*step.eqn, values);
    return {};
  }
  SHOAL_CHECK(step.eqn->op->op_class == OpClass::kCollective,
              "a partitioned graph has compute ops, collectives and effects only");
  // Shards that are known to be equal are kept once: an exchange of whole shards may leave fewer distinct ones.
  const AtomSet varying = graph_.value(step.eqn->outputs[0]).varying;
  ShardSet result = run_collective(*step.eqn, values);
  if (!(result.varying - varying).empty()) result = result.narrowed_to(result.varying & varying);
  return {std::move(result)};
}

std::vector<ShardSet> Executable::run_kernel(const Step& step, const std::vector<ShardSet>& values) const {
  const Eqn& eqn = *step.eqn;
  const AtomSet varying = graph_.value(eqn.outputs[0]).varying;
  std::vector<ShardSet> results;
  for (std::size_t i = 0; i < eqn.outputs.size(); ++i) results.push_back(ShardSet::make(graph_.grid, varying));
  const auto count = static_cast<std::int64_t>(results[0].shards.size());
  std::int64_t elements = num_elements(graph_.type(eqn.outputs[0]).shape);
  for (ValueId id : eqn.inputs) elements = std::max(elements, num_elements(graph_.type(id).shape));
  // The values whose memory the results may take, shard by shard.
  std::vector<const ShardSet*> memories;
  for (ValueId id : step.memory) {
    const ShardSet* memory = id < 0 ? nullptr : &values[static_cast<std::size_t>(id)];
    memories.push_back(memory != nullptr && memory->varying == varying ? memory : nullptr);
  }
  std::atomic<std::int64_t> made{0};
  for_each_shard(count, count * elements, [&](std::int64_t shard) {
    const std::int64_t position = graph_.grid->representative(varying, shard);
    const auto view_of = [&](ValueId id, const Buffer& buffer) {
      TensorView view = buffer.view();
      const Value& value = graph_.value(id);
      if (eqn.op->sees_start && value.global) {
        view.start = shard_start(*graph_.grid, value.global->shape, value.global->placement, position);
      }
      return view;
    };
    std::vector<TensorView> operands;
    for (ValueId id : eqn.inputs) operands.push_back(view_of(id, values[static_cast<std::size_t>(id)].at(position)));
    std::vector<TensorView> outputs;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      const Value& value = graph_.value(eqn.outputs[i]);
      Buffer& buffer = results[i].shards[static_cast<std::size_t>(shard)];
      const Shape shape = shard_shape(value, position);
      const Buffer* memory = memories[i] != nullptr ? &memories[i]->shards[static_cast<std::size_t>(shard)] : nullptr;
      if (memory != nullptr && memory->shape() == shape && memory->is_unique()) {
        buffer = *memory;
      } else {
        buffer = Buffer(space_of(value.type.memory), value.type.dtype, shape);
        ++made;
      }
      outputs.push_back(view_of(eqn.outputs[i], buffer));
    }
    shoal::run_kernel(*step.kernel, operands, outputs);
  });
  ExecutionCounters& counters = execution_counters();
  counters.kernels += count;
  counters.buffers += made;
  return results;
}

// Calls the user's program once for each device along the manual axes, in the order of the devices, with what is whole
// there: over the other axes, shards are put together.
void Executable::run_effect(const Eqn& eqn, const std::vector<ShardSet>& values) const {
  const auto& callback = eqn.attrs.get<CallbackAttr>("callback").callback;
  if (callback == nullptr) return;
  const Grid& grid = *graph_.grid;
  const AtomSet manual(grid.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes")));
  const auto one = std::make_shared<const Grid>(grid.devices().front());
  const auto whole_at = [&](ValueId id, std::int64_t position) {
    const GlobalShape& global = *graph_.value(id).global;
    const ShardSet& shards = values[static_cast<std::size_t>(id)];
    ShardSet part = ShardSet::make(graph_.grid, global.placement.varying());
    for (std::size_t i = 0; i < part.shards.size(); ++i) part.shards[i] = shards.at(position + part.position_of(i));
    const Placement whole = Placement::replicated(global.shape.size());
    return redistribute(part, global.shape, global.placement, one, whole, part.shards[0].space()).shards[0];
  };
  for (std::int64_t call = 0; call < grid.size_of(manual); ++call) {
    std::vector<Buffer> operands;
    for (ValueId id : eqn.inputs) operands.push_back(whole_at(id, grid.representative(manual, call)));
    callback->on_values(operands);
  }
}

ShardSet Executable::run_collective(const Eqn& eqn, const std::vector<ShardSet>& values) const {
  ++execution_counters().collectives;
  const std::string_view name = eqn.op->name;
  const Attrs& attrs = eqn.attrs;
  const Atoms atoms = graph_.grid->atoms_of(attrs.get<std::vector<std::string>>("axes"));
  const auto dim = [&](std::string_view key) { return static_cast<std::size_t>(attrs.get<std::int64_t>(key)); };
  const auto kind = [&] { return parse_reduce_kind(attrs.get<std::string>("kind")); };
  if (name == "axis_index") return local::axis_index(graph_.grid, atoms, space_of({}));
  const local::Groups groups(graph_.grid, atoms, index_groups(attrs));
  if (name == "ragged_all_to_all") {
    std::vector<const ShardSet*> operands;
    for (ValueId id : eqn.inputs) operands.push_back(&values[static_cast<std::size_t>(id)]);
    return local::ragged_all_to_all(operands, groups, eqn.where);
  }
  const ShardSet& in = values[static_cast<std::size_t>(eqn.inputs[0])];
  if (name == "pvary") return in;
  if (name == "all_reduce") return local::all_reduce(in, groups, kind());
  if (name == "all_gather") return local::all_gather(in, groups, dim("dim"));
  if (name == "reduce_scatter") return local::reduce_scatter(in, groups, dim("dim"), kind());
  if (name == "all_to_all") return local::all_to_all(in, groups, dim("split_dim"), dim("concat_dim"));
  if (name == "shard_slice") return local::shard_slice(in, atoms, dim("dim"));
  if (name == "exclusive_scan") {
    return local::exclusive_scan(in, atoms, parse_reduce_kind(attrs.get<std::string>("kind")),
                                 attrs.get<bool>("reverse"));
  }
  if (name == "rearrange") {
    std::vector<const ShardSet*> operands;
    for (ValueId id : eqn.inputs) operands.push_back(&values[static_cast<std::size_t>(id)]);
    const ShardSet* fill = nullptr;
    if (attrs.get<bool>("fills")) {
      fill = operands.back();
      operands.pop_back();
    }
    return local::rearrange(operands, fill, atoms, dim("dim"), attrs.get<Dims>("extents"),
                            attrs.get<std::int64_t>("size"), runs_of(attrs.get<Dims>("runs")));
  }
  if (name == "pbroadcast") return local::broadcast(in, atoms, attrs.get<std::int64_t>("source"));
  SHOAL_CHECK(name == "collective_permute", "unknown collective");
  return local::collective_permute(in, atoms, attrs.get<Dims>("sources"), attrs.get<Dims>("targets"));
}

}  // namespace shoal
