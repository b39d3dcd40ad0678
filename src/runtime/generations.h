// A job that goes on in the same processes after it has lost some of them, or has got some.
//
// The time between two such changes is a generation. It has a session of its own, with another coordination service,
// and channels of its own. Processes keep their numbers, and devices their ids, so that arrays and compiled programs on
// devices of this process alone stay what they are. Arrays that span processes keep the shards that are here, which can
// be read; programs on processes that are no longer there throw InvalidState.
#pragma once

#include <cstdint>
#include <string>

#include "distributed/session.h"

namespace shoal {

/// Ends the present generation, if there is one: what runs on several processes fails, and nothing is under way when
/// this returns. If `together`, all processes call it, and wait for each other; else it waits for none. Throws what
/// Session::shutdown() throws; the generation has ended even then.
void end_generation(bool together);

/// Joins generation number `generation`, which has these processes. Not while other threads use what spans processes.
/// Throws as distributed::initialize(); then this process is in none.
void begin_generation(distributed::SessionOptions options, Socket listener, std::uint64_t generation);

}  // namespace shoal
