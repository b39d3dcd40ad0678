#include "cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/table.h"
#include "runtime/program.h"
#include "sharding/shared_grid.h"

namespace shoal::parity {
namespace {

class EightDevices : public testing::Environment {
 public:
  void SetUp() override { set_num_cpu_devices(8); }
};
testing::Environment* const kEightDevices = testing::AddGlobalTestEnvironment(new EightDevices);

DeviceArray on_one_device(const Type& type, const Buffer& data, const Device& device) {
  ShardSet shards{.grid = shared_grid(device), .varying = {}, .shards = {data}};
  return ready_array(type, SingleDeviceSharding(device), false, std::move(shards));
}

std::shared_ptr<const Program> compile(const Case& test) {
  std::vector<InputSpec> inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back({.sharding = {}, .label = fmt::format("input {}", i)});
    if (test.inputs[i]) inputs.back().sharding = NamedSharding(test.mesh, *test.inputs[i]);
  }
  std::vector<OutputSpec> outputs;
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    outputs.push_back({.sharding = {}, .label = fmt::format("output {}", i)});
    if (test.outputs[i]) outputs.back().sharding = NamedSharding(test.mesh, *test.outputs[i]);
  }
  return std::make_shared<const Program>(test.graph, inputs, outputs, SourceLocation::current());
}

std::string spec_text(const std::optional<PartitionSpec>& spec) { return spec ? to_string(*spec) : "chosen"; }

Mesh mesh_over(const Shape& sizes, const std::vector<std::int64_t>& ids = {}) {
  static const std::vector<std::string> names = {"x", "y", "z"};
  std::vector<Device> devices;
  for (std::int64_t i = 0; i < num_elements(sizes); ++i) {
    devices.push_back({.id = ids.empty() ? i : ids[static_cast<std::size_t>(i)]});
  }
  return Mesh(std::move(devices), sizes, {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(sizes.size())});
}

}  // namespace

ValueId add_input(Case& test, Type type, Buffer data, std::optional<PartitionSpec> spec) {
  test.data.push_back(std::move(data));
  test.inputs.push_back(std::move(spec));
  return test.graph.add_input(std::move(type));
}

void add_output(Case& test, ValueId id, std::optional<PartitionSpec> spec) {
  test.graph.outputs.push_back(id);
  test.outputs.push_back(std::move(spec));
}

ValueId add_eqn(Graph& graph, std::string_view op, Attrs attrs, std::vector<ValueId> inputs) {
  return graph.add_eqn(op_named(op), std::move(attrs), std::move(inputs), SourceLocation::current())[0];
}

std::vector<Buffer> run(const Case& test) {
  const std::shared_ptr<const Program> program = compile(test);
  DeviceArrays arguments;
  for (std::size_t i = 0; i < test.data.size(); ++i) {
    const Type& type = test.graph.type(test.graph.inputs[i]);
    arguments.push_back(on_one_device(type, test.data[i], test.mesh.devices().front()));
    if (!test.inputs[i]) continue;
    arguments.back() =
        put(arguments.back(), NamedSharding(test.mesh, *test.inputs[i]), true, SourceLocation::current());
  }
  std::vector<Buffer> results;
  for (const DeviceArray& output : program->call(arguments)) results.push_back(to_host(output));
  return results;
}

Graph partitioned(const Case& test) { return compile(test)->stage("partitioned"); }

std::optional<std::string> compare(const std::vector<Buffer>& outputs, const std::vector<Known>& expected) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::isinf(expected[i].error)) continue;
    const auto found = difference(outputs[i], expected[i].value, expected[i].tolerance());
    if (found) return fmt::format("output {}: {}", i, *found);
  }
  return {};
}

std::optional<std::string> failure_of(const Case& test) {
  const std::vector<Known> values = analyse(test.graph, test.data);
  std::vector<Known> expected;
  for (ValueId id : test.graph.outputs) expected.push_back(values[static_cast<std::size_t>(id)]);
  try {
    return compare(run(test), expected);
  } catch (const std::exception& error) {
    return fmt::format("exception: {}", error.what());
  }
}

std::string to_text(const Case& test) {
  std::string text = fmt::format("{}\non {}, devices", to_text(test.graph), to_string(test.mesh));
  for (const Device& device : test.mesh.devices()) text += fmt::format(" {}", device.id);
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    text += fmt::format("\ninput {}: {}", i, spec_text(test.inputs[i]));
    if (num_elements(test.data[i].shape()) <= 128) text += " = " + elements_text(test.data[i]);
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    text += fmt::format("\noutput {}: {}", i, spec_text(test.outputs[i]));
  }
  return text;
}

const std::vector<std::pair<std::string, Mesh>>& standard_meshes() {
  static const std::vector<std::pair<std::string, Mesh>> meshes = {
      {"1", mesh_over({1})},           {"2", mesh_over({2})},
      {"8", mesh_over({8})},           {"2x4", mesh_over({2, 4})},
      {"2x2x2", mesh_over({2, 2, 2})}, {"2x4 permuted", mesh_over({2, 4}, {5, 0, 3, 6, 1, 7, 4, 2})},
  };
  return meshes;
}

const std::vector<std::pair<std::string, Mesh>>& all_meshes() {
  static const std::vector<std::pair<std::string, Mesh>> meshes = [] {
    auto list = standard_meshes();
    list.emplace_back("3", mesh_over({3}));
    list.emplace_back("6", mesh_over({6}));
    list.emplace_back("2x3", mesh_over({2, 3}));
    list.emplace_back("4x2", mesh_over({4, 2}));
    return list;
  }();
  return meshes;
}

std::vector<PartitionSpec> all_specs(const Mesh& mesh, std::size_t rank) {
  using Lists = std::vector<std::vector<std::string>>;
  std::vector<Lists> found = {Lists(rank)};
  for (const std::string& axis : mesh.axis_names()) {
    std::vector<Lists> more;
    for (const Lists& lists : found) {
      more.push_back(lists);
      for (std::size_t d = 0; d < rank; ++d) {
        for (std::size_t i = 0; i <= lists[d].size(); ++i) {
          more.push_back(lists);
          std::vector<std::string>& axes = more.back()[d];
          axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(i), axis);
        }
      }
    }
    found = std::move(more);
  }
  std::vector<PartitionSpec> specs;
  for (const Lists& lists : found) specs.emplace_back(std::vector<PartitionEntry>(lists.begin(), lists.end()));
  return specs;
}

PartitionSpec random_spec(Rng& rng, const Mesh& mesh, std::size_t rank) {
  std::vector<std::vector<std::string>> lists(rank);
  std::vector<std::string> axes = mesh.axis_names();
  rng.shuffle(axes);
  for (const std::string& axis : axes) {
    if (rank > 0 && rng.chance(70)) lists[rng.below(rank)].push_back(axis);
  }
  return PartitionSpec(std::vector<PartitionEntry>(lists.begin(), lists.end()));
}

bool divides(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape) {
  for (std::size_t d = 0; d < spec.size(); ++d) {
    std::int64_t pieces = 1;
    for (const std::string& axis : spec[d].axes()) pieces *= mesh.axis_size(axis);
    if (shape[d] % pieces != 0) return false;
  }
  return true;
}

}  // namespace shoal::parity
