// Sends messages to the log sink of shoal/log.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "shoal/log.h"

namespace shoal {

/// What a message is about, by the names that SHOAL_LOG takes.
enum class LogTopic : std::uint8_t {
  kCompile,  ///< "compile": what is traced and compiled when, why, and how long it takes.
};

/// Whether somebody asked for messages of this topic: one atomic load. Ask before a text is made.
bool log_enabled(LogTopic topic) noexcept;

/// Sent if it is asked for, with the topic before it.
void log_info(LogTopic topic, std::string_view text) noexcept;

void log_warning(std::string_view text) noexcept;  ///< Something works, but not as the user would expect.

}  // namespace shoal
