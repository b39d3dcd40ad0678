// Where Shoal's warnings go. The library prints nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace shoal {

enum class LogLevel : std::uint8_t { kInfo, kWarning };

/// Receives each message, without a trailing newline. May be called from any thread, and from several at once;
/// what it throws is dropped, because a warning must not break the computation it speaks of.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Sends all later messages to `sink`; an empty one restores the default, which writes warnings to standard error.
/// Returns the sink that was set before (empty for the default), so that a scope can put it back.
LogSink set_log_sink(LogSink sink);

}  // namespace shoal
