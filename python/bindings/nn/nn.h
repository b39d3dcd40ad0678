// The module shoal.nn.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_nn(nb::module_& m);
/// shoal.nn.initializers, as functions of a key.
void bind_initializers(nb::module_& m);

}  // namespace shoal::python
