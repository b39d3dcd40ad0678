// A case: a graph, a mesh, and where inputs and outputs lie. It holds if the program gives the oracle's values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bounds.h"
#include "ir/graph.h"
#include "rng.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"

namespace shoal::parity {

struct Case {
  Graph graph;
  Mesh mesh;
  std::vector<std::optional<PartitionSpec>> inputs;   ///< nullopt: the program chooses.
  std::vector<std::optional<PartitionSpec>> outputs;  ///< nullopt: the program chooses.
  std::vector<Buffer> data;                           ///< One per input.
};

/// An input or output of the program, to be made and given a value.
ValueId add_input(Case& test, Type type, Buffer data, std::optional<PartitionSpec> spec);
void add_output(Case& test, ValueId id, std::optional<PartitionSpec> spec);

/// The equation's only result.
ValueId add_eqn(Graph& graph, std::string_view op, Attrs attrs, std::vector<ValueId> inputs);

/// Runs the program on the mesh and gathers its outputs. Throws what the library throws.
std::vector<Buffer> run(const Case& test);

/// The program of one device.
Graph partitioned(const Case& test);

/// The first output that differs from what is expected, or nothing.
std::optional<std::string> compare(const std::vector<Buffer>& outputs, const std::vector<Known>& expected);

/// What is wrong with the case, an exception included, or nothing.
std::optional<std::string> failure_of(const Case& test);

/// Everything needed to run the case again.
std::string to_text(const Case& test);

// ---- Meshes and specs to test on.

/// 1, 2, 8, 2x4, 2x2x2 and a permuted device order.
const std::vector<std::pair<std::string, Mesh>>& standard_meshes();
/// The standard ones and some whose sizes are not powers of two.
const std::vector<std::pair<std::string, Mesh>>& all_meshes();

/// Every spec for arrays of a rank.
std::vector<PartitionSpec> all_specs(const Mesh& mesh, std::size_t rank);
PartitionSpec random_spec(Rng& rng, const Mesh& mesh, std::size_t rank);
bool divides(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape);

}  // namespace shoal::parity
