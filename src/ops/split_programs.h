// What takes the place of an op on a matrix that devices share, where it is no single solver (OpDef::joint) but a
// program of ops that have one.
#pragma once

#include <span>

#include "ir/graph.h"

namespace shoal {

/// Whether an op has such programs.
bool may_be_split(const OpDef& op);
/// Makes the equation, which has operands of these types, a call of the program that computes its results. Returns
/// whether it did: matrices are gathered if they are small, and batches are.
bool call_split_program(Eqn& eqn, std::span<const Type> operands);

}  // namespace shoal
