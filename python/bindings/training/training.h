// The modules shoal.optimizers and shoal.nn.layers.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_optimizers(nb::module_& m);
void bind_layers(nb::module_& m);

}  // namespace shoal::python
