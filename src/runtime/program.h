// Programs: what the pipeline makes of a traced graph, and how it is launched.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "ir/graph.h"
#include "runtime/device_array.h"
#include "runtime/executable.h"
#include "runtime/lane.h"
#include "runtime/pipeline.h"

namespace shoal {

/// A compiled program, held by shared pointer. Immutable; calls may come from any thread.
class Program : public std::enable_shared_from_this<Program> {
 public:
  /// Runs all stages (spmd/stages.h), and makes the executable.
  /// Throws InvalidArgument if inputs, constraints and outputs name different devices, and IndivisibleError if an
  /// output cannot have the sharding wanted.
  /// `devices`, if there are any, are those it is to run on. Abstract meshes get them, or those that other meshes and
  /// inputs name. Throws InvalidArgument if there are none.
  /// A launch takes at most `memory_budget` bytes beside its inputs; throws OutOfMemory if no such program was found.
  Program(Graph traced, std::vector<InputSpec> inputs, std::vector<OutputSpec> outputs, SourceLocation where,
          std::vector<Device> devices = {}, std::optional<std::int64_t> memory_budget = {});

  /// Reads what store() wrote, for the devices it was compiled for, or for as many others. Source lines are not stored.
  /// Throws InvalidArgument, beginning with the program's name, if this process has no such devices, or another number
  /// is given.
  Program(ByteReader& in, const std::vector<Device>& devices, std::string_view name, SourceLocation where);

  /// Writes all that running it again takes. Throws Unsupported, beginning with the program's name, if it calls
  /// functions of this process when it runs.
  void store(ByteWriter& out, std::string_view name, SourceLocation where) const;

  /// The graphs of the stages, in order.
  const std::vector<Pipeline::Result>& stages() const { return pipeline_.results(); }
  const Graph& stage(std::string_view name) const { return pipeline_.graph(name); }

  const GridPtr& grid() const { return placing_.grid; }
  const std::vector<Sharding>& input_shardings() const { return placing_.input_shardings; }
  const std::vector<Sharding>& output_shardings() const { return placing_.output_shardings; }

  /// For each input, whether it is donated and some output has its type and placement, so that its memory is used
  /// again. Other donations come to nothing.
  const std::vector<bool>& donations() const { return donations_; }
  /// Whether there is any such input.
  bool donates() const { return donates_; }

  /// Where its values lie while it runs.
  const MemoryPlan& memory_plan() const { return executable_->memory_plan(); }
  const Executable& executable() const { return *executable_; }

  /// Launches the program: returns at once unless it is small, with results that are futures. An argument elsewhere
  /// than the program wants it is moved first. An argument whose computation failed fails every result.
  /// `where` is the user's line. If other processes take part: throws what ended the work with them, and InvalidState
  /// if another thread launches such programs, too.
  DeviceArrays call(DeviceArrays arguments, SourceLocation where = {}) const;
  /// The same, whose results are not looked at, as debug::check_results asks for it.
  DeviceArrays launch(DeviceArrays arguments, SourceLocation where) const;

 private:
  std::string origin_of_wrong(const DeviceArrays& arguments) const;
  void make_executable(CompileReport* report, std::optional<std::int64_t> memory_budget = {});
  void fit_into(std::size_t room, FunctionRef<std::unique_ptr<Executable>(Graph)> make,
                FunctionRef<Graph()> fuse_for_memory);
  void warn_of_failure() const;
  std::vector<Reuse> match_donations(const Graph& graph);
  void settle_kinds();
  void fulfil(DeviceArrays& arguments, const DeviceArrays& results, const Digest& lineage,
              const LaunchCall& call) const;
  void check_transfers(const DeviceArrays& arguments, SourceLocation where) const;
  Digest lineage_of(const DeviceArrays& arguments) const;
  std::vector<ShardSet> run(DeviceArrays& arguments, const Digest& lineage, const LaunchCall& call) const;

  Pipeline pipeline_;
  Placing placing_;
  std::vector<KindPtr> output_kinds_;
  std::vector<AddressSpace*> input_spaces_;
  std::vector<bool> donations_;
  bool donates_ = false;
  Digest digest_ = {};  // Of what is run, if devices are of several processes.
  std::unique_ptr<Executable> executable_;
  Lane::Length length_ = Lane::Length::kLong;
};

}  // namespace shoal
