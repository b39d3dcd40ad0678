#include "base/misuse.h"

#include <fmt/format.h>

namespace shoal {

std::string detail::said_of_call(fmt::string_view text, fmt::format_args arguments) {
  const std::string said = fmt::vformat(text, arguments);
  const std::string_view function = Caller::function_or("");
  return function.empty() ? said : fmt::format("{}: {}", function, said);
}

}  // namespace shoal
