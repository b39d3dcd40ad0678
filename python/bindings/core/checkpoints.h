// Trees of arrays in files.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_checkpoints(nb::module_& m);

}  // namespace shoal::python
