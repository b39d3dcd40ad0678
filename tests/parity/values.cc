#include "values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/dispatch.h"

namespace shoal::parity {
namespace {

template <class T>
T random_integer(Rng& rng, Fill fill) {
  if (fill == Fill::kSpecial) {
    constexpr T kLow = std::numeric_limits<T>::min();
    constexpr T kHigh = std::numeric_limits<T>::max();
    const std::vector<T> special = {0, 1, static_cast<T>(-1), 2, kLow, kHigh, static_cast<T>(kHigh - 1)};
    return rng.chance(50) ? rng.pick(special) : static_cast<T>(rng.next());
  }
  return static_cast<T>(static_cast<std::int64_t>(rng.below(8)) - (std::is_signed_v<T> ? 4 : 0));
}

double random_real(Rng& rng, Fill fill) {
  if (fill == Fill::kIntegers) return static_cast<double>(rng.below(8)) - 4;
  if (fill == Fill::kReals) return 4 * rng.unit() - 2;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const std::vector<double> special = {0.0,          -0.0,   1,     -1,    0.5,   kInf, -kInf,
                                              std::nan(""), 1e-320, 1e-42, 1e300, -1e30, 65504};
  if (rng.chance(40)) return rng.pick(special);
  return std::ldexp(2 * rng.unit() - 1, static_cast<int>(rng.below(40)) - 20);
}

template <class T>
T random_element(Rng& rng, Fill fill) {
  if constexpr (std::is_same_v<T, bool>) {
    return rng.chance(50);
  } else if constexpr (std::is_integral_v<T>) {
    return random_integer<T>(rng, fill);
  } else if constexpr (kIsComplexElement<T>) {
    using Part = typename T::value_type;
    const auto real = static_cast<Part>(random_real(rng, fill));
    return T(real, static_cast<Part>(random_real(rng, fill)));
  } else if constexpr (std::is_same_v<T, double>) {
    return random_real(rng, fill);
  } else {
    return T(static_cast<float>(random_real(rng, fill)));
  }
}

template <class T>
std::complex<double> number(T value) {
  if constexpr (kIsComplexElement<T>) {
    return {static_cast<double>(value.real()), static_cast<double>(value.imag())};
  } else if constexpr (kIsSmallFloat<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

bool same_part(double a, double b, const Tolerance& tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return tolerance.equal_zeros || tolerance.error > 0 || std::signbit(a) == std::signbit(b);
  return std::abs(a - b) <= tolerance.error;
}

std::string text_of(std::complex<double> value, Dtype dtype) {
  return is_complex(dtype) ? fmt::format("{}{:+}i", value.real(), value.imag()) : fmt::format("{}", value.real());
}

}  // namespace

Buffer make_buffer(Dtype dtype, const Shape& shape) { return Buffer(host_space(kDeviceMemory), dtype, shape); }

Buffer random_buffer(Rng& rng, Dtype dtype, const Shape& shape, Fill fill) {
  Buffer buffer = make_buffer(dtype, shape);
  with_element_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* data = static_cast<T*>(buffer.mutable_data());
    for (std::int64_t i = 0; i < num_elements(shape); ++i) data[i] = random_element<T>(rng, fill);
  });
  return buffer;
}

std::vector<std::complex<double>> numbers_of(const Buffer& buffer) {
  std::vector<std::complex<double>> numbers;
  with_element_type(buffer.dtype(), [&](auto tag) {
    const auto* data = static_cast<const decltype(tag)*>(buffer.data());
    for (std::int64_t i = 0; i < num_elements(buffer.shape()); ++i) numbers.push_back(number(data[i]));
  });
  return numbers;
}

double magnitude_of(const Buffer& buffer) {
  double magnitude = 0;
  for (const std::complex<double>& value : numbers_of(buffer)) {
    if (!std::isfinite(value.real()) || !std::isfinite(value.imag())) return std::numeric_limits<double>::infinity();
    magnitude = std::max(magnitude, std::abs(value));
  }
  return magnitude;
}

bool all_integers(const Buffer& buffer) {
  const std::vector<std::complex<double>> numbers = numbers_of(buffer);
  return std::all_of(numbers.begin(), numbers.end(), [](std::complex<double> value) {
    return std::floor(value.real()) == value.real() && std::floor(value.imag()) == value.imag();
  });
}

std::optional<std::string> difference(const Buffer& actual, const Buffer& expected, const Tolerance& tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
    return fmt::format("the result is {}{}, not {}{}", name_of(actual.dtype()), to_string(actual.shape()),
                       name_of(expected.dtype()), to_string(expected.shape()));
  }
  const auto bytes = expected.size_bytes();
  if (std::memcmp(actual.data(), expected.data(), bytes) == 0) return {};
  const Dtype dtype = expected.dtype();
  const std::vector<std::complex<double>> a = numbers_of(actual);
  const std::vector<std::complex<double>> b = numbers_of(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        is_floating(dtype) || is_complex(dtype)
            ? same_part(a[i].real(), b[i].real(), tolerance) && same_part(a[i].imag(), b[i].imag(), tolerance)
            : std::memcmp(static_cast<const char*>(actual.data()) + i * size_of(dtype),
                          static_cast<const char*>(expected.data()) + i * size_of(dtype), size_of(dtype)) == 0;
    if (same) continue;
    return fmt::format("element {} of {}{} is {}, not {} (allowed error {})", i, name_of(dtype),
                       to_string(expected.shape()), text_of(a[i], dtype), text_of(b[i], dtype), tolerance.error);
  }
  return {};
}

std::string elements_text(const Buffer& buffer) {
  std::vector<std::string> texts;
  for (const std::complex<double>& value : numbers_of(buffer)) texts.push_back(text_of(value, buffer.dtype()));
  return fmt::format("[{}]", fmt::join(texts, " "));
}

}  // namespace shoal::parity
