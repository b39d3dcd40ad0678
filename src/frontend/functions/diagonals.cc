#include "frontend/functions/diagonals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// Which side of the k-th diagonal each element of a matrix lies on, by a comparison of its column - k with its row.
Array compare_to_diagonal(Array (*comparison)(const Operand&, const Operand&), const Shape& matrix, std::int64_t k) {
  const Array rows = lax::broadcasted_iota(int32, matrix, 0);
  Array columns = lax::broadcasted_iota(int32, matrix, 1);
  // Diagonals beyond the matrix are all alike.
  const std::int64_t offset = std::clamp(k, -matrix[0], matrix[1]);
  if (offset != 0) columns = subtract(columns, offset);
  return comparison(columns, rows);
}

// x where the mask of its last two dimensions holds, 0 elsewhere.
Array masked(const Array& mask, const Array& x) {
  const Type& type = detail::impl_of(x).type;
  const Array zero = constant(Scalar::of(0).converted_to(type.dtype), type.weak, type.memory);
  return bind_one("select", {}, {broadcast(mask, type.shape), x, zero});
}

Array triangle(Array (*comparison)(const Operand&, const Operand&), const Operand& x, std::int64_t k) {
  const Array array = to_array(x);
  if (array.ndim() < 2) {
    throw misuse<InvalidArgument>("{} is no matrix; it takes arrays of at least 2 dimensions", type_of(array));
  }
  const Shape matrix(array.shape().end() - 2, array.shape().end());
  return masked(compare_to_diagonal(comparison, matrix, k), array);
}

// The matrix with x on its k-th diagonal.
Array matrix_of(const Array& x, std::int64_t k) {
  const std::int64_t extra = std::abs(k);
  const std::int64_t n = x.size() + extra;
  // The element at (i, i + k) is x[i], that at (j - k, j) is x[j].
  Shape line = k >= 0 ? Shape{n, 1} : Shape{1, n};
  const Array longer = pad(x, {{0, extra}});
  return masked(compare_to_diagonal(equal, {n, n}, k), broadcast(reshape(longer, line), {n, n}));
}

// The dimensions of a diagonal's rows and columns.
std::pair<std::int64_t, std::int64_t> axes_of_diagonal(const Array& array, const DiagonalOptions& options) {
  const std::int64_t first = canonical_axis(options.axis1, array.ndim());
  const std::int64_t second = canonical_axis(options.axis2, array.ndim());
  if (first == second) {
    throw misuse<InvalidArgument>("axis1 and axis2 of {} must differ, but both are {}", type_of(array), first);
  }
  return {first, second};
}

}  // namespace

Array items_of_diagonal(const Array& array, std::int64_t first, std::int64_t second, std::int64_t offset) {
  const std::int64_t rows = array.shape()[static_cast<std::size_t>(first)];
  const std::int64_t columns = array.shape()[static_cast<std::size_t>(second)];
  // Diagonals beyond the matrix are empty.
  const std::int64_t within = std::clamp(offset, -rows, columns);
  const std::int64_t row = std::max<std::int64_t>(-within, 0);
  const std::int64_t column = std::max<std::int64_t>(within, 0);
  const std::int64_t length = std::min(rows - row, columns - column);
  const Array positions = counted(length, array);
  const auto from = [&](std::int64_t start) { return start == 0 ? positions : add(positions, start); };
  // Where the diagonal has an item of each row, an array that is split by rows stays so.
  if (length == rows) {
    return items_at(array, {from(column)}, {.dims = {second}, .array_batch = {first}, .index_batch = {0}}, {});
  }
  if (length == columns) {
    return items_at(array, {from(row)}, {.dims = {first}, .array_batch = {second}, .index_batch = {0}}, {});
  }
  std::vector<Array> both{from(row), from(column)};
  if (first > second) std::swap(both[0], both[1]);
  return items_at(array, both, {.dims = {std::min(first, second), std::max(first, second)}}, {});
}

Array eye(std::int64_t n, const EyeOptions& options, SourceLocation where) {
  const Caller caller("eye", where);
  const Shape shape{n, options.m.value_or(n)};
  check_extents(shape);
  const Array ones = convert(compare_to_diagonal(equal, shape, options.k), options.dtype.value_or(float32));
  return options.sharding ? device_put(ones, *options.sharding) : ones;
}

Array identity(std::int64_t n, const CreationOptions& options, SourceLocation where) {
  const Caller caller("identity", where);
  return eye(n, {.m = {}, .k = 0, .dtype = options.dtype, .sharding = options.sharding});
}

Array diag(const Operand& x, std::int64_t k) {
  const Caller caller("diag", x.where());
  const Array array = to_array(x);
  if (array.ndim() == 1) return matrix_of(array, k);
  if (array.ndim() == 2) return items_of_diagonal(array, 0, 1, k);
  throw misuse<InvalidArgument>("{} is neither a vector nor a matrix", type_of(array));
}

Array diagonal(const Operand& x, const DiagonalOptions& options) {
  const Caller caller("diagonal", x.where());
  const Array array = to_array(x);
  const auto [first, second] = axes_of_diagonal(array, options);
  const Array items = items_of_diagonal(array, first, second, options.offset);
  return moveaxis(items, Dims{0}, Dims{-1});
}

Array trace(const Operand& x, const DiagonalOptions& options) {
  const Caller caller("trace", x.where());
  const Array array = to_array(x);
  const auto [first, second] = axes_of_diagonal(array, options);
  return sum(items_of_diagonal(array, first, second, options.offset), {.axis = 0});
}

Array tril(const Operand& x, std::int64_t k) {
  const Caller caller("tril", x.where());
  return triangle(less_equal, x, k);
}
Array triu(const Operand& x, std::int64_t k) {
  const Caller caller("triu", x.where());
  return triangle(greater_equal, x, k);
}

}  // namespace shoal
