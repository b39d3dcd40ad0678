// The programs of operations outside jit: those that run_eagerly() of trace.h compiles, and those of shard_map there.
#pragma once

namespace shoal {

/// Gives up the programs of operations outside any trace. May be called from any thread.
void clear_eager_programs();

/// Gives up those of equations that ran in a shard_map outside jit. May be called from any thread.
void clear_region_programs();

}  // namespace shoal
