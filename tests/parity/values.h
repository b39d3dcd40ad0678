// Host arrays to test with: made, read as numbers, compared.
#pragma once

#include <complex>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "ir/type.h"
#include "rng.h"

namespace shoal::parity {

enum class Fill : std::uint8_t {
  kIntegers,  ///< Small integers, of which sums are exact.
  kReals,     ///< Numbers with full mantissas, between -2 and 2.
  kSpecial,   ///< Any bits: NaN, infinities, both zeros, extremes of integers.
};

Buffer make_buffer(Dtype dtype, const Shape& shape);
Buffer random_buffer(Rng& rng, Dtype dtype, const Shape& shape, Fill fill);

/// The elements as numbers. 64-bit integers lose their last bits.
std::vector<std::complex<double>> numbers_of(const Buffer& buffer);
/// The greatest absolute value; infinity if there is an infinity or NaN.
double magnitude_of(const Buffer& buffer);
bool all_integers(const Buffer& buffer);

/// How two arrays may differ.
struct Tolerance {
  double error = 0;          ///< Absolute, of real and imaginary parts alike.
  bool equal_zeros = false;  ///< Whether -0 counts as 0.
};

/// The first difference of two arrays as text, or nothing. NaNs are equal.
std::optional<std::string> difference(const Buffer& actual, const Buffer& expected, const Tolerance& tolerance);

/// "[1 2 3]", the elements as numbers.
std::string elements_text(const Buffer& buffer);

}  // namespace shoal::parity
