// The modules shoal.image, shoal.scipy.signal, .fft, .ndimage and .stats, as far as they are functions of the library.
#pragma once

#include "bindings/core/convert.h"

namespace shoal::python {

void bind_image(nb::module_& m);
void bind_signal(nb::module_& m);
void bind_cosines(nb::module_& m);
void bind_ndimage(nb::module_& m);
void bind_ranks(nb::module_& m);

}  // namespace shoal::python
