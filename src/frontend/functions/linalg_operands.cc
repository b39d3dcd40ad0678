#include "frontend/functions/linalg_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/functions/indexing.h"

namespace shoal {

Term matrices(std::string_view function, const Operand& x) {
  const Array given = to_array(x);
  if (is_floating(given.dtype()) && size_of(given.dtype()) < size_of(float32)) {
    throw TypeMismatch(fmt::format("{}: takes matrices of float32, float64, complex64 or complex128, not {}", function,
                                   name_of(given.dtype())),
                       x.where());
  }
  if (given.ndim() < 2) {
    throw InvalidArgument(
        fmt::format("{}: {} is no matrix; it takes arrays of at least 2 dimensions", function, type_of(given)),
        x.where());
  }
  const bool is_exact = is_integer(given.dtype()) || given.dtype() == bool_;
  return {is_exact ? convert(given, float32, false, x.where()) : given, x.where()};
}

Term square_matrices(std::string_view function, const Operand& x) {
  Term term = matrices(function, x);
  if (rows_of(term) == columns_of(term)) return term;
  throw InvalidArgument(fmt::format("{}: the matrices of {} must be square", function, type_of(term.array())),
                        x.where());
}

Term transposed(const Term& x) { return x.then(swapaxes, std::int64_t{-1}, std::int64_t{-2}); }

Term adjoint(const Term& x) {
  const Term exchanged = transposed(x);
  return is_complex(x.array().dtype()) ? exchanged.then(conj) : exchanged;
}

Term product(const Term& x, const Term& y) { return {matmul(x, y), x.where()}; }

Term hermitian_part(const Term& x) { return (x + adjoint(x)) * 0.5; }

Term identity_like(const Term& x) {
  const Shape& shape = x.array().shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const Array positions = counted("identity", columns_of(x), x.array(), x.where());
  const Term rows(spread(positions, shape, {rank - 2}, x.where()), x.where());
  const Term columns(spread(positions, shape, {rank - 1}, x.where()), x.where());
  return {convert(equal(rows, columns), x.array().dtype(), false, x.where()), x.where()};
}

Term with_batches(const Term& x, const Shape& batches) {
  Shape shape = batches;
  shape.push_back(rows_of(x));
  shape.push_back(columns_of(x));
  return {broadcast(x.array(), shape, x.where()), x.where()};
}

Shape batches_of(const Term& x) {
  const Shape& shape = x.array().shape();
  return {shape.begin(), shape.end() - 2};
}

std::int64_t rows_of(const Term& x) { return x.array().shape()[x.array().ndim() - 2]; }
std::int64_t columns_of(const Term& x) { return x.array().shape().back(); }

double epsilon_of(const Term& x) {
  return real_dtype(x.array().dtype()) == float64 ? std::numeric_limits<double>::epsilon()
                                                  : std::numeric_limits<float>::epsilon();
}

}  // namespace shoal
