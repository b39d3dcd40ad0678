// Derivatives of equations that run graphs under control: loops, branches and regions. Derivatives of the graphs, and
// how these go together, are all there is to it.
//
// What the linear part of a body needs of the values inside comes to it in one of three ways. What a body is given
// stands around it, as captures and slices, and is given to the linear body, too. What depends on nothing that a trip
// changes is computed again, and so is what stands in a region. All else is a further result, in a loop a stack.
#pragma once

#include <span>
#include <vector>

#include "transform/linearize.h"

namespace shoal {

/// As of linearize_eqn.
LinearizedEqn linearize_control(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                                const std::vector<bool>& with_tangent);

/// The cotangents of operands that are wanted. Those of captures of a loop are summed over the trips, and over devices
/// when the loop is done. Throws InvalidArgument for a loop of which nobody knows how often it runs.
std::vector<MaybeValue> cotangents_of_control(const TransposeContext& context);

}  // namespace shoal
