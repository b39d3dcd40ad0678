#include "equations.h"

#include <cmath>
#include <utility>

#include "ops/table.h"
#include "spmd/factors.h"

namespace shoal::parity {

bool Equation::is_comparable() const { return !std::isinf(expected[0].error); }

Type type_of(Dtype dtype, Shape shape) {
  Type type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  return type;
}

std::vector<const OpDef*> ops_with_results() {
  std::vector<const OpDef*> ops(all_ops().begin(), all_ops().end());
  // Solvers are written by the partitioner alone, in the place of the ops whose `tile` is given; fusions and sums of
  // products by back ends, of what they are the fusions of.
  std::erase_if(ops, [](const OpDef* op) {
    const bool is_made_late =
        op->name == "fusion" || op->name == "summed_product" || (op->collective && op->collective->solves);
    return op->op_class == OpClass::kEffect || is_made_late;
  });
  return ops;
}

Equation make_equation(Rng& rng, const OpDef& op, Sample made, Fill fill) {
  Equation equation{.op = op, .sample = std::move(made), .data = {}, .results = {}, .expected = {}};
  Graph graph;
  for (const Type& type : equation.sample.operands) {
    graph.add_input(type);
    equation.data.push_back(random_buffer(rng, type.dtype, type.shape, fill));
  }
  const std::vector<ValueId> outputs =
      graph.add_eqn(op, equation.sample.attrs, graph.inputs, SourceLocation::current());
  equation.results = graph.types(outputs);
  const std::vector<Known> values = analyse(graph, equation.data);
  for (ValueId id : outputs) equation.expected.push_back(values[static_cast<std::size_t>(id)]);
  return equation;
}

Case make_case(Rng& rng, const Equation& equation, const Mesh& mesh, const Specs& specs) {
  Case test;
  test.mesh = mesh;
  test.graph.name = equation.op.name;
  const auto at_boundary = [&](const std::optional<PartitionSpec>& spec, const Shape& shape) {
    return spec && divides(mesh, *spec, shape) && rng.chance(60);
  };
  const auto constrain = [&](ValueId id, const PartitionSpec& spec) {
    return add_eqn(test.graph, "sharding_constraint", {{"sharding", NamedSharding(mesh, spec)}}, {id});
  };
  std::vector<ValueId> operands;
  const std::vector<Type>& types = equation.sample.operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool placed = at_boundary(specs[i], types[i].shape);
    ValueId id = add_input(test, types[i], equation.data[i], placed ? specs[i] : std::nullopt);
    if (specs[i] && !placed) id = constrain(id, *specs[i]);
    operands.push_back(id);
  }
  const std::vector<ValueId> results =
      test.graph.add_eqn(equation.op, equation.sample.attrs, operands, SourceLocation::current());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::optional<PartitionSpec>& spec = specs[types.size() + i];
    const bool placed = at_boundary(spec, equation.results[i].shape);
    const ValueId id = spec && !placed ? constrain(results[i], *spec) : results[i];
    add_output(test, id, placed ? spec : std::nullopt);
  }
  return test;
}

Specs matching(const Equation& equation, const Mesh& mesh, std::size_t tensor, const PartitionSpec& spec) {
  const std::vector<Type>& operands = equation.sample.operands;
  const ShardingRule rule = equation.op.rule(
      {.op = equation.op, .inputs = operands, .outputs = equation.results, .attrs = equation.sample.attrs});
  std::vector<TensorFactors> tensors = rule.operands;
  tensors.insert(tensors.end(), rule.results.begin(), rule.results.end());
  const Grid grid(mesh);
  const FactorAxes axes = project(grid, rule, tensors[tensor], grid.dims_of(mesh, spec, tensors[tensor].size()));
  Specs specs;
  for (const TensorFactors& factors : tensors) specs.push_back(grid.spec_of(mesh, dims_of(factors, axes)));
  specs[tensor] = spec;
  return specs;
}

std::vector<Type> tensors_of(const Equation& equation) {
  std::vector<Type> tensors = equation.sample.operands;
  tensors.insert(tensors.end(), equation.results.begin(), equation.results.end());
  return tensors;
}

std::vector<Specs> all_placements(const Equation& equation, const Mesh& mesh) {
  const std::vector<Type> tensors = tensors_of(equation);
  std::vector<Specs> placements;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const PartitionSpec& spec : all_specs(mesh, tensors[i].rank())) {
      placements.emplace_back(tensors.size(), PartitionSpec());
      placements.back()[i] = spec;
      if (equation.op.rule != nullptr) placements.push_back(matching(equation, mesh, i, spec));
    }
  }
  return placements;
}

}  // namespace shoal::parity
