// The modules shoal.optimizers, shoal.nn.layers, shoal.data, shoal.mixed_precision, shoal.run_log and shoal.elastic.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_optimizers(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_data(nb::module_& m);
void bind_mixed_precision(nb::module_& m);
void bind_run_log(nb::module_& m);
void bind_elastic(nb::module_& m);

}  // namespace shoal::python
