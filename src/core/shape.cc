#include "shoal/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "shoal/error.h"

namespace shoal {

namespace {

// The product of two extents; `shape` is what the error names.
std::int64_t checked_product(std::int64_t a, std::int64_t b, const Shape& shape) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw InvalidArgument(fmt::format("shape {} has more than 2^63 - 1 elements", to_string(shape)));
  }
  return product;
}

}  // namespace

std::int64_t num_elements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = checked_product(count, extent, shape);
  return count;
}

Dims row_major_strides(const Shape& shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i > 1; --i) {
    strides[i - 2] = checked_product(strides[i - 1], shape[i - 1], shape);
  }
  return strides;
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (std::size_t i = 0; i < dims.size(); ++i) text.append(i == 0 ? "" : ", ").append(std::to_string(dims[i]));
  return text.append(dims.size() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

}  // namespace shoal
