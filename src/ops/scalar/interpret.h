// The reference interpreter of scalar bodies: slow and obvious, the oracle of the other tiers.
#pragma once

#include <cstdint>
#include <span>

#include "ops/scalar/expr.h"

namespace shoal::scalar {

/// Evaluates `body` for elements 0 to n-1. Element i of an input lies at index i times its stride, which is 0 (one
/// value for all) or 1; the output is dense. The output may be one of the inputs with stride 1, else must not overlap.
/// Threads may evaluate one body at the same time.
void interpret(const Body& body, std::span<const void* const> inputs, std::span<const std::int64_t> input_strides,
               void* output, std::int64_t n);

}  // namespace shoal::scalar
