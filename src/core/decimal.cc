#include "core/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace shoal {

namespace {

// The text that std::to_chars writes. Long enough for any f64 with 340 fraction digits, more than the shortest form
// of any value has.
template <class... Args>
std::string to_chars_text(Args... args) {
  std::array<char, 704> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), args...);
  SHOAL_CHECK(error == std::errc(), "the digits of a number do not fit");
  return {buffer.data(), end};
}

// "0.125" or "1.25e-07", as Decimal.
Decimal parse(std::string_view text) {
  Decimal decimal;
  const std::size_t e = std::min(text.find('e'), text.size());
  if (e < text.size()) {
    const std::size_t sign = text[e + 1] == '+' ? 1 : 0;  // from_chars takes no plus
    std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), decimal.exponent);
  }
  const std::size_t point = std::min(text.find('.'), e);
  decimal.integer = text.substr(0, point);
  if (point < e) decimal.fraction = text.substr(point + 1, e - point - 1);
  return decimal;
}

void drop_trailing_zeros(std::string& digits, int keep) {
  while (digits.size() > static_cast<std::size_t>(keep) && digits.back() == '0') digits.pop_back();
}

double value_of(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

float16_t to_f16(double value) { return static_cast<float>(value); }

// The fewest digits that read back as the same f16: of each length the nearest decimal and the next one up. The latter
// matters for powers of two, which lie nearer to their lower neighbour than to their upper one.
Decimal shortest_f16(double magnitude) {
  for (int fraction = 0;; ++fraction) {
    const Decimal nearest = parse(to_chars_text(magnitude, std::chars_format::scientific, fraction));
    const int digits = std::stoi(nearest.integer + nearest.fraction);
    for (const int candidate : {digits, digits + 1}) {
      const double value = value_of(fmt::format("{}e{}", candidate, nearest.exponent - fraction));
      if (to_f16(value) == to_f16(magnitude)) {
        return parse(to_chars_text(value, std::chars_format::scientific, fraction));
      }
    }
  }
}

// In scientific form.
Decimal shortest(double magnitude, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return shortest_f16(magnitude);
    case Dtype::kF32:
      return parse(to_chars_text(static_cast<float>(magnitude), std::chars_format::scientific));
    default:
      return parse(to_chars_text(magnitude, std::chars_format::scientific));
  }
}

// Moves the point of a decimal in scientific form so that the exponent becomes 0.
Decimal without_exponent(const Decimal& scientific) {
  std::string digits = scientific.integer + scientific.fraction;
  int point = 1 + scientific.exponent;
  if (point < 1) {
    digits.insert(0, static_cast<std::size_t>(1 - point), '0');
    point = 1;
  }
  const std::size_t split = static_cast<std::size_t>(point);
  if (digits.size() < split) digits.append(split - digits.size(), '0');
  return {digits.substr(0, split), digits.substr(split)};
}

}  // namespace

Decimal positional_decimal(double magnitude, Dtype dtype, int max_fraction) {
  Decimal decimal = without_exponent(shortest(magnitude, dtype));
  drop_trailing_zeros(decimal.fraction, 0);
  if (decimal.fraction.size() <= static_cast<std::size_t>(max_fraction)) return decimal;
  decimal = parse(to_chars_text(magnitude, std::chars_format::fixed, max_fraction));
  drop_trailing_zeros(decimal.fraction, 0);
  return decimal;
}

Decimal scientific_decimal(double magnitude, Dtype dtype, int min_fraction, int max_fraction) {
  Decimal decimal = shortest(magnitude, dtype);
  const int natural = static_cast<int>(decimal.fraction.size());
  const int wanted = std::clamp(natural, min_fraction, max_fraction);
  if (wanted != natural) {
    decimal = parse(to_chars_text(magnitude, std::chars_format::scientific, wanted));
    drop_trailing_zeros(decimal.fraction, min_fraction);
  }
  return decimal;
}

std::string exponent_text(int exponent, int min_digits) {
  return fmt::format("e{}{:0{}}", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent, min_digits);
}

}  // namespace shoal
