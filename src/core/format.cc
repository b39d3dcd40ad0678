#include "core/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decimal.h"
#include "shoal/error.h"

namespace shoal {

namespace {

template <class T>
T element(const void* data, std::int64_t i) {
  return static_cast<const T*>(data)[i];
}

// A real element of f16, f32 or f64, or a part of a complex one.
double real_part(Dtype dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case Dtype::kF16:
      return static_cast<double>(static_cast<float>(element<float16_t>(data, i)));
    case Dtype::kF32:
      return static_cast<double>(element<float>(data, i));
    case Dtype::kF64:
      return element<double>(data, i);
    case Dtype::kC64:
      return static_cast<double>(element<std::complex<float>>(data, i).real());
    case Dtype::kC128:
      return element<std::complex<double>>(data, i).real();
    default:
      throw InternalError(fmt::format("{} has no real part", name_of(dtype)));
  }
}

double imaginary_part(Dtype dtype, const void* data, std::int64_t i) {
  return dtype == Dtype::kC64 ? static_cast<double>(element<std::complex<float>>(data, i).imag())
                              : element<std::complex<double>>(data, i).imag();
}

// An element of a dtype whose text does not depend on its neighbours: bool, integers, bfloat16.
std::string plain_text(Dtype dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case Dtype::kBool:
      return element<bool>(data, i) ? "True" : "False";
    case Dtype::kI8:
      return fmt::to_string(int{element<std::int8_t>(data, i)});
    case Dtype::kI16:
      return fmt::to_string(element<std::int16_t>(data, i));
    case Dtype::kI32:
      return fmt::to_string(element<std::int32_t>(data, i));
    case Dtype::kI64:
      return fmt::to_string(element<std::int64_t>(data, i));
    case Dtype::kU8:
      return fmt::to_string(int{element<std::uint8_t>(data, i)});
    case Dtype::kU16:
      return fmt::to_string(element<std::uint16_t>(data, i));
    case Dtype::kU32:
      return fmt::to_string(element<std::uint32_t>(data, i));
    case Dtype::kU64:
      return fmt::to_string(element<std::uint64_t>(data, i));
    case Dtype::kBF16: {
      const float value = element<bfloat16_t>(data, i);
      return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
    }
    default:
      throw InternalError(fmt::format("{} is formatted by column", name_of(dtype)));
  }
}

std::string_view sign_text(double value, bool always) {
  if (std::isnan(value) || !std::signbit(value)) return always ? "+" : "";
  return "-";
}

std::string non_finite_text(double value, bool always_sign) {
  return fmt::format("{}{}", sign_text(value, always_sign), std::isnan(value) ? "nan" : "inf");
}

double round_to(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::kF16:
      return static_cast<double>(static_cast<float>(float16_t(static_cast<float>(value))));
    case Dtype::kF32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

// 10 to the number of decimal digits that any value of the dtype can hold.
double exact_integers_end(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 1e3;
    case Dtype::kF32:
      return 1e6;
    default:
      return 1e15;
  }
}

// Whether a column needs exponents: it has very large or very small values, or both are far apart. The comparisons are
// those of the dtype itself.
bool needs_exponent(const std::vector<double>& finite, Dtype dtype, bool suppress) {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const double value : finite) {
    if (value == 0) continue;
    smallest = std::min(smallest, std::abs(value));
    largest = std::max(largest, std::abs(value));
  }
  if (largest == 0) return false;
  if (largest >= std::min(1e8, exact_integers_end(dtype))) return true;
  return !suppress && (smallest < round_to(dtype, 1e-4) || round_to(dtype, largest / smallest) > 1000);
}

// How the floats of one array are written so that they align: all with the same number of digits and, beyond that,
// padded on both sides of the point.
class FloatColumn {
 public:
  // `dtype` is that of the values: f16, f32 or f64.
  FloatColumn(const std::vector<double>& values, Dtype dtype, bool always_sign, const PrintOptions& options)
      : dtype_(dtype), always_sign_(always_sign), max_fraction_(options.precision) {
    std::vector<double> finite;
    std::copy_if(values.begin(), values.end(), std::back_inserter(finite), [](double v) { return std::isfinite(v); });
    scientific_ = needs_exponent(finite, dtype, options.suppress);
    for (const double value : finite) fit(value);
    if (scientific_) {
      min_fraction_ = max_fraction_ = static_cast<int>(right_);
      right_ += exponent_width();
    }
    for (const double value : values) {
      if (std::isfinite(value)) continue;
      const std::size_t width = non_finite_text(value, always_sign_).size();
      left_ = std::max(left_, width - std::min(width, right_ + 1));
    }
  }

  std::string text(double value) const {
    if (!std::isfinite(value)) return fmt::format("{:>{}}", non_finite_text(value, always_sign_), left_ + 1 + right_);
    const Decimal decimal = digits(value);
    const std::string after =
        scientific_ ? decimal.fraction + exponent_text(decimal.exponent, exponent_digits_) : decimal.fraction;
    return fmt::format("{:>{}}.{:<{}}", integer_text(value, decimal), left_, after, right_);
  }

 private:
  Decimal digits(double value) const {
    return scientific_ ? scientific_decimal(std::abs(value), dtype_, min_fraction_, max_fraction_)
                       : positional_decimal(std::abs(value), dtype_, max_fraction_);
  }

  std::string integer_text(double value, const Decimal& decimal) const {
    return fmt::format("{}{}", sign_text(value, always_sign_), decimal.integer);
  }

  // Widens the column for one more finite value.
  void fit(double value) {
    const Decimal decimal = digits(value);
    left_ = std::max(left_, integer_text(value, decimal).size());
    right_ = std::max(right_, decimal.fraction.size());
    if (std::abs(decimal.exponent) >= 100) exponent_digits_ = 3;
  }

  std::size_t exponent_width() const { return 2 + static_cast<std::size_t>(exponent_digits_); }

  Dtype dtype_;
  bool always_sign_;
  bool scientific_ = false;
  int min_fraction_ = 0;
  int max_fraction_;
  int exponent_digits_ = 2;
  std::size_t left_ = 0;   // width before the point, with the sign
  std::size_t right_ = 0;  // width after the point, with the exponent
};

// ---- Which elements are shown.

constexpr std::int64_t kGap = -1;

// The indices of one dimension that are shown, kGap for "…" between them.
std::vector<std::int64_t> shown_indices(std::int64_t extent, bool summarise, int edgeitems) {
  std::vector<std::int64_t> shown;
  const bool gap = summarise && extent > 2 * std::int64_t{edgeitems};
  for (std::int64_t i = 0; i < extent; ++i) {
    if (gap && i == edgeitems) {
      shown.push_back(kGap);
      i = extent - edgeitems;
    }
    shown.push_back(i);
  }
  return shown;
}

using Axes = std::vector<std::vector<std::int64_t>>;

Axes shown_axes(const Shape& shape, const PrintOptions& options) {
  const bool summarise = num_elements(shape) > options.threshold;
  Axes axes;
  for (const std::int64_t extent : shape) axes.push_back(shown_indices(extent, summarise, options.edgeitems));
  return axes;
}

// Row-major offsets of the elements that are shown, in their order.
std::vector<std::int64_t> shown_offsets(const Shape& shape, const Axes& axes) {
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<std::int64_t> inner;
    for (const std::int64_t offset : offsets) {
      for (const std::int64_t i : axes[axis]) {
        if (i != kGap) inner.push_back(offset * shape[axis] + i);
      }
    }
    offsets = std::move(inner);
  }
  return offsets;
}

// ---- The texts of the elements that are shown ("cells"), padded to columns.

using Cells = std::vector<std::string>;

Cells plain_cells(Dtype dtype, const void* data, const std::vector<std::int64_t>& offsets) {
  Cells cells;
  for (const std::int64_t i : offsets) cells.push_back(plain_text(dtype, data, i));
  return cells;
}

void align_right(Cells& cells, std::size_t width) {
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  for (std::string& cell : cells) cell.insert(0, width - cell.size(), ' ');
}

Cells float_cells(Dtype dtype, const void* data, const std::vector<std::int64_t>& offsets,
                  const PrintOptions& options) {
  std::vector<double> values;
  for (const std::int64_t i : offsets) values.push_back(real_part(dtype, data, i));
  const FloatColumn column(values, dtype, /*always_sign=*/false, options);
  Cells cells;
  for (const double value : values) cells.push_back(column.text(value));
  return cells;
}

// "1.+2.j": the j follows the digits, before any padding.
std::string join_parts(const std::string& real, std::string imaginary) {
  imaginary.insert(imaginary.find_last_not_of(' ') + 1, 1, 'j');
  return real + imaginary;
}

Cells complex_cells(Dtype dtype, const void* data, const std::vector<std::int64_t>& offsets,
                    const PrintOptions& options) {
  std::vector<double> reals;
  std::vector<double> imaginaries;
  for (const std::int64_t i : offsets) {
    reals.push_back(real_part(dtype, data, i));
    imaginaries.push_back(imaginary_part(dtype, data, i));
  }
  const FloatColumn real(reals, real_dtype(dtype), /*always_sign=*/false, options);
  const FloatColumn imaginary(imaginaries, real_dtype(dtype), /*always_sign=*/true, options);
  Cells cells;
  for (std::size_t i = 0; i < reals.size(); ++i) {
    cells.push_back(join_parts(real.text(reals[i]), imaginary.text(imaginaries[i])));
  }
  return cells;
}

Cells cells_of(Dtype dtype, bool scalar, const void* data, const std::vector<std::int64_t>& offsets,
               const PrintOptions& options) {
  if (dtype == Dtype::kBF16) return plain_cells(dtype, data, offsets);
  if (is_floating(dtype)) return float_cells(dtype, data, offsets, options);
  if (is_complex(dtype)) return complex_cells(dtype, data, offsets, options);
  Cells cells = plain_cells(dtype, data, offsets);
  // Columns of booleans are as wide as "False" even where all are true.
  align_right(cells, dtype == Dtype::kBool && !scalar ? std::string_view("False").size() : 0);
  return cells;
}

// ---- Brackets, separators and line breaks.

constexpr std::string_view kEllipsis = "...";

std::string_view without_trailing_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// Puts cells between brackets, one level per dimension. Lines after the first are indented to the column of the
// innermost open bracket.
class Brackets {
 public:
  Brackets(const Axes& axes, const Cells& cells, std::string_view separator)
      : axes_(axes), next_(cells.begin()), separator_(separator) {}

  // The block that starts at the given column; `width` is where the line it ends on must end.
  std::string block(std::size_t axis, std::size_t column, std::int64_t width) {
    if (axis == axes_.size()) return *next_++;
    const bool innermost = axis + 1 == axes_.size();
    return fmt::format("[{}]", innermost ? row(column + 1, width) : rows(axis, column + 1, width));
  }

 private:
  std::string row(std::size_t indent, std::int64_t width) {
    std::string done;
    std::string line(indent, ' ');
    for (const std::int64_t i : axes_.back()) {
      if (line.size() > indent) line += separator_;
      const std::string_view word = i == kGap ? kEllipsis : std::string_view(*next_++);
      // Room is kept for what follows the word, a bracket or a comma.
      const bool fits = static_cast<std::int64_t>(line.size() + word.size()) <= width - 1;
      if (!fits && line.size() > indent) {
        done.append(without_trailing_blanks(line)).append("\n");
        line.assign(indent, ' ');
      }
      line += word;
    }
    return (done + line).substr(indent);
  }

  // Blocks of one or more dimensions are set apart by as many line breaks.
  std::string rows(std::size_t axis, std::size_t indent, std::int64_t width) {
    const std::string line_break(axes_.size() - axis - 1, '\n');
    std::string text;
    for (const std::int64_t i : axes_[axis]) {
      if (!text.empty()) text.append(without_trailing_blanks(separator_)).append(line_break).append(indent, ' ');
      text += i == kGap ? std::string(kEllipsis) : block(axis + 1, indent, width - 1);
    }
    return text;
  }

  const Axes& axes_;
  Cells::const_iterator next_;
  std::string_view separator_;
};

// The elements in brackets; the text starts at the given column.
std::string elements_text(Dtype dtype, const Shape& shape, const void* data, const PrintOptions& options,
                          std::string_view separator, std::size_t column, std::int64_t linewidth) {
  const Axes axes = shown_axes(shape, options);
  const Cells cells = cells_of(dtype, shape.empty(), data, shown_offsets(shape, axes), options);
  return Brackets(axes, cells, separator).block(0, column, linewidth);
}

// ---- Scalars outside arrays, which show every digit they need.

// A finite or infinite value. A positional integer ends in `integer_suffix`.
std::string scalar_text(double value, Dtype dtype, bool always_sign, std::string_view integer_suffix) {
  if (!std::isfinite(value)) return non_finite_text(value, always_sign);
  const double magnitude = std::abs(value);
  const double end = dtype == Dtype::kF64 ? 1e16 : exact_integers_end(dtype);
  const bool positional = magnitude == 0 || (magnitude >= 1e-4 && magnitude < end);
  const Decimal decimal = positional ? positional_decimal(magnitude, dtype) : scientific_decimal(magnitude, dtype);
  std::string text = fmt::format("{}{}", sign_text(value, always_sign), decimal.integer);
  if (!decimal.fraction.empty()) {
    text += "." + decimal.fraction;
  } else if (positional) {
    text += integer_suffix;
  }
  return positional ? text : text + exponent_text(decimal.exponent);
}

std::string complex_scalar_text(double real, double imaginary, Dtype part) {
  if (real == 0 && !std::signbit(real)) return scalar_text(imaginary, part, /*always_sign=*/false, "") + "j";
  return fmt::format("({}{}j)", scalar_text(real, part, /*always_sign=*/false, ""),
                     scalar_text(imaginary, part, /*always_sign=*/true, ""));
}

std::string scalar_str(Dtype dtype, const void* data) {
  if (is_complex(dtype)) {
    return complex_scalar_text(real_part(dtype, data, 0), imaginary_part(dtype, data, 0), real_dtype(dtype));
  }
  if (is_floating(dtype) && dtype != Dtype::kBF16) {
    return scalar_text(real_part(dtype, data, 0), dtype, /*always_sign=*/false, ".0");
  }
  return plain_text(dtype, data, 0);
}

}  // namespace

std::string array_str(Dtype dtype, const Shape& shape, const void* data, const PrintOptions& options) {
  if (shape.empty()) return scalar_str(dtype, data);
  if (num_elements(shape) == 0) return "[]";
  return elements_text(dtype, shape, data, options, " ", 0, options.linewidth);
}

std::string array_repr(Dtype dtype, bool weak, const Shape& shape, const void* data, const PrintOptions& options) {
  constexpr std::string_view kPrefix = "Array(";
  // One column is kept for the comma before the dtype.
  const std::string elements = num_elements(shape) == 0 ? "[], shape=" + to_string(shape)
                                                        : elements_text(dtype, shape, data, options, ", ",
                                                                        kPrefix.size(), options.linewidth - 1);
  const std::string type = fmt::format("dtype={}{}", name_of(dtype), weak ? ", weak_type=True" : "");
  // JAX sets a dtype that does not fit on the line apart by blanks, without a line break.
  const std::size_t line_start = elements.rfind('\n') + 1;
  const bool fits = static_cast<std::int64_t>(elements.size() - line_start + 4 + type.size()) <= options.linewidth;
  return fmt::format("{}{},{}{})", kPrefix, elements, std::string(fits ? 1 : kPrefix.size(), ' '), type);
}

}  // namespace shoal
