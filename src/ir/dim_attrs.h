// Attributes that speak of dimensions, and types, when the operands of an equation get one more, or lose one. What each
// attribute says is in the record of its op (OpDef::attributes); this is the one place that acts on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/op.h"

namespace shoal {

/// A dimension of operands and results along which the equation does the same in each place.
struct ExtraDim {
  std::int64_t extent = 1;
  std::vector<std::optional<std::size_t>> operands;  ///< Its position in each; nothing for one that has not got it.
  std::optional<std::size_t> result;                 ///< The same of the results.
  std::vector<std::string> axes = {};                ///< Of a mesh: what splits it, for attributes that are shardings.
};

/// The attributes of the equation whose operands and results have got the dimension: those that name dimensions go on
/// to name the same ones, and lists that go by dimension have an entry for the new one, by which the op leaves it
/// alone. If the attributes pair batch dimensions of several operands, and each of these has got the new one, it is
/// such a pair.
Attrs with_dim(const OpDef& op, const Attrs& attrs, const ExtraDim& dim);

/// The reverse: those of the equation whose operands and results have lost the dimension. It must be one that the op
/// leaves alone.
Attrs without_dim(const OpDef& op, const Attrs& attrs, const ExtraDim& dim);

/// The type with a dimension of this extent more, at this position, which nothing splits; and with one less.
Type with_dim(Type type, std::size_t position, std::int64_t extent);
Type without_dim(Type type, std::size_t position);

}  // namespace shoal
