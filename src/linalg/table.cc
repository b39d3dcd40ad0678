#include "linalg/table.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "comm/collectives/table.h"

namespace shoal::linalg {
namespace {

constexpr collectives::Row kTable[] = {
    {"geqrf", geqrf}, {"getrf", getrf}, {"potrf", potrf}, {"potri", potri},
    {"syevd", syevd}, {"trsm", trsm},   {"trtri", trtri},
};

}  // namespace

collectives::CollectivePtr make_solver(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes) {
  const collectives::Row* const row = std::ranges::find(kTable, eqn.op->name, &collectives::Row::op);
  SHOAL_CHECK(row != std::end(kTable), "a solver has a row here");
  return row->make(collectives::context_of(graph, eqn, shapes));
}

}  // namespace shoal::linalg
