// Shapes that do not fit. For users of C++ it is an InvalidArgument like others; bindings tell it apart.
#pragma once

#include "shoal/error.h"

namespace shoal {

/// Shapes of operands that do not fit each other, or what an op needs (Python: TypeError and ValueError).
class ShapeMismatch : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

}  // namespace shoal
