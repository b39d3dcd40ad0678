// What steps of a partitioned program make devices exchange.
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "ir/graph.h"
#include "ops/eqn_cost.h"
#include "spmd/ruled_eqn.h"

namespace shoal {

/// The bytes that a device receives in one step, on average over the devices, if data takes the shortest way; 0 for
/// what is not a collective.
double received_bytes(const Graph& partitioned, const Eqn& eqn);

/// Where an equation of a partitioned graph stands, and how often it runs.
struct CountedEqn {
  const Graph& graph;
  const Eqn& eqn;
  double times;  ///< A stated number for each loop of which nobody knows how often it goes round.
  int depth;     ///< The number of bodies around it.
};

/// Calls visit for every equation, each before those of the bodies that it runs. Of branches each counts as taken.
void for_each_counted(const Graph& partitioned, FunctionRef<void(const CountedEqn&)> visit);

/// The bytes that a device receives inside an equation when its factors are split like this: along rearranged
/// dimensions the elements that change devices, along those of windows the halos, along cumulative ones the totals of
/// the shards.
double exchanged_bytes(const Grid& grid, const RuledEqn& ruled, const FactorAxes& axes);

}  // namespace shoal
