#include "base/env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include "shoal/error.h"

namespace shoal {

namespace {

[[noreturn]] void throw_malformed(const char* variable, const std::string& value, const std::string& allowed) {
  throw InvalidArgument(fmt::format("environment variable {}: \"{}\" is not {}", variable, value, allowed));
}

/// The whole text as a number, or nullopt.
template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::string> env_text(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::int64_t> env_int(const char* variable, std::int64_t lowest, std::int64_t highest) {
  const auto text = env_text(variable);
  if (!text) return std::nullopt;
  const auto number = parse<std::int64_t>(*text);
  if (!number || *number < lowest || *number > highest) {
    throw_malformed(variable, *text, fmt::format("an integer from {} to {}", lowest, highest));
  }
  return number;
}

std::optional<bool> env_bool(const char* variable) {
  const auto text = env_choice(variable, {"1", "true", "on", "0", "false", "off"});
  if (!text) return std::nullopt;
  return *text == "1" || *text == "true" || *text == "on";
}

std::optional<double> env_seconds(const char* variable) {
  const auto text = env_text(variable);
  if (!text) return std::nullopt;
  const auto seconds = parse<double>(*text);
  if (!seconds || !std::isfinite(*seconds) || *seconds <= 0) {
    throw_malformed(variable, *text, "a number of seconds above zero");
  }
  return seconds;
}

std::optional<std::size_t> env_bytes(const char* variable) {
  const auto text = env_text(variable);
  if (!text) return std::nullopt;
  std::size_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
  constexpr std::string_view kSuffixes[] = {"", "KiB", "MiB", "GiB", "TiB"};
  const auto known = std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix);
  const auto shift = 10 * static_cast<unsigned>(known - std::begin(kSuffixes));
  if (error != std::errc() || known == std::end(kSuffixes) || number == 0 || number >> (64 - 1 - shift) != 0) {
    throw_malformed(variable, *text,
                    "a number of bytes above zero and below 2^63, such as 1073741824, 512MiB or 16GiB");
  }
  return number << shift;
}

std::optional<std::string> env_choice(const char* variable, std::initializer_list<std::string_view> allowed) {
  auto text = env_text(variable);
  if (text && std::find(allowed.begin(), allowed.end(), *text) == allowed.end()) {
    throw_malformed(variable, *text, fmt::format("one of {}", fmt::join(allowed, ", ")));
  }
  return text;
}

}  // namespace shoal
