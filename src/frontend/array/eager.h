// The programs of operations outside any trace, which run_eagerly() of trace.h compiles.
#pragma once

namespace shoal {

/// Gives up these programs. May be called from any thread.
void clear_eager_programs();

}  // namespace shoal
