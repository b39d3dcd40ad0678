// What the steps of a schedule exchange with other processes, and when they begin to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/collectives/collective.h"
#include "comm/collectives/exchange.h"
#include "comm/collectives/shard_set.h"
#include "ir/graph.h"
#include "runtime/schedule.h"

namespace shoal {

/// The parties of the processes of a grid, in their order: those of one have the same ways and were in one party of
/// `parties`, if there are any. Two devices go different ways where they differ along the atoms `apart`.
std::vector<int> parties_within(const Grid& grid, std::span<const int> parties, AtomSet apart);

/// Those of a collective, one for each round that exchanges. Null where this process neither sends nor receives
/// anything, here and below. Throws Unsupported if processes would have to exchange something with those of another of
/// `parties` (Exchange).
std::vector<std::unique_ptr<Exchange>> exchanges_of_collective(const Graph& graph, const Eqn& eqn,
                                                               const collectives::Collective& collective,
                                                               std::span<const ShardShapes> shapes,
                                                               std::span<const int> parties);

/// Those of an effect, whose calls are made by the processes of the devices at these positions: of its whole operands
/// to them, and of its results to all that hold these.
std::unique_ptr<Exchange> exchange_of_operands(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                               std::span<const ShardShapes> shapes, std::span<const int> parties);
std::unique_ptr<Exchange> exchange_of_results(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                              std::span<const ShardShapes> shapes, std::span<const int> parties);

/// For each equation, that before which its first exchange may begin: itself, or an earlier one. `steps` has a step for
/// each equation.
///
/// What a collective sends first is sent once its operands are made, as messages arrive while this process computes.
/// But all processes send in one order, that of the steps, and what arrives needs memory.
std::vector<std::int32_t> find_starts(const Graph& graph, std::span<const Step> steps);

/// Makes the first exchanges of a loop's body begin a trip ahead, after the last exchange of the trip before: those
/// that need slices and captures alone. They cross while that trip computes.
void settle_trips_ahead(Schedule& body, const Control& control);

/// Tells the steps that are left when their exchanges begin, which `starts` tells of the equations.
void settle_starts(std::span<Step> steps, std::span<const std::int32_t> starts);

}  // namespace shoal
