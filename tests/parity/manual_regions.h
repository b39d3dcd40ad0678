// Random manual regions: bodies of shard_map with collectives in them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/op.h"
#include "rng.h"
#include "shoal/mesh.h"

namespace shoal::parity {

struct ManualOptions {
  const OpDef* only = nullptr;  ///< The one op of the body; random ones if not given.
  int equations = 3;            ///< How many are tried otherwise.
};

/// Attributes of a shard_map equation over `mesh` that takes operands of these types: random manual axes, specs and
/// body. Nothing if the types do not suit the op or cannot be split.
std::optional<Attrs> random_manual_region(Rng& rng, const Mesh& mesh, std::span<const Type> operands,
                                          const ManualOptions& options);

}  // namespace shoal::parity
