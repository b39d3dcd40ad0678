#include "comm/record/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/log.h"
#include "comm/record/flight_recorder.h"
#include "comm/record/peers.h"

namespace shoal {
namespace {

using Seconds = std::chrono::duration<double>;

struct Patience {
  Seconds before_warning{env_seconds("SHOAL_WARNING_AFTER").value_or(10)};
  Seconds between_warnings{60};
  Seconds for_arrival{env_seconds("SHOAL_ARRIVAL_TIMEOUT").value_or(600)};
  Seconds for_progress{env_seconds("SHOAL_PROGRESS_TIMEOUT").value_or(60)};

  static const Patience& get() {
    static const Patience patience;
    return patience;
  }
};

// Between looks at whether the work goes on.
constexpr std::chrono::milliseconds kLook{20};
// What a process sent before it left may still be on its way.
constexpr std::chrono::milliseconds kLastMessages{1000};

std::string_view text_of(Awaited awaited) {
  switch (awaited) {
    case Awaited::kArrival:
      return "to come to this step";
    case Awaited::kProgress:
      return "to send all of its data";
    case Awaited::kRelease:
      return "to read what was sent to it";
  }
  return "";
}

// Keeps whom this process waits for. Where the wait fails that stays, as others will ask for it.
void note_awaited(int process) {
  if (FlightRecorder* const recorder = FlightRecorder::current()) recorder->await(process);
}

}  // namespace

void wait_until(const Waiter& waiter, Channel& channel, Awaited awaited, FunctionRef<bool()> is_over,
                FunctionRef<void()> progress) {
  if (is_over()) return;
  const Patience& patience = Patience::get();
  const Clock::time_point begin = Clock::now();
  const Seconds limit = awaited == Awaited::kProgress ? patience.for_progress : patience.for_arrival;
  const auto after = [](Clock::time_point time, Seconds seconds) {
    return time + std::chrono::duration_cast<Clock::duration>(seconds);
  };
  Clock::time_point warning = after(begin, patience.before_warning);
  std::optional<Clock::time_point> leaving;  // Until when its last messages are waited for.
  bool is_noted = false;
  while (true) {
    waiter.communicator.check();
    const Clock::time_point now = Clock::now();
    const auto name = [&] { return peers()->name_of(channel.peer()); };
    if (!leaving && peers()->is_leaving(channel.peer())) leaving = now + kLastMessages;
    if (leaving && now >= *leaving) {
      throw ProcessFailed(
          fmt::format("{}: {} has entered distributed::shutdown, but is needed here", waiter.op, name()), waiter.where);
    }
    const Seconds waited = now - begin;
    if (waited >= limit) {
      const std::string seconds = fmt::format("{:.1f}", waited.count());
      throw DeadlineExceeded(fmt::format("{}: waited {} s for {} {}", waiter.op, seconds, name(), text_of(awaited)),
                             waiter.where);
    }
    if (now >= warning) {
      std::string where = peers()->whereabouts_of(channel.peer(), waiter.communicator.processes());
      if (!where.empty()) where = "; it " + where;
      log_warning(fmt::format("{}: waiting for {} {} for {:.0f} s ({}){}", waiter.op, name(), text_of(awaited),
                              waited.count(), to_string(waiter.where), where));
      warning = after(warning, patience.between_warnings);
    }
    if (!is_noted && now - begin >= kLook) {
      is_noted = true;
      note_awaited(channel.peer());
    }
    channel.sleep(std::min(now + kLook, after(begin, limit)));
    if (is_over()) break;
    progress();
  }
  if (is_noted) note_awaited(-1);
}

}  // namespace shoal
