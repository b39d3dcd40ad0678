// What a launch of a schedule takes of the host's memory. Sizes are those of the allocator's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/schedule.h"

namespace shoal {

/// What all arguments of a launch take.
std::size_t argument_bytes(const Schedule& schedule);

/// What its outputs take where no donated memory holds them.
std::size_t output_bytes(const Schedule& schedule);

/// What the bodies of its loops and branches take of the host's memories (pinned or not), where each has an arena of
/// its own as long as the launch; in the memory of the device their arenas lie in that of the schedule.
std::size_t body_arena_bytes(const Schedule& schedule);

/// All that it takes beside the arguments until it is over.
std::size_t launch_bytes(const Schedule& schedule);

/// A piece of memory that values lie in at some time, and what it takes of an arena or in buffers of its own.
struct HeldStorage {
  const MemoryPlan::Storage* storage;
  std::size_t bytes;
};

/// All that a launch has made and needs at an equation, the largest first.
std::vector<HeldStorage> held_storages(const Schedule& schedule, std::int32_t number);

/// "f32[32,32] of dot_general at model.cc:12": a value that an equation makes.
std::string described(const Schedule& schedule, ValueId id);
/// "dot_general at model.cc:12"
std::string described(const Eqn& eqn);

/// The largest values that a launch has made and needs at an equation, with the lines that made them: the end of a
/// message. Empty if there are none.
std::string held_at(const Schedule& schedule, std::int32_t number);

}  // namespace shoal
