#include "frontend/functions/linalg_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/misuse.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/indexing.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

constexpr std::int64_t kLargeMatrix = 512;

}  // namespace

bool is_large(const Array& x) { return x.ndim() == 2 && rows_of(x) >= kLargeMatrix; }

Array matrices(const Operand& x) {
  const Array given = to_array(x);
  if (is_floating(given.dtype()) && size_of(given.dtype()) < size_of(float32)) {
    throw misuse<TypeMismatch>("takes matrices of float32, float64, complex64 or complex128, not {}",
                               name_of(given.dtype()));
  }
  if (given.ndim() < 2) {
    throw misuse<InvalidArgument>("{} is no matrix; it takes arrays of at least 2 dimensions", type_of(given));
  }
  const Dtype dtype = inexact_dtype(given.dtype());
  return dtype == given.dtype() ? given : convert(given, dtype);
}

Array square_matrices(const Operand& x) {
  Array term = matrices(x);
  if (rows_of(term) == columns_of(term)) return term;
  throw misuse<InvalidArgument>("the matrices of {} must be square", type_of(term));
}

Array transposed(const Array& x) { return swapaxes(x, std::int64_t{-1}, std::int64_t{-2}); }

Array adjoint(const Array& x) {
  const Array exchanged = transposed(x);
  return is_complex(x.dtype()) ? conj(exchanged) : exchanged;
}

Array product(const Array& x, const Array& y) { return matmul(x, y); }

Array hermitian_part(const Array& x) { return (x + adjoint(x)) * 0.5; }

Array identity_like(const Array& x) {
  const Shape& shape = x.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const Array positions = counted(columns_of(x), x);
  const Array rows = spread(positions, shape, {rank - 2});
  const Array columns = spread(positions, shape, {rank - 1});
  return convert(equal(rows, columns), x.dtype());
}

Array with_batches(const Array& x, const Shape& batches) {
  Shape shape = batches;
  shape.push_back(rows_of(x));
  shape.push_back(columns_of(x));
  return broadcast(x, shape);
}

Shape batches_of(const Array& x) {
  const Shape& shape = x.shape();
  return {shape.begin(), shape.end() - 2};
}

std::int64_t rows_of(const Array& x) { return x.shape()[x.ndim() - 2]; }
std::int64_t columns_of(const Array& x) { return x.shape().back(); }

double epsilon_of(const Array& x) {
  return real_dtype(x.dtype()) == float64 ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
}

}  // namespace shoal
