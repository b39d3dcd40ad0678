// The tier of fused loops that is ready at once.
#pragma once

#include <memory>

#include "backend/cpu/loop.h"

namespace shoal::cpu {

std::unique_ptr<LoopRunner> interpret_loop(const Loop& loop);

}  // namespace shoal::cpu
