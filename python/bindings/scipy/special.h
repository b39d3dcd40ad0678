// The module shoal.scipy.special.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

/// Adds what is no row of elementwise.def; the rows are there already (bind_numpy).
void bind_special(nb::module_& m);

}  // namespace shoal::python
