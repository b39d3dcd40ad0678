// The solvers: ops on distributed matrices that all devices of a group compute together.
#pragma once

#include <span>

#include "comm/collectives/collective.h"
#include "ir/graph.h"

namespace shoal::linalg {

collectives::CollectivePtr geqrf(const collectives::Context& context);
collectives::CollectivePtr getrf(const collectives::Context& context);
collectives::CollectivePtr potrf(const collectives::Context& context);
collectives::CollectivePtr potri(const collectives::Context& context);
collectives::CollectivePtr syevd(const collectives::Context& context);
collectives::CollectivePtr trsm(const collectives::Context& context);
collectives::CollectivePtr trtri(const collectives::Context& context);

/// The solver of an equation of a partitioned graph, whose values have shards of these shapes.
collectives::CollectivePtr make_solver(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes);

}  // namespace shoal::linalg
