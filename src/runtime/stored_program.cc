// How programs are stored and read back; what a graph's text leaves out are source lines.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/device_list.h"
#include "ir/bodies.h"
#include "ops/table.h"
#include "runtime/program.h"
#include "sharding/shared_grid.h"
#include "spmd/map_meshes.h"

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
  if (in.flag()) return std::get<NamedSharding>(parse_attr(in.text(), find_op));
  Device device{.id = in.number()};
  device.process_index = static_cast<int>(device.id >> kLocalIdBits);
  return SingleDeviceSharding(device, MemoryKind(in.text()));
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
  // What the back end makes of the program is made anew where it is read.
  const auto last = std::ranges::find(stages(), "partitioned", &Pipeline::Result::name);
  const std::span<const Pipeline::Result> portable(stages().begin(), last + 1);
  out.number(static_cast<std::int64_t>(portable.size()));
  for (const Pipeline::Result& stage : portable) {
    out.text(stage.name);
    out.text(to_text(stage.graph));
  }
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
  std::vector<Pipeline::Result> stored(static_cast<std::size_t>(in.number()));
  for (Pipeline::Result& stage : stored) {
    stage.name = std::string(in.text());
    stage.graph = parse_graph(in.text(), find_op);
  }
  const Graph& last = stored.back().graph;
  const Relocation relocated(last.grid->devices(), targets(last.grid->devices(), devices, name, where));
  placing_.grid = relocated(*last.grid);
  const std::size_t num_inputs = last.inputs.size();
  const std::size_t num_outputs = last.outputs.size();
  for (Pipeline::Result& stage : stored) {
    Graph graph = map_meshes(std::move(stage.graph), relocated);
    if (graph.grid != nullptr) graph.grid = placing_.grid;
    pipeline_.keep(std::move(stage.name), std::move(graph));
  }
  placing_.committed = in.flag();
  const auto next_sharding = [&]() -> std::optional<Sharding> {
    const std::optional<Sharding> sharding = read_sharding(in);
    return sharding ? std::optional(relocated(*sharding)) : std::nullopt;
  };
  for (std::size_t i = 0; i < num_inputs; ++i) {
    InputSpec& input = placing_.inputs.emplace_back();
    input.label = std::string(in.text());
    input.donated = in.flag();
    input.sharding = next_sharding();
    placing_.input_shardings.push_back(next_sharding().value());
    const Graph& graph = pipeline_.last();
    placing_.input_placements.push_back(graph.value(graph.inputs[i]).global->placement);
  }
  for (std::size_t i = 0; i < num_outputs; ++i) placing_.output_shardings.push_back(next_sharding().value());
  make_executable(nullptr);
}

}  // namespace shoal
