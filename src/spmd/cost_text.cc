#include "spmd/cost_text.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>

namespace shoal {
namespace {

// With the last unit that leaves at least one of it.
std::string text_in(double value, double step, std::span<const char* const> units, int digits) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.{}g}{}", value, digits, units[unit]);
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  return text_in(bytes, 1024, kUnits, 4);
}

std::string count_text(double count) {
  constexpr std::array kUnits = {"", " k", " M", " G", " T"};
  return text_in(count, 1000, kUnits, 4);
}

std::string seconds_text(double seconds) {
  constexpr std::array kUnits = {" ns", " us", " ms", " s"};
  return text_in(seconds * 1e9, 1000, kUnits, 3);
}

}  // namespace shoal
