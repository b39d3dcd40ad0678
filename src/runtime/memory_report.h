// What a launch of a schedule takes of the host's memory. Sizes are those of the allocator's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/schedule.h"

namespace shoal {

/// What all arguments of a launch take.
std::size_t argument_bytes(const Schedule& schedule);

/// What its outputs take where no donated memory holds them.
std::size_t output_bytes(const Schedule& schedule);

/// All that it takes beside the arguments until it is over.
std::size_t launch_bytes(const Schedule& schedule);

/// The largest values that a launch has made and needs at an equation, with the lines that made them: the end of a
/// message. Empty if there are none.
std::string held_at(const Schedule& schedule, std::int32_t number);

}  // namespace shoal
