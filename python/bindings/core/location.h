// The line of the user's Python program that calls Shoal.
#pragma once

#include "shoal/error.h"

namespace shoal::python {

/// The innermost line of the running Python program that is not in this package; without a file if there is none. Needs
/// the GIL.
SourceLocation user_line();

}  // namespace shoal::python
