#include "frontend/transforms/manual_region.h"

#include <memory>
#include <utility>

#include "ops/table.h"

namespace shoal::detail {

std::vector<Array> record_region(Region region, const std::vector<Array>& operands,
                                 const std::function<RegionResult(const std::vector<Array>&)>& body) {
  const auto trace = Trace::begin(Trace::Kind::kShardMap, region.name, region.mesh, region.manual, region.checked);
  std::vector<PartitionSpec> out_specs;
  Graph graph = trace_graph(trace, [&] {
    std::vector<Array> tracers;
    for (const Type& type : region.local_types) tracers.push_back(trace->add_input(type));
    RegionResult result = body(tracers);
    out_specs = std::move(result.specs);
    return std::move(result.leaves);
  });
  std::vector<Array> all = operands;
  for (const Array& capture : trace->captures()) {
    all.push_back(capture);
    region.in_specs.emplace_back();
  }
  Attrs attrs = {{"mesh", region.mesh},
                 {"axes", region.manual},
                 {"in_specs", std::move(region.in_specs)},
                 {"out_specs", std::move(out_specs)},
                 {"body", GraphAttr{std::make_shared<const Graph>(std::move(graph))}}};
  if (!region.checked) attrs.set("unchecked", true);
  return shoal::bind(op_named("shard_map"), std::move(attrs), all);
}

}  // namespace shoal::detail
