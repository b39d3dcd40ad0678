// Random graphs over the whole op table, and small ones that fail the same way.
#pragma once

#include <cstdint>
#include <functional>

#include "cases.h"

namespace shoal::parity {

/// The case of a seed: a graph of up to a dozen equations with constraints in between, on a random mesh, with random
/// shardings of inputs and outputs. What cannot be compared with the oracle is not generated.
Case random_case(std::uint64_t seed);

/// A smaller case for which `fails` holds as well: fewer outputs and equations, no shardings where they do not matter,
/// smaller extents.
Case shrink(Case test, const std::function<bool(const Case&)>& fails);

}  // namespace shoal::parity
