// Formulas of matrices in graphs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/builder.h"
#include "ops/table.h"

namespace shoal {

/// Arithmetic of matrices, which are the last two dimensions; the ones before are batches.
class Matrices {
 public:
  explicit Matrices(Builder& build) : build_(build) {}

  ValueId transposed(ValueId x) const {
    Dims perm(build_.type(x).rank());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return build_.transpose(x, std::move(perm));
  }
  ValueId adjoint(ValueId x) const {
    const ValueId made = transposed(x);
    return is_complex(build_.type(x).dtype) ? build_.elementwise("conj", {made}) : made;
  }
  ValueId product(ValueId x, ValueId y) const {
    const auto rank = static_cast<std::int64_t>(build_.type(x).rank());
    Dims batches(static_cast<std::size_t>(rank - 2));
    std::iota(batches.begin(), batches.end(), 0);
    return build_.dot_general(
        x, y, {.lhs_contract = {rank - 1}, .rhs_contract = {rank - 2}, .lhs_batch = batches, .rhs_batch = batches});
  }
  // x where `compare` of its row and column holds, else 0.
  ValueId part(ValueId x, std::string_view compare) const {
    const Type type = build_.type(x);
    const ValueId rows = build_.iota(int32, type.shape, type.rank() - 2);
    const ValueId columns = build_.iota(int32, type.shape, type.rank() - 1);
    return build_.select(build_.elementwise(compare, {rows, columns}), x, build_.constant(0, type.dtype));
  }
  ValueId lower(ValueId x) const { return part(x, "greater_equal"); }
  ValueId strictly_lower(ValueId x) const { return part(x, "greater"); }
  ValueId upper(ValueId x) const { return part(x, "less_equal"); }
  ValueId identity(ValueId like) const {
    const Type type = build_.type(like);
    return part(build_.constant(1, type.dtype, type.shape), "equal");
  }
  // The first `kept` rows or columns, and then zeros up to `extent`.
  ValueId resized(ValueId x, std::size_t dim, std::int64_t kept, std::int64_t extent) const {
    const Type type = build_.type(x);
    const Dims zeros(type.rank(), 0);
    Dims limits = type.shape;
    limits[dim] = kept;
    const ValueId first = kept == type.shape[dim] ? x : build_.slice(x, zeros, std::move(limits), Dims(type.rank(), 1));
    if (kept == extent) return first;
    Dims more = zeros;
    more[dim] = extent - kept;
    return build_.pad(first, build_.constant(0, type.dtype), zeros, std::move(more), zeros);
  }
  // With the rows of the identity from a row on.
  ValueId with_identity_from(ValueId x, std::int64_t row) const {
    const Type type = build_.type(x);
    if (row == type.shape[type.rank() - 2]) return x;
    const ValueId rows = build_.iota(int32, type.shape, type.rank() - 2);
    const ValueId is_kept = build_.elementwise("less", {rows, build_.constant(static_cast<int>(row), int32)});
    return build_.select(is_kept, x, identity(x));
  }
  // Vectors as the rows of matrices of a shape, or as columns.
  ValueId in_rows(ValueId x, const Shape& shape) const { return repeated(x, shape, shape.size() - 1); }
  ValueId in_columns(ValueId x, const Shape& shape) const { return repeated(x, shape, shape.size() - 2); }
  ValueId real_diagonal(ValueId x) const {
    const auto last = static_cast<std::int64_t>(build_.type(x).rank() - 1);
    const ValueId made = build_.reduce(ReduceKind::kSum, part(x, "equal"), {last});
    return is_complex(build_.type(x).dtype) ? build_.elementwise("real", {made}) : made;
  }
  // Of a Hermitian matrix of which the lower triangle counts.
  ValueId hermitian(ValueId x) const { return build_.add(lower(x), adjoint(strictly_lower(x))); }
  // The x with a x = b.
  ValueId solved(ValueId a, ValueId b, bool is_lower, bool has_unit_diagonal = false) const {
    return build_.apply("triangular_solve", {{"lower", is_lower}, {"unit_diagonal", has_unit_diagonal}}, {a, b});
  }
  // The same for any a that has an inverse.
  ValueId solved_by_lu(ValueId a, ValueId b) const {
    const std::vector<ValueId> factors = build_.equation(op_named("lu"), {}, {a});
    return solved(factors[0], solved(factors[0], permuted(b, factors[2]), true, true), false);
  }
  // The rows of x in this order.
  ValueId permuted(ValueId x, ValueId order) const {
    const std::size_t rank = build_.type(x).rank();
    Dims batches(rank - 2);
    std::iota(batches.begin(), batches.end(), 0);
    const auto rows = static_cast<std::int64_t>(rank - 2);
    return build_.apply("gather", {{"dims", Dims{rows}}, {"array_batch", batches}, {"index_batch", batches}},
                        {x, order});
  }
  // The x with x a = b.
  ValueId solved_on_the_right(ValueId a, ValueId b, bool is_lower) const {
    return transposed(solved(transposed(a), transposed(b), !is_lower));
  }

 private:
  ValueId repeated(ValueId x, const Shape& shape, std::size_t along) const {
    Dims dims(shape.size() - 1);
    std::iota(dims.begin(), dims.end(), 0);
    dims.back() = static_cast<std::int64_t>(along);
    return build_.broadcast_in_dim(x, shape, std::move(dims));
  }

  Builder& build_;
};

}  // namespace shoal
