// Pieces that the records of several families share: checks of operands, and the commonest sharding rules.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dispatch.h"
#include "ir/op.h"

namespace shoal {

/// Throws ShapeMismatch that names the user's function and line.
[[noreturn]] void infer_error(const InferContext& context, std::string_view text);

/// Throws TypeMismatch, naming the user's function and line, if elements are complex numbers, of which none is greater
/// than another.
void check_ordered(const InferContext& context, const Type& type);

/// The memory that all operands live in. Throws if they differ, showing two that do.
MemoryKind common_memory(const InferContext& context);

/// The manual axes over which any operand varies.
AxisNames joint_varying(const InferContext& context);

/// The types that the attribute `results` has as texts, each as "f32[4,8]".
std::vector<Type> promised_results(const Attrs& attrs);
/// Such a text.
std::string promise_of(const Type& type);

/// A type with the given shape, and otherwise that of the operands: their common memory, varying axes, and the first
/// operand's dtype.
Type like_operands(const InferContext& context, Shape shape);

/// Throws unless every entry of the Dims attribute `name` is a distinct dimension of the first operand.
const Dims& checked_dims(const InferContext& context, std::string_view name);

/// One factor per dimension of the tensor, in order; dimensions of extent 1 too.
TensorFactors own_factors(ShardingRule& rule, const Shape& shape, FactorKind kind = FactorKind::kPassThrough);

/// The rule in which every operand and result has the result's dimensions; scalars have none.
ShardingRule pointwise_rule(const RuleContext& context);

/// One operation for each element that the rule's reduction goes through; none if it reduces nothing.
double reduction_flops(const RuleContext& context);

/// For ops that do nothing if the types of operand and result are equal.
std::optional<ValueId> simplify_identity(Eqn& eqn, const Makers& makers);

/// Whether an equation makes a constant of this element, which is a whole number, everywhere.
bool is_full_of(const Eqn& eqn, std::int64_t element);

/// For ops with the result's shape as the attribute `shape`.
Attrs localize_shape(const LocalizeContext& context);

/// Whether an integer dtype can hold the value; other dtypes take any.
template <class Integer>
bool holds(Dtype dtype, Integer value) {
  return with_element_type(dtype, [value](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return std::in_range<T>(value);
    } else {
      return true;
    }
  });
}

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

/// Copies out[at] = in[offset_of(at)] for elements of any dtype.
template <class F>
void gather_elements(const TensorView& in, const TensorView& out, F&& offset_of) {
  const std::size_t size = size_of(out.dtype);
  const auto* from = static_cast<const std::byte*>(in.data);
  auto* to = static_cast<std::byte*>(out.data);
  for_each_index(out.shape, [&](std::int64_t i, const Dims& at) {
    std::memcpy(to + static_cast<std::size_t>(i) * size, from + static_cast<std::size_t>(offset_of(at)) * size, size);
  });
}

/// a + b and a * b for extents. Throw infer_error if they are no 64-bit numbers.
std::int64_t extent_sum(const InferContext& context, std::int64_t a, std::int64_t b);
std::int64_t extent_product(const InferContext& context, std::int64_t a, std::int64_t b);

/// Copies out[offset_of(at)] = in[at] for elements of any dtype; a negative offset leaves the element out.
template <class F>
void scatter_elements(const TensorView& in, const TensorView& out, F&& offset_of) {
  const std::size_t size = size_of(out.dtype);
  const auto* from = static_cast<const std::byte*>(in.data);
  auto* to = static_cast<std::byte*>(out.data);
  for_each_index(in.shape, [&](std::int64_t i, const Dims& at) {
    const std::int64_t offset = offset_of(at);
    if (offset < 0) return;
    std::memcpy(to + static_cast<std::size_t>(offset) * size, from + static_cast<std::size_t>(i) * size, size);
  });
}

}  // namespace shoal
