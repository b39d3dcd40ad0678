// For every op of the table, operands and attributes to run it with.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "rng.h"
#include "shoal/mesh.h"

namespace shoal::parity {

struct Generator {
  /// The types of all operands, the first of which is given. Ops without operands ignore it.
  std::vector<Type> (*operands)(Rng& rng, const OpDef& op, const Type& first) = nullptr;
  /// Attributes that suit operands of these types, or nothing if the op does not take them. `like` is the first type
  /// that `operands` was given.
  std::optional<Attrs> (*attrs)(Rng& rng, const Mesh& mesh, std::span<const Type> operands, const Type& like) = nullptr;
};

/// How to generate an op that computes or constrains; nullptr for an op that nobody taught the tests. Elementwise ops
/// are generated from their rows. Collectives and calls have none: see manual_regions.h.
const Generator* generator_of(const OpDef& op);

/// Operands and attributes of one equation.
struct Sample {
  std::vector<Type> operands;
  Attrs attrs;
};
/// Nothing if the op does not take the type.
std::optional<Sample> sample(Rng& rng, const Mesh& mesh, const OpDef& op, const Type& first);

/// A shape of the given rank, of extents that divide by 2, 3 and 4 and others; at most 2,000 elements.
Shape random_shape(Rng& rng, std::size_t rank);

}  // namespace shoal::parity
