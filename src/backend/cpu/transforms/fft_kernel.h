// The kernel of fft: tasks of lines on all threads, by FftLines and FftColumns.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shoal::cpu {

std::unique_ptr<Kernel> fft_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
