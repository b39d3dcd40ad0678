// Tables of expressions with the numbers that JAX gave for them, which results may be off by a few roundings.
// tools/record_frontend_cases.py writes them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <sstream>
#include <string>

#include "shoal/numpy.h"

namespace shoal::test {

struct RecordedNumbers {
  const char* expression;  ///< In Python.
  Array (*function)();     ///< The same in C++.
  const char* result;      ///< Dtype, shape, elements: "float64 (2,): 1.0 2.5".
};

/// Numbers between -2.75 and 2.75 in f64, which the tables name M; no two neighbours are alike.
inline Array M(const Shape& shape, int seed = 0) {
  return (((arange(num_elements(shape)) * 37 + seed * 11) % 23 - 11).astype(float64) / 4).reshape(shape);
}
/// The same for complex numbers.
inline Array C(const Shape& shape, int seed = 0) {
  return M(shape, seed) + M(shape, seed + 1) * std::complex<double>(0, 1);
}

/// What is wrong with a result, or nothing.
inline std::string difference(const Array& array, const char* recorded) {
  std::string text = recorded;
  std::ostringstream type;
  type << name_of(array.dtype()) << ' ' << to_string(array.shape()) << ':';
  if (!text.starts_with(type.str())) return type.str() + " instead of " + text;
  std::istringstream words(text.substr(type.str().size()));
  const std::vector<std::complex<double>> elements = array.astype(complex128).to_vector<std::complex<double>>();
  std::vector<std::complex<double>> expected;
  double size = 1;
  for (std::string word; words >> word;) {
    std::size_t read = 0;
    const double re = std::stod(word, &read);
    const double im = read < word.size() ? std::stod(word.substr(read + 1)) : 0;
    expected.emplace_back(re, im);
    if (std::isfinite(re) && std::isfinite(im)) size = std::max(size, std::abs(expected.back()));
  }
  const bool is_single = real_dtype(array.dtype()) == float32;
  const double allowed = (is_single ? 1e-5 : 1e-11) * size;
  const auto close = [&](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= allowed;
  };
  if (expected.size() != elements.size()) return "another number of elements";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (close(elements[i].real(), expected[i].real()) && close(elements[i].imag(), expected[i].imag())) continue;
    std::ostringstream message;
    message << "element " << i << " is " << elements[i] << ", not " << expected[i];
    return message.str();
  }
  return {};
}

/// Checks every line of a table.
template <std::size_t n>
void expect_recorded(const RecordedNumbers (&table)[n]) {
  for (const RecordedNumbers& line : table) {
    try {
      EXPECT_EQ(difference(line.function(), line.result), "") << line.expression;
    } catch (const std::exception& error) {
      ADD_FAILURE() << line.expression << ": " << error.what();
    }
  }
}

}  // namespace shoal::test
