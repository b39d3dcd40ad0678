// From a traced graph to something that runs: the pipeline, and its result.
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
#include "runtime/dump.h"
#include "runtime/executable.h"

namespace shoal {

/// What is known of an input before the program is compiled.
struct InputSpec {
  std::optional<Sharding> sharding;  ///< Where it lies, if it is committed there.
  std::string label;                 ///< For messages: "argument x[0]".
  bool donated = false;              ///< The caller gives its memory away.
};

/// What the caller wants of an output.
struct OutputSpec {
  std::optional<Sharding> sharding;
  std::string label;
};

/// A compiled program, held by shared pointer. Immutable; calls may come from any thread.
class Program : public std::enable_shared_from_this<Program> {
 public:
  /// Runs the pipeline: inline, simplify, remove what is computed twice or used by nobody, place, propagate, partition,
  /// make executable.
  /// Throws InvalidArgument if inputs, constraints and outputs name different devices, and IndivisibleError if an
  /// output cannot have the sharding wanted.
  /// `devices`, if there are any, are those it is to run on. Abstract meshes get them, or those that other meshes and
  /// inputs name. Throws InvalidArgument if there are none.
  Program(Graph traced, std::vector<InputSpec> inputs, std::vector<OutputSpec> outputs, SourceLocation where,
          std::vector<Device> devices = {});

  /// Reads what store() wrote, for the devices it was compiled for, or for as many others. Source lines are not stored.
  /// Throws InvalidArgument, beginning with the program's name, if this process has no such devices, or another number
  /// is given.
  Program(ByteReader& in, const std::vector<Device>& devices, std::string_view name, SourceLocation where);

  /// Writes all that running it again takes. Throws Unsupported, beginning with the program's name, if it calls
  /// functions of this process when it runs.
  void store(ByteWriter& out, std::string_view name, SourceLocation where) const;

  /// Stages of the pipeline, in order; each is the text of the graph after it.
  struct Stage {
    std::string name;
    Graph graph;
  };
  const std::vector<Stage>& stages() const { return stages_; }
  const Graph& stage(std::string_view name) const;

  const GridPtr& grid() const { return grid_; }
  const std::vector<Sharding>& input_shardings() const { return input_shardings_; }
  const std::vector<Sharding>& output_shardings() const { return output_shardings_; }

  /// For each input, whether it is donated and some output has its type and placement, so that its memory is used
  /// again. Other donations come to nothing.
  const std::vector<bool>& donations() const { return donations_; }
  /// Whether there is any such input.
  bool donates() const { return donates_; }

  /// Where its values lie while it runs.
  const MemoryPlan& memory_plan() const { return executable_->memory_plan(); }

  /// Launches the program: returns at once unless it is small, with results that are futures. An argument elsewhere
  /// than the program wants it is moved first. An argument whose computation failed fails every result.
  /// `where` is the user's line. If other processes take part: throws what ended the work with them, and InvalidState
  /// if another thread launches such programs, too.
  DeviceArrays call(DeviceArrays arguments, SourceLocation where = {}) const;

 private:
  void make_executable();
  void fit_into(std::size_t room, FunctionRef<std::unique_ptr<Executable>(Graph)> make);
  void look_at(const Graph& graph, std::string_view name);
  void add_stage(std::string name, Graph graph);
  void give_devices(SourceLocation where);
  void choose_grid(const Graph& graph, SourceLocation where);
  Graph place(Graph graph, SourceLocation where) const;
  Sharding express(const Type& type, std::vector<Atoms>& dims) const;
  const Sharding* given_sharding(const Graph& graph, ValueId id) const;
  void settle_outputs(Graph& graph);
  void settle_inputs(const Graph& graph);
  void warn_of_failure() const;
  void report_shardings(const Graph& propagated) const;
  std::vector<Reuse> match_donations(const Graph& graph);
  void settle_kinds();
  void fulfil(DeviceArrays& arguments, const DeviceArrays& results, const Digest& lineage,
              const LaunchCall& call) const;
  void check_transfers(const DeviceArrays& arguments, SourceLocation where) const;
  Digest lineage_of(const DeviceArrays& arguments) const;
  std::vector<ShardSet> run(DeviceArrays& arguments, const Digest& lineage, const LaunchCall& call) const;

  std::vector<InputSpec> inputs_;
  std::vector<OutputSpec> outputs_;
  std::vector<Device> devices_;  // That the caller names.
  Dump dump_;
  std::vector<Stage> stages_;
  GridPtr grid_;
  std::vector<Mesh> meshes_;  // All that the program names, the grid's first.
  bool committed_ = false;
  std::vector<Placement> input_placements_;
  std::vector<Sharding> input_shardings_;
  std::vector<Sharding> output_shardings_;
  std::vector<KindPtr> output_kinds_;
  std::vector<AddressSpace*> input_spaces_;
  std::vector<bool> donations_;
  bool donates_ = false;
  Digest digest_ = {};  // Of what is run, if devices are of several processes.
  std::unique_ptr<Executable> executable_;
  bool small_ = false;
};

}  // namespace shoal
