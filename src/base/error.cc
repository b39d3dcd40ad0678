#include "shoal/error.h"

#include <string_view>

#include "base/check.h"

namespace shoal {

namespace {

bool is_known(const SourceLocation& where) { return where.file_name()[0] != '\0'; }

std::string with_location(const std::string& message, const SourceLocation& where) {
  return is_known(where) ? message + "\n  at " + to_string(where) : message;
}

}  // namespace

std::string to_string(const SourceLocation& where) {
  if (!is_known(where)) return "";
  std::string_view file = where.file_name();
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0: a name without a folder stays whole
  return std::string(file) + ":" + std::to_string(where.line());
}

Error::Error(const std::string& message) : std::runtime_error(message) {}

Error::Error(const std::string& message, const SourceLocation& where)
    : std::runtime_error(with_location(message, where)) {
  if (is_known(where)) where_ = where;
}

void detail::check_failed(const char* condition, const std::string& message, const SourceLocation& where) {
  throw InternalError("internal error: " + message + " (failed check: " + condition + ")", where);
}

}  // namespace shoal
