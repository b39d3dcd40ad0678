#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/log.h"
#include "comm/record/communicator.h"
#include "core/device_list.h"
#include "core/host_allocator.h"
#include "ir/bodies.h"
#include "ir/graph_digest.h"
#include "ops/eqn_cost.h"
#include "passes/inline_calls.h"
#include "runtime/compile_report.h"
#include "runtime/lane.h"
#include "runtime/memory_report.h"
#include "runtime/rematerialize.h"
#include "runtime/result_checks.h"
#include "runtime/transfer_guard.h"
#include "runtime/wrong_origin.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// A number of elements stands for the time in which they are computed: so many for a millisecond, and for what it takes
// to begin a step. What does many operations for each, as products and decompositions do, takes as long as more
// elements. More than kMany are many, however many.
constexpr double kElementsInMillisecond = 1 << 19;
constexpr double kElementsOfStep = 256;
constexpr double kFlopsOfElement = 64;
constexpr double kMany = 0x1p40;

std::optional<double> elements_of(const Schedule& schedule);

// Nothing if nobody knows what the loop or branch takes.
std::optional<double> elements_of(const ControlStep& step) {
  const Control& control = step.control;
  if (step.whole) {
    if (!control.trips || step.whole->kernel->may_take_any_time()) return std::nullopt;
    const double runs = static_cast<double>(*control.trips) * static_cast<double>(step.whole->shards) /
                        static_cast<double>(step.whole->kernel->trips_at_once());
    return runs * RepeatedKernel::kMillisecondsAtOnce * kElementsInMillisecond;
  }
  if (control.loops && !control.trips) return std::nullopt;
  double elements = 0;
  for (const ControlStep::Body& body : step.bodies) {
    const std::optional<double> of_body = elements_of(*body.schedule);
    if (!of_body) return std::nullopt;
    elements += *of_body + kElementsOfStep * static_cast<double>(body.schedule->steps.size());
  }
  return elements * (control.loops ? static_cast<double>(*control.trips) : 1.0);
}

std::optional<double> elements_of(const Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const auto shards_of = [&](const Value& value) { return static_cast<double>(graph.grid->size_of(value.varying)); };
  double elements = 0;
  for (const Value& value : graph.values) {
    elements += static_cast<double>(num_elements(value.type.shape)) * shards_of(value);
  }
  double operations = 0;
  double under_control = 0;
  std::unordered_map<const Kernel*, double> known;  // Of a shard: equations that are alike share a kernel.
  for (const Step& step : schedule.steps) {
    if (const auto* const kernel = std::get_if<KernelStep>(&step.work)) {
      const auto [found, is_new] = known.try_emplace(kernel->kernel.get());
      if (is_new) found->second = flops(graph, *step.eqn);
      operations += found->second * shards_of(graph.value(step.eqn->outputs[0]));
    }
    if (step.eqn->op->collective && step.eqn->op->collective->computes) {
      AtomSet varying;
      for (ValueId id : step.eqn->inputs) varying = varying | graph.value(id).varying;
      operations += flops(graph, *step.eqn) * static_cast<double>(graph.grid->size_of(varying));
    }
    const auto* const control = std::get_if<ControlStep>(&step.work);
    if (control == nullptr) continue;
    const std::optional<double> of_control = elements_of(*control);
    if (!of_control) return std::nullopt;
    under_control += *of_control;
  }
  return std::max(elements, operations / kFlopsOfElement) + under_control;
}

// What a user's function takes nobody knows either, but where there is little to do it is called at once. `schedule` is
// that of the graph, or of what it has become.
Lane::Length length_of(const Graph& graph, const Schedule& schedule) {
  const auto calls_user = [](const Eqn& eqn) {
    return eqn.op->op_class == OpClass::kEffect || eqn.attrs.find_as<CallbackAttr>("function") != nullptr;
  };
  const std::optional<double> elements = elements_of(schedule);
  if (!elements) return Lane::Length::kLong;
  const bool alone = graph.grid->is_local() && !any_eqn(graph, calls_user);
  return Lane::length_of(static_cast<std::int64_t>(std::min(*elements, kMany)), alone);
}

// What a program may take beside its arguments. They are in use already, unless it is compiled before they are made.
std::size_t memory_left(std::size_t argument_bytes) {
  const HostAllocator& memory = HostAllocator::shared();
  const std::size_t used = std::max(memory.bytes_in_use(), argument_bytes);
  return memory.limit() - std::min(memory.limit(), used);
}

}  // namespace

Program::Program(Graph traced, std::vector<InputSpec> inputs, std::vector<OutputSpec> outputs, SourceLocation where,
                 std::vector<Device> devices, std::optional<std::int64_t> memory_budget)
    : pipeline_(traced.name),
      placing_{
          .inputs = std::move(inputs), .outputs = std::move(outputs), .devices = std::move(devices), .where = where} {
  CompileReport report(traced, where);
  pipeline_.keep("traced", std::move(traced));
  Compilation program{.graph = pipeline_.last_kept(), .placing = std::move(placing_)};
  pipeline_.run(program, "inline_calls", "partition", &report);
  placing_ = std::move(program.placing);
  make_executable(&report, memory_budget);
  report.end_stage("make kernels");
  report.finish(placing_.grid->devices().size());
}

void Program::make_executable(CompileReport* report, std::optional<std::int64_t> memory_budget) {
  const GraphPtr kept = pipeline_.last_kept();
  const Graph& partitioned = *kept;
  const std::vector<Reuse> reuses = match_donations(partitioned);
  const Backend& backend = current_backend();
  // Of what is partitioned, as fusion may depend on the processor.
  if (!placing_.grid->is_local()) digest_ = make_digest(partitioned).digest;
  Compilation program{.graph = kept, .fuse = [&](Graph graph) { return backend.fuse(std::move(graph)); }};
  pipeline_.run(program, "fuse", "fuse", report);
  const auto make = [&](Graph graph) {
    return std::make_unique<Executable>(std::move(graph), backend, reuses, digest_);
  };
  executable_ = std::make_unique<Executable>(program.graph.kept(), backend, reuses, digest_);
  const std::size_t left = memory_left(executable_->argument_bytes());
  const std::size_t budget = memory_budget ? static_cast<std::size_t>(*memory_budget) : left;
  const std::size_t room = std::min(budget, left);
  if (executable_->launch_bytes() > room) {
    fit_into(room, make, [&] {
      Compilation lean{.graph = kept, .fuse = [&](Graph graph) {
                         return backend.fuse(std::move(graph), Backend::FusionGoal::kMemory);
                       }};
      run_stages(lean, "fuse", "fuse");
      return lean.graph.take();
    });
  }
  if (memory_budget && executable_->launch_bytes() > budget) {
    throw OutOfMemory(
        fmt::format(
            "{}: memory_budget is {} bytes, and the least that a call was found to take beside its arguments is "
            "{} bytes",
            stages().front().graph.name, *memory_budget, executable_->launch_bytes()),
        placing_.where);
  }
  length_ = length_of(partitioned, executable_->schedule());
  settle_kinds();
}

// Memory is short: looks for an executable that takes less, at the price of time.
void Program::fit_into(std::size_t room, FunctionRef<std::unique_ptr<Executable>(Graph)> make,
                       FunctionRef<Graph()> fuse_for_memory) {
  const std::size_t before = executable_->launch_bytes();
  LeanExecutable lean = rematerialize(std::move(executable_), room, make);
  if (lean.executable->launch_bytes() > room) {
    LeanExecutable other = rematerialize(make(fuse_for_memory()), room, make);
    if (other.executable->launch_bytes() < lean.executable->launch_bytes()) lean = std::move(other);
  }
  executable_ = std::move(lean.executable);
  const std::size_t after = executable_->launch_bytes();
  if (after < before) pipeline_.keep("rematerialized", executable_->kept_graph());
  if (!log_enabled(LogTopic::kCompile)) return;
  log_info(LogTopic::kCompile,
           fmt::format("{}: a launch would take {} bytes, and {} are left: it takes {} ({} fewer){}, with {} steps "
                       "that compute something again{}",
                       stages().front().graph.name, before, room, after, before - after,
                       lean.is_reordered ? " in another order" : "", lean.recomputed,
                       after > room ? "; that is too much" : ""));
}

// Pairs donated inputs with outputs of their type and placement, each with the first that is left.
std::vector<Reuse> Program::match_donations(const Graph& graph) {
  std::vector<Reuse> reuses;
  std::vector<bool> taken(graph.outputs.size(), false);
  donations_.assign(placing_.inputs.size(), false);
  for (std::size_t i = 0; i < placing_.inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs[i]);
    for (std::size_t o = 0; o < graph.outputs.size() && placing_.inputs[i].donated && !donations_[i]; ++o) {
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
  const std::string& name = stages().front().graph.name;
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
  const Graph& traced = stages().front().graph;
  const Device& device = placing_.grid->devices().front();
  for (ValueId id : graph.inputs) {
    input_spaces_.push_back(&current_backend().address_space(device, graph.type(id).memory));
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Value& value = graph.value(graph.outputs[i]);
    Type type = value.type;
    type.dtype = traced.type(traced.outputs[i]).dtype;  // Of keys, too.
    type.shape = value.global->shape;
    output_kinds_.push_back(kind_of(type, placing_.output_shardings[i], placing_.committed));
    SHOAL_CHECK(output_kinds_.back()->layout.placement == value.global->placement,
                "an output lies as its sharding says");
  }
}

// Numbers go wherever they are needed.
void Program::check_transfers(const DeviceArrays& arguments, SourceLocation where) const {
  if (!is_guarded(TransferKind::kDeviceToDevice)) return;
  for (const DeviceArray& argument : arguments) {
    const Type& type = argument.type();
    if (std::ranges::is_permutation(argument.grid()->devices(), placing_.grid->devices()) ||
        (type.weak && type.shape.empty()))
      continue;
    check_transfer(TransferKind::kDeviceToDevice,
                   fmt::format("{} from {} to {}", to_string(type), describe_devices(argument.grid()->devices()),
                               describe_devices(placing_.grid->devices())),
                   where);
  }
}

DeviceArrays Program::call(DeviceArrays arguments, SourceLocation where) const {
  if (!are_results_checked()) return launch(std::move(arguments), where);
  DeviceArrays results = launch(arguments, where);
  check_results(results, executable_->graph().name, where, [&] { return origin_of_wrong(arguments); });
  return results;
}

// What a message adds on the equation that a wrong result comes of.
std::string Program::origin_of_wrong(const DeviceArrays& arguments) const {
  const auto traced = std::ranges::find(stages(), "traced", &Pipeline::Result::name);
  if (traced == stages().end() || !placing_.grid->is_local()) return "";
  return shoal::origin_of_wrong(traced->graph, arguments, placing_.input_shardings, placing_.grid->devices(),
                                placing_.where);
}

DeviceArrays Program::launch(DeviceArrays arguments, SourceLocation where) const {
  check_transfers(arguments, where);
  DeviceArrays results;
  LaunchCall call;
  Digest lineage{};
  if (!placing_.grid->is_local()) {
    call = Communicator::of(placing_.grid->processes()).call(executable_->graph().name, where);
    lineage = lineage_of(arguments);
  }
  for (std::size_t i = 0; i < output_kinds_.size(); ++i) {
    const Digest origin = placing_.grid->is_local() ? Digest() : digest_of(lineage, i);
    results.push_back({output_kinds_[i], ShardFuture::pending(origin)});
  }
  if (const Lane::Turn turn(length_); turn) {
    fulfil(arguments, results, lineage, call);
  } else {
    Lane::shared().submit(length_, [self = shared_from_this(), held = std::move(arguments), results, lineage,
                                    call]() mutable { self->fulfil(held, results, lineage, call); });
  }
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
    if (!placing_.grid->is_local()) Communicator::of(placing_.grid->processes()).fail(std::current_exception());
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
    const Placement& wanted = placing_.input_placements[i];
    ShardSet shards = std::move(arguments[i].shards).take();
    const Buffer* any = shards.any();
    if (shards.grid == placing_.grid && kind->layout.placement == wanted && any != nullptr &&
        &any->space() == input_spaces_[i]) {
      inputs.push_back(std::move(shards));
    } else {
      inputs.push_back(redistribute(shards, kind->type, kind->layout.placement, placing_.grid, wanted,
                                    *input_spaces_[i], lineage_of_argument));
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
