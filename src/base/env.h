// Typed reading of SHOAL_* environment variables.
//
// A variable that is unset or empty gives nullopt; one that is malformed throws InvalidArgument naming the variable,
// its value and what is allowed. Nothing is cached: callers read once and keep the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace shoal {

/// Any text.
std::optional<std::string> env_text(const char* variable);

/// A decimal integer from `lowest` to `highest`, both included.
std::optional<std::int64_t> env_int(const char* variable, std::int64_t lowest, std::int64_t highest);

/// 1, true or on; 0, false or off.
std::optional<bool> env_bool(const char* variable);

/// A number of seconds above zero, such as 30 or 0.5.
std::optional<double> env_seconds(const char* variable);

/// A number of bytes above zero: decimal, with one of the suffixes KiB, MiB, GiB and TiB or none, such as 512MiB.
std::optional<std::size_t> env_bytes(const char* variable);

/// One of a few words, exactly as listed.
std::optional<std::string> env_choice(const char* variable, std::initializer_list<std::string_view> allowed);

}  // namespace shoal
