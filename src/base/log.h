// Sends messages to the log sink of shoal/log.h.
#pragma once

#include <string_view>

#include "shoal/log.h"

namespace shoal {

void log_info(std::string_view text) noexcept;     ///< The default sink drops these.
void log_warning(std::string_view text) noexcept;  ///< Something works, but not as the user would expect.

}  // namespace shoal
