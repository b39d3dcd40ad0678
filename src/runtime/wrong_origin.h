// The search for the equation that a wrong result comes of, as debug::check_results asks for it.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/device_array.h"
#include "shoal/device.h"
#include "shoal/error.h"
#include "shoal/sharding.h"

namespace shoal {

/// What a message adds on the first equation of `graph` of which a result is wrong on these arguments, which lie as
/// `shardings` says: "; it comes of log at f.cc:7". Loops are run trip by trip, and branches as their operands say, to
/// find the equation inside, and of a manual region each value is looked at on each device. Nothing if no result is
/// wrong, if the graph calls the user's program, which would be called once more, or if it is one equation, whose line
/// is known. Runs programs that give all values of the graph.
std::string origin_of_wrong(const Graph& graph, const DeviceArrays& arguments, const std::vector<Sharding>& shardings,
                            const std::vector<Device>& devices, SourceLocation where);

}  // namespace shoal
