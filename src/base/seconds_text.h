// How messages tell a time.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

namespace shoal {

/// "1.5 s".
inline std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace shoal
