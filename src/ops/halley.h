// The weights of Halley's iteration for the polar factor of a matrix.
#pragma once

#include <cstdint>
#include <vector>

namespace shoal {

/// A step takes x to kept x + (a - kept) x (1 + c x^H x)^-1, with which singular values come near to 1.
struct HalleyStep {
  double a;
  double kept;
  double c;

  /// Whether the matrix that is inverted may have so great a condition number that its Cholesky factor does not do.
  bool needs_orthogonal_factor() const { return c > 100; }
};
struct HalleySteps {
  std::vector<HalleyStep> steps;
  bool is_converged;
};
/// The steps that bring singular values from `least` to 1 as near to 1 as `near`, no more than `most`: Nakatsukasa, Bai
/// and Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition", 2010.
HalleySteps halley_steps(double least, double near, std::int64_t most);

}  // namespace shoal
