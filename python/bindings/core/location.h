// The line of the user's Python program that calls Shoal.
#pragma once

#include <string>

#include "shoal/error.h"

namespace shoal::python {

/// The innermost line of the running Python program that is not in this package; without a file if there is none. Needs
/// the GIL.
SourceLocation user_line();

/// What an error says, and the line where that happened, as errors of the library end; once.
std::string with_user_line(const std::string& text);

}  // namespace shoal::python
