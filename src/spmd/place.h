// Placing: which devices a program runs on, and what is wanted of its inputs and outputs, as equations and placements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "shoal/sharding.h"

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

/// What is given of a program beside its graph, and what the functions below find out, in this order.
struct Placing {
  std::vector<InputSpec> inputs = {};
  std::vector<OutputSpec> outputs = {};
  std::vector<Device> devices = {};  ///< Those that the caller names, if he does.
  SourceLocation where = {};         ///< The user's line, for errors.

  // By choose_grid.
  GridPtr grid = nullptr;
  std::vector<Mesh> meshes = {};  ///< All that the program names, the grid's first. None if it names none.
  bool committed = false;         ///< Whether something says on which devices it runs.

  // By settle_inputs and settle_outputs.
  std::vector<Placement> input_placements = {};
  std::vector<Sharding> input_shardings = {};
  std::vector<Sharding> output_shardings = {};
};

/// Replaces abstract meshes, in the graph and of inputs and outputs, by meshes over the devices that the caller names,
/// or else over those that other meshes name, or an input lies on. Throws InvalidArgument if there are none, or not as
/// many as a mesh stands for.
Graph give_devices(Graph graph, Placing& placing);

/// Chooses the grid: that of the first mesh named, by inputs, equations and outputs in this order; else one device.
/// Throws InvalidArgument if they name different devices, and Unsupported for meshes that do not divide into the same
/// atoms.
void choose_grid(const Graph& graph, Placing& placing);

/// Opens manual regions, and writes down what is wanted of outputs as equations. Throws IndivisibleError if an output
/// cannot have the sharding wanted.
Graph place(Graph graph, const Placing& placing);

/// The placements of those inputs of a placed graph that lie on the grid already.
std::vector<std::optional<Placement>> fixed_inputs(const Graph& placed, const Placing& placing);

/// The sharding that a value has which lies as `dims` say. Atoms that no partition spec expresses (as those of Explicit
/// axes after others), or that do not divide the value evenly, are dropped from `dims`, from the minor end.
Sharding express(const Type& type, const Placing& placing, std::vector<Atoms>& dims);

/// Gives every output of a propagated graph a sharding; one that had to change is constrained to it.
void settle_outputs(Graph& propagated, Placing& placing);

/// Finds out where arguments should lie so that nothing moves.
void settle_inputs(const Graph& propagated, Placing& placing);

/// Tells those who asked, by inspect_sharding, where their values lie.
void report_shardings(const Graph& propagated, const Placing& placing);

/// Where a body runs whose arguments are shards that are there already.
struct ManualRegion {
  Mesh mesh;                     ///< Names the axes of the body; the grid covers it.
  AtomSet manual;                ///< Along which shards compute alone.
  std::vector<AtomSet> varying;  ///< For each argument, the atoms along which the shards differ.
};

/// The placed graph of a body in a region: it is part of the graph, as if it had been entered.
Graph place_in_region(const Graph& body, const GridPtr& grid, const ManualRegion& region);

}  // namespace shoal
