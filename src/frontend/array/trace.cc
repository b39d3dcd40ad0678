#include "frontend/array/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <memory>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "base/check.h"
#include "base/misuse.h"
#include "core/device_list.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/eager.h"
#include "frontend/array/key_mode.h"
#include "frontend/array/key_reuse.h"
#include "frontend/array/layer.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/program_cache.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"
#include "runtime/region_program.h"
#include "runtime/result_checks.h"
#include "sharding/shared_grid.h"
#include "spmd/open_regions.h"
#include "transform/custom.h"

namespace shoal {
namespace {

thread_local Trace* innermost = nullptr;

}  // namespace

Trace* Trace::current() { return innermost; }

Trace::Pause::Pause() : paused_(std::exchange(innermost, nullptr)) {}
Trace::Pause::~Pause() { innermost = paused_; }

std::shared_ptr<Trace> Trace::begin(Kind kind, std::string name, const Mesh& mesh,
                                    const std::vector<std::string>& manual, bool checked) {
  auto trace = std::make_shared<Trace>(kind, std::move(name), mesh, manual, checked, innermost);
  innermost = trace.get();
  return trace;
}

Trace::Surroundings Trace::surroundings() {
  Surroundings here{.axes = Layer::bound_axes()};
  if (innermost != nullptr) {
    here.mesh = innermost->mesh_;
    here.unchecked = innermost->unchecked_;
  }
  return here;
}

std::shared_ptr<Trace> Trace::begin_in(const Surroundings& surroundings, std::string name) {
  auto trace = std::make_shared<Trace>(Kind::kJit, std::move(name), surroundings.mesh, std::vector<std::string>(), true,
                                       nullptr);
  trace->outer_ = innermost;
  trace->graph_.axes = surroundings.axes;
  trace->unchecked_ = surroundings.unchecked;
  innermost = trace.get();
  return trace;
}

Trace::Trace(Kind kind, std::string name, const Mesh& mesh, const std::vector<std::string>& manual, bool checked,
             Trace* outer)
    : kind_(kind),
      name_(std::move(name)),
      mesh_(mesh.empty() && outer != nullptr ? outer->mesh_ : mesh),
      outer_(outer) {
  graph_.name = name_;
  graph_.axes = Layer::bound_axes();
  if (outer != nullptr) unchecked_ = outer->unchecked_;
  for (const std::string& axis : manual) graph_.axes.bind(axis, mesh.axis_size(axis));
  AxisNames bound(manual.begin(), manual.end());
  std::ranges::sort(bound);
  unchecked_ = checked ? difference_of(unchecked_, bound) : union_of(unchecked_, bound);
  if (kind == Kind::kEager) grid_ = shared_grid(mesh);
}

AxisEnv Trace::manual_axes() const {
  AxisEnv manual;
  for (const auto& [name, size] : graph_.axes.axes()) {
    if (mesh_.find_axis(name)) manual.bind(name, size);
  }
  return manual;
}

Array Trace::add_input(Type type, ShardSet data) {
  SHOAL_CHECK(captures_.empty(), "inputs come before captures");
  const ValueId value = graph_.add_input(type);
  if (kind_ == Kind::kEager) data_.push_back(std::move(data));
  return detail::Access::make(shared_from_this(), value, std::move(type));
}

bool Trace::encloses(const Trace& other) const {
  for (const Trace* trace = other.outer_; trace != nullptr; trace = trace->outer_) {
    if (trace == this) return true;
  }
  return false;
}

// Of an array from outside. Where axes are manual it would have to be whole along them, and nothing is moved unasked.
Type Trace::type_inside(Type type) const {
  if (!type.explicit_axes || graph_.axes.empty()) return type;
  const auto is_manual = [&](const std::string& axis) {
    return graph_.axes.size_of(axis).has_value() || !mesh_.find_axis(axis);
  };
  std::vector<std::vector<std::string>> used = type.explicit_axes->dims;
  used.push_back(type.explicit_axes->unreduced);
  used.push_back(type.explicit_axes->reduced);
  for (const std::vector<std::string>& dim : used) {
    const auto split = std::find_if(dim.begin(), dim.end(), is_manual);
    if (split == dim.end()) continue;
    throw misuse<ShardingTypeError>(
        "the array {} from outside '{}' depends on the Explicit axis '{}', along which devices compute alone here; "
        "pass it as an argument, or reshard it first",
        to_string(type), name_, *split);
  }
  type.explicit_axes = without_manual(*type.explicit_axes, is_manual);
  return type;
}

ValueId Trace::lift(const Array& array, std::string_view what) {
  const detail::ArrayImpl& impl = detail::impl_of(array, what);
  const Trace* trace = impl.trace();
  if (trace == this) return impl.abstract->value;
  if (trace != nullptr && !trace->encloses(*this)) detail::refuse_tracer(impl, what);
  if (impl.is_type_only()) detail::refuse_tracer(impl, what);
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (&detail::impl_of(captures_[i]) == &impl) return capture_values_[i];
  }
  const ValueId value = graph_.add_input(type_inside(impl.type));
  if (kind_ == Kind::kEager) {
    // Captured arrays are whole on every device.
    const DeviceArray device = detail::concrete(array, what);
    if (device.committed() && device.sharding().device_list() != grid_->devices()) {
      throw misuse<InvalidArgument>(
          "the array {} from outside '{}' is committed to {}, but the mesh has {}; move it with device_put",
          to_string(device.type()), name_, describe_devices(device.sharding().device_list()),
          describe_devices(grid_->devices()));
    }
    const Type& type = device.type();
    const Placement whole = Placement::replicated(type.rank());
    AddressSpace& space = current_backend().address_space(grid_->devices().front(), type.memory);
    data_.push_back(
        redistribute(device.wait(), type, device.placement(), grid_, whole, space, device.lineage(), Caller::line()));
  }
  captures_.push_back(array);
  capture_values_.push_back(value);
  return value;
}

std::vector<Array> Trace::bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  std::vector<ValueId> inputs;
  for (const Array& operand : operands) inputs.push_back(lift(operand));
  const std::vector<ValueId> outputs = graph_.add_eqn(op, std::move(attrs), std::move(inputs), Caller::line());
  if (kind_ == Kind::kEager) run(graph_.eqns.back());
  std::vector<Array> results;
  for (ValueId id : outputs) results.push_back(detail::Access::make(shared_from_this(), id, graph_.type(id)));
  return results;
}

namespace {

// What the program of an equation depends on that runs as it is recorded. All axes are manual, so that nothing is left
// for the compiler to place.
struct RegionKey {
  const OpDef* op;
  const Backend* backend;
  Attrs attrs;
  std::vector<Type> operands;
  std::vector<AtomSet> varying;
  GridPtr grid;
  Mesh mesh;
  friend bool operator==(const RegionKey&, const RegionKey&) = default;
};

std::size_t hash_of(const RegionKey& key) {
  std::size_t seed = key.attrs.hash();
  boost::hash_combine(seed, key.op);
  boost::hash_combine(seed, key.backend);
  boost::hash_combine(seed, key.grid.get());
  for (const Type& type : key.operands) {
    boost::hash_combine(seed, static_cast<int>(type.dtype));
    boost::hash_range(seed, type.shape.begin(), type.shape.end());
  }
  for (const AtomSet atoms : key.varying) boost::hash_combine(seed, atoms.bits());
  return seed;
}

// A body that is the equation alone.
Graph body_with(const Eqn& eqn, const Graph& graph) {
  Graph body;
  body.name = std::string(eqn.op->name);
  body.axes = graph.axes;
  Eqn copy = eqn;
  for (ValueId& id : copy.inputs) id = body.add_input(graph.type(id));
  for (ValueId& id : copy.outputs) id = body.add_value(graph.type(id));
  body.outputs = copy.outputs;
  body.eqns.push_back(std::move(copy));
  return body;
}

ProgramCache<RegionKey, RegionProgram>& region_programs() {
  static auto* cache = new ProgramCache<RegionKey, RegionProgram>;
  return *cache;
}

}  // namespace

void clear_region_programs() { region_programs().clear(); }

void Trace::run(const Eqn& eqn) {
  RegionKey key{.op = eqn.op,
                .backend = &current_backend(),
                .attrs = without_rules(eqn.attrs),
                .operands = graph_.types(eqn.inputs),
                .varying = {},
                .grid = grid_,
                .mesh = mesh_};
  std::vector<ShardSet> arguments;
  for (ValueId id : eqn.inputs) {
    arguments.push_back(data(id));
    key.varying.push_back(data(id).varying);
  }
  const std::size_t hash = hash_of(key);
  std::shared_ptr<const RegionProgram> program =
      region_programs().find(hash, [&](const RegionKey& known) { return known == key; });
  if (program == nullptr) {
    const AtomSet manual(atoms_on(*grid_, mesh_, mesh_.axis_names()));
    program = std::make_shared<const RegionProgram>(
        body_with(eqn, graph_), grid_, ManualRegion{.mesh = mesh_, .manual = manual, .varying = key.varying},
        eqn.where);
    // What calls the user calls a function that is made for this call: its program would not be asked for again.
    if (!calls_user(eqn)) region_programs().add(hash, std::move(key), program);
  }
  std::vector<ShardSet> results = program->run(std::move(arguments));
  data_.resize(graph_.values.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (are_results_checked()) {
      check_result(graph_.type(eqn.outputs[i]), results[i].shards, i, eqn.op->name, eqn.where);
    }
    data_[slot(eqn.outputs[i])] = std::move(results[i]);
  }
}

Graph Trace::finish(const std::vector<Array>& results) {
  for (const Array& result : results) graph_.outputs.push_back(lift(result, "the result"));
  leave();
  // A rule in the graph may hold tracers, and these the trace: it keeps no graph, lest they hold each other for ever.
  return std::exchange(graph_, {});
}

void Trace::abandon() {
  leave();
  graph_ = {};
}

void Trace::leave() {
  SHOAL_CHECK(innermost == this, "traces end in the reverse order of their beginnings");
  innermost = outer_;
  finished_ = true;
}

namespace {

bool may_have_keys(const OpDef& op, std::span<const Array> operands) {
  if (op.op_class == OpClass::kCall || op.op_class == OpClass::kControl || op.op_class == OpClass::kRegion) return true;
  return std::ranges::any_of(operands, [](const Array& array) { return is_key(detail::impl_of(array).type.dtype); });
}

std::vector<Array> run_with_keys_checked(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  if (!may_have_keys(op, operands)) return run_eagerly(op, std::move(attrs), operands);
  Graph graph;
  std::vector<ValueId> inputs;
  for (const Array& operand : operands) inputs.push_back(graph.add_input(detail::impl_of(operand).type));
  graph.outputs = graph.add_eqn(op, attrs, std::move(inputs), Caller::line());
  KeyUses uses(graph, operands);
  // A mark changes nothing; of a clone there is a new array.
  std::vector<Array> results =
      op.uses_keys ? std::vector<Array>(operands.begin(), operands.end()) : run_eagerly(op, std::move(attrs), operands);
  uses.done(results);
  return results;
}

}  // namespace

std::vector<Array> bind(const OpDef& op, Attrs attrs, std::span<const Array> operands) {
  if (const std::shared_ptr<Layer> layer = Layer::of(op, attrs, operands)) {
    return layer->bind(op, std::move(attrs), operands);
  }
  if (Trace* trace = Trace::current()) return trace->bind(op, std::move(attrs), operands);
  if (op.relaxes_axes) {
    return {relaxed_at_once(operands[0], attrs.get<std::vector<std::string>>("axes"))};
  }
  if (key_mode().checks_reuse) return run_with_keys_checked(op, std::move(attrs), operands);
  return run_eagerly(op, std::move(attrs), operands);
}

std::vector<Array> bind(std::string_view op, Attrs attrs, std::span<const Array> operands) {
  return bind(op_named(op), std::move(attrs), operands);
}

Array varying_over(const Array& array, const AxisNames& axes) {
  const AxisNames more = difference_of(axes, detail::impl_of(array).type.varying);
  return more.empty() ? array : bind_one("pvary", {{"axes", more}}, {array});
}

Array summed_as(const Array& array, const Type& type) {
  Array made = array;
  const auto& wanted = type.explicit_axes;
  if (wanted) {
    const auto& given = detail::impl_of(made).type.explicit_axes;
    const AxisNames unreduced = given ? given->unreduced : AxisNames();
    const AxisNames reduced = given ? given->reduced : AxisNames();
    if (unreduced != wanted->unreduced || reduced != wanted->reduced) {
      made = reshard(made, NamedSharding(wanted->mesh, spec_of(*wanted), {.memory_kind = type.memory}, Caller::line()));
    }
  }
  const auto is = [&]() -> const Type& { return detail::impl_of(made).type; };
  // What is the same on all devices is there once.
  if (const AxisNames whole = difference_of(type.summands, is().varying); !whole.empty()) {
    const Array zero = bind_one("full", {{"shape", Shape()}, {"value", Scalar::of(0)}, {"weak", false}}, {});
    const Array is_first = bind_one("equal", {}, {bind_one("axis_index", {{"axes", whole}}, {}), zero});
    const Scalar nothing = Scalar::of(0).converted_to(is().dtype);
    const Array zeros = bind_one("full", {{"shape", is().shape}, {"value", nothing}, {"weak", is().weak}}, {});
    const Array chosen = bind_one("broadcast_in_dim", {{"shape", is().shape}, {"dims", Dims()}}, {is_first});
    made = bind_one("select", {}, {chosen, varying_over(made, whole), zeros});
  }
  const auto cast = [&](const AxisNames& axes, const char* to) {
    if (!axes.empty()) made = bind_one("pcast", {{"axes", axes}, {"to", std::string(to)}}, {made});
  };
  cast(difference_of(type.summands, is().summands), "unreduced");
  cast(difference_of(difference_of(type.reduced, is().reduced), is().varying), "reduced");
  return varying_over(made, type.varying);
}

Array bind_one(std::string_view op, Attrs attrs, std::initializer_list<Array> operands) {
  return bind(op_named(op), std::move(attrs), {operands.begin(), operands.size()})[0];
}

}  // namespace shoal
