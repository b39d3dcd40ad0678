// What a partitioned program costs: what its steps make devices exchange, and what they compute, in seconds.
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "ir/graph.h"
#include "ops/eqn_cost.h"
#include "spmd/ruled_eqn.h"

namespace shoal {

/// What a device receives and computes. Costs are compared by the seconds that both take at the speeds that the mesh
/// declares. These are the same for all processes, layouts and machines, as what is measured is not: decisions, and by
/// them bits, must not differ.
struct Cost {
  /// As many as the fastest axis would bring in the same time: those along slower axes count as more.
  double bytes = 0;
  double operations = 0;

  double seconds(const Grid& grid) const { return grid.seconds(bytes, operations); }
  Cost& operator+=(const Cost& more) {
    bytes += more.bytes;
    operations += more.operations;
    return *this;
  }
};

/// The bytes that a device receives in one step, on average over the devices, if data takes the shortest way; 0 for
/// what is not a collective.
double received_bytes(const Graph& partitioned, const Eqn& eqn);

/// What an equation of a partitioned graph costs each time that it runs, without the graphs that it holds under
/// control.
Cost cost_of(const Graph& partitioned, const Eqn& eqn);

/// Where an equation of a partitioned graph stands, and how often it runs.
struct CountedEqn {
  const Graph& graph;
  const Eqn& eqn;
  double times;  ///< A stated number for each loop of which nobody knows how often it goes round.
  int depth;     ///< The number of bodies around it.
};

/// Calls visit for every equation, each before those of the bodies that it runs. Of branches each counts as taken.
void for_each_counted(const Graph& partitioned, FunctionRef<void(const CountedEqn&)> visit);

/// What a device receives and computes in a whole program, loops as often as they run.
Cost cost_of_program(const Graph& partitioned);

/// The operations that a device does for an equation when its factors are split like this. Devices along other axes do
/// the same once more.
double operations_of(const Grid& grid, const RuledEqn& ruled, const FactorAxes& axes);

/// The bytes, as Cost counts them, that a device receives inside an equation when its factors are split like this:
/// along rearranged dimensions the elements that change devices, along those of windows the halos, along cumulative
/// ones the totals of the shards.
double exchanged_bytes(const Grid& grid, const RuledEqn& ruled, const FactorAxes& axes);

}  // namespace shoal
