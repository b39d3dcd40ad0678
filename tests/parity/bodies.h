// Random graphs for the ops that run graphs under control: loops and branches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "rng.h"
#include "shoal/mesh.h"

namespace shoal::parity {

/// The types of operands of such an op: an index or counter first where it needs one, carries or arguments of the type
/// `first`, or one that sums of it or to it have, a stack of slices, and a capture.
std::vector<Type> control_operands(Rng& rng, const OpDef& op, const Type& first);

/// Attributes with random bodies for them.
Attrs control_attrs(Rng& rng, const Mesh& mesh, const OpDef& op, std::span<const Type> operands);

/// Of a hundred carries of loops, those that begin with zeros, if they can: these may be summands for free.
inline constexpr int kFromZero = 40;
bool can_be_zero(const Type& type);

}  // namespace shoal::parity
