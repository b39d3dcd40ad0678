// Functions that make arrays.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/backend.h"
#include "frontend/array_impl.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

Array placed(Array array, const CreationOptions& options, SourceLocation where) {
  return options.sharding ? device_put({array, where}, *options.sharding) : array;
}

Array filled(std::string_view function, const Shape& shape, const Scalar& value, const CreationOptions& options,
             SourceLocation where) {
  for (std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgument(
          fmt::format("{}: shape {} has a negative extent; extents are at least 0", function, to_string(shape)), where);
    }
  }
  return placed(bind_one("full", {{"shape", shape}, {"value", value}}, {}, where), options, where);
}

template <class T>
Array from_rows(std::initializer_list<std::initializer_list<T>> rows, const CreationOptions& options,
                SourceLocation where) {
  using Element = std::conditional_t<std::is_same_v<T, double>, float, std::int32_t>;
  std::vector<Element> elements;
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  for (const auto& row : rows) {
    if (row.size() != columns) {
      throw InvalidArgument(fmt::format("array: rows have {} and {} elements; all rows must have as many as the first",
                                        columns, row.size()),
                            where);
    }
    for (T value : row) elements.push_back(static_cast<Element>(value));
  }
  return array<Element>(std::span<const Element>(elements),
                        {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, options, where);
}

// Whether a bound of arange counts in integers.
bool is_integral(const Operand::Number& number) {
  return !std::holds_alternative<double>(number) && !std::holds_alternative<std::complex<double>>(number);
}

double as_double(const Operand::Number& number) {
  return std::visit(
      [](auto value) {
        if constexpr (std::is_same_v<decltype(value), std::complex<double>>) {
          return value.real();
        } else {
          return static_cast<double>(value);
        }
      },
      number);
}

// The C++ number that an operand of arange must be, or the value of a concrete scalar array.
Operand::Number number_of(const Operand& operand) {
  if (operand.number() != nullptr) return *operand.number();
  const Array& array = *operand.array();
  if (is_integer(array.dtype())) return array.item<std::int64_t>(operand.where());
  return array.item<double>(operand.where());
}

}  // namespace

namespace detail {

Array array_from_host(Dtype dtype, const Shape& shape, const void* data, const CreationOptions& options,
                      SourceLocation where) {
  const Device device = shoal::devices().front();
  Type type{.dtype = dtype, .shape = shape, .weak = false, .memory = {}, .varying = {}};
  Buffer buffer(reference_backend().address_space(device, {}), dtype, shape);
  if (buffer.size_bytes() != 0) std::memcpy(buffer.mutable_data(), data, buffer.size_bytes());
  Layout layout = layout_of(SingleDeviceSharding(device), shape.size());
  ShardSet shards = ShardSet::make(layout.grid, {});
  shards.shards[0] = std::move(buffer);
  Array array = Access::make(
      ready_array(std::move(type), SingleDeviceSharding(device), false, std::move(shards), std::move(layout)));
  if (options.dtype && *options.dtype != dtype) array = shoal::astype({array, where}, *options.dtype);
  return placed(std::move(array), options, where);
}

}  // namespace detail

Array array(std::initializer_list<double> elements, const CreationOptions& options, SourceLocation where) {
  if (options.dtype == float64 || options.dtype == complex128)
    return array(std::vector<double>(elements), options, where);
  return array(std::vector<float>(elements.begin(), elements.end()), options, where);
}

Array array(std::initializer_list<float> elements, const CreationOptions& options, SourceLocation where) {
  return array(std::vector<float>(elements), options, where);
}

Array array(std::initializer_list<int> elements, const CreationOptions& options, SourceLocation where) {
  return array(std::vector<std::int32_t>(elements), options, where);
}

Array array(std::initializer_list<bool> elements, const CreationOptions& options, SourceLocation where) {
  return array(std::vector<bool>(elements), options, where);
}

Array array(std::initializer_list<std::initializer_list<double>> rows, const CreationOptions& options,
            SourceLocation where) {
  return from_rows(rows, options, where);
}

Array array(std::initializer_list<std::initializer_list<int>> rows, const CreationOptions& options,
            SourceLocation where) {
  return from_rows(rows, options, where);
}

Array zeros(const Shape& shape, const CreationOptions& options, SourceLocation where) {
  return filled("zeros", shape, Scalar::of(0.0F).converted_to(options.dtype.value_or(float32)), options, where);
}

Array ones(const Shape& shape, const CreationOptions& options, SourceLocation where) {
  return filled("ones", shape, Scalar::of(1.0F).converted_to(options.dtype.value_or(float32)), options, where);
}

Array full(const Shape& shape, const Operand& value, const CreationOptions& options) {
  const Dtype dtype = options.dtype.value_or(element_of(value).dtype);
  if (value.number() != nullptr) {
    return filled("full", shape, to_scalar(*value.number(), dtype, "full", value.where()), options, value.where());
  }
  const Array scalar = convert(*value.array(), dtype, false, value.where());
  return placed(broadcast_to({scalar, value.where()}, shape), options, value.where());
}

Array arange(const Operand& stop, const CreationOptions& options) {
  return arange(Operand(0, stop.where()), stop, Operand(1, stop.where()), options);
}

Array arange(const Operand& start, const Operand& stop, const CreationOptions& options) {
  return arange(start, stop, Operand(1, start.where()), options);
}

Array arange(const Operand& start, const Operand& stop, const Operand& step, const CreationOptions& options) {
  const Operand::Number first = number_of(start);
  const Operand::Number last = number_of(stop);
  const Operand::Number by = number_of(step);
  const bool integral = is_integral(first) && is_integral(last) && is_integral(by);
  const double stride = as_double(by);
  if (stride == 0 || std::isnan(stride)) {
    throw InvalidArgument(fmt::format("arange: step is {}; it must not be 0", stride), start.where());
  }
  const double count = std::max(0.0, std::ceil((as_double(last) - as_double(first)) / stride));
  if (!(count < 0x1p62)) {
    throw InvalidArgument(fmt::format("arange: from {} to {} by {} is no finite number of elements", as_double(first),
                                      as_double(last), stride),
                          start.where());
  }
  std::vector<double> elements(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = as_double(first) + static_cast<double>(i) * stride;
  CreationOptions with_dtype = options;
  with_dtype.dtype = options.dtype.value_or(integral ? int32 : float32);
  return array(elements, with_dtype, start.where());
}

}  // namespace shoal
