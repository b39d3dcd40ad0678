// The extents of an array, outermost dimension first.
//
// @param shape The extents.
// @param dims The numbers.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace shoal {

/// A short list of integers that needs no allocation up to five entries: shapes, strides, dimension numbers.
class Dims : public boost::container::small_vector<std::int64_t, 5> {
 public:
  using Base = boost::container::small_vector<std::int64_t, 5>;
  using Base::Base;
};

/// The extents of an array in elements; rank 0 is a scalar.
using Shape = Dims;

/// Product of the extents; 1 for a scalar.
std::int64_t num_elements(const Shape& shape);

/// Row-major strides in elements.
Dims row_major_strides(const Shape& shape);

/// As a Python tuple: "()", "(4,)", "(4, 8)".
std::string to_string(const Dims& dims);
std::ostream& operator<<(std::ostream& out, const Dims& dims);

}  // namespace shoal
