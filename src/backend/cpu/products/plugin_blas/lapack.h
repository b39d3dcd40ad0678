// The part of the plugin's table that is LAPACK.
#pragma once

#include "backend/cpu/products/lapack.h"

namespace shoal::cpu {

LapackFunctions<float> slapack();
LapackFunctions<double> dlapack();
LapackFunctions<std::complex<float>> clapack();
LapackFunctions<std::complex<double>> zlapack();

}  // namespace shoal::cpu
