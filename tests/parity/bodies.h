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
/// `first`, a stack of slices, and a capture.
std::vector<Type> control_operands(Rng& rng, const OpDef& op, const Type& first);

/// Attributes with random bodies for them.
Attrs control_attrs(Rng& rng, const Mesh& mesh, const OpDef& op, std::span<const Type> operands);

}  // namespace shoal::parity
