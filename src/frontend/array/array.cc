#include "shoal/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <ostream>
#include <thread>
#include <utility>

#include "base/misuse.h"
#include "comm/transport/box_copy.h"
#include "core/device_list.h"
#include "core/format.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/array_text.h"
#include "frontend/array/default_put.h"
#include "frontend/array/key_mode.h"
#include "frontend/array/key_reuse.h"
#include "frontend/array/mapping.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "ir/explicit_axes.h"
#include "runtime/lane.h"
#include "runtime/transfer_guard.h"
#include "shoal/default_device.h"
#include "shoal/explicit_axes.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace detail {

namespace {

// What is said of `what`, where it is given.
std::string of(std::string_view what) { return what.empty() ? std::string() : fmt::format("{}: ", what); }

}  // namespace

const ArrayImpl& impl_of(const Array& array, std::string_view what) {
  if (const ArrayImpl* impl = Access::get(array)) return *impl;
  throw misuse<InvalidState>("{}an Array without a value was used; assign one to it first", of(what));
}

ShardFuture ArrayImpl::take_shards(Deletion deletion) const {
  auto how = std::make_unique<const Deletion>(std::move(deletion));
  const Lock lock(*this);
  if (!shards_) return {};
  deletion_ = std::move(how);
  return std::move(shards_);
}

Deletion ArrayImpl::deletion() const {
  const Lock lock(*this);
  return *deletion_;
}

namespace {

// The array with these shards, unless they are gone.
DeviceArray undeleted(const ArrayImpl& impl, ShardFuture shards, std::string_view what) {
  if (shards) return {impl.kind, std::move(shards)};
  const Deletion deletion = impl.deletion();
  const std::string line = to_string(deletion.where);
  throw misuse<InvalidState>("{}the array {} has no elements any more: it was {}{}{}", of(what), to_string(impl.type),
                             deletion.how, line.empty() ? "" : " at ", line);
}

}  // namespace

DeviceArray concrete(const Array& array, std::string_view what) {
  const ArrayImpl& impl = impl_of(array, what);
  if (impl.abstract != nullptr) refuse_tracer(impl, what);
  return undeleted(impl, impl.shards(), what);
}

DeviceArray take(const Array& array, Deletion deletion, std::string_view what) {
  const ArrayImpl& impl = impl_of(array, what);
  if (impl.abstract != nullptr) refuse_tracer(impl, what);
  return undeleted(impl, impl.take_shards(std::move(deletion)), what);
}

const Sharding& sharding_of(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  if (impl.tape() != nullptr && !impl.is_tangent_alone()) return sharding_of(impl.abstract->outside);
  if (impl.abstract != nullptr) refuse_tracer(impl);
  return impl.kind->sharding;
}

Array Access::make(std::shared_ptr<Tape> tape, Array primal, ValueId tangent, Type type) {
  const Tape* own = tape.get();
  return make_abstract(
      {.type = std::move(type), .value = tangent, .layer = std::move(tape), .outside = std::move(primal), .tape = own});
}

Array Access::make(std::shared_ptr<Mapping> mapping, Array outside, std::size_t dim, Type type) {
  const Mapping* own = mapping.get();
  return make_abstract({.type = std::move(type),
                        .layer = std::move(mapping),
                        .outside = std::move(outside),
                        .mapping = own,
                        .dim = dim});
}

bool ArrayImpl::is_leaked() const {
  return layer() != nullptr ? layer()->finished() : trace() != nullptr && trace()->finished();
}

void refuse_tracer(const ArrayImpl& tracer, std::string_view what) {
  const std::string type = to_string(tracer.type);
  if (tracer.is_type_only()) {
    throw misuse<InvalidState>(
        "{}needs an array, but {} is a ShapeDtypeStruct, which has a type and no elements; only "
        "lower and eval_shape take one",
        of(what), type);
  }
  if (const Layer* layer = tracer.layer()) {
    if (layer->finished()) {
      throw misuse<LeakedTracer>(
          "{}an array {} of '{}' is used outside the call that made it; return values from the function instead of "
          "storing them",
          of(what), type, layer->name());
    }
    throw misuse<ValueOfTracer>("{}the array {} {}", of(what), type, layer->why_not());
  }
  const Trace& trace = *tracer.trace();
  if (trace.finished()) {
    throw misuse<LeakedTracer>(
        "{}a tracer {} of '{}' is used outside the call that made it; return values from the "
        "function instead of storing them",
        of(what), type, trace.name());
  }
  if (trace.thread() != std::this_thread::get_id()) {
    throw misuse<LeakedTracer>("{}a tracer {} of '{}' is used in another thread than the one that traces it", of(what),
                               type, trace.name());
  }
  throw misuse<ValueOfTracer>(
      "{}needs the value of an array, but {} of '{}' is being traced and has none; compute "
      "with it, return it, or do this outside the traced function",
      of(what), type, trace.name());
}

void check_values(const std::vector<Array>& leaves, const TreeDef& tree, std::string_view what) {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (Access::get(leaves[i]) != nullptr) continue;
    throw misuse<InvalidState>("{}{} is an Array without a value", what, tree.leaf_paths()[i]);
  }
}

Array scalar_array(const Operand::Number& number, SourceLocation where) {
  const Caller caller("array", where);
  return std::visit([&](auto value) { return to_array(value); }, number);
}

namespace {

// The elements of a concrete array, or of a value of an eager trace that is the same on all devices.
Buffer host_value(const Array& given) {
  const Array array = without_tangents(given);
  const ArrayImpl& impl = impl_of(array);
  const Trace* trace = impl.trace();
  if (trace != nullptr && trace->kind() == Trace::Kind::kEager && !trace->finished()) {
    const ShardSet& data = trace->data(impl.abstract->value);
    if (data.shards.size() == 1) return data.shards[0];
    throw misuse<ValueOfTracer>(
        "the value {} differs between the devices of '{}', so there is no single one to read; print it, or make it "
        "equal with a collective",
        to_string(impl.type), trace->name());
  }
  const DeviceArray whole = concrete(array);
  if (whole.placement().partial.empty()) return to_host(whole, Caller::function_or("to_host"), Caller::line());
  throw misuse<InvalidState>(
      "the elements of {} are not added up yet; finish the sums with reshard, or read the summands of "
      "addressable_shards",
      to_string(impl.type));
}

}  // namespace

Scalar scalar_value(const Array& array) {
  const Type& type = impl_of(array).type;
  if (num_elements(type.shape) != 1) {
    throw misuse<InvalidArgument>("the array {} has {} elements; an array of one is needed", to_string(type),
                                  num_elements(type.shape));
  }
  const Buffer buffer = host_value(array);
  Scalar scalar{.dtype = type.dtype};
  std::memcpy(scalar.bytes.data(), buffer.data(), buffer.size_bytes());
  return scalar;
}

void copy_to_host(const Array& array, Dtype dtype, void* out, bool convert, SourceLocation where) {
  const Caller caller(convert ? "item" : "to_vector", where);
  if (convert) {
    if (is_key(impl_of(array).type.dtype)) {
      throw misuse<TypeMismatch>("{} is a key of random numbers, and no number", to_string(impl_of(array).type));
    }
    const Scalar scalar = scalar_value(array).converted_to(dtype);
    std::memcpy(out, scalar.bytes.data(), size_of(dtype));
    return;
  }
  const Type& type = impl_of(array).type;
  if (dtype != type.dtype) {
    throw misuse<TypeMismatch>("the array has dtype {}, not {}; read it as its own type, or convert it with astype",
                               name_of(type.dtype), name_of(dtype));
  }
  const Buffer buffer = host_value(array);
  copy_bytes(out, buffer.data(), buffer.size_bytes());
}

}  // namespace detail

const Shape& Array::shape() const { return detail::impl_of(*this).type.shape; }
std::int64_t Array::size() const { return num_elements(shape()); }
Dtype Array::dtype() const { return detail::impl_of(*this).type.dtype; }
bool Array::weak_type() const { return detail::impl_of(*this).type.weak; }
bool Array::is_tracer() const { return detail::impl_of(*this).is_tracer(); }

std::int64_t Array::nbytes() const { return size() * static_cast<std::int64_t>(size_of(dtype())); }

Sharding Array::sharding(SourceLocation where) const {
  const Caller caller("sharding", where);
  const detail::ArrayImpl& impl = detail::impl_of(*this);
  if (impl.is_type_only() && impl.abstract->would_lie) return *impl.abstract->would_lie;
  return detail::sharding_of(*this);
}

std::set<Device> Array::devices(SourceLocation where) const {
  const Caller caller("devices", where);
  return detail::sharding_of(*this).device_set();
}

bool Array::committed() const { return detail::impl_of(*this).is_committed(); }

bool Array::is_fully_replicated(SourceLocation where) const {
  const Caller caller("is_fully_replicated", where);
  return detail::sharding_of(*this).is_fully_replicated();
}

bool Array::is_fully_addressable(SourceLocation where) const {
  const Caller caller("is_fully_addressable", where);
  const std::vector<Device> all = detail::sharding_of(*this).device_list();
  const auto is_here = [](const Device& device) { return device.process_index == process_index(); };
  return std::ranges::all_of(all, is_here);
}

std::vector<Shard> Array::global_shards(SourceLocation where) const {
  const Caller caller("global_shards", where);
  const DeviceArray array = detail::concrete(*this);
  const ShardSet& shards = array.wait();
  const auto indices = array.sharding().devices_indices_map(array.type().shape, Caller::line());
  std::map<std::int64_t, int> copies;  // Devices so far that hold each distinct shard.
  std::vector<Shard> result;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    const auto& [device, index] = indices[i];
    Shard& shard =
        result.emplace_back(Shard{.device = device,
                                  .index = index,
                                  .replica_id = copies[array.grid()->distinct_index(position, shards.varying)]++,
                                  .data = {}});
    if (device.process_index != process_index()) continue;
    const Buffer& buffer = shards.at(position);
    Type type = array.type();
    type.shape = buffer.shape();
    KindPtr kind = kind_of(type, SingleDeviceSharding(device, array.sharding().memory_kind()), true);
    ShardSet one{kind->layout.grid, {}, {buffer}};
    shard.data = detail::Access::make(ready_array(std::move(kind), std::move(one)));
  }
  return result;
}

std::vector<Shard> Array::addressable_shards(SourceLocation where) const {
  const Caller caller("addressable_shards", where);
  std::vector<Shard> shards = global_shards();
  std::erase_if(shards, [](const Shard& shard) { return shard.device.process_index != process_index(); });
  return shards;
}

Array Array::addressable_data(std::int64_t index, SourceLocation where) const {
  const Caller caller("addressable_data", where);
  std::vector<Shard> shards = addressable_shards();
  const auto count = static_cast<std::int64_t>(shards.size());
  if (index < 0 || index >= count) {
    throw misuse<OutOfRange>("index {} is outside the {} shards of {}", index, count, type_of(*this));
  }
  return shards[static_cast<std::size_t>(index)].data;
}

std::int64_t Array::on_device_size_in_bytes(SourceLocation where) const {
  const Caller caller("on_device_size_in_bytes", where);
  const DeviceArray array = detail::concrete(*this);
  const std::int64_t elements = num_elements(array.sharding().shard_shape(array.type().shape, Caller::line()));
  return elements * static_cast<std::int64_t>(size_of(array.type().dtype)) * array.grid()->num_devices();
}

void Array::delete_(SourceLocation where) const {
  const Caller caller("delete_", where);
  if (!is_deleted()) static_cast<void>(detail::take(*this, {"deleted"}));
}

bool Array::is_deleted() const { return detail::impl_of(*this).is_deleted(); }

// Values of a trace are made by its program, and share nothing that could be told.
Array Array::copy(SourceLocation where) const {
  const Caller caller("copy", where);
  if (detail::impl_of(*this).abstract != nullptr) return *this;
  const DeviceArray array = detail::concrete(*this);
  return detail::Access::make(put(array, array.sharding(), array.committed(), Caller::line(), false));
}

Array::operator bool() const {
  const Caller caller("bool", {});
  if (size() != 1) {
    throw misuse<InvalidArgument>("the truth of an array of shape {} is ambiguous; use any() or all()",
                                  to_string(shape()));
  }
  return detail::scalar_value(*this).converted_to(bool_).as<bool>();
}

const Array& Array::block_until_ready() const {
  const Caller caller("block_until_ready", {});
  const detail::ArrayImpl& impl = detail::impl_of(*this);
  if (impl.kind == nullptr) return *this;
  const ShardFuture shards = impl.shards();
  if (shards) {
    shards.wait();
  } else {
    static_cast<void>(detail::concrete(*this));  // Says how it was deleted.
  }
  return *this;
}

bool Array::is_ready() const {
  const Caller caller("is_ready", {});
  const detail::ArrayImpl& impl = detail::impl_of(*this);
  return impl.kind == nullptr || detail::concrete(*this).shards.is_settled();
}

Array Array::astype(Dtype dtype, SourceLocation where) const { return shoal::astype(Operand(*this, where), dtype); }
Array Array::reshape(Dims shape, SourceLocation where) const { return shoal::reshape(Operand(*this, where), shape); }
Array Array::transpose(SourceLocation where) const { return shoal::transpose(Operand(*this, where)); }
Array Array::transpose(Dims axes, SourceLocation where) const { return shoal::transpose(Operand(*this, where), axes); }
Array Array::sum(SourceLocation where) const { return shoal::sum({*this, where}); }
Array Array::sum(const ReduceOptions& options, SourceLocation where) const {
  return shoal::sum({*this, where}, options);
}
Array Array::sum(int axis, SourceLocation where) const { return shoal::sum({*this, where}, {.axis = axis}); }
Array Array::prod(int axis, SourceLocation where) const { return shoal::prod({*this, where}, {.axis = axis}); }
Array Array::max(int axis, SourceLocation where) const { return shoal::max({*this, where}, {.axis = axis}); }
Array Array::min(int axis, SourceLocation where) const { return shoal::min({*this, where}, {.axis = axis}); }
Array Array::mean(int axis, SourceLocation where) const { return shoal::mean({*this, where}, {.axis = axis}); }
Array Array::any(int axis, SourceLocation where) const { return shoal::any({*this, where}, {.axis = axis}); }
Array Array::all(int axis, SourceLocation where) const { return shoal::all({*this, where}, {.axis = axis}); }
Array Array::prod(SourceLocation where) const { return shoal::prod({*this, where}); }
Array Array::prod(const ReduceOptions& options, SourceLocation where) const {
  return shoal::prod({*this, where}, options);
}
Array Array::max(SourceLocation where) const { return shoal::max({*this, where}); }
Array Array::max(const ReduceOptions& options, SourceLocation where) const {
  return shoal::max({*this, where}, options);
}
Array Array::min(SourceLocation where) const { return shoal::min({*this, where}); }
Array Array::min(const ReduceOptions& options, SourceLocation where) const {
  return shoal::min({*this, where}, options);
}
Array Array::mean(SourceLocation where) const { return shoal::mean({*this, where}); }
Array Array::mean(const ReduceOptions& options, SourceLocation where) const {
  return shoal::mean({*this, where}, options);
}
Array Array::any(SourceLocation where) const { return shoal::any({*this, where}); }
Array Array::any(const ReduceOptions& options, SourceLocation where) const {
  return shoal::any({*this, where}, options);
}
Array Array::all(SourceLocation where) const { return shoal::all({*this, where}); }
Array Array::all(const ReduceOptions& options, SourceLocation where) const {
  return shoal::all({*this, where}, options);
}

namespace {

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

Dims coordinates_of(const Mesh& mesh, std::int64_t position) {
  Dims at(mesh.axis_sizes().size(), 0);
  for (std::size_t d = at.size(); d-- > 0;) {
    at[d] = position % mesh.axis_sizes()[d];
    position /= mesh.axis_sizes()[d];
  }
  return at;
}

// What each device of this process holds of a value of an eager trace.
std::string eager_text(const Trace& trace, const Type& type, ValueId value) {
  const ShardSet& data = trace.data(value);
  const Grid& grid = *trace.grid();
  std::vector<std::string> texts;  // By shard.
  for (const Buffer& buffer : data.shards) {
    texts.push_back(buffer ? array_str(type.dtype, buffer.shape(), buffer.data()) : std::string());
  }
  const std::string axes = joined(trace.mesh().axis_names());
  std::vector<std::string> blocks;
  for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
    if (grid.process_of(position) != process_index()) continue;
    blocks.push_back(fmt::format("On cpu:{} at mesh coordinates ({},) = {}:\n{}\n",
                                 grid.devices()[static_cast<std::size_t>(position)].id, axes,
                                 to_string(coordinates_of(trace.mesh(), position)),
                                 texts[static_cast<std::size_t>(grid.distinct_index(position, data.varying))]));
  }
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

// Its elements are on no device.
std::string unreduced_text(const detail::ArrayImpl& impl) {
  return fmt::format("Array(shape={}, dtype={}, sharding={})", to_string(impl.type.shape), name_of(impl.type.dtype),
                     to_string(impl.kind->sharding));
}

// Its elements are not all here.
std::string spanning_text(const Type& type) {
  return fmt::format("Array(shape={}, dtype={})", to_string(type.shape), name_of(type.dtype));
}

std::string tracer_text(const detail::ArrayImpl& impl) {
  if (impl.is_type_only()) {
    return to_string(ShapeDtypeStruct{impl.type.shape, impl.type.dtype, impl.abstract->would_lie, impl.type.weak});
  }
  if (impl.layer() != nullptr) return "Tracer<" + user_string(impl.type) + " in " + impl.layer()->name() + ">";
  const Trace& trace = *impl.trace();
  if (trace.kind() == Trace::Kind::kEager && !trace.finished()) {
    return eager_text(trace, impl.type, impl.abstract->value);
  }
  return "Tracer<" + user_string(impl.type) + ">";
}

}  // namespace

// Keys, as JAX shows them: with the words they are made of.
std::string keys_text(const Type& type, const void* data, const PrintOptions& options) {
  Shape words = type.shape;
  words.push_back(static_cast<std::int64_t>(size_of(type.dtype) / sizeof(std::uint32_t)));
  return fmt::format("Array({}, dtype={}) overlaying:\n{}", to_string(type.shape), name_of(type.dtype),
                     array_str(uint32, words, data, options));
}

std::string str(const Array& given, const PrintOptions& options) {
  const Caller caller("str", {});
  const Array array = without_tangents(given);
  if (detail::Access::get(array) == nullptr) return "<no value>";
  const detail::ArrayImpl& impl = detail::impl_of(array);
  if (impl.kind == nullptr) return tracer_text(impl);
  if (!impl.kind->layout.placement.partial.empty()) return unreduced_text(impl);
  const DeviceArray device = detail::concrete(array);
  if (!is_readable(device)) return spanning_text(impl.type);
  const Buffer buffer = to_host(device);
  if (is_key(impl.type.dtype)) return keys_text(impl.type, buffer.data(), options);
  return array_str(impl.type.dtype, impl.type.shape, buffer.data(), options);
}

std::string repr(const Array& given, const PrintOptions& options) {
  const Caller caller("repr", {});
  const Array array = without_tangents(given);
  if (detail::Access::get(array) == nullptr) return "<no value>";
  const detail::ArrayImpl& impl = detail::impl_of(array);
  if (impl.kind == nullptr) return tracer_text(impl);
  if (!impl.kind->layout.placement.partial.empty()) return unreduced_text(impl);
  const DeviceArray device = detail::concrete(array);
  if (!is_readable(device)) return spanning_text(impl.type);
  const Buffer buffer = to_host(device);
  if (is_key(impl.type.dtype)) return keys_text(impl.type, buffer.data(), options);
  return array_repr(impl.type.dtype, impl.type.weak, impl.type.shape, buffer.data(), options);
}

std::string str(const Array& array) { return str(array, {}); }
std::string repr(const Array& array) { return repr(array, {}); }

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << str(array); }

Array::Array(const ShapeDtypeStruct& type, SourceLocation where) {
  const Caller caller("ShapeDtypeStruct", where);
  auto bytes = static_cast<std::int64_t>(size_of(type.dtype));
  for (std::int64_t extent : type.shape) {
    if (extent < 0) {
      throw misuse<InvalidArgument>("shape {} has a negative extent", to_string(type.shape));
    }
    if (extent == 0 || !__builtin_mul_overflow(bytes, extent, &bytes)) continue;
    throw misuse<InvalidArgument>(
        "an array of shape {} and dtype {} is too large: its bytes, those of its extents that are not 0, must be fewer "
        "than 2^63",
        to_string(type.shape), name_of(type.dtype));
  }
  if (type.sharding) type.sharding->check_compatible(type.shape, "ShapeDtypeStruct", Caller::line());
  *this = detail::Access::make({.dtype = type.dtype,
                                .shape = type.shape,
                                .weak = type.weak_type,
                                .memory = type.sharding ? type.sharding->memory_kind() : MemoryKind(),
                                .varying = {}},
                               type.sharding);
}

ShapeDtypeStruct ShapeDtypeStruct::like(const Array& array) {
  const Caller caller("ShapeDtypeStruct::like", {});
  const detail::ArrayImpl& impl = detail::impl_of(array);
  std::optional<Sharding> sharding;
  if (impl.is_type_only()) sharding = impl.abstract->would_lie;
  if (impl.is_committed()) sharding = impl.kind->sharding;
  if (!sharding && impl.type.explicit_axes) sharding = type_sharding(array);
  return {impl.type.shape, impl.type.dtype, std::move(sharding), impl.type.weak};
}

std::string to_string(const ShapeDtypeStruct& type) {
  std::string text = fmt::format("ShapeDtypeStruct(shape={}, dtype={}", to_string(type.shape), name_of(type.dtype));
  if (type.sharding) text += ", sharding=" + to_string(*type.sharding);
  if (type.weak_type) text += ", weak_type=True";
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const ShapeDtypeStruct& type) { return out << to_string(type); }

std::string type_of(const Array& array) { return user_string(detail::impl_of(array).type); }

std::string to_string(const Shard& shard) {
  return fmt::format("Shard(device={}, index={}, replica_id={}, data={})", to_string(shard.device),
                     to_string(shard.index), shard.replica_id, str(shard.data));
}

std::ostream& operator<<(std::ostream& out, const Shard& shard) { return out << to_string(shard); }

// ---- Placement.

namespace {

// The array constrained to a sharding, and in its memory.
Array constrained(const Array& array, const NamedSharding& sharding) {
  Array result = array;
  if (detail::impl_of(array).type.memory != sharding.memory_kind()) {
    result = bind_one("to_memory", {{"memory", sharding.memory_kind()}}, {result});
  }
  return sharding.says_nothing() ? result : bind_one("sharding_constraint", {{"sharding", sharding}}, {result});
}

// Under jit a move is part of the program; inside shard_map a device cannot be chosen.
Array put_traced(const Array& array, const Sharding& sharding) {
  const Trace* trace = Trace::current();
  if (trace != nullptr && (trace->kind() != Trace::Kind::kJit || !trace->graph().axes.empty())) {
    throw misuse<InvalidArgument>(
        "a sharding cannot be chosen inside shard_map, where each device computes on its own shard; got {}",
        to_string(sharding));
  }
  sharding.check_compatible(array.shape(), "device_put: argument 0", Caller::line());
  if (const NamedSharding* named = sharding.named()) return constrained(array, *named);
  const Mesh mesh({sharding.single_device()->device()}, {1}, {"device"});
  return constrained(array, NamedSharding(mesh, P(), {.memory_kind = sharding.memory_kind()}));
}

// What was moved, whose keys are those of `array`.
Array with_keys_of(const Array& array, Array moved) {
  if (key_mode().checks_reuse) follow_keys(array, moved);
  return moved;
}

bool has_unconstrained(const PartitionSpec& spec) {
  return std::any_of(spec.begin(), spec.end(), [](const PartitionEntry& entry) { return entry.is_unconstrained(); });
}

}  // namespace

void detail::check_put_target(const Sharding& sharding) {
  if (sharding.is_abstract()) {
    throw misuse<InvalidArgument>(
        "{} is over an AbstractMesh, which has no devices to move to; use a mesh made by make_mesh",
        to_string(sharding));
  }
  check_devices(sharding.device_list(), Caller::function_or("device_put"), Caller::line());
  if (sharding.named() == nullptr || !has_unconstrained(sharding.named()->spec())) return;
  throw misuse<InvalidArgument>(
      "{} leaves a dimension unconstrained; name its axes, or none (only with_sharding_constraint leaves a choice)",
      to_string(sharding.named()->spec()));
}

Array device_put(const Operand& x, const Sharding& sharding, const DevicePutOptions& options) {
  const Caller caller("device_put", x.where());
  const Array array = to_array(x);
  detail::check_put_target(sharding);
  if (Trace::current() != nullptr || of_layers({&array, 1})) return put_traced(array, sharding);
  // Before the array is given away, for it must survive a mistake.
  sharding.check_compatible(array.shape(), "device_put: argument 0", Caller::line());
  const DeviceArray source = options.donate ? detail::take(array, {"donated to device_put"}) : detail::concrete(array);
  const ExplicitTransfers asked;
  return with_keys_of(array, detail::Access::make(put(source, sharding, true, Caller::line(), options.may_alias)));
}

Array device_put(const Operand& x, const Device& device, const DevicePutOptions& options) {
  const Caller caller("device_put", x.where());
  return device_put(x, SingleDeviceSharding(device), options);
}

Array detail::put_in_memory(const Operand& x, const MemoryKind& memory) {
  const Caller caller("device_put", x.where());
  const Array array = to_array(x);
  if (Trace::current() == nullptr) return device_put(array, array.sharding().with_memory_kind(memory));
  if (detail::impl_of(array).type.memory == memory) return array;
  return bind_one("to_memory", {{"memory", memory}}, {array});
}

Array device_put(const Operand& x) {
  const Caller caller("device_put", x.where());
  const Array array = to_array(x);
  if (Trace::current() != nullptr || of_layers({&array, 1}) || array.committed()) return array;
  const DeviceArray concrete = detail::concrete(array);
  const ExplicitTransfers asked;
  return with_keys_of(
      array, detail::Access::make(put(concrete, SingleDeviceSharding(default_device()), false, Caller::line())));
}

namespace {

// On Explicit axes a constraint asks for nothing: it states what the type says already.
void check_explicit(const Array& array, const NamedSharding& sharding) {
  const auto& given = detail::impl_of(array).type.explicit_axes;
  const auto wanted = explicit_axes_of(sharding, array.ndim());
  if (!given || !wanted) return;
  bool same = given->unreduced == wanted->unreduced && given->reduced == wanted->reduced;
  for (std::size_t d = 0; d < array.ndim(); ++d) {
    const bool is_free = d < sharding.spec().size() && sharding.spec()[d].is_unconstrained();
    same = same && (is_free || given->dims[d] == wanted->dims[d]);
  }
  if (same) return;
  throw misuse<ShardingTypeError>("{} is not how Explicit axes split the array {}; move it with reshard",
                                  to_string(sharding.spec()), type_of(array));
}

}  // namespace

Array with_sharding_constraint(const Operand& x, const NamedSharding& sharding) {
  const Caller caller("with_sharding_constraint", x.where());
  const Array array = to_array(x);
  if (sharding.spec().size() > array.ndim()) {
    throw misuse<InvalidArgument>("{} has {} entries, but the array {} has only {} dimensions",
                                  to_string(sharding.spec()), sharding.spec().size(), type_of(array), array.ndim());
  }
  if (const Trace* trace = Trace::current()) {
    for (const PartitionEntry& entry : sharding.spec()) {
      for (const std::string& axis : entry.axes()) {
        if (!trace->graph().axes.size_of(axis)) continue;
        throw misuse<InvalidArgument>(
            "{} names axis '{}', which is manual here: each device computes on its own shard along it, so that there "
            "is nothing to constrain",
            to_string(sharding.spec()), axis);
      }
    }
    check_explicit(array, sharding);
    return constrained(array, sharding);
  }
  // Values inside a program may be split unevenly; arrays may not.
  Sharding(sharding).check_compatible(array.shape(), "with_sharding_constraint: argument 0", Caller::line());
  if (has_unconstrained(sharding.spec()) || sharding.says_nothing()) return constrained(array, sharding);
  return device_put(array, sharding);
}

}  // namespace shoal
