// Pieces that the records of several families share: checks of operands, and the commonest sharding rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace shoal {

/// Throws InvalidArgument "<op>: <text>" with the user's line.
[[noreturn]] void infer_error(const InferContext& context, std::string_view text);

/// The memory that all operands live in. Throws if they differ, showing two that do.
MemoryKind common_memory(const InferContext& context);

/// The manual axes over which any operand varies.
AxisNames joint_varying(const InferContext& context);

/// A type with the given shape, and otherwise that of the operands: their common memory, varying axes, and the first
/// operand's dtype.
Type like_operands(const InferContext& context, Shape shape);

/// Throws unless every entry of the Dims attribute `name` is a distinct dimension of the first operand.
const Dims& checked_dims(const InferContext& context, std::string_view name);

/// One factor per dimension of the tensor, in order; dimensions of extent 1 too.
TensorFactors own_factors(ShardingRule& rule, const Shape& shape, FactorKind kind = FactorKind::kPassThrough);

/// The rule in which every operand and result has the result's dimensions; scalars have none.
ShardingRule pointwise_rule(const RuleContext& context);

/// For ops with the result's shape as the attribute `shape`.
Attrs localize_shape(const LocalizeContext& context);

/// The offset of each element of a row-major array of `shape` in another array, counted in row-major order: calls
/// body(index, coordinates).
template <class F>
void for_each_index(const Shape& shape, F&& body) {
  const std::int64_t n = num_elements(shape);
  Dims coordinates(shape.size(), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    body(i, coordinates);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++coordinates[d] < shape[d]) break;
      coordinates[d] = 0;
    }
  }
}

}  // namespace shoal
