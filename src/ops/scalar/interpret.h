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

/// One operation on single elements, which lie at `operands`; those that it does not take are not looked at. The result
/// may be one of them.
using ElementFunction = void (*)(const void* const* operands, void* result);

/// The function of an operation with a result of this dtype, whose first operand has the dtype `from`. nullptr if there
/// is none: of inputs, constants and the parts of iterations, and on other dtypes.
ElementFunction element_function(Core core, Dtype result, Dtype from);

}  // namespace shoal::scalar
