// Functions that make arrays.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/default_put.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "ir/explicit_axes.h"
#include "runtime/transfer_guard.h"
#include "sharding/default_place.h"
#include "shoal/default_device.h"
#include "shoal/explicit_axes.h"
#include "shoal/lax.h"
#include "shoal/nn.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

Array placed(Array array, const CreationOptions& options) {
  if (!options.sharding) return array;
  const NamedSharding* named = options.sharding->named();
  const bool is_summed = named != nullptr && !named->spec().unreduced().empty();
  return is_summed ? reshard(array, *named) : device_put(array, *options.sharding);
}

Array filled(const Shape& shape, const Scalar& value, const CreationOptions& options) {
  check_extents(shape);
  return placed(bind_one("full", {{"shape", shape}, {"value", value}}, {}), options);
}

// Appends the numbers of a literal that has the given shape from `depth` on. `path` says where it stands.
void flatten(const Literal& literal, const Shape& shape, std::size_t depth, const std::string& path,
             std::vector<Operand::Number>& numbers) {
  if (literal.number() != nullptr) {
    numbers.push_back(*literal.number());
    return;
  }
  const auto list_of = [](auto length) { return fmt::format("a list of {}", length); };
  const std::string wanted = depth + 1 < shape.size() ? list_of(shape[depth + 1]) : "a number";
  for (std::size_t i = 0; const Literal& item : *literal.items()) {
    const std::string place = fmt::format("{}[{}]", path, i++);
    const std::string given = item.number() == nullptr ? list_of(item.items()->size()) : "a number";
    if (given != wanted) {
      std::string first;
      for (std::size_t d = 0; d <= depth; ++d) first += "[0]";
      throw misuse<InvalidArgument>("row {} is {}, but row {} is {}; all rows must be alike", place, given, first,
                                    wanted);
    }
    flatten(item, shape, depth + 1, place, numbers);
  }
}

// The C++ number that an operand of arange is, or the value of a concrete scalar array.
std::variant<std::int64_t, double> number_of(const Operand& operand) {
  const DtypeAndWeakness element = element_of(operand);
  if (is_complex(element.dtype)) throw misuse<TypeMismatch>("complex numbers cannot be counted");
  const bool integral = element.dtype == bool_ || is_integer(element.dtype);
  const Dtype wide = integral ? int64 : float64;
  const Scalar value = operand.number() != nullptr ? to_scalar(*operand.number(), wide)
                                                   : detail::scalar_value(*operand.array()).converted_to(wide);
  if (integral) return value.as<std::int64_t>();
  return value.as<double>();
}

template <class T>
void check_step(T step) {
  if (step != 0 && step == step) return;
  throw misuse<InvalidArgument>("step is {}; it must not be 0", step);
}

Array count_integers(std::int64_t first, std::int64_t last, std::int64_t step, Dtype dtype) {
  check_step(step);
  // Unsigned arithmetic wraps to the right distance also where the signed one overflows.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  const bool empty = step > 0 ? last <= first : last >= first;
  const std::uint64_t count = empty ? 0 : ((step > 0 ? distance(first, last) : distance(last, first)) - 1) / stride + 1;
  const auto at = [&](std::uint64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + i * static_cast<std::uint64_t>(step));
  };
  if (!empty) {
    for (std::uint64_t end : {std::uint64_t{0}, count - 1}) to_scalar(at(end), dtype);
  }
  if (Trace::current() == nullptr) {
    std::vector<std::int64_t> elements;
    for (std::uint64_t i = 0; i < count; ++i) elements.push_back(at(i));
    return array(elements, {.dtype = dtype, .sharding = {}});
  }
  // Inside a program each shard can count by itself. Integers wrap, so that only the elements need to fit the dtype.
  const Dtype counted = is_integer(dtype) ? dtype : int64;
  const auto number = [&](std::int64_t value) { return constant(Scalar::of(value).converted_to(counted), false, {}); };
  const Shape shape{static_cast<std::int64_t>(count)};
  const Array places = bind_one("iota", {{"shape", shape}, {"dtype", counted}, {"dim", std::int64_t{0}}}, {});
  const Array steps = multiply(places, number(step));
  return convert(add(steps, number(first)), dtype);
}

std::vector<double> count_floats(double first, double last, double step) {
  check_step(step);
  const double count = std::ceil((last - first) / step);
  if (!(count < 0x1p62)) {
    throw misuse<InvalidArgument>("from {} to {} by {} is no finite number of elements", first, last, step);
  }
  std::vector<double> elements(static_cast<std::size_t>(std::max(0.0, count)));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = first + static_cast<double>(i) * step;
  return elements;
}

}  // namespace

namespace detail {

void check_fill(std::string_view function, std::size_t elements, const Shape& shape, SourceLocation where) {
  const Caller caller(function, where);
  if (static_cast<std::int64_t>(elements) == num_elements(shape)) return;
  throw misuse<InvalidArgument>("{} elements do not fill shape {}", elements, to_string(shape));
}

Array array_from_host(Dtype dtype, const Shape& shape, const void* data, const CreationOptions& options,
                      SourceLocation where) {
  const Caller caller("array", where);
  const Array array = array_of_elements(dtype, shape, {.data = data}, options);
  return options.sharding ? array : at_default_place(array);
}

Array at_default_place(const Array& array) {
  const Mesh& mesh = default_place().mesh;
  if (mesh.empty() || Trace::current() != nullptr || array.committed()) return array;
  return device_put(array, NamedSharding(mesh, P()));
}

namespace {

// Whether it is the dtype of the same kind in half the bytes, from 8 to 4 for each number.
bool is_half(Dtype dtype, Dtype half) {
  return (dtype == float64 && half == float32) || (dtype == int64 && half == int32) ||
         (dtype == uint64 && half == uint32) || (dtype == complex128 && half == complex64);
}

template <class From, class To>
void convert_all(const void* from, void* to, std::size_t count) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

// The elements in that dtype: one pass over memory of others, and no copy in the old dtype.
Array halved(const Type& type, const HostElements& elements, Dtype half, const SingleDeviceSharding& here) {
  KindPtr kind = kind_of({.dtype = half, .shape = type.shape, .weak = false, .memory = {}, .varying = {}}, here, false);
  Buffer buffer(current_backend().address_space(here.device(), kDeviceMemory), half, type.shape);
  const auto count = static_cast<std::size_t>(num_elements(type.shape));
  if (is_floating(half)) {
    convert_all<double, float>(elements.data, buffer.mutable_data(), count);
  } else if (is_complex(half)) {
    convert_all<double, float>(elements.data, buffer.mutable_data(), 2 * count);
  } else {
    convert_all<std::uint64_t, std::uint32_t>(elements.data, buffer.mutable_data(), count);
  }
  ShardSet shards{kind->layout.grid, {}, {std::move(buffer)}};
  return Access::make(ready_array(std::move(kind), std::move(shards)));
}

}  // namespace

Array array_of_elements(Dtype dtype, const Shape& shape, const HostElements& elements, const CreationOptions& options) {
  check_extents(shape);
  const Type type{.dtype = dtype, .shape = shape, .weak = false, .memory = {}, .varying = {}};
  if (is_guarded(TransferKind::kHostToDevice) && Trace::current() == nullptr) {
    check_transfer(TransferKind::kHostToDevice, to_string(type), Caller::line());
  }
  const bool converted = options.dtype && *options.dtype != dtype;
  if (options.sharding && !converted && Trace::current() == nullptr) {
    check_put_target(*options.sharding);
    return Access::make(put_host(type, elements, *options.sharding, true, Caller::line()));
  }
  const SingleDeviceSharding here(default_device());
  if (converted && Trace::current() == nullptr && is_half(dtype, *options.dtype)) {
    return placed(halved(type, elements, *options.dtype, here), options);
  }
  Array array = Access::make(put_host(type, elements, here, false, Caller::line()));
  if (converted) array = shoal::astype(array, *options.dtype);
  return placed(std::move(array), options);
}

}  // namespace detail

Array asarray(const void* data, Dtype dtype, const Shape& shape, std::shared_ptr<const void> owner,
              const AsArrayOptions& options, SourceLocation where) {
  const Caller caller("asarray", where);
  if (owner == nullptr) {
    throw misuse<InvalidArgument>("the elements have no owner, who would keep them; array() copies them");
  }
  HostElements elements{.data = data, .may_copy = options.copy != false};
  if (options.copy != true) elements.owner = std::move(owner);
  return detail::array_of_elements(dtype, shape, elements, {.dtype = {}, .sharding = options.sharding});
}

Array array(const Literal& literal, const CreationOptions& options, SourceLocation where) {
  const Caller caller("array", where);
  Shape shape;
  for (const Literal* first = &literal; first->items() != nullptr; first = &first->items()->front()) {
    shape.push_back(static_cast<std::int64_t>(first->items()->size()));
    if (first->items()->empty()) break;
  }
  std::vector<Operand::Number> numbers;
  flatten(literal, shape, 0, "", numbers);
  // In the order of the variant, which is that of width.
  static constexpr Dtype kDtypes[] = {bool_, int32, int32, float32, complex64};
  std::size_t widest = 0;
  for (const Operand::Number& number : numbers) widest = std::max(widest, number.index());
  const Dtype dtype = options.dtype.value_or(numbers.empty() ? float32 : kDtypes[widest]);
  if (kDtypes[widest] == complex64 && !is_complex(dtype)) {
    throw misuse<TypeMismatch>("dtype {} cannot hold complex numbers", name_of(dtype));
  }
  std::vector<std::byte> bytes;
  for (const Operand::Number& number : numbers) {
    const Scalar element = to_scalar(number, dtype);
    bytes.insert(bytes.end(), element.bytes.begin(), element.bytes.begin() + size_of(dtype));
  }
  return detail::array_from_host(dtype, shape, bytes.data(), options, where);
}

Array zeros(const Shape& shape, const CreationOptions& options, SourceLocation where) {
  const Caller caller("zeros", where);
  return filled(shape, Scalar::of(0.0F).converted_to(options.dtype.value_or(float32)), options);
}

Array ones(const Shape& shape, const CreationOptions& options, SourceLocation where) {
  const Caller caller("ones", where);
  return filled(shape, Scalar::of(1.0F).converted_to(options.dtype.value_or(float32)), options);
}

Array full(const Shape& shape, const Operand& value, const CreationOptions& options) {
  const Caller caller("full", value.where());
  const Dtype dtype = options.dtype.value_or(element_of(value).dtype);
  check_extents(shape);
  if (value.number() != nullptr) {
    return filled(shape, to_scalar(*value.number(), dtype), options);
  }
  const Array scalar = convert(*value.array(), dtype);
  return placed(broadcast_to(scalar, shape), options);
}

Array arange(const Operand& stop, const CreationOptions& options) {
  const Caller caller("arange", stop.where());
  return arange(0, stop, 1, options);
}

Array arange(const Operand& start, const Operand& stop, const CreationOptions& options) {
  const Caller caller("arange", start.where());
  return arange(start, stop, 1, options);
}

Array arange(const Operand& start, const Operand& stop, const Operand& step, const CreationOptions& options) {
  const Caller caller("arange", start.where());
  const std::variant<std::int64_t, double> bounds[] = {number_of(start), number_of(stop), number_of(step)};
  const auto as_double = [&](std::size_t i) {
    return std::visit([](auto value) { return static_cast<double>(value); }, bounds[i]);
  };
  const bool integral = std::all_of(std::begin(bounds), std::end(bounds),
                                    [](const auto& bound) { return std::holds_alternative<std::int64_t>(bound); });
  const Dtype dtype = options.dtype.value_or(integral ? int32 : float32);
  if (dtype == bool_) throw misuse<TypeMismatch>("dtype bool cannot count");
  if (!integral) {
    return array(count_floats(as_double(0), as_double(1), as_double(2)),
                 {.dtype = dtype, .sharding = options.sharding});
  }
  const auto as_integer = [&](std::size_t i) { return std::get<std::int64_t>(bounds[i]); };
  return placed(count_integers(as_integer(0), as_integer(1), as_integer(2), dtype), options);
}

Array linspace(const Operand& start, const Operand& stop, std::int64_t num, const LinspaceOptions& options) {
  const Caller caller("linspace", start.where());
  if (num < 0) throw misuse<InvalidArgument>("num is {}; it must be at least 0", num);
  std::vector<Array> bounds = promote(kFractions, {&start, &stop});
  const Shape shape = broadcast_shapes(bounds[0].shape(), bounds[1].shape());
  const std::int64_t axis = canonical_axis(options.axis, shape.size() + 1);
  const auto whole = [&](const Array& array) { return broadcast(array, shape); };
  const Operand first = whole(bounds[0]);
  const Operand last = whole(bounds[1]);
  const Dtype dtype = bounds[0].dtype();
  const std::int64_t intervals = options.endpoint ? num - 1 : num;
  // The numbers lie along the first dimension until the end.
  Shape column(shape.size() + 1, 1);
  column[0] = num;
  const Array count = lax::broadcasted_iota(real_dtype(dtype), column, 0);
  const Array share = divide(count, static_cast<double>(std::max<std::int64_t>(intervals, 1)));
  const auto weighted = [&](const Operand& x, const Operand& weight) { return multiply(x, weight); };
  const Array rest = subtract(1, share);
  Array points = add(weighted(first, rest), weighted(last, share));
  if (options.endpoint && num > 1) {
    points = where(equal(count, static_cast<double>(intervals)), last, points);
  }
  const Dtype wanted = options.dtype.value_or(dtype);
  if (is_integer(wanted) && !is_complex(dtype)) points = floor(points);
  points = moveaxis(convert(points, wanted), 0, axis);
  return placed(std::move(points), {.dtype = {}, .sharding = options.sharding});
}

// ---- Arrays like another one.

namespace {

Array like(const Operand& x, const Operand& value, const CreationOptions& options) {
  const Array model = to_array(x);
  const Type& type = detail::impl_of(model).type;
  const Dtype dtype = options.dtype.value_or(type.dtype);
  const bool weak = type.weak && !options.dtype;
  const Array scalar = value.number() == nullptr ? convert(*value.array(), dtype, weak)
                                                 : constant(to_scalar(*value.number(), dtype), weak, type.memory);
  // Inside shard_map the result varies as its model does.
  Array result = broadcast_to(varying_over(scalar, type.varying), type.shape);
  if (!options.sharding && !model.is_tracer() && model.committed()) {
    return device_put(result, model.sharding());
  }
  if (!options.sharding && model.is_tracer() && type.explicit_axes) {
    ExplicitAxes axes = *type.explicit_axes;
    axes.unreduced = axes.reduced = {};  // These are no summands.
    return reshard(result, NamedSharding(axes.mesh, spec_of(axes), {.memory_kind = type.memory}));
  }
  return placed(std::move(result), options);
}

}  // namespace

Array zeros_like(const Operand& x, const CreationOptions& options) {
  const Caller caller("zeros_like", x.where());
  return like(x, 0, options);
}

Array ones_like(const Operand& x, const CreationOptions& options) {
  const Caller caller("ones_like", x.where());
  return like(x, 1, options);
}

Array full_like(const Operand& x, const Operand& value, const CreationOptions& options) {
  const Caller caller("full_like", x.where());
  return like(x, value, options);
}

Array empty_like(const Operand& x, const CreationOptions& options) {
  const Caller caller("empty_like", x.where());
  return like(x, 0, options);
}

std::vector<Array> meshgrid(const Operands& arrays, const MeshgridOptions& options) {
  const Caller caller("meshgrid", arrays.where());
  if (options.indexing != "xy" && options.indexing != "ij") {
    throw misuse<InvalidArgument>("indexing '{}' does not exist; there are 'xy' and 'ij'", options.indexing);
  }
  const std::size_t rank = arrays.list().size();
  std::vector<Array> grid;
  Shape shape(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const Array vector = to_array(arrays.list()[i]);
    if (vector.ndim() != 1) {
      throw misuse<InvalidArgument>("array {} is {}; it takes vectors", i, type_of(vector));
    }
    const std::size_t dim = options.indexing == "xy" && i < 2 && rank > 1 ? 1 - i : i;
    shape[dim] = vector.size();
    Shape thin(rank, 1);
    thin[dim] = vector.size();
    grid.push_back(reshape(vector, thin));
  }
  if (options.sparse) return grid;
  for (Array& array : grid) array = broadcast(array, shape);
  return grid;
}

namespace nn {

Array one_hot(const Operand& x, std::int64_t num_classes, const OneHotOptions& options) {
  const Caller caller("one_hot", x.where());
  const Array classes = to_array(x);
  if (num_classes < 0) {
    throw misuse<InvalidArgument>("num_classes is {}; it must be at least 0", num_classes);
  }
  const std::int64_t axis = canonical_axis(options.axis, classes.ndim() + 1);
  Shape shape(classes.ndim() + 1, 1);
  shape[static_cast<std::size_t>(axis)] = num_classes;
  const Array places = lax::broadcasted_iota(int32, shape, axis);
  const Array hits = equal(expand_dims(classes, axis), places);
  return convert(hits, options.dtype);
}

}  // namespace nn
}  // namespace shoal
