// What the rules for batching in the records see: OpDef::batch. An equation whose operands have one more dimension
// each, along which it does in each place what it did, is an equation again, or several.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace shoal {

/// A value, and where the mapped dimension is in it; nothing if it is the same in all places.
struct Batched {
  ValueId value;
  std::optional<std::size_t> dim;
};

/// The axes of a mesh that the mapped dimension is split over where a sharding has to say so, major to minor.
struct MappedSplit {
  std::vector<std::string> axes = {};
  Mesh mesh = {};  ///< If they are Explicit, that which they belong to: then types say so, too. Else none.
};

struct BatchContext {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Batched> operands;
  std::int64_t size;      ///< The extent of the mapped dimension.
  std::string_view axis;  ///< The name under which collectives know it; may be empty.
  const MappedSplit& split;
  Builder& build;

  /// Whether one of these operands is mapped, from `first` on.
  bool is_mapped(std::size_t first = 0) const;
  /// An operand with the mapped dimension at `dim`: moved there, or repeated if it was the same in all places.
  ValueId mapped_at(std::size_t operand, std::size_t dim = 0) const;
  /// The number of dimensions of an operand in each place.
  std::size_t rank(std::size_t operand) const;
};

/// The value with the mapped dimension at `dim`. If its type has Explicit axes, those of `split` split what is
/// repeated.
ValueId mapped_at(Builder& build, const Batched& value, std::int64_t size, std::size_t dim,
                  const MappedSplit& split = {});

/// The type with the mapped dimension at `dim` split over the Explicit axes of `split`, as far as they are not manual
/// where it stands and split no other dimension.
Type split_at(Type type, std::size_t dim, const MappedSplit& split, const AxisEnv& manual);

/// Dimension `dim` as two, the first of this extent; and with the next one as one.
ValueId dim_in_two(Builder& build, ValueId x, std::size_t dim, std::int64_t first);
ValueId joined_with_next(Builder& build, ValueId x, std::size_t dim);

/// The op itself, on operands of which some have the mapped dimension where `dims` says; results have it first if the
/// op's attributes speak of them, else where its sharding rule says that it passes through.
std::vector<Batched> batched_alike(const BatchContext& context, std::vector<ValueId> operands,
                                   std::vector<std::optional<std::size_t>> dims);

/// For ops that call the user's program, as OpDef::batch: a loop over the places.
std::vector<Batched> batched_one_by_one(const BatchContext& context);

/// The results, by the record of the op: its own rule, or the op itself on operands that all have the dimension. Only
/// for ops that hold no graphs.
std::vector<Batched> batched_by_record(const BatchContext& context);

}  // namespace shoal
