// Where Shoal's messages go. The library prints nothing else.
//
// There are warnings, and what the user asks for by topic: SHOAL_LOG=compile, or set_log_topics("compile"), tells what
// is compiled when, why, and how long it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shoal {

enum class LogLevel : std::uint8_t { kInfo, kWarning };

/// Receives each message, without a trailing newline; one of level kInfo begins with its topic ("compile: ..."). May be
/// called from any thread, and from several at once; what it throws is dropped, because a message must not break the
/// computation it speaks of.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Sends all later messages to `sink`; an empty one restores the default, which writes them to standard error.
/// Returns the sink that was set before (empty for the default), so that a scope can put it back.
/// @param sink The function that gets each line; an empty one gives back the standard error output.
LogSink set_log_sink(LogSink sink);

/// Asks for the messages of these topics from now on, instead of those that were asked for before. `topics` are words
/// with commas between them; none asks for warnings alone. At the start they are those of the environment variable
/// SHOAL_LOG. Returns those asked for before, so that a scope can put them back.
/// Throws InvalidArgument if a word is no topic. The only one there is: compile.
/// @param topics Names of topics, with commas.
std::string set_log_topics(std::string_view topics);

}  // namespace shoal
