#include "frontend/array/promotion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "backend/backend.h"
#include "base/shape_mismatch.h"
#include "frontend/array/integers.h"
#include "frontend/array/promotion_mode.h"
#include "frontend/array/trace.h"
#include "ops/rules.h"
#include "sharding/default_place.h"
#include "shoal/default_device.h"
#include "shoal/error.h"

namespace shoal {
namespace {

std::atomic<bool> integers_wrap = false;

// Outside any trace a number is an array at once: a program for each value would fill the cache.
Array scalar_on_device(const Scalar& value, bool weak, MemoryKind memory) {
  const SingleDeviceSharding sharding(default_device(), memory);
  Buffer buffer(current_backend().address_space(sharding.device(), memory), value.dtype, {});
  std::memcpy(buffer.mutable_data(), value.bytes.data(), size_of(value.dtype));
  KindPtr kind = kind_of({.dtype = value.dtype, .shape = {}, .weak = weak}, sharding, false);
  ShardSet shards{kind->layout.grid, {}, {std::move(buffer)}};
  return detail::Access::make(ready_array(std::move(kind), std::move(shards)));
}

// The same for an operand, which nobody else gets to see: numbers that were met lately are kept.
Array scalar_operand(const Scalar& value, bool weak, MemoryKind memory) {
  struct Known {
    Scalar value;
    bool weak;
    MemoryKind memory;
    std::optional<Device> device;
    Array array;
  };
  thread_local std::array<Known, 16> known;
  std::uint64_t bits = 0;
  std::memcpy(&bits, value.bytes.data(), sizeof(bits));
  Known& place = known[(bits * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(value.dtype)) >> 60];
  const bool is_here = detail::Access::get(place.array) != nullptr && place.value == value && place.weak == weak &&
                       place.memory == memory && place.device == default_place().device && !place.array.is_deleted();
  if (!is_here) place = {value, weak, memory, default_place().device, scalar_on_device(value, weak, memory)};
  return place.array;
}

DtypeAndWeakness element_of(const Operand::Number& number) {
  if (std::holds_alternative<bool>(number)) return {bool_, false};
  if (std::holds_alternative<double>(number)) return {float32, true};
  if (std::holds_alternative<std::complex<double>>(number)) return {complex64, true};
  return {int32, true};
}

// What an op that takes only `kinds` computes in.
Dtype computed_in(std::string_view op, Kinds kinds, Dtype dtype, SourceLocation where) {
  const Kinds kind = kind_of(dtype);
  if ((kinds & kind) != 0) return dtype;
  if (kind == kBoolKind && (kinds & kFromBool) != 0) return int32;
  const bool takes_integers = (kinds & kIntegerKind) != 0;
  if ((kind == kBoolKind || kind == kIntegerKind) && (kinds & kFloatKind) != 0 && !takes_integers) return float32;
  throw TypeMismatch(fmt::format("{}: does not take arrays of dtype {}", op, name_of(dtype)), where);
}

}  // namespace

Array constant(const Scalar& value, bool weak, MemoryKind memory, SourceLocation where) {
  if (Trace::current() == nullptr) return scalar_on_device(value, weak, memory);
  Attrs attrs{{"shape", Dims{}}, {"value", value}};
  if (weak) attrs.set("weak", true);
  if (memory != kDeviceMemory) attrs.set("memory", memory);
  return bind_one("full", std::move(attrs), {}, where);
}

DtypeAndWeakness element_of(std::string_view op, const Operand& operand) {
  if (operand.array() != nullptr) return detail::impl_of(*operand.array(), op, operand.where()).type.element();
  return element_of(*operand.number());
}

void set_integers_wrap(bool wrap) { integers_wrap = wrap; }

Scalar to_scalar(const Operand::Number& number, Dtype dtype, std::string_view op, SourceLocation where) {
  return std::visit(
      [&](auto value) {
        if constexpr (std::is_integral_v<decltype(value)> && !std::is_same_v<decltype(value), bool>) {
          if (!integers_wrap && !holds(dtype, value)) {
            throw OutOfRange(fmt::format("{}: the integer {} does not fit dtype {}", op, value, name_of(dtype)), where);
          }
        }
        return Scalar::of(value).converted_to(dtype);
      },
      number);
}

Array scalar_of(const Operand::Number& number, DtypeAndWeakness element, MemoryKind memory, std::string_view op,
                SourceLocation where) {
  return constant(to_scalar(number, element.dtype, op, where), element.weak, memory, where);
}

Array to_array(const Operand& operand, MemoryKind memory) {
  if (operand.array() != nullptr) {
    detail::impl_of(*operand.array(), {}, operand.where());
    return *operand.array();
  }
  const DtypeAndWeakness element = element_of(*operand.number());
  return scalar_of(*operand.number(), element, memory, "array", operand.where());
}

Array convert(const Array& array, Dtype dtype, bool weak, SourceLocation where) {
  const Type& type = detail::impl_of(array).type;
  if (type.dtype == dtype && type.weak == weak) return array;
  Attrs attrs{{"dtype", dtype}};
  if (weak) attrs.set("weak", true);
  return bind_one("convert", std::move(attrs), {array}, where);
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b, SourceLocation where) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ShapeMismatch(fmt::format("{}: shapes {} and {} do not broadcast: dimension {} from the end has extents {} "
                                      "and {}; they must be equal, or one of them 1",
                                      op, to_string(a), to_string(b), i + 1, x, y),
                          where);
    }
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

void check_extents(std::string_view op, const Shape& shape, SourceLocation where) {
  if (std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent >= 0; })) return;
  throw ShapeMismatch(fmt::format("{}: shape {} has a negative extent; extents are at least 0", op, to_string(shape)),
                      where);
}

Array broadcast(const Array& array, const Shape& shape, SourceLocation where) {
  const Shape& from = array.shape();
  if (from == shape) return array;
  Dims dims;
  for (std::size_t d = 0; d < from.size(); ++d)
    dims.push_back(static_cast<std::int64_t>(shape.size() - from.size() + d));
  return bind_one("broadcast_in_dim", {{"shape", shape}, {"dims", std::move(dims)}}, {array}, where);
}

std::vector<Array> promote(std::string_view op, Kinds kinds, std::span<const Operand* const> operands) {
  const SourceLocation where = operands[0]->where();
  DtypeAndWeakness element = element_of(op, *operands[0]);
  Shape shape;
  MemoryKind memory;
  for (const Operand* operand : operands) {
    element = promoted_types(op, element, element_of(op, *operand), where);
    if (operand->array() == nullptr) continue;
    const Type& type = detail::impl_of(*operand->array()).type;
    check_ranks(op, shape, type.shape, where);
    shape = broadcast_shapes(op, shape, type.shape, where);
    memory = type.memory;
  }
  element.dtype = computed_in(op, kinds, element.dtype, where);
  std::vector<Array> arrays;
  for (const Operand* operand : operands) {
    if (operand->array() == nullptr) {
      const Scalar value = to_scalar(*operand->number(), element.dtype, op, where);
      arrays.push_back(Trace::current() == nullptr ? scalar_operand(value, element.weak, memory)
                                                   : constant(value, element.weak, memory, where));
      continue;
    }
    const Array converted = convert(*operand->array(), element.dtype, element.weak, where);
    arrays.push_back(converted.ndim() == 0 ? converted : broadcast(converted, shape, where));
  }
  return arrays;
}

std::int64_t canonical_axis(std::string_view op, std::int64_t axis, std::size_t rank, SourceLocation where) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw OutOfRange(fmt::format("{}: axis {} is out of range for an array with {} dimensions", op, axis, rank), where);
  }
  return axis < 0 ? axis + signed_rank : axis;
}

Dims canonical_axes(std::string_view op, const Axes& axes, std::size_t rank, SourceLocation where) {
  Dims result;
  if (!axes.get()) {
    for (std::size_t d = 0; d < rank; ++d) result.push_back(static_cast<std::int64_t>(d));
    return result;
  }
  for (std::int64_t axis : *axes.get()) {
    const std::int64_t d = canonical_axis(op, axis, rank, where);
    if (std::find(result.begin(), result.end(), d) != result.end()) {
      throw InvalidArgument(fmt::format("{}: axis {} is given twice in {}", op, axis, to_string(*axes.get())), where);
    }
    result.push_back(d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace shoal
