// Array: the one array type of users. It is concrete, with shards on devices, or, inside a traced function, a tracer.
//
// @param array The array.
// @param value The number, or what is put there.
// @param type The type.
// @param index The index, an entry for each dimension; missing ones are whole.
// @param dtype The dtype of the result.
// @param shape The extents of the result; one may be -1.
// @param n0 The first extent.
// @param n1 The second one.
// @param n2 The third one.
// @param n3 The fourth one.
// @param axes The dimensions, from the end if negative.
// @param axis The dimensions, from the end if negative; all when not given.
// @param i The entry of the first dimension.
// @param j That of the second.
// @param k That of the third.
// @param l That of the fourth.
// @param position A position, from the end if negative.
// @param positions Positions: an array of integers, or of bool.
// @param range A part of the dimension.
// @param all The whole dimension.
// @param scalar A number.
// @param operands Arrays and numbers.
// @param arrays Arrays.
// @param values What the part is combined with; broadcasts to its shape.
// @param f The function of the part.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/device.h"
#include "shoal/dtype.h"
#include "shoal/error.h"
#include "shoal/shape.h"
#include "shoal/sharding.h"

namespace shoal {

class Array;
class ArrayIterator;
class Operand;
struct Shard;

namespace detail {
struct ArrayImpl;
struct Access;
}  // namespace detail

/// The type of an array that does not exist and, perhaps, its sharding. It stands for an array in the arguments of
/// lower() and eval_shape(), also inside trees.
struct ShapeDtypeStruct {
  Shape shape;
  Dtype dtype = float32;
  std::optional<Sharding> sharding = {};
  bool weak_type = false;

  /// The type of an array, which may be a tracer.
  static ShapeDtypeStruct like(const Array& array);
  friend bool operator==(const ShapeDtypeStruct&, const ShapeDtypeStruct&) = default;
};

/// "ShapeDtypeStruct(shape=(8, 4), dtype=float32)"
/// @param type The type.
std::string to_string(const ShapeDtypeStruct& type);
std::ostream& operator<<(std::ostream& out, const ShapeDtypeStruct& type);

/// A C++ number or bool that may stand for a scalar array.
template <class T>
concept ScalarLike = Element<T> || std::same_as<T, char>;

/// The dimensions of a reduction: none given means all.
class Axes {
 public:
  Axes() = default;
  Axes(None) {}
  Axes(int axis) : axes_(Dims{axis}) {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(Dims(axes)) {}
  Axes(Dims axes) : axes_(std::move(axes)) {}
  const std::optional<Dims>& get() const { return axes_; }

 private:
  std::optional<Dims> axes_;
};

struct ReduceOptions;

/// A position, or `none` for the beginning or the end of the dimension.
struct Bound : std::optional<std::int64_t> {
  using std::optional<std::int64_t>::optional;
  Bound(None) {}
};

/// Part of a dimension, for indexing.
struct Range {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::int64_t step = 1;
};
/// As in Python: range(1, 3), range(none, -1), range(none, none, 2). A negative step goes from `start` down to `stop`.
/// @param start The first position.
/// @param stop The position before which it ends.
/// @param step The distance of positions.
inline Range range(Bound start = none, Bound stop = none, std::int64_t step = 1) { return {start, stop, step}; }
struct Ellipsis {};
inline constexpr Ellipsis ellipsis{};
struct NewAxis {};
inline constexpr NewAxis newaxis{};

class IndexEntry;
class IndexUpdate;

/// A multi-dimensional array.
///
/// Copying copies a pointer; elements never change. Results are futures: a call returns before the computation is done,
/// and an error of the computation is thrown where the value is read. An Array without a value (default-constructed)
/// may only be assigned to. Copies are one array: when it is deleted or donated, none of them has elements any more,
/// and functions that need them throw InvalidState; its type and sharding can still be asked for.
class Array {
 public:
  Array() = default;
  /// A scalar of weak type: int gives i32, double f32, complex c64; bool is not weak.
  template <ScalarLike E>
  Array(E value, SourceLocation where = SourceLocation::current());
  /// A type without elements, for lower() and eval_shape(). Throws InvalidArgument for a negative extent, and
  /// for a sharding that cannot hold the shape.
  Array(const ShapeDtypeStruct& type, SourceLocation where = SourceLocation::current());

  // ---- Type and place.
  const Shape& shape() const;
  std::size_t ndim() const { return shape().size(); }
  std::int64_t size() const;
  Dtype dtype() const;
  bool weak_type() const;
  /// Bytes of all elements.
  std::int64_t nbytes() const;
  /// The sharding of the array. Throws InvalidState for a tracer, whose sharding the compiler chooses.
  Sharding sharding(SourceLocation where = SourceLocation::current()) const;
  std::set<Device> devices(SourceLocation where = SourceLocation::current()) const;
  /// Whether computations must run where the array lies. Arrays are committed by device_put and by computing from
  /// committed ones; uncommitted arrays move to the arrays that they are computed with.
  bool committed() const;
  bool is_fully_replicated(SourceLocation where = SourceLocation::current()) const;
  /// Whether all of its devices belong to this process.
  bool is_fully_addressable(SourceLocation where = SourceLocation::current()) const;
  /// The shards on the devices of this process, in mesh order. Shards that hold the same data share it.
  std::vector<Shard> addressable_shards(SourceLocation where = SourceLocation::current()) const;
  /// The shards on all of its devices, in mesh order; only those of this process have data.
  std::vector<Shard> global_shards(SourceLocation where = SourceLocation::current()) const;
  /// The data of the shard with this position in addressable_shards. Throws OutOfRange if there is none.
  Array addressable_data(std::int64_t index, SourceLocation where = SourceLocation::current()) const;
  /// Bytes of the shards of all devices together, in which replicas count.
  std::int64_t on_device_size_in_bytes(SourceLocation where = SourceLocation::current()) const;
  bool is_tracer() const;
  explicit operator bool() const;  ///< The truth of a concrete scalar. Throws InvalidState for a tracer under jit.

  // ---- Waiting and reading.
  /// Waits for the value; rethrows the error of its computation.
  const Array& block_until_ready() const;
  bool is_ready() const;
  /// Deletes the elements. Computations that were launched before still get them, and so does every other array that
  /// shares their memory. Deleting again does nothing. Throws InvalidState for a tracer.
  void delete_(SourceLocation where = SourceLocation::current()) const;
  /// Whether the array was deleted or donated; false for a tracer.
  bool is_deleted() const;
  /// A copy of the array in memory of its own.
  Array copy(SourceLocation where = SourceLocation::current()) const;
  /// All elements, row-major. E must be the type of the dtype: dtype_of<E>() == dtype().
  template <Element E>
  std::vector<E> to_vector(SourceLocation where = SourceLocation::current()) const;
  /// The one element of an array of size 1, converted to E.
  template <Element E>
  E item(SourceLocation where = SourceLocation::current()) const;

  // ---- Common operations, as in NumPy.
  Array astype(Dtype dtype, SourceLocation where = SourceLocation::current()) const;
  Array reshape(Dims shape, SourceLocation where = SourceLocation::current()) const;
  Array reshape(std::int64_t n0, SourceLocation where = SourceLocation::current()) const {
    return reshape(Dims{n0}, where);
  }
  Array reshape(std::int64_t n0, std::int64_t n1, SourceLocation where = SourceLocation::current()) const {
    return reshape(Dims{n0, n1}, where);
  }
  Array reshape(std::int64_t n0, std::int64_t n1, std::int64_t n2,
                SourceLocation where = SourceLocation::current()) const {
    return reshape(Dims{n0, n1, n2}, where);
  }
  Array reshape(std::int64_t n0, std::int64_t n1, std::int64_t n2, std::int64_t n3,
                SourceLocation where = SourceLocation::current()) const {
    return reshape(Dims{n0, n1, n2, n3}, where);
  }
  Array transpose(SourceLocation where = SourceLocation::current()) const;
  Array transpose(Dims axes, SourceLocation where = SourceLocation::current()) const;
  Array T(SourceLocation where = SourceLocation::current()) const { return transpose(where); }
  Array sum(SourceLocation where = SourceLocation::current()) const;
  Array sum(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array sum(int axis, SourceLocation where = SourceLocation::current()) const;
  Array prod(SourceLocation where = SourceLocation::current()) const;
  Array prod(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array prod(int axis, SourceLocation where = SourceLocation::current()) const;
  Array max(SourceLocation where = SourceLocation::current()) const;
  Array max(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array max(int axis, SourceLocation where = SourceLocation::current()) const;
  Array min(SourceLocation where = SourceLocation::current()) const;
  Array min(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array min(int axis, SourceLocation where = SourceLocation::current()) const;
  Array mean(SourceLocation where = SourceLocation::current()) const;
  Array mean(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array mean(int axis, SourceLocation where = SourceLocation::current()) const;
  Array any(SourceLocation where = SourceLocation::current()) const;
  Array any(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array any(int axis, SourceLocation where = SourceLocation::current()) const;
  Array all(SourceLocation where = SourceLocation::current()) const;
  Array all(const ReduceOptions& options, SourceLocation where = SourceLocation::current()) const;
  Array all(int axis, SourceLocation where = SourceLocation::current()) const;

  /// Indexing as in NumPy: x[i], x[range(2, 4)], x[{1, range(2, 4), ellipsis, newaxis}], x[positions], x[x > 0].
  ///
  /// Negative positions count from the end. Arrays of integers broadcast together, and their dimensions stand where the
  /// first of these arrays does, or in front if ranges or new axes separate them. An array of bool counts as the arrays
  /// of the positions where it is true, so that the shape depends on its values; a traced one throws InvalidState.
  /// Throws OutOfRange for a C++ number outside the array; positions in arrays are moved to the nearest one inside.
  Array operator[](const IndexEntry& index) const;
  Array operator[](std::initializer_list<IndexEntry> index) const;

  /// The part of the array at an index, to be read or replaced: x.at(i, range(1, 3)).set(v). See IndexUpdate.
  IndexUpdate at(const IndexEntry& i) const;
  IndexUpdate at(const IndexEntry& i, const IndexEntry& j) const;
  IndexUpdate at(const IndexEntry& i, const IndexEntry& j, const IndexEntry& k) const;
  IndexUpdate at(const IndexEntry& i, const IndexEntry& j, const IndexEntry& k, const IndexEntry& l) const;
  IndexUpdate at(std::vector<IndexEntry> index, SourceLocation where = SourceLocation::current()) const;

  /// The parts along the first dimension: for (Array row : x). Throws TypeMismatch for a scalar.
  ArrayIterator begin(SourceLocation where = SourceLocation::current()) const;
  ArrayIterator end(SourceLocation where = SourceLocation::current()) const;

 private:
  friend struct detail::Access;
  explicit Array(std::shared_ptr<const detail::ArrayImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const detail::ArrayImpl> impl_;
};

/// One entry of an index, and the user's line where it was given.
class IndexEntry {
 public:
  using Value = std::variant<std::int64_t, Range, Ellipsis, NewAxis, Array>;
  template <std::integral I>
  requires(!std::same_as<I, bool>) IndexEntry(I position, SourceLocation where = SourceLocation::current())
      : value_(static_cast<std::int64_t>(position)), where_(where) {}
  IndexEntry(Range range, SourceLocation where = SourceLocation::current()) : value_(range), where_(where) {}
  IndexEntry(Ellipsis all, SourceLocation where = SourceLocation::current()) : value_(all), where_(where) {}
  IndexEntry(NewAxis axis, SourceLocation where = SourceLocation::current()) : value_(axis), where_(where) {}
  /// Positions given by an array of integers or bool.
  IndexEntry(const Array& positions, SourceLocation where = SourceLocation::current())
      : value_(positions), where_(where) {}

  const Value& value() const { return value_; }
  const SourceLocation& where() const { return where_; }

 private:
  Value value_;
  SourceLocation where_;
};

/// A position along the first dimension of an array.
class ArrayIterator {
 public:
  using value_type = Array;
  using difference_type = std::ptrdiff_t;
  ArrayIterator() = default;
  ArrayIterator(Array array, std::int64_t position, SourceLocation where)
      : array_(std::move(array)), position_(position), where_(where) {}
  Array operator*() const;
  ArrayIterator& operator++() {
    ++position_;
    return *this;
  }
  ArrayIterator operator++(int) {
    ArrayIterator before = *this;
    ++position_;
    return before;
  }
  friend bool operator==(const ArrayIterator& a, const ArrayIterator& b) { return a.position_ == b.position_; }

 private:
  Array array_;
  std::int64_t position_ = 0;
  SourceLocation where_;
};

struct ReduceOptions {
  Axes axis = {};                     ///< Dimensions to reduce, from the end if negative; all when not given.
  bool keepdims = false;              ///< Reduced dimensions stay, with extent 1.
  std::optional<Array> where = {};    ///< Which elements count; broadcasts against the operand. Default: all.
  std::optional<Array> initial = {};  ///< A scalar that is reduced, too; max and min of no elements need it.
};

/// A shard of an array on one device.
struct Shard {
  Device device;
  ShardIndex index;  ///< The part of the array it holds.
  int replica_id;    ///< Number of the devices before this one that hold the same part.
  Array data;        ///< On `device` alone; without a value on devices of other processes.
};

/// "Shard(device=CpuDevice(id=0), index=(slice(0, 2, None),), replica_id=0, data=[0. 1.])"
/// @param shard The shard.
std::string to_string(const Shard& shard);
std::ostream& operator<<(std::ostream& out, const Shard& shard);

/// An operand of an operation: an array or a C++ scalar, and the line of the user's program where it was given.
class Operand {
 public:
  Operand(const Array& array, SourceLocation where = SourceLocation::current()) : value_(array), where_(where) {}
  template <ScalarLike T>
  Operand(T scalar, SourceLocation where = SourceLocation::current()) : value_(number_of(scalar)), where_(where) {}

  /// The exact value of a C++ scalar.
  using Number = std::variant<bool, std::int64_t, std::uint64_t, double, std::complex<double>>;
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Number* number() const { return std::get_if<Number>(&value_); }
  const SourceLocation& where() const { return where_; }

 private:
  template <class T>
  static Number number_of(T value) {
    if constexpr (std::same_as<T, bool>) {
      return Number(std::in_place_type<bool>, value);
    } else if constexpr (std::signed_integral<T>) {
      return Number(std::in_place_type<std::int64_t>, value);
    } else if constexpr (std::integral<T>) {
      return Number(std::in_place_type<std::uint64_t>, value);
    } else if constexpr (requires { value.real(); }) {
      return Number(std::in_place_type<std::complex<double>>, value.real(), value.imag());
    } else {
      return Number(std::in_place_type<double>, static_cast<double>(value));
    }
  }
  std::variant<Array, Number> value_;
  SourceLocation where_;
};

/// The operands of an operation that takes any number of them: {x, 2, y}, or a vector of arrays.
class Operands {
 public:
  Operands(std::initializer_list<Operand> operands, SourceLocation where = SourceLocation::current())
      : operands_(operands), where_(where) {}
  Operands(std::vector<Operand> operands, SourceLocation where = SourceLocation::current())
      : operands_(std::move(operands)), where_(where) {}
  Operands(const std::vector<Array>& arrays, SourceLocation where = SourceLocation::current()) : where_(where) {
    for (const Array& array : arrays) operands_.emplace_back(array, where);
  }
  const std::vector<Operand>& list() const { return operands_; }
  const SourceLocation& where() const { return where_; }

 private:
  std::vector<Operand> operands_;
  SourceLocation where_;
};

/// How positions of an index array that lie outside the array are handled. Except with kWrap, negative positions first
/// count from the end.
enum class IndexMode : std::uint8_t {
  kClip,          ///< The nearest position is taken.
  kFill,          ///< Reading gives a fill value; writing drops the update.
  kDrop = kFill,  ///< The name for writing.
  kWrap,          ///< Positions are taken modulo the extent.
};

struct GetOptions {
  IndexMode mode = IndexMode::kClip;  ///< What becomes of positions outside.
  /// For kFill. Default: NaN, the least signed or greatest unsigned integer, true.
  std::optional<Operand> fill_value = {};
  /// The sharding of the part along Explicit axes, where positions address a dimension that these split.
  OutSharding out_sharding = {};
  bool wrap_negative_indices = true;  ///< Whether negative positions of arrays count from the end.
};

struct UpdateOptions {
  IndexMode mode = IndexMode::kDrop;  ///< What becomes of positions outside.
  /// The sharding of the result along Explicit axes, where that of the positions or values leaves it open.
  OutSharding out_sharding = {};
  bool wrap_negative_indices = true;  ///< As in GetOptions.
};

/// The part of an array at an index: x.at(i, j). An update returns a copy of the array with this part replaced, in the
/// array's own dtype and, if it lies on several devices, with its sharding.
///
/// Values broadcast to the shape of the part. Throws InvalidArgument if they do not, and TypeMismatch if the array's
/// dtype cannot hold theirs. Where an index names an element several times, set keeps the last value in row-major order
/// of the index, and the other updates combine all values.
class IndexUpdate {
 public:
  IndexUpdate(Array array, std::vector<IndexEntry> index, SourceLocation where)
      : array_(std::move(array)), index_(std::move(index)), where_(where) {}

  /// The part, as array[index] gives it.
  Array get(const GetOptions& options = {}) const;
  Array set(const Operand& values, const UpdateOptions& options = {}) const;
  Array add(const Operand& values, const UpdateOptions& options = {}) const;
  Array subtract(const Operand& values, const UpdateOptions& options = {}) const;
  Array multiply(const Operand& values, const UpdateOptions& options = {}) const;
  /// The quotient is a float, and so is the result.
  Array divide(const Operand& values, const UpdateOptions& options = {}) const;
  Array power(const Operand& values, const UpdateOptions& options = {}) const;
  Array min(const Operand& values, const UpdateOptions& options = {}) const;
  Array max(const Operand& values, const UpdateOptions& options = {}) const;
  /// f(part) in place of the part, for an elementwise f: once for each element, however often the index names it.
  Array apply(const std::function<Array(const Array&)>& f, const UpdateOptions& options = {}) const;

 private:
  Array array_;
  std::vector<IndexEntry> index_;
  SourceLocation where_;
};

// ---- Text.

/// As NumPy's str(): "[0. 1.]". Tracers print their type.
/// @param array The array.
std::string str(const Array& array);
/// As JAX's repr(): "Array([0., 1.], dtype=float32)".
/// @param array The array.
std::string repr(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);  ///< Writes str().
/// The type as users see it: "float32[4,8]"; inside shard_map "int32[4]{V:x}".
/// @param array The array.
/// @example type_of(ones({2, 3}))
/// @python jax.typeof(jnp.ones((2, 3)))
///   float32[2,3]
std::string type_of(const Array& array);

// ---- Placement.

struct DevicePutOptions {
  bool donate = false;    ///< x is deleted, so that its memory can be used again.
  bool may_alias = true;  ///< Where nothing has to move, the result may share the memory of x.
};

/// The array moved to a sharding or device, and committed to it. Under jit the move becomes part of the program, and
/// options are ignored. Throws InvalidArgument or IndivisibleError if the sharding cannot hold the array.
/// @param x An array or a number.
/// @param sharding Where the result lies.
/// @param device The same for one device.
/// @return An array with the elements of x.
Array device_put(const Operand& x, const Sharding& sharding, const DevicePutOptions& options = {});
Array device_put(const Operand& x, const Device& device, const DevicePutOptions& options = {});
Array device_put(const Operand& x);  ///< To the default device, uncommitted.

// ---- Operators. Shapes broadcast and dtypes promote as in JAX.

Array operator+(const Operand& x, const Operand& y);
Array operator-(const Operand& x, const Operand& y);
Array operator*(const Operand& x, const Operand& y);
Array operator/(const Operand& x, const Operand& y);
Array operator%(const Operand& x, const Operand& y);
Array operator-(const Operand& x);
Array operator&(const Operand& x, const Operand& y);
Array operator|(const Operand& x, const Operand& y);
Array operator^(const Operand& x, const Operand& y);
Array operator~(const Operand& x);
Array operator<(const Operand& x, const Operand& y);
Array operator<=(const Operand& x, const Operand& y);
Array operator>(const Operand& x, const Operand& y);
Array operator>=(const Operand& x, const Operand& y);
Array operator==(const Operand& x, const Operand& y);
Array operator!=(const Operand& x, const Operand& y);

namespace detail {
Array scalar_array(const Operand::Number& number, SourceLocation where);
void copy_to_host(const Array& array, Dtype dtype, void* out, bool convert, SourceLocation where);
}  // namespace detail

template <ScalarLike E>
Array::Array(E value, SourceLocation where) : Array(detail::scalar_array(*Operand(value, where).number(), where)) {}

template <Element E>
std::vector<E> Array::to_vector(SourceLocation where) const {
  if constexpr (std::same_as<E, bool>) {
    // A vector of bool has no storage to copy to.
    const auto bytes = std::make_unique<bool[]>(static_cast<std::size_t>(size()));
    detail::copy_to_host(*this, bool_, bytes.get(), false, where);
    return std::vector<bool>(bytes.get(), bytes.get() + size());
  } else {
    std::vector<E> elements(static_cast<std::size_t>(size()));
    detail::copy_to_host(*this, dtype_of<E>(), elements.data(), false, where);
    return elements;
  }
}

template <Element E>
E Array::item(SourceLocation where) const {
  E value{};
  detail::copy_to_host(*this, dtype_of<E>(), &value, true, where);
  return value;
}

}  // namespace shoal
