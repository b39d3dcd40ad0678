// Texts of exceptions.
#pragma once

#include <string>
#include <string_view>

#include "shoal/error.h"

namespace shoal {

/// What an error says, without the line that its text ends with.
inline std::string message_of(const Error& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.rfind("\n  at ")));
}

}  // namespace shoal
