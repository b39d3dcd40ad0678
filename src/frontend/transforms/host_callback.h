// Calls of the user's functions by programs that run.
#pragma once

#include <span>
#include <vector>

#include "base/caller.h"
#include "core/buffer.h"
#include "frontend/array/trace.h"
#include "shoal/numpy.h"

namespace shoal {

/// f on values that are no arrays yet, outside of all traces and public functions.
template <class F>
auto on_buffers(const F& f, std::span<const Buffer> buffers) {
  const Caller::Pause pause;
  const Trace::Pause outside;  // An eager shard_map calls this from within its trace.
  std::vector<Array> values;
  for (const Buffer& buffer : buffers) {
    values.push_back(detail::array_from_host(buffer.dtype(), buffer.shape(), buffer.data(), {}, {}));
  }
  return f(values);
}

}  // namespace shoal
