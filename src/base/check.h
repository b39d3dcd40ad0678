// Checks of Shoal's own invariants. A user's mistake is reported with the exceptions of shoal/error.h instead.
#pragma once

#include <string>

#include "shoal/error.h"

namespace shoal::detail {

[[noreturn]] void check_failed(const char* condition, const std::string& message, const SourceLocation& where);

}  // namespace shoal::detail

/// Throws InternalError, naming the message, the condition and this line, unless `condition` holds. The message,
/// anything that converts to std::string, is evaluated only on failure.
#define SHOAL_CHECK(condition, message)                                                         \
  do {                                                                                          \
    if (!(condition)) [[unlikely]] {                                                            \
      ::shoal::detail::check_failed(#condition, (message), ::shoal::SourceLocation::current()); \
    }                                                                                           \
  } while (false)
