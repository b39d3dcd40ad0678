#include "comm/collectives/table.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/collective.h"

namespace shoal::collectives {

Context context_of(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes) {
  const Atoms atoms = graph.grid->atoms_of(eqn.attrs.get<std::vector<std::string>>("axes"));
  Context context{.attrs = eqn.attrs,
                  .where = eqn.where,
                  .groups = Groups(graph.grid, atoms, index_groups(eqn.attrs)),
                  .operands = {},
                  .wanted = graph.value(eqn.outputs[0]).varying,
                  .more_wanted = {}};
  for (std::size_t i = 1; i < eqn.outputs.size(); ++i) {
    context.more_wanted.push_back(graph.value(eqn.outputs[i]).varying);
  }
  for (ValueId id : eqn.inputs) context.operands.push_back(shapes[slot(id)]);
  return context;
}

CollectivePtr make_collective(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes) {
  const Row* const row = std::ranges::find(kTable, eqn.op->name, &Row::op);
  SHOAL_CHECK(row != std::end(kTable), "a collective has a row in comm/collectives/table.h");
  return row->make(context_of(graph, eqn, shapes));
}

}  // namespace shoal::collectives
