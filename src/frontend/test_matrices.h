// What tests of solvers of split matrices have in common.
#pragma once

#include <functional>
#include <string>

#include "frontend/test_support.h"

namespace shoal::test {

inline constexpr Dtype kMatrixDtypes[] = {float32, float64, complex64, complex128};

inline const PartitionSpec kMatrixSpecs[] = {P("x", "y"),  P("y", "x"),   P("x"),
                                             P(none, "y"), P({"x", "y"}), P(none, {"y", "x"})};

/// A few units of rounding for each row.
inline double allowed_rounding(Dtype dtype, std::int64_t n) {
  return static_cast<double>(n + 8) * (size_of(real_dtype(dtype)) == 4 ? 1e-7 : 2e-16);
}

inline Array adjoint_of(const Array& x) { return conj(swapaxes(x, -1, -2)); }

/// The size of the greatest element, 0 if there is none.
inline double greatest_of(const Array& x) {
  return num_elements(x.shape()) == 0 ? 0 : max(abs(x)).astype(float64).item<double>();
}

inline Array on_one_device(const Array& x) { return device_put(x, devices()[0]); }

template <class E = InvalidArgument>
void expect_refused(const std::function<void()>& call, const std::string& text) {
  EXPECT_THAT(call, testing::ThrowsMessage<E>(testing::StartsWith(text)));
}

}  // namespace shoal::test
