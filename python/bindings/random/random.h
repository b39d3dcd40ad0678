// The module shoal.random.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_random(nb::module_& m);

}  // namespace shoal::python
