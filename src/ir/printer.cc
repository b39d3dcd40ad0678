// The text form of graphs. The grammar, which parser.cc reads:
//
//   graph := ["on" grid] "graph" name ["in" mesh, …] ["over(" name "=" size, … ")"] "(" value, … ")" "{" body "}"
//
//   body  := eqn … "return" [number, …]
//
//   eqn   := [value, … "="] op "(" number, … ")" ["{" name "=" attr, … "}"]
//
//   value := number ":" type ["#" mesh number] ["@" placement] ["manual(" axis, …")"] ["varying(" axis, …")"] ["of"
//   shape "@" placement]
//
//   number is "%0", grid a mesh or a device, placement that of to_string, and attr what to_text gives for one.
// The name of an axis is quoted unless it is a word.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "ir/eqn_text.h"
#include "ir/graph.h"
#include "sharding/python_text.h"

namespace shoal {
namespace {

using text::double_quoted;

std::string device_list(const std::vector<Device>& devices) {
  bool consecutive = devices.size() > 2;
  for (std::size_t i = 1; i < devices.size(); ++i) consecutive = consecutive && devices[i].id == devices[i - 1].id + 1;
  if (consecutive) return fmt::format("{}..{}", devices.front().id, devices.back().id);
  std::vector<std::int64_t> ids;
  for (const Device& device : devices) ids.push_back(device.id);
  return fmt::format("{}", fmt::join(ids, ", "));
}

// Of a speed other than the usual one.
std::string speed_text(double speed, double usual) { return speed == usual ? "" : fmt::format(" at {}", speed); }

std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < mesh.axis_names().size(); ++i) {
    constexpr std::array<std::string_view, 3> kTypes = {"", " explicit", " manual"};
    axes.push_back(fmt::format("{}={}{}{}", double_quoted(mesh.axis_names()[i]), mesh.axis_sizes()[i],
                               kTypes[static_cast<std::size_t>(mesh.axis_types()[i])],
                               speed_text(mesh.speeds().axes[i], MeshSpeeds::kBytesPerSecond)));
  }
  const std::string of_devices = speed_text(mesh.speeds().device, MeshSpeeds::kOperationsPerSecond);
  if (!mesh.is_abstract()) {
    return fmt::format("mesh({}; devices {}{})", fmt::join(axes, ", "), device_list(mesh.devices()), of_devices);
  }
  const std::string_view devices = of_devices.empty() ? "" : "; devices";
  return fmt::format("mesh({}{}{})", fmt::join(axes, ", "), devices, of_devices);
}

std::string grid_text(const Grid& grid) {
  return grid.mesh().empty() ? fmt::format("device {}", grid.devices().front().id) : mesh_text(grid.mesh());
}

std::string spec_text(const PartitionSpec& spec) {
  std::vector<std::string> entries;
  for (const PartitionEntry& entry : spec) {
    if (entry.is_unconstrained()) {
      entries.emplace_back("?");
    } else if (entry.axes().size() == 1) {
      entries.push_back(double_quoted(entry.axes().front()));
    } else if (entry.is_none()) {
      entries.emplace_back("_");
    } else {
      std::vector<std::string> names;
      for (const std::string& axis : entry.axes()) names.push_back(double_quoted(axis));
      entries.push_back(fmt::format("({})", fmt::join(names, ", ")));
    }
  }
  const auto add = [&](const char* name, const std::vector<std::string>& axes) {
    if (axes.empty()) return;
    std::vector<std::string> names;
    for (const std::string& axis : axes) names.push_back(double_quoted(axis));
    entries.push_back(fmt::format("{}={{{}}}", name, fmt::join(names, ", ")));
  };
  add("unreduced", spec.unreduced());
  add("reduced", spec.reduced());
  return fmt::format("P({})", fmt::join(entries, ", "));
}

template <class T>
std::string real_text(T value) {
  return fmt::format("{}", value);
}

std::string scalar_value(const Scalar& scalar) {
  switch (scalar.dtype) {
    case Dtype::kBool:
      return scalar.as<bool>() ? "true" : "false";
    case Dtype::kI8:
    case Dtype::kI16:
    case Dtype::kI32:
    case Dtype::kI64:
      return real_text(scalar.converted_to(int64).as<std::int64_t>());
    case Dtype::kU8:
    case Dtype::kU16:
    case Dtype::kU32:
    case Dtype::kU64:
    case Dtype::kKeyFry:
      return real_text(scalar.converted_to(uint64).as<std::uint64_t>());
    case Dtype::kF16:
    case Dtype::kBF16:
    case Dtype::kF32:
      return real_text(scalar.converted_to(float32).as<float>());
    case Dtype::kF64:
      return real_text(scalar.as<double>());
    case Dtype::kC64: {
      const auto value = scalar.as<std::complex<float>>();
      return real_text(value.real()) + ", " + real_text(value.imag());
    }
    case Dtype::kC128: {
      const auto value = scalar.as<std::complex<double>>();
      return real_text(value.real()) + ", " + real_text(value.imag());
    }
    case Dtype::kKeyRbg:
    case Dtype::kKeyUnsafeRbg: {
      const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(scalar.bytes);
      return real_text(words[0]) + ", " + real_text(words[1]);
    }
  }
  return "";
}

std::string indented(std::string_view text, std::string_view indent) {
  std::string result;
  for (char c : text) {
    result += c;
    if (c == '\n') result += indent;
  }
  return result;
}

struct AttrText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return double_quoted(value); }
  std::string operator()(Dtype value) const { return std::string(short_name_of(value)); }
  std::string operator()(MemoryKind value) const { return fmt::format("memory({})", value.name()); }
  std::string operator()(const Dims& value) const { return fmt::format("({})", fmt::join(value, ", ")); }
  std::string operator()(const std::vector<std::string>& value) const {
    std::vector<std::string> texts;
    for (const std::string& text : value) texts.push_back(double_quoted(text));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(const Scalar& value) const {
    return fmt::format("{}({})", short_name_of(value.dtype), scalar_value(value));
  }
  std::string operator()(const Mesh& value) const { return mesh_text(value); }
  std::string operator()(const NamedSharding& value) const {
    return fmt::format("sharding({}, memory({}), {})", spec_text(value.spec()), value.memory_kind().name(),
                       mesh_text(value.mesh()));
  }
  std::string operator()(const std::vector<PartitionSpec>& value) const {
    std::vector<std::string> texts;
    for (const PartitionSpec& spec : value) texts.push_back(spec_text(spec));
    return fmt::format("specs({})", fmt::join(texts, ", "));
  }
  std::string operator()(const CallbackAttr& value) const { return fmt::format("callback({})", value.number); }
  std::string operator()(const GraphAttr& value) const { return indented(to_text(*value.graph), "    "); }
  std::string operator()(const std::vector<GraphAttr>& value) const {
    std::vector<std::string> texts;
    for (const GraphAttr& graph : value) texts.push_back((*this)(graph));
    return fmt::format("graphs({})", fmt::join(texts, ", "));
  }
};

std::string axes_text(const Grid& grid, std::string_view label, AtomSet atoms) {
  return atoms.empty() ? "" : fmt::format(" {}({})", label, fmt::join(grid.axis_texts(atoms.sorted()), ", "));
}

// The meshes whose Explicit axes types speak of, in the order of the values.
std::vector<Mesh> meshes_in_types(const Graph& graph) {
  std::vector<Mesh> meshes;
  for (const Value& value : graph.values) {
    if (!value.type.explicit_axes) continue;
    const Mesh& mesh = value.type.explicit_axes->mesh;
    if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) meshes.push_back(mesh);
  }
  return meshes;
}

// A type that no axis splits, or that speaks of another mesh than the first, says which mesh it speaks of.
std::string type_text(const Graph& graph, const Type& type) {
  std::string text = to_string(type);
  if (!type.explicit_axes) return text;
  const std::vector<Mesh> meshes = meshes_in_types(graph);
  const auto index = std::find(meshes.begin(), meshes.end(), type.explicit_axes->mesh) - meshes.begin();
  const auto& dims = type.explicit_axes->dims;
  const bool shown = !type.explicit_axes->unreduced.empty() || !type.explicit_axes->reduced.empty() ||
                     std::any_of(dims.begin(), dims.end(), [](const auto& dim) { return !dim.empty(); });
  return shown && index == 0 ? text : fmt::format("{}#{}", text, index);
}

std::string value_text(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  std::string text = fmt::format("%{}: {}", id, type_text(graph, value.type));
  if (graph.grid == nullptr) return text;
  if (value.placement) text += " @" + to_string(*graph.grid, *value.placement);
  text += axes_text(*graph.grid, "manual", value.manual) + axes_text(*graph.grid, "varying", value.varying);
  if (value.global) {
    text += fmt::format(" of [{}] @{}", fmt::join(value.global->shape, ","),
                        to_string(*graph.grid, value.global->placement));
  }
  return text;
}

std::string value_list(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<std::string> texts;
  for (ValueId id : ids) texts.push_back(value_text(graph, id));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string uses(std::span<const ValueId> ids) {
  std::vector<std::string> texts;
  for (ValueId id : ids) texts.push_back(fmt::format("%{}", id));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string to_text(const Attr& attr) { return std::visit(AttrText{}, attr); }

std::string eqn_text(const Graph& graph, const Eqn& eqn) {
  std::string text;
  if (!eqn.outputs.empty()) text = value_list(graph, eqn.outputs) + " = ";
  text += fmt::format("{}({})", eqn.op->name, uses(eqn.inputs));
  if (eqn.attrs.entries().empty()) return text;
  std::vector<std::string> attrs;
  for (const auto& [name, value] : eqn.attrs.entries()) attrs.push_back(fmt::format("{} = {}", name, to_text(value)));
  return text + fmt::format(" {{{}}}", fmt::join(attrs, ", "));
}

std::string to_text(const Graph& graph) {
  std::string text;
  if (graph.grid != nullptr) text += fmt::format("on {}\n", grid_text(*graph.grid));
  text += fmt::format("graph {}", double_quoted(graph.name));
  std::vector<std::string> meshes;
  for (const Mesh& mesh : meshes_in_types(graph)) meshes.push_back(mesh_text(mesh));
  if (!meshes.empty()) text += fmt::format(" in {}", fmt::join(meshes, ", "));
  if (!graph.axes.empty()) {
    std::vector<std::string> axes;
    for (const auto& [name, size] : graph.axes.axes()) axes.push_back(fmt::format("{}={}", double_quoted(name), size));
    text += fmt::format(" over({})", fmt::join(axes, ", "));
  }
  text += fmt::format("({}) {{\n", value_list(graph, graph.inputs));
  for (const Eqn& eqn : graph.eqns) text += "  " + eqn_text(graph, eqn) + "\n";
  return text + fmt::format("  return {}\n}}", uses(graph.outputs));
}

}  // namespace shoal
