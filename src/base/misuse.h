// The errors of a user's call, which name the function that he called and his line.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/caller.h"
#include "shoal/error.h"

namespace shoal {

namespace detail {

/// "matmul: " and the text; the text alone where this thread is in no public function.
std::string said_of_call(fmt::string_view text, fmt::format_args arguments);

}  // namespace detail

/// The exception E for the call that the Caller of this thread tells of, to be thrown:
/// throw misuse<OutOfRange>("axis {} is out of range for {} dimensions", axis, rank).
template <class E, class... Args>
[[nodiscard]] E misuse(fmt::format_string<Args...> text, Args&&... args) {
  return E(detail::said_of_call(text, fmt::make_format_args(args...)), Caller::line());
}

}  // namespace shoal
