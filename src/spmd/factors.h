// Projections between dimensions and factors: the arithmetic that turns a sharding rule into placements.
#pragma once

#include <span>
#include <vector>

#include "ir/sharding_rule.h"
#include "sharding/placement.h"

namespace shoal {

/// For each factor of a rule, the atoms that split it.
using FactorAxes = std::vector<Atoms>;

/// The part of a tensor's placement that the rule's factors can carry. A dimension of several factors gives its atoms
/// to the most major factor until that is divided completely, and then to the next.
FactorAxes project(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                   const std::vector<Atoms>& dims);

/// The dimensions of a tensor that lies like this whose atoms the rule does not carry on, or only in part: they must be
/// whole, or are divided where no atom ends, or become the minor part of a dimension that is not divided before.
std::vector<std::size_t> walled_dims(const Grid& grid, const ShardingRule& rule, const TensorFactors& tensor,
                                     const std::vector<Atoms>& dims);

/// The dimensions that a tensor has when its factors are split like this.
std::vector<Atoms> dims_of(const TensorFactors& tensor, const FactorAxes& axes);

/// Adds to `axes` what `more` offers: per factor, atoms beyond those it has, as long as no atom serves two factors, no
/// factor that needs replication is split, every dimension of several factors is split major factors first, and shards
/// are even if the rule asks for that.
/// Returns whether anything was added.
bool extend(const Grid& grid, const ShardingRule& rule, FactorAxes& axes, const FactorAxes& more);

/// Appends a wish unless it is there: ops may have thousands of operands that all lie alike.
void add_wish(std::vector<FactorAxes>& wishes, FactorAxes wish);

/// The atoms of the rule's reduction factors, sorted.
Atoms reduced_atoms(const ShardingRule& rule, const FactorAxes& axes);

}  // namespace shoal
