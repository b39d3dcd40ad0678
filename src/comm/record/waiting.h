// How a launch waits for other processes: with a deadline, and an eye on what happens to them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "comm/record/communicator.h"
#include "comm/transport/channel.h"
#include "shoal/error.h"

namespace shoal {

/// What a wait is for.
enum class Awaited : std::uint8_t {
  kArrival,   ///< The peer comes to this step: SHOAL_ARRIVAL_TIMEOUT, 600 s.
  kProgress,  ///< It has come, and sends the rest: SHOAL_PROGRESS_TIMEOUT, 60 s.
  kRelease,   ///< It reads what was sent to it: SHOAL_ARRIVAL_TIMEOUT.
};

/// Who waits.
struct Waiter {
  Communicator& communicator;
  std::string_view op;
  SourceLocation where;
};

/// Waits until `is_over`, which looks at the channel to a peer; calls `progress` meanwhile, for other channels. Warns
/// of a long wait, after 10 s (SHOAL_WARNING_AFTER) and then each minute. Throws DeadlineExceeded, ProcessFailed if the
/// peer leaves, and what else has ended the work of the communicator.
void wait_until(const Waiter& waiter, Channel& channel, Awaited awaited, FunctionRef<bool()> is_over,
                FunctionRef<void()> progress);

}  // namespace shoal
