// How programs are stored and read back; what a graph's text leaves out are source lines.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "core/device_list.h"
#include "ir/bodies.h"
#include "ops/table.h"
#include "runtime/program.h"
#include "sharding/shared_grid.h"
#include "spmd/map_meshes.h"
#include "spmd/stages.h"

namespace shoal {
namespace {

// A mesh or device in the place of that for which a program was compiled.
class Relocation {
 public:
  Relocation(std::vector<Device> from, std::vector<Device> to) : from_(std::move(from)), to_(std::move(to)) {}

  Device operator()(const Device& device) const {
    const auto found = std::ranges::find(from_, device);
    return found == from_.end() ? device : to_[static_cast<std::size_t>(found - from_.begin())];
  }
  Mesh operator()(const Mesh& mesh) const {
    if (mesh.is_abstract() || mesh.empty()) return mesh;
    std::vector<Device> devices;
    for (const Device& device : mesh.devices()) devices.push_back((*this)(device));
    return mesh.with_devices(std::move(devices));
  }
  Sharding operator()(const Sharding& sharding) const {
    if (const SingleDeviceSharding* single = sharding.single_device()) {
      return SingleDeviceSharding((*this)(single->device()), single->memory_kind());
    }
    return map_mesh(sharding, *this);
  }
  GridPtr operator()(const Grid& grid) const {
    if (grid.mesh().empty()) return shared_grid((*this)(grid.devices().front()));
    return shared_grid((*this)(grid.mesh()));
  }

 private:
  std::vector<Device> from_;
  std::vector<Device> to_;
};

// Where a program that was compiled for `devices` is to run.
std::vector<Device> targets(const std::vector<Device>& devices, const std::vector<Device>& wanted,
                            std::string_view name, SourceLocation where) {
  const std::vector<Device> here = shoal::devices();
  const auto check_here = [&](const std::vector<Device>& needed) {
    for (const Device& device : needed) {
      if (std::ranges::count(here, device) != 0) continue;
      throw InvalidArgument(
          fmt::format("{}: the program is for {}, but this process has {}; name as many of them as it needs, or start "
                      "with more (set_num_cpu_devices)",
                      name, describe_devices(needed), describe_devices(here)),
          where);
    }
  };
  if (wanted.empty()) {
    check_here(devices);
    return devices;
  }
  check_here(wanted);
  if (wanted.size() != devices.size() || std::set<Device>(wanted.begin(), wanted.end()).size() != wanted.size()) {
    throw InvalidArgument(fmt::format("{}: the program is for {}, and needs as many distinct ones, but is given {}",
                                      name, describe_devices(devices), describe_devices(wanted)),
                          where);
  }
  return wanted;
}

void store_sharding(ByteWriter& out, const std::optional<Sharding>& sharding) {
  out.flag(sharding.has_value());
  if (!sharding) return;
  const NamedSharding* named = sharding->named();
  out.flag(named != nullptr);
  if (named != nullptr) {
    out.text(to_text(Attr(*named)));
  } else {
    out.number(sharding->single_device()->device().id);
    out.text(sharding->memory_kind().name());
  }
}

std::optional<Sharding> read_sharding(ByteReader& in) {
  if (!in.flag()) return std::nullopt;
  if (in.flag()) {
    const Attr attr = parse_attr(in.text(), find_op);
    if (const auto* named = std::get_if<NamedSharding>(&attr)) return *named;
    throw InvalidArgument("a sharding is none");
  }
  Device device{.id = in.number()};
  if (device.id < 0 || (device.id >> kLocalIdBits) > std::numeric_limits<int>::max()) {
    throw InvalidArgument(fmt::format("a sharding is on device {}, which no process has", device.id));
  }
  device.process_index = static_cast<int>(device.id >> kLocalIdBits);
  return SingleDeviceSharding(device, MemoryKind(in.text()));
}

// The results of the stages that are stored: what the back end makes of a program is made anew where it is read.
std::vector<std::string_view> stored_stages() {
  std::vector<std::string_view> names = {"traced"};
  for (const Stage& stage : all_stages()) {
    if (!stage.result.empty()) names.push_back(stage.result);
    if (stage.result == "partitioned") break;
  }
  return names;
}

// The graph and the bodies in it, if they are placed, on another grid of the same shape.
Graph on_grid(Graph graph, const GridPtr& grid) {
  if (graph.grid != nullptr) graph.grid = grid;
  for (Eqn& eqn : graph.eqns) {
    if (eqn.op->op_class == OpClass::kControl) map_bodies(eqn, [&](const Graph& body) { return on_grid(body, grid); });
  }
  return graph;
}

// That graphs check, each by itself and each with the others.
void check_stages(std::span<const Pipeline::Result> stages) {
  for (const Pipeline::Result& stage : stages) verify(stage.graph, stage.name);
  const auto check = [](bool holds, std::string_view what) {
    if (!holds) throw InvalidArgument(fmt::format("the graphs of the stages do not belong together: {}", what));
  };
  const Graph& traced = stages.front().graph;
  const Graph& last = stages.back().graph;
  const auto check_same = [&](const std::vector<ValueId>& before, const std::vector<ValueId>& after) {
    check(before.size() == after.size(), "they have other numbers of inputs or outputs");
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Type& type = traced.type(before[i]);
      const Value& value = last.value(after[i]);
      check(value.global.has_value(), "an input or output is of no global shape");
      check(value.global->shape == type.shape && value.type.dtype == type.dtype && value.type.memory == type.memory,
            "inputs or outputs are of other types");
    }
  };
  check(last.grid != nullptr, "the last one has no devices");
  for (const Pipeline::Result& stage : stages) {
    const Grid* grid = stage.graph.grid.get();
    check(grid == nullptr || (grid->mesh() == last.grid->mesh() && grid->devices() == last.grid->devices()),
          "their devices differ");
  }
  check_same(traced.inputs, last.inputs);
  check_same(traced.outputs, last.outputs);
}

}  // namespace

void Program::store(ByteWriter& out, std::string_view name, SourceLocation where) const {
  for_each_eqn(executable_->graph(), [&](const Eqn& eqn) {
    for (const auto& [key, value] : eqn.attrs.entries()) {
      if (!std::holds_alternative<CallbackAttr>(value)) continue;
      const std::string line = to_string(eqn.where);
      throw Unsupported(
          fmt::format("{}: the program calls a function of this process{}: {}; only programs that compute "
                      "with Shoal's own ops can be stored",
                      name, line.empty() ? "" : " at " + line, eqn.op->name),
          where);
    }
  });
  for (const std::string_view stage_name : stored_stages()) out.text(to_text(stage(stage_name)));
  out.flag(placing_.committed);
  for (std::size_t i = 0; i < placing_.inputs.size(); ++i) {
    out.text(placing_.inputs[i].label);
    out.flag(placing_.inputs[i].donated);
    store_sharding(out, placing_.inputs[i].sharding);
    store_sharding(out, placing_.input_shardings[i]);
  }
  for (const Sharding& sharding : placing_.output_shardings) store_sharding(out, sharding);
}

Program::Program(ByteReader& in, const std::vector<Device>& devices, std::string_view name, SourceLocation where)
    : pipeline_(name) {
  std::vector<Pipeline::Result> stored;
  for (const std::string_view stage_name : stored_stages()) {
    stored.emplace_back(std::string(stage_name), std::make_shared<const Graph>(parse_graph(in.text(), find_op)));
  }
  check_stages(stored);
  const Graph& last = stored.back().graph;
  const Relocation relocated(last.grid->devices(), targets(last.grid->devices(), devices, name, where));
  placing_.grid = relocated(*last.grid);
  const std::size_t num_inputs = last.inputs.size();
  const std::size_t num_outputs = last.outputs.size();
  for (Pipeline::Result& stage : stored) {
    Graph graph = map_meshes(stage.graph, relocated);
    pipeline_.keep(std::move(stage.name), on_grid(std::move(graph), placing_.grid));
  }
  placing_.committed = in.flag();
  const auto next_sharding = [&]() -> std::optional<Sharding> {
    const std::optional<Sharding> sharding = read_sharding(in);
    return sharding ? std::optional(relocated(*sharding)) : std::nullopt;
  };
  const auto needed_sharding = [&] {
    if (const std::optional<Sharding> sharding = next_sharding()) return *sharding;
    throw InvalidArgument("an argument or result has no sharding");
  };
  for (std::size_t i = 0; i < num_inputs; ++i) {
    InputSpec& input = placing_.inputs.emplace_back();
    input.label = std::string(in.text());
    input.donated = in.flag();
    input.sharding = next_sharding();
    placing_.input_shardings.push_back(needed_sharding());
    const Graph& graph = pipeline_.last();
    placing_.input_placements.push_back(graph.value(graph.inputs[i]).global->placement);
  }
  for (std::size_t i = 0; i < num_outputs; ++i) {
    const Sharding sharding = needed_sharding();
    const NamedSharding* named = sharding.named();
    const bool is_here = sharding.device_list() == placing_.grid->devices() &&
                         (named == nullptr || placing_.grid->covers(named->mesh()));
    if (!is_here) throw InvalidArgument(fmt::format("a result lies elsewhere: {}", to_string(sharding)));
    placing_.output_shardings.push_back(sharding);
  }
  make_executable(nullptr);
}

}  // namespace shoal
