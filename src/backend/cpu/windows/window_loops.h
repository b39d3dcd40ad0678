// The inner loops of reductions over windows, compiled for each instruction set and chosen when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal::cpu {

struct WindowLoops {
  /// out[i] = rows[0][i] reduced with rows[1][i], …, for `n` elements; one row is copied. `out` may be any of the rows,
  /// and rows may be parts of `out` that lie behind it.
  void (*reduce)(const void* const* rows, std::int64_t count, std::int64_t n, void* out);
  /// to[i] = from[i * step].
  void (*spread)(const void* from, std::int64_t step, std::int64_t n, void* to);
};

/// Those of a dtype that sums are made in, no half-precision float. Max and min give NaN where an element is one, and
/// of zeros +0 and -0.
WindowLoops window_loops(ReduceKind kind, Dtype dtype);

}  // namespace shoal::cpu
