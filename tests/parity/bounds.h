// How far sharded results may be from the oracle's: a running error analysis.
//
// Only reductions and contractions of floats depend on the placement, because partial results are rounded and combined
// in another order. With u the unit roundoff of the dtype, n the number of terms and A the sum of their absolute
// values, a sharded sum is within (8 u + 2 n 2^-53) A of the oracle's: terms are added in f64, and at most 2^6 partial
// sums are rounded and combined (in f32 for f16 and bf16). Sums of integers below 1/u are exact. What is computed from
// such results carries their error on; everything else must be equal bit for bit.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "ir/graph.h"
#include "values.h"

namespace shoal::parity {

/// The oracle's value, and what is known about the sharded one.
struct Known {
  Buffer value;
  double scale = 0;      ///< At least the magnitude of every element, and of the terms of sums that make it.
  double error = 0;      ///< The greatest difference to the sharded value; infinity if nothing is known.
  bool reduced = false;  ///< Made from sums of floats: the sign of a zero may differ.

  Tolerance tolerance() const { return {.error = error, .equal_zeros = reduced}; }
};

/// An input of a graph.
Known known_input(Buffer value);

/// The results of an equation.
std::vector<Known> analyse(const Graph& graph, const Eqn& eqn, const std::vector<Known>& operands);

/// All values of a graph.
std::vector<Known> analyse(const Graph& graph, const std::vector<Buffer>& inputs);

}  // namespace shoal::parity
