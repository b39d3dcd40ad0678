// Functions that make arrays.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <variant>
#include <vector>

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
  check_extents(function, shape, where);
  return placed(bind_one("full", {{"shape", shape}, {"value", value}}, {}, where), options, where);
}

// Literals, in the type that holds what is asked for: float and int unless the dtype is a wider one.
Array from_literals(std::span<const double> elements, const Shape& shape, const CreationOptions& options,
                    SourceLocation where) {
  if (options.dtype == float64 || options.dtype == complex128) return array(elements, shape, options, where);
  const std::vector<float> narrow(elements.begin(), elements.end());
  return array(std::span(narrow), shape, options, where);
}

Array from_literals(std::span<const int> elements, const Shape& shape, const CreationOptions& options,
                    SourceLocation where) {
  for (int element : elements) to_scalar(std::int64_t{element}, options.dtype.value_or(int32), "array", where);
  return array(elements, shape, options, where);
}

template <class T>
Array from_list(std::initializer_list<T> elements, const CreationOptions& options, SourceLocation where) {
  return from_literals(std::span<const T>(elements.begin(), elements.size()),
                       {static_cast<std::int64_t>(elements.size())}, options, where);
}

template <class T>
Array from_rows(std::initializer_list<std::initializer_list<T>> rows, const CreationOptions& options,
                SourceLocation where) {
  std::vector<T> elements;
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  for (const auto& row : rows) {
    if (row.size() != columns) {
      throw InvalidArgument(fmt::format("array: rows have {} and {} elements; all rows must have as many as the first",
                                        columns, row.size()),
                            where);
    }
    elements.insert(elements.end(), row.begin(), row.end());
  }
  const Shape shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)};
  return from_literals(std::span<const T>(elements), shape, options, where);
}

// The C++ number that an operand of arange is, or the value of a concrete scalar array.
std::variant<std::int64_t, double> number_of(const Operand& operand) {
  const DtypeAndWeakness element = element_of("arange", operand);
  if (is_complex(element.dtype)) throw TypeMismatch("arange: complex numbers cannot be counted", operand.where());
  const bool integral = element.dtype == bool_ || is_integer(element.dtype);
  const Dtype wide = integral ? int64 : float64;
  const Scalar value = operand.number() != nullptr
                           ? to_scalar(*operand.number(), wide, "arange", operand.where())
                           : detail::scalar_value(*operand.array(), "arange", operand.where()).converted_to(wide);
  if (integral) return value.as<std::int64_t>();
  return value.as<double>();
}

template <class T>
void check_step(T step, SourceLocation where) {
  if (step != 0 && step == step) return;
  throw InvalidArgument(fmt::format("arange: step is {}; it must not be 0", step), where);
}

std::vector<std::int64_t> count_integers(std::int64_t first, std::int64_t last, std::int64_t step, Dtype dtype,
                                         SourceLocation where) {
  check_step(step, where);
  std::vector<std::int64_t> elements;
  if (step > 0 ? last <= first : last >= first) return elements;
  // Unsigned arithmetic wraps to the right distance also where the signed one overflows.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  const std::uint64_t count = ((step > 0 ? distance(first, last) : distance(last, first)) - 1) / stride + 1;
  const auto at = [&](std::uint64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + i * static_cast<std::uint64_t>(step));
  };
  for (std::uint64_t end : {std::uint64_t{0}, count - 1}) to_scalar(at(end), dtype, "arange", where);
  for (std::uint64_t i = 0; i < count; ++i) elements.push_back(at(i));
  return elements;
}

std::vector<double> count_floats(double first, double last, double step, SourceLocation where) {
  check_step(step, where);
  const double count = std::ceil((last - first) / step);
  if (!(count < 0x1p62)) {
    throw InvalidArgument(fmt::format("arange: from {} to {} by {} is no finite number of elements", first, last, step),
                          where);
  }
  std::vector<double> elements(static_cast<std::size_t>(std::max(0.0, count)));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = first + static_cast<double>(i) * step;
  return elements;
}

}  // namespace

namespace detail {

Array array_from_host(Dtype dtype, const Shape& shape, const void* data, const CreationOptions& options,
                      SourceLocation where) {
  check_extents("array", shape, where);
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
  return from_list(elements, options, where);
}

Array array(std::initializer_list<float> elements, const CreationOptions& options, SourceLocation where) {
  return array(std::vector<float>(elements), options, where);
}

Array array(std::initializer_list<int> elements, const CreationOptions& options, SourceLocation where) {
  return from_list(elements, options, where);
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
  const Dtype dtype = options.dtype.value_or(element_of("full", value).dtype);
  check_extents("full", shape, value.where());
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
  const std::variant<std::int64_t, double> bounds[] = {number_of(start), number_of(stop), number_of(step)};
  const auto as_double = [&](std::size_t i) {
    return std::visit([](auto value) { return static_cast<double>(value); }, bounds[i]);
  };
  const bool integral = std::all_of(std::begin(bounds), std::end(bounds),
                                    [](const auto& bound) { return std::holds_alternative<std::int64_t>(bound); });
  const SourceLocation where = start.where();
  CreationOptions with_dtype = options;
  with_dtype.dtype = options.dtype.value_or(integral ? int32 : float32);
  if (*with_dtype.dtype == bool_) throw TypeMismatch("arange: dtype bool cannot count", where);
  if (!integral) return array(count_floats(as_double(0), as_double(1), as_double(2), where), with_dtype, where);
  const auto as_integer = [&](std::size_t i) { return std::get<std::int64_t>(bounds[i]); };
  return array(count_integers(as_integer(0), as_integer(1), as_integer(2), *with_dtype.dtype, where), with_dtype,
               where);
}

}  // namespace shoal
