#include "spmd/cost.h"

#include <algorithm>

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

// The part of the devices of a group that receive something from another one.
double receiving_share(const Dims& sources, const Dims& targets, double group) {
  double receivers = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) receivers += sources[i] != targets[i] ? 1 : 0;
  return receivers / group;
}

}  // namespace

double bytes_of(const Shape& shape, Dtype dtype) {
  return static_cast<double>(num_elements(shape)) * static_cast<double>(size_of(dtype));
}

double flops(const Graph& partitioned, const Eqn& eqn) {
  if (eqn.op->name == "fusion") {
    const Graph& body = eqn.attrs.graph();
    double count = 0;
    for (const Eqn& inner : body.eqns) count += flops(body, inner);
    return count;
  }
  if (eqn.op->elementwise != nullptr) {
    return static_cast<double>(num_elements(partitioned.type(eqn.outputs[0]).shape));
  }
  if (eqn.op->rule == nullptr) return 0;
  const std::vector<Type> inputs = partitioned.types(eqn.inputs);
  const std::vector<Type> outputs = partitioned.types(eqn.outputs);
  const ShardingRule rule = eqn.op->rule({*eqn.op, inputs, outputs, eqn.attrs});
  const auto reduces = [](const Factor& factor) { return factor.kind == FactorKind::kReduction; };
  if (std::ranges::none_of(rule.factors, reduces)) return 0;
  double count = eqn.op->name == "dot_general" ? 2 : 1;  // A product and a sum.
  for (const Factor& factor : rule.factors) count *= static_cast<double>(factor.size);
  return count;
}

double received_bytes(const Graph& partitioned, const Eqn& eqn) {
  const std::string_view name = eqn.op->name;
  if (eqn.op->op_class != OpClass::kCollective || eqn.inputs.empty()) return 0;
  if (name == "pvary" || name == "shard_slice") return 0;
  const Grid& grid = *partitioned.grid;
  const Atoms atoms = grid.atoms_of(eqn.attrs.get<std::vector<std::string>>("axes"));
  const std::size_t groups = std::max<std::size_t>(index_groups(eqn.attrs).size(), 1);
  const double group = static_cast<double>(grid.size_of(atoms)) / static_cast<double>(groups);  // On average.
  const double bytes = shard_bytes(partitioned, eqn.inputs[0]);
  // As a reduce_scatter and an all_gather.
  if (name == "all_reduce") return 2 * (bytes / group) * (group - 1);
  if (name == "all_gather" || name == "exclusive_scan") return bytes * (group - 1);
  if (name == "collective_permute") {
    return bytes * receiving_share(eqn.attrs.get<Dims>("sources"), eqn.attrs.get<Dims>("targets"), group);
  }
  if (name == "rearrange") {
    return shard_bytes(partitioned, eqn.outputs[0]) * received_share(grid, atoms, runs_of(eqn.attrs.get<Dims>("runs")),
                                                                     eqn.attrs.get<Dims>("extents"),
                                                                     eqn.attrs.get<std::int64_t>("size"));
  }
  return (bytes / group) * (group - 1);  // Everyone keeps its own part of what it has.
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
    bytes += share * bytes_of(local_shape(grid, result.shape, ruled.result_placement(0, axes)), result.dtype);
  }
  for (const auto& [dim, atoms] : ruled.split_dims(FactorKind::kCumulative, axes)) {
    Shape line = ruled.outputs[0].shape;
    line[dim] = 1;
    bytes += bytes_of(line, ruled.outputs[0].dtype) * static_cast<double>(grid.size_of(atoms) - 1);
  }
  return bytes;
}

double received_share(const Grid& grid, const Atoms& atoms, std::span<const Run> runs,
                      std::span<const std::int64_t> operand_extents, std::int64_t extent) {
  if (extent == 0) return 0;
  std::int64_t received = 0;
  for (std::int64_t index = 0; index < grid.size_of(atoms); ++index) {
    const std::int64_t position = grid.with_index_along(0, atoms, index);
    const Extent target = grid.extent(extent, atoms, position);
    for (const Run& run : runs) {
      const Extent held = grid.extent(operand_extents[static_cast<std::size_t>(run.operand)], atoms, position);
      const auto [wanted_first, wanted_last] =
          Run::within(run.out_start, run.out_step, run.count, target.start, target.start + target.size);
      const auto [held_first, held_last] =
          Run::within(run.in_start, run.in_step, run.count, held.start, held.start + held.size);
      const std::int64_t here = std::min(wanted_last, held_last) - std::max(wanted_first, held_first);
      received += wanted_last - wanted_first - std::max<std::int64_t>(0, here);
    }
  }
  return static_cast<double>(received) / static_cast<double>(extent);
}

}  // namespace shoal
