#include "spmd/cost.h"

#include <algorithm>

#include "ir/bodies.h"
#include "ir/rearrangement.h"
#include "ops/collective.h"

namespace shoal {
namespace {

// The bytes of a shard, on average over the devices.
double shard_bytes(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const GlobalShape& global = *value.global;
  return bytes_of(global.shape, value.type.dtype) /
         static_cast<double>(graph.grid->size_of(global.placement.sharded()));
}

// Along which a collective goes.
Atoms atoms_of(const Grid& grid, const Eqn& eqn) {
  return grid.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes"));
}

void count_in(const Graph& graph, double times, int depth, FunctionRef<void(const CountedEqn&)> visit) {
  for (const Eqn& eqn : graph.eqns) {
    visit({.graph = graph, .eqn = eqn, .times = times, .depth = depth});
    if (eqn.op->control == nullptr) continue;
    const double trips = eqn.op->control(eqn.attrs).weight();
    for (const Graph* body : bodies_of(eqn)) count_in(*body, times * trips, depth + 1, visit);
  }
}

}  // namespace

void for_each_counted(const Graph& partitioned, FunctionRef<void(const CountedEqn&)> visit) {
  count_in(partitioned, 1, 0, visit);
}

double received_bytes(const Graph& partitioned, const Eqn& eqn) {
  const auto& facts = eqn.op->collective;
  if (!facts || facts->received_bytes == nullptr) return 0;
  const Grid& grid = *partitioned.grid;
  const Atoms atoms = atoms_of(grid, eqn);
  const std::size_t groups = std::max<std::size_t>(index_groups(eqn.attrs).size(), 1);
  return facts->received_bytes({.attrs = eqn.attrs,
                                .grid = grid,
                                .atoms = atoms,
                                .group = static_cast<double>(grid.size_of(atoms)) / static_cast<double>(groups),
                                .operand_bytes = shard_bytes(partitioned, eqn.inputs[0]),
                                .result_bytes = shard_bytes(partitioned, eqn.outputs[0])});
}

Cost cost_of(const Graph& partitioned, const Eqn& eqn) {
  Cost cost{.bytes = received_bytes(partitioned, eqn), .operations = flops(partitioned, eqn)};
  if (cost.bytes > 0) cost.bytes *= partitioned.grid->slowness(atoms_of(*partitioned.grid, eqn));
  return cost;
}

Cost cost_of_program(const Graph& partitioned) {
  Cost cost;
  for_each_counted(partitioned, [&](const CountedEqn& at) {
    const Cost one = cost_of(at.graph, at.eqn);
    cost += {.bytes = at.times * one.bytes, .operations = at.times * one.operations};
  });
  return cost;
}

double operations_of(const Grid& grid, const RuledEqn& ruled, const FactorAxes& axes) {
  if (ruled.eqn.op->flops == nullptr) return 0;
  std::int64_t parts = 1;
  for (const Atoms& atoms : axes) parts *= grid.size_of(atoms);
  return ruled.eqn.op->flops(ruled.context()) / static_cast<double>(parts);
}

double exchanged_bytes(const Grid& grid, const RuledEqn& ruled, const FactorAxes& axes) {
  double bytes = 0;
  for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kRearranged, axes)) {
    if (ruled.eqn.op->rearrange == nullptr) continue;
    const Rearrangement moved = ruled.eqn.op->rearrange(ruled.context(), dim);
    Dims extents;
    for (std::size_t i : moved.operands) extents.push_back(ruled.inputs[i].shape[dim]);
    const Type& result = ruled.outputs[0];
    const double share = received_share(grid, atoms, moved.runs, extents, result.shape[dim]);
    bytes += grid.slowness(atoms) * share *
             bytes_of(local_shape(grid, result.shape, ruled.result_placement(0, axes)), result.dtype);
  }
  // Devices that compute with a matrix together give each other no more than half of what each would get of all others.
  AtomSet together;
  for (std::size_t f = 0; f < axes.size(); ++f) {
    if (ruled.rule.factors[f].kind == FactorKind::kJoint) together = together | AtomSet(axes[f]);
  }
  if (!together.empty()) {
    const auto devices = static_cast<double>(grid.size_of(together));
    bytes += grid.slowness(together) * bytes_of(ruled.outputs.back()) / 2 * (devices - 1) / devices;
  }
  if (const WindowedOp* op = ruled.eqn.op->windowed) {
    // What one exchange brings is passed on by the next.
    const Type& array = ruled.inputs[0];
    Shape shape = local_shape(grid, array.shape, ruled.operand_placement(0, axes));
    for (const auto& [dim, atoms] : ruled.halo_dims(axes)) {
      const Windows windows = op->windows(ruled.context(), dim);
      shape[dim] = 1;
      bytes += grid.slowness(atoms) * received_elements(grid, atoms, windows, array.shape[dim]) *
               bytes_of(shape, array.dtype);
      shape[dim] = windows.most_elements(grid.extent(windows.numbers, atoms, 0).size);
    }
  }
  for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kCumulative, axes)) {
    Shape line = ruled.outputs[0].shape;
    line[dim] = 1;
    bytes +=
        grid.slowness(atoms) * bytes_of(line, ruled.outputs[0].dtype) * static_cast<double>(grid.size_of(atoms) - 1);
  }
  return bytes;
}

}  // namespace shoal
