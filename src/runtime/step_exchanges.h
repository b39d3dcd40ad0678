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

/// Those of a collective, one for each round that exchanges. Null where this process neither sends nor receives
/// anything, here and below.
std::vector<std::unique_ptr<Exchange>> exchanges_of_collective(const Graph& graph, const Eqn& eqn,
                                                               const collectives::Collective& collective,
                                                               std::span<const ShardShapes> shapes);

/// Those of an effect, whose calls are made by the processes of the devices at these positions: of its whole operands
/// to them, and of its results to all that hold these.
std::unique_ptr<Exchange> exchange_of_operands(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                               std::span<const ShardShapes> shapes);
std::unique_ptr<Exchange> exchange_of_results(const Graph& graph, const Eqn& eqn, std::span<const std::int64_t> calls,
                                              std::span<const ShardShapes> shapes);

/// For each equation, that before which its first exchange may begin: itself, or an earlier one. `steps` has a step for
/// each equation.
///
/// What a collective sends first is sent once its operands are made, as messages arrive while this process computes.
/// But all processes send in one order, that of the steps, and what arrives needs memory.
std::vector<std::int32_t> find_starts(const Graph& graph, std::span<const Step> steps);

/// Tells the steps that are left when their exchanges begin, which `starts` tells of the equations.
void settle_starts(std::span<Step> steps, std::span<const std::int32_t> starts);

}  // namespace shoal
