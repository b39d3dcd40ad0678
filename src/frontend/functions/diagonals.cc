#include "frontend/functions/diagonals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/functions/indexing.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

// Which side of the k-th diagonal of the dimensions `first` and `second` each element of arrays of `shape` lies on, by
// a comparison of its position along `second` - k with that along `first`.
Array compare_to_diagonal(Array (*comparison)(const Operand&, const Operand&), const Shape& shape, std::int64_t first,
                          std::int64_t second, std::int64_t k) {
  const Array rows = lax::broadcasted_iota(int32, shape, first);
  Array columns = lax::broadcasted_iota(int32, shape, second);
  // Diagonals beyond the matrix are all alike.
  const std::int64_t offset =
      std::clamp(k, -shape[static_cast<std::size_t>(first)], shape[static_cast<std::size_t>(second)]);
  if (offset != 0) columns = subtract(columns, offset);
  return comparison(columns, rows);
}

Array compare_to_diagonal(Array (*comparison)(const Operand&, const Operand&), const Shape& matrix, std::int64_t k) {
  return compare_to_diagonal(comparison, matrix, 0, 1, k);
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

// The k-th diagonal of a matrix.
Array diagonal_of(const Array& x, std::int64_t k) {
  if (x.size() == 0) return reshape(x, {0});
  // Diagonals beyond the matrix are empty.
  const std::int64_t offset = std::clamp(k, -x.shape()[0], x.shape()[1]);
  const std::int64_t first = std::max<std::int64_t>(-offset, 0);
  const std::int64_t limit = std::clamp<std::int64_t>(x.shape()[1] - offset, first, x.shape()[0]);
  const Array rows = add(counted(limit - first, x), first);
  return items_at(x, {rows, add(rows, offset)}, {.dims = {0, 1}}, {});
}

}  // namespace

Array diagonal_alone(const Array& array, std::int64_t first, std::int64_t second, std::int64_t offset) {
  return masked(compare_to_diagonal(equal, array.shape(), first, second, offset), array);
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
  if (array.ndim() == 2) return diagonal_of(array, k);
  throw misuse<InvalidArgument>("{} is neither a vector nor a matrix", type_of(array));
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
