// The recording of a function that runs on every device, as an equation `shard_map` of the enclosing trace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/array/trace.h"
#include "shoal/mesh.h"
#include "shoal/partition_spec.h"

namespace shoal::detail {

/// What the function returned, and how each result is put together.
struct RegionResult {
  std::vector<Array> leaves;
  std::vector<PartitionSpec> specs;
};

/// What is known of the function before it is traced.
struct Region {
  std::string name;  ///< In messages.
  Mesh mesh;
  std::vector<std::string> manual;      ///< The axes that it binds, in the order of the mesh.
  std::vector<PartitionSpec> in_specs;  ///< One per operand.
  std::vector<Type> local_types;        ///< Of the shards that it takes.
  bool checked = true;                  ///< As of Trace::begin.
};

/// Traces `body` on shards of the operands. Arrays from outside that it uses enter whole.
std::vector<Array> record_region(Region region, const std::vector<Array>& operands,
                                 const std::function<RegionResult(const std::vector<Array>&)>& body);

}  // namespace shoal::detail
