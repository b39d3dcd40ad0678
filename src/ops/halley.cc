#include "ops/halley.h"

#include <algorithm>
#include <cmath>

namespace shoal {

HalleySteps halley_steps(double least, double near, std::int64_t most) {
  HalleySteps result{.steps = {}, .is_converged = false};
  for (std::int64_t i = 0; i < most && 1 - least > near; ++i) {
    const double square = least * least;
    const double d = std::cbrt(4 * (1 - square) / (square * square));
    const double root = std::sqrt(1 + d);
    const double a = root + std::sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2;
    const double b = (a - 1) * (a - 1) / 4;
    const double c = a + b - 1;
    result.steps.push_back({.a = a, .kept = b / c, .c = c});
    least = std::min(1.0, least * (a + b * square) / (1 + c * square));
  }
  result.is_converged = 1 - least <= near;
  return result;
}

}  // namespace shoal
