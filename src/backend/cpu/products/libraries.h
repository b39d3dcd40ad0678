// The libraries for products, loaded when first asked for.
#pragma once

#include <complex>
#include <type_traits>

#include "backend/cpu/products/blas.h"
#include "backend/cpu/products/onednn.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

/// nullptr if it cannot be loaded.
const BlasApi* blas();

/// oneDNN, ready for products of such operands; nullptr if it cannot be loaded or the machine has no instructions for
/// them. To be called before tasks compute them, not by one.
const OnednnApi* onednn_for(Dtype operands);

/// LAPACK's functions for a dtype.
template <class T>
const LapackFunctions<T>& lapack_of(const BlasApi& api) {
  if constexpr (std::is_same_v<T, float>) {
    return api.slapack;
  } else if constexpr (std::is_same_v<T, double>) {
    return api.dlapack;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return api.clapack;
  } else {
    return api.zlapack;
  }
}

}  // namespace shoal::cpu
