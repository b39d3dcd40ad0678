// One equation of an op, to be run with its operands and results in many places.
#pragma once

#include <optional>
#include <vector>

#include "cases.h"
#include "generators.h"

namespace shoal::parity {

Type type_of(Dtype dtype, Shape shape);

/// All ops of the table but effects, which have no values to compare, and fusions, which are made by back ends only, of
/// ops that all are here.
std::vector<const OpDef*> ops_with_results();

/// Of the operands, then of the results; nullopt leaves the choice to the compiler.
using Specs = std::vector<std::optional<PartitionSpec>>;

/// An equation with data and the oracle's results.
struct Equation {
  const OpDef& op;
  Sample sample;
  std::vector<Buffer> data;
  std::vector<Type> results;
  std::vector<Known> expected;

  bool is_comparable() const;
};

Equation make_equation(Rng& rng, const OpDef& op, Sample made, Fill fill);

/// The operands' types, then the results'.
std::vector<Type> tensors_of(const Equation& equation);

/// The equation with its operands and results placed. A sharding that divides goes to the input or output itself or, as
/// one that does not, to a constraint.
Case make_case(Rng& rng, const Equation& equation, const Mesh& mesh, const Specs& specs);

/// The placements of the other operands and results that the op's rule derives from the spec of one of them.
Specs matching(const Equation& equation, const Mesh& mesh, std::size_t tensor, const PartitionSpec& spec);

/// Every placement of each operand and result, with the others whole and with the others matching.
std::vector<Specs> all_placements(const Equation& equation, const Mesh& mesh);

}  // namespace shoal::parity
