// Numbers that may be arrays.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

/// A number of Python or NumPy for what it is, or an array, which may be traced. Throws TypeError for others.
Operand number_or_array(nb::handle x, std::string_view function, std::string_view argument);

}  // namespace shoal::python
