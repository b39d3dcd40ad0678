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
#include "base/misuse.h"
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
Dtype computed_in(Kinds kinds, Dtype dtype) {
  const Kinds kind = kind_of(dtype);
  if ((kinds & kind) != 0) return dtype;
  if (kind == kBoolKind && (kinds & kFromBool) != 0) return int32;
  const bool takes_integers = (kinds & kIntegerKind) != 0;
  if ((kind == kBoolKind || kind == kIntegerKind) && (kinds & kFloatKind) != 0 && !takes_integers) {
    return inexact_dtype(dtype);
  }
  throw misuse<TypeMismatch>("does not take arrays of dtype {}", name_of(dtype));
}

}  // namespace

Dtype inexact_dtype(Dtype dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return dtype;
  return size_of(dtype) == size_of(int64) ? float64 : float32;
}

Array constant(const Scalar& value, bool weak, MemoryKind memory) {
  if (Trace::current() == nullptr) return scalar_on_device(value, weak, memory);
  Attrs attrs{{"shape", Dims{}}, {"value", value}};
  if (weak) attrs.set("weak", true);
  if (memory != kDeviceMemory) attrs.set("memory", memory);
  return bind_one("full", std::move(attrs), {});
}

DtypeAndWeakness element_of(const Operand& operand) {
  if (operand.array() != nullptr) return detail::impl_of(*operand.array()).type.element();
  return element_of(*operand.number());
}

void set_integers_wrap(bool wrap) { integers_wrap = wrap; }

Scalar to_scalar(const Operand::Number& number, Dtype dtype) {
  return std::visit(
      [&](auto value) {
        if constexpr (std::is_integral_v<decltype(value)> && !std::is_same_v<decltype(value), bool>) {
          if (!integers_wrap && !holds(dtype, value)) {
            throw misuse<OutOfRange>("the integer {} does not fit dtype {}", value, name_of(dtype));
          }
        }
        return Scalar::of(value).converted_to(dtype);
      },
      number);
}

Array scalar_of(const Operand::Number& number, DtypeAndWeakness element, MemoryKind memory) {
  return constant(to_scalar(number, element.dtype), element.weak, memory);
}

Array to_array(const Operand& operand, MemoryKind memory) {
  if (operand.array() != nullptr) {
    detail::impl_of(*operand.array());
    return *operand.array();
  }
  const DtypeAndWeakness element = element_of(*operand.number());
  return scalar_of(*operand.number(), element, memory);
}

Array convert(const Array& array, Dtype dtype, bool weak) {
  const Type& type = detail::impl_of(array).type;
  if (type.dtype == dtype && type.weak == weak) return array;
  Attrs attrs{{"dtype", dtype}};
  if (weak) attrs.set("weak", true);
  return bind_one("convert", std::move(attrs), {array});
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw misuse<ShapeMismatch>(
          "shapes {} and {} do not broadcast: dimension {} from the end has extents {} and {}; they must be equal, or "
          "one of them 1",
          to_string(a), to_string(b), i + 1, x, y);
    }
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

void check_extents(const Shape& shape) {
  if (std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent >= 0; })) return;
  throw misuse<ShapeMismatch>("shape {} has a negative extent; extents are at least 0", to_string(shape));
}

Array broadcast(const Array& array, const Shape& shape) {
  const Shape& from = array.shape();
  if (from == shape) return array;
  Dims dims;
  for (std::size_t d = 0; d < from.size(); ++d)
    dims.push_back(static_cast<std::int64_t>(shape.size() - from.size() + d));
  return bind_one("broadcast_in_dim", {{"shape", shape}, {"dims", std::move(dims)}}, {array});
}

namespace {

// What operands have together.
struct Together {
  DtypeAndWeakness element;
  Shape shape;
  MemoryKind memory;
};

// Throws if they do not broadcast, and what strict promotion refuses.
Together together(std::span<const Operand* const> operands, bool any_rank = false) {
  Together all{.element = element_of(*operands[0]), .shape = {}, .memory = {}};
  for (const Operand* operand : operands) {
    all.element = promoted_types(all.element, element_of(*operand));
    if (operand->array() == nullptr) continue;
    const Type& type = detail::impl_of(*operand->array()).type;
    if (!any_rank) check_ranks(all.shape, type.shape);
    all.shape = broadcast_shapes(all.shape, type.shape);
    all.memory = type.memory;
  }
  return all;
}

}  // namespace

void check_promotion(std::initializer_list<const Operand*> operands) {
  together(std::span(operands.begin(), operands.size()));
}

namespace {

std::vector<Array> promoted(Kinds kinds, std::span<const Operand* const> operands, Together all) {
  auto& [element, shape, memory] = all;
  element.dtype = computed_in(kinds, element.dtype);
  std::vector<Array> arrays;
  for (const Operand* operand : operands) {
    if (operand->array() == nullptr) {
      const Scalar value = to_scalar(*operand->number(), element.dtype);
      arrays.push_back(Trace::current() == nullptr ? scalar_operand(value, element.weak, memory)
                                                   : constant(value, element.weak, memory));
      continue;
    }
    const Array converted = convert(*operand->array(), element.dtype, element.weak);
    arrays.push_back(converted.ndim() == 0 ? converted : broadcast(converted, shape));
  }
  return arrays;
}

}  // namespace

std::vector<Array> promote(Kinds kinds, std::span<const Operand* const> operands) {
  return promoted(kinds, operands, together(operands));
}

std::vector<Array> promote(Kinds kinds, std::initializer_list<const Operand*> operands) {
  return promote(kinds, std::span(operands.begin(), operands.size()));
}

std::vector<Array> promote_of_any_rank(Kinds kinds, std::initializer_list<const Operand*> operands) {
  const std::span all(operands.begin(), operands.size());
  return promoted(kinds, all, together(all, true));
}

void check_ordered(const Array& array) {
  if (is_complex(array.dtype())) throw misuse<TypeMismatch>("complex numbers have no order; got {}", type_of(array));
}

Array truth(const Operand& x) {
  const Array array = to_array(x);
  if (array.dtype() == bool_) return array;
  const Operand given(array);
  const Operand zero(0);
  const std::vector<Array> both = promote(kAny, {&given, &zero});
  return bind_one("not_equal", {}, {both[0], both[1]});
}

std::int64_t canonical_axis(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw misuse<OutOfRange>("axis {} is out of range for an array with {} dimensions", axis, rank);
  }
  return axis < 0 ? axis + signed_rank : axis;
}

Dims canonical_axes(const Axes& axes, std::size_t rank) {
  Dims result;
  if (!axes.get()) {
    for (std::size_t d = 0; d < rank; ++d) result.push_back(static_cast<std::int64_t>(d));
    return result;
  }
  for (std::int64_t axis : *axes.get()) {
    const std::int64_t d = canonical_axis(axis, rank);
    if (std::find(result.begin(), result.end(), d) != result.end()) {
      throw misuse<InvalidArgument>("axis {} is given twice in {}", axis, to_string(*axes.get()));
    }
    result.push_back(d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace shoal
