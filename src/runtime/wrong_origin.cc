#include "runtime/wrong_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "ir/bodies.h"
#include "ir/op.h"
#include "ops/loop_slices.h"
#include "passes/inline_calls.h"
#include "runtime/memory_report.h"
#include "runtime/program.h"
#include "runtime/result_checks.h"
#include "transform/region.h"

namespace shoal {
namespace {

// Arrays, their types in programs, and where they lie, if that is anywhere in particular.
struct Placed {
  DeviceArrays arrays;
  std::vector<Type> types;
  std::vector<std::optional<Sharding>> shardings;

  void add(const Placed& other, std::size_t i) { add(other.arrays[i], other.types[i], other.shardings[i]); }
  void add(DeviceArray array, Type type, std::optional<Sharding> sharding) {
    arrays.push_back(std::move(array));
    types.push_back(std::move(type));
    shardings.push_back(std::move(sharding));
  }
};

// A program for arguments that lie as others did.
class Runner {
 public:
  Runner(Graph graph, const Placed& like, const std::vector<Device>& devices, SourceLocation where)
      : types_(graph.types(graph.outputs)) {
    std::vector<InputSpec> inputs;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      inputs.push_back({.sharding = like.shardings[i], .label = fmt::format("argument {}", i)});
    }
    std::vector<OutputSpec> wanted(graph.outputs.size());
    program_ = std::make_shared<const Program>(std::move(graph), std::move(inputs), std::move(wanted), where, devices);
  }

  // Results are not looked at, as those of Program::call are.
  Placed run(const Placed& arguments) const {
    const std::vector<Sharding>& shardings = program_->output_shardings();
    return {.arrays = program_->launch(arguments.arrays, {}),
            .types = types_,
            .shardings = {shardings.begin(), shardings.end()}};
  }

 private:
  std::vector<Type> types_;
  std::shared_ptr<const Program> program_;
};

bool is_wrong(const Placed& values) {
  return std::ranges::any_of(values.arrays, [](const DeviceArray& one) { return !what_is_wrong(one).empty(); });
}

template <class T>
T scalar_of(const DeviceArray& array) {
  T value;
  std::memcpy(&value, to_host(array).data(), sizeof(T));
  return value;
}

// Within a manual region all programs are such regions, and arguments the slices of devices.
class Search {
 public:
  Search(const std::vector<Device>& devices, SourceLocation where, const Eqn* region = nullptr)
      : devices_(devices), where_(where), region_(region) {}

  // The first equation that gives something wrong.
  std::optional<std::string> in(const Graph& graph, const Placed& arguments) const {
    std::vector<ValueId> made;
    std::vector<const Eqn*> makers;
    for (const Eqn& eqn : graph.eqns) {
      for (const ValueId id : eqn.outputs) {
        const Dtype dtype = graph.type(id).dtype;
        if (!is_floating(dtype) && !is_complex(dtype)) continue;
        made.push_back(id);
        makers.push_back(&eqn);
      }
    }
    const Placed values = runner(graph, std::move(made), arguments).run(arguments);
    for (std::size_t i = 0; i < values.arrays.size(); ++i) {
      if (what_is_wrong(values.arrays[i]).empty()) continue;
      const Eqn& eqn = *makers[i];
      const bool is_region = eqn.op->op_class == OpClass::kRegion;
      const std::optional<std::string> inside =
          is_region ? in_region(graph, eqn, arguments) : in_bodies(graph, eqn, arguments);
      return inside ? inside : described(eqn);
    }
    return {};
  }

 private:
  Runner runner(const Graph& graph, std::vector<ValueId> outputs, const Placed& like) const {
    Graph wanted = graph;
    wanted.outputs = std::move(outputs);
    if (region_ != nullptr) wanted = graph_in_region(*region_->op, region_->attrs, wanted, like.types, where_);
    return {std::move(wanted), like, devices_, where_};
  }
  Runner runner(const Graph& graph, const Placed& like) const { return runner(graph, graph.outputs, like); }

  // The equation in the graph of a region; nothing in one that stands in another.
  std::optional<std::string> in_region(const Graph& graph, const Eqn& eqn, const Placed& arguments) const {
    if (region_ != nullptr) return {};
    const Placed operands = runner(graph, eqn.inputs, arguments).run(arguments);
    const Runner enter(arguments_in_region(*eqn.op, eqn.attrs, operands.types, where_), operands, devices_, where_);
    return Search(devices_, where_, &eqn).in(eqn.attrs.graph(), enter.run(operands));
  }

  // The equation in the graphs that this one runs; nothing if it runs none.
  std::optional<std::string> in_bodies(const Graph& graph, const Eqn& eqn, const Placed& arguments) const {
    if (eqn.op->control == nullptr) return {};
    const Control control = eqn.op->control(eqn.attrs);
    const Placed operands = runner(graph, eqn.inputs, arguments).run(arguments);
    const auto bodies = bodies_of(eqn);
    if (control.loops) return in_loop(control, *bodies.front(), *bodies.back(), operands);
    Placed given;
    for (std::size_t i = control.first_argument; i < operands.arrays.size(); ++i) given.add(operands, i);
    std::size_t branch = 0;
    if (control.first_argument == 1) {
      const auto last = static_cast<std::int64_t>(bodies.size()) - 1;
      const std::int64_t index = scalar_of<std::int32_t>(operands.arrays[0]);
      branch = static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, last));
    }
    return in(*bodies[branch], given);
  }

  // Goes through the trips up to the first that gives something wrong.
  std::optional<std::string> in_loop(const Control& control, const Graph& question, const Graph& body,
                                     const Placed& operands) const {
    Placed given = operands;
    std::optional<Runner> slicer;
    std::optional<Runner> asker;
    std::optional<Runner> stepper;
    for (std::int64_t trip = 0; !control.trips || trip < *control.trips; ++trip) {
      const std::int64_t position = control.reverse ? *control.trips - 1 - trip : trip;
      if (control.slices > 0) {
        Placed whole;
        for (std::size_t i = control.carries; i < control.carries + control.slices; ++i) whole.add(operands, i);
        whole.add(number(position), position_of_slices(), {});
        if (!slicer) slicer = runner(slices_at(body, control), whole);
        const Placed slices = slicer->run(whole);
        for (std::size_t i = 0; i < control.slices; ++i) {
          given.arrays[control.carries + i] = slices.arrays[i];
          given.types[control.carries + i] = slices.types[i];
          given.shardings[control.carries + i] = slices.shardings[i];
        }
      }
      if (control.asks) {
        if (!asker) asker = runner(question, given);
        if (!scalar_of<bool>(asker->run(given).arrays[0])) return {};
      }
      if (!stepper) stepper = runner(body, given);
      const Placed made = stepper->run(given);
      if (is_wrong(made)) return in(body, given);
      for (std::size_t i = 0; i < control.carries; ++i) given.arrays[i] = made.arrays[i];
    }
    return {};
  }

  DeviceArray number(std::int64_t value) const {
    return put_host(position_of_slices(), {.data = &value}, SingleDeviceSharding(devices_.front()), false, where_);
  }

  const std::vector<Device>& devices_;
  SourceLocation where_;
  const Eqn* region_;
};

// Whether the line of an equation is all that there is to know of it.
bool is_plain(const Eqn& eqn) {
  return !eqn.where.is_derived && eqn.op->control == nullptr && eqn.op->op_class != OpClass::kRegion;
}

}  // namespace

std::string origin_of_wrong(const Graph& graph, const DeviceArrays& arguments, const std::vector<Sharding>& shardings,
                            const std::vector<Device>& devices, SourceLocation where) {
  if (any_eqn(graph, has_effect)) return "";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!what_is_wrong(arguments[i]).empty()) return fmt::format("; its argument {} has it already", i);
  }
  const Graph all = inline_calls_and_regions(graph);
  if (all.eqns.size() == 1 && is_plain(all.eqns[0])) return "";
  const Placed placed{
      .arrays = arguments, .types = all.types(all.inputs), .shardings = {shardings.begin(), shardings.end()}};
  const std::optional<std::string> found = Search(devices, where).in(all, placed);
  return found ? "; it comes of " + *found : "";
}

}  // namespace shoal
