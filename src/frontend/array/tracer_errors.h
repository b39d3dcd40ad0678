// Why a tracer has no value, for bindings that tell these from other invalid states.
#pragma once

#include "shoal/error.h"

namespace shoal {

/// A tracer is used after its trace, or in another thread.
class LeakedTracer : public InvalidState {
 public:
  using InvalidState::InvalidState;
};

/// The value of an array that is being traced is needed.
class ValueOfTracer : public InvalidState {
 public:
  using InvalidState::InvalidState;
};

}  // namespace shoal
