// Indexing: what an index means, and how it is read and replaced.
#include "frontend/functions/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "ops/rules.h"
#include "ops/table.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {

// ---- Items at positions.

namespace {

constexpr std::int64_t kMostCounted = std::numeric_limits<std::int32_t>::max();

const MemoryKind& memory_of(const Array& array) { return detail::impl_of(array).type.memory; }

void check_integers(const Array& positions) {
  if (is_integer(positions.dtype())) return;
  throw misuse<TypeMismatch>("positions must be integers, not {}; convert them with astype", type_of(positions));
}

Array with_dims(std::string_view op, Attrs attrs, const ItemDims& dims, std::vector<Array> operands,
                const std::vector<Array>& positions) {
  attrs.set("dims", dims.dims);
  attrs.set("array_batch", dims.array_batch);
  attrs.set("index_batch", dims.index_batch);
  operands.insert(operands.end(), positions.begin(), positions.end());
  return shoal::bind(op_named(op), std::move(attrs), operands)[0];
}

}  // namespace

Array resolved_positions(const Array& positions, std::int64_t extent, IndexMode mode, bool from_end) {
  check_integers(positions);
  const Dtype given = positions.dtype();
  const bool wide = extent > kMostCounted || given == int64 || given == uint32 || given == uint64;
  Array result = convert(positions, wide ? int64 : int32);
  if (mode == IndexMode::kWrap) return remainder(result, extent);
  if (from_end && is_signed(given)) result = where(less(result, 0), add(result, extent), result);
  if (mode != IndexMode::kClip) return result;
  return minimum(maximum(result, 0), extent - 1);
}

Array items_at(const Array& array, const std::vector<Array>& positions, const ItemDims& dims,
               const std::optional<Operand>& fill) {
  const Array items = with_dims("gather", {}, dims, {array}, positions);
  if (!fill || positions.empty()) return items;
  std::optional<Array> inside;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t extent = array.shape()[static_cast<std::size_t>(dims.dims[i])];
    const Array one = bitwise_and(greater_equal(positions[i], 0), less(positions[i], extent));
    inside = inside ? bitwise_and(*inside, one) : one;
  }
  Dims leading(inside->ndim());
  std::iota(leading.begin(), leading.end(), 0);
  return where(spread(*inside, items.shape(), leading), items, fitting(array, *fill));
}

Operand default_fill(Dtype dtype) {
  if (dtype == bool_) return true;
  if (is_key(dtype)) {  // One whose words are the greatest.
    const auto words = static_cast<std::int64_t>(size_of(dtype) / size_of(uint32));
    const Array ones = full({words}, std::numeric_limits<std::uint32_t>::max(), {.dtype = uint32});
    return bind_one("bitcast", {{"dtype", dtype}}, {ones});
  }
  if (!is_integer(dtype)) return std::numeric_limits<double>::quiet_NaN();
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_signed(dtype)) return std::numeric_limits<std::int64_t>::min() >> (64 - bits);
  return std::numeric_limits<std::uint64_t>::max() >> (64 - bits);
}

Array with_items(const Array& array, const Array& items, const std::vector<Array>& positions, const ItemDims& dims) {
  return with_dims("scatter", {}, dims, {array, items}, positions);
}

Array reduced_items(std::string_view kind, const Shape& shape, const Array& items, const std::vector<Array>& positions,
                    const ItemDims& dims) {
  return with_dims("scatter_reduce", {{"kind", std::string(kind)}, {"shape", shape}}, dims, {items}, positions);
}

Array counted(std::int64_t extent, const Array& like) {
  if (extent > kMostCounted) {
    throw misuse<OutOfRange>("a dimension of {} has extent {}; positions are i32, which counts to {}", type_of(like),
                             extent, kMostCounted);
  }
  Attrs attrs{{"shape", Dims{extent}}, {"dtype", int32}, {"dim", std::int64_t{0}}};
  if (memory_of(like) != kDeviceMemory) attrs.set("memory", memory_of(like));
  return bind_one("iota", std::move(attrs), {});
}

Array spread(const Array& array, const Shape& shape, const Dims& dims) {
  if (array.shape() == shape) return array;
  return bind_one("broadcast_in_dim", {{"shape", shape}, {"dims", dims}}, {array});
}

Array fitting(const Array& array, const Operand& values) {
  const Type& type = detail::impl_of(array).type;
  const DtypeAndWeakness given = element_of(values);
  if (promote_types(type.element(), given).dtype != type.dtype) {
    throw misuse<TypeMismatch>(
        "an array of dtype {} does not hold values of dtype {} without loss; convert either with astype",
        name_of(type.dtype), name_of(given.dtype));
  }
  if (values.number() != nullptr) return scalar_of(*values.number(), type.element(), type.memory);
  return convert(*values.array(), type.dtype, type.weak);
}

std::vector<Array> positions_of_true(const Array& mask) {
  const Shape& shape = mask.shape();
  const std::vector<bool> holds = mask.to_vector<bool>();
  std::vector<std::vector<std::int32_t>> positions(shape.size());
  for_each_index(shape, [&](std::int64_t i, const Dims& at) {
    if (!holds[static_cast<std::size_t>(i)]) return;
    for (std::size_t d = 0; d < at.size(); ++d) positions[d].push_back(static_cast<std::int32_t>(at[d]));
  });
  std::vector<Array> arrays;
  for (const std::vector<std::int32_t>& list : positions) arrays.push_back(array(list, {}));
  return arrays;
}

// ---- What an index means.

namespace {

// What an index does with one dimension of the array, or a new dimension.
struct Part {
  enum class Kind { kPosition, kRange, kNew, kPositions };
  Kind kind;
  std::int64_t start = 0;  // Of a position: where it is.
  std::int64_t count = 1;
  std::int64_t step = 1;
  Array positions = {};

  bool is_range() const { return kind == Kind::kRange; }
  bool is_new() const { return kind == Kind::kNew; }
  bool addresses() const { return !is_range() && !is_new(); }
  bool takes_all(std::int64_t extent) const { return start == 0 && count == extent && step == 1; }
};

// An index as one part for each dimension of an array, and the new ones between them.
struct Parts {
  std::vector<Part> list;
  bool from_end = true;  // Whether negative positions of arrays count from the end.
  Shape outer;           // The shape of the arrays of positions, broadcast together.
  bool in_place = true;  // Whether its dimensions stand where the first position does, and not in front of all.

  // The number of ranges in front of them.
  std::size_t front() const {
    std::size_t count = 0;
    for (const Part& part : list) {
      if (part.addresses() || !in_place) break;
      if (part.is_range()) ++count;
    }
    return count;
  }

  bool has_arrays() const {
    return std::any_of(list.begin(), list.end(), [](const Part& part) { return part.kind == Part::Kind::kPositions; });
  }
  // The shape of what the index names, with or without the new dimensions.
  Shape shape(bool with_new) const {
    Shape result;
    bool placed = false;
    const auto place = [&] {
      if (!placed) result.insert(result.end(), outer.begin(), outer.end());
      placed = true;
    };
    if (!in_place) place();
    for (const Part& part : list) {
      if (part.addresses()) place();
      if (part.is_range()) result.push_back(part.count);
      if (part.is_new() && with_new) result.push_back(1);
    }
    return result;
  }
};

const Array* array_of(const IndexEntry& entry) { return std::get_if<Array>(&entry.value()); }

bool is_mask(const IndexEntry& entry) {
  const Array* const array = array_of(entry);
  return array != nullptr && detail::impl_of(*array).type.dtype == bool_;
}

// The number of dimensions of the array that an entry is about.
std::size_t taken_by(const IndexEntry& entry) {
  if (is_mask(entry)) return array_of(entry)->ndim();
  return std::holds_alternative<Ellipsis>(entry.value()) || std::holds_alternative<NewAxis>(entry.value()) ? 0 : 1;
}

bool is_ellipsis(const IndexEntry& entry) { return std::holds_alternative<Ellipsis>(entry.value()); }

// Replaces the ellipsis, or adds one at the end, by as many whole ranges as there are dimensions left.
std::vector<IndexEntry> expanded(const Array& array, const std::vector<IndexEntry>& index) {
  detail::impl_of(array);
  std::size_t taken = 0;
  for (const IndexEntry& entry : index) {
    taken += taken_by(entry);
  }
  if (taken > array.ndim()) {
    throw misuse<OutOfRange>("{} entries for an array {} with {} dimensions", taken, type_of(array), array.ndim());
  }
  if (std::count_if(index.begin(), index.end(), is_ellipsis) > 1) {
    throw misuse<OutOfRange>("an index can have one ellipsis only");
  }
  const std::vector<IndexEntry> rest(array.ndim() - taken, IndexEntry(Range{}));
  std::vector<IndexEntry> result = index;
  auto position = std::find_if(result.begin(), result.end(), is_ellipsis);
  if (position != result.end()) position = result.erase(position);
  result.insert(position, rest.begin(), rest.end());
  return result;
}

Part position_part(const Array& array, std::size_t d, std::int64_t at) {
  const std::int64_t extent = array.shape()[d];
  if (at < -extent || at >= extent) {
    throw misuse<OutOfRange>("index {} is out of range for dimension {} of {}, which has extent {}", at, d,
                             type_of(array), extent);
  }
  return {.kind = Part::Kind::kPosition, .start = at < 0 ? at + extent : at};
}

// The first position and the number of those that a range names.
Part range_part(std::int64_t extent, const Range& range) {
  if (range.step == 0) throw misuse<InvalidArgument>("the step of a range is 0; it must not be 0");
  // Bounds are counted from the end if negative, and clipped to the dimension, as in Python.
  const auto clipped = [&](std::int64_t bound, std::int64_t low, std::int64_t high) {
    return std::clamp(bound < 0 ? bound + extent : bound, low, high);
  };
  Part part{.kind = Part::Kind::kRange, .start = 0, .count = 0, .step = range.step};
  if (range.step > 0) {
    part.start = clipped(range.start.value_or(0), 0, extent);
    const std::int64_t stop = std::max(part.start, clipped(range.stop.value_or(extent), 0, extent));
    if (stop > part.start) part.count = 1 + (stop - part.start - 1) / range.step;
  } else {
    part.start = range.start ? clipped(*range.start, -1, extent - 1) : extent - 1;
    const std::int64_t stop = range.stop ? std::min(part.start, clipped(*range.stop, -1, extent - 1)) : -1;
    // Written so that it holds for the least integer, too.
    if (stop < part.start) part.count = 1 + (stop - part.start + 1) / range.step;
  }
  if (part.count == 0) part.start = std::max<std::int64_t>(part.start, 0);
  if (part.count <= 1) part.step = 1;  // A step beyond the dimension reaches no second element.
  return part;
}

void check_mask(const Array& array, std::size_t d, const Array& mask) {
  const auto from = array.shape().begin() + static_cast<std::ptrdiff_t>(d);
  if (d + mask.ndim() > array.ndim() || !std::equal(mask.shape().begin(), mask.shape().end(), from)) {
    throw misuse<OutOfRange>("the boolean index {} must have the extents of the dimensions of {} from {} on",
                             type_of(mask), type_of(array), d);
  }
}

std::vector<Array> positions_of_index(const Array& mask) {
  if (mask.is_tracer()) {
    throw misuse<ValueOfTracer>(
        "how many elements the boolean index {} selects depends on its values, which are not known while tracing; use "
        "where(mask, x, y), or nonzero with a size",
        type_of(mask));
  }
  return positions_of_true(mask);
}

// An array and an index to it.
struct Indexed {
  Array array;
  std::vector<IndexEntry> index;
};

// A bool without dimensions adds a dimension, of which it selects the one element or none.
Indexed with_dims_of_bools(const Array& array, const std::vector<IndexEntry>& index) {
  const auto is_bool = [](const IndexEntry& entry) { return is_mask(entry) && array_of(entry)->ndim() == 0; };
  if (std::ranges::none_of(index, is_bool)) return {array, index};
  std::vector<IndexEntry> entries = expanded(array, index);
  Shape shape = array.shape();
  std::size_t d = 0;
  for (IndexEntry& entry : entries) {
    if (is_bool(entry)) {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d), 1);
      const Array mask = reshape(*array_of(entry), {1});
      entry = IndexEntry(positions_of_index(mask)[0]);
    }
    d += taken_by(entry);
  }
  return {reshape(array, shape), std::move(entries)};
}

Array in_shape(const Array& array, const Shape& shape) {
  return array.shape() == shape ? array : reshape(array, shape);
}

Parts parts_of(const Array& array, const std::vector<IndexEntry>& index, bool from_end) {
  Parts parts;
  parts.from_end = from_end;
  std::size_t d = 0;
  for (const IndexEntry& entry : expanded(array, index)) {
    const auto* const at = std::get_if<std::int64_t>(&entry.value());
    if (at != nullptr && *at < 0 && !from_end) {
      // Outside, where modes say what is there, as of positions of arrays.
      const Array position = to_array(Operand(*at), memory_of(array));
      parts.list.push_back({.kind = Part::Kind::kPositions, .positions = position});
    } else if (at != nullptr) {
      parts.list.push_back(position_part(array, d, *at));
    } else if (const auto* range = std::get_if<Range>(&entry.value())) {
      parts.list.push_back(range_part(array.shape()[d], *range));
    } else if (array_of(entry) == nullptr) {
      parts.list.push_back({.kind = Part::Kind::kNew});
    } else {
      std::vector<Array> positions = {*array_of(entry)};
      if (is_mask(entry)) {
        check_mask(array, d, positions[0]);
        positions = positions_of_index(positions[0]);
      }
      for (const Array& one : positions) {
        check_integers(one);
        parts.outer = broadcast_shapes(parts.outer, one.shape());
        parts.list.push_back({.kind = Part::Kind::kPositions, .positions = one});
      }
    }
    d += taken_by(entry);
  }
  const auto addresses = [](const Part& part) { return part.addresses(); };
  const auto first = std::find_if(parts.list.begin(), parts.list.end(), addresses);
  const auto last = std::find_if(parts.list.rbegin(), parts.list.rend(), addresses).base();
  parts.in_place = first == parts.list.end() || std::all_of(first, last, addresses);
  return parts;
}

// ---- Reading.

// The ranges of the index and, if it names no arrays, the positions, by a slice. What is sliced off keeps its
// dimension.
Array sliced(const Array& array, const Parts& parts, bool positions_too) {
  Dims starts;
  Dims limits;
  Dims strides;
  Dims reversed;
  for (const Part& part : parts.list) {
    if (part.is_new()) continue;
    const std::int64_t extent = array.shape()[starts.size()];
    const bool whole = part.addresses() && !positions_too;
    const std::int64_t reach = std::max<std::int64_t>(part.count - 1, 0) * part.step;
    if (part.step < 0) reversed.push_back(static_cast<std::int64_t>(starts.size()));
    starts.push_back(whole ? 0 : std::min(part.start, part.start + reach));
    strides.push_back(whole ? 1 : std::abs(part.step));
    limits.push_back(whole ? extent : starts.back() + std::abs(reach) + (part.count == 0 ? 0 : 1));
    if (part.is_range() && part.takes_all(extent)) limits.back() = extent;
  }
  Array result = array;
  if (limits != array.shape() || starts != Dims(array.ndim(), 0) || strides != Dims(array.ndim(), 1)) {
    result = bind_one("slice", {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {result});
  }
  return reversed.empty() ? result : lax::rev(result, reversed);
}

Array permuted(const Array& array, const Dims& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return array;
  return transpose(array, perm);
}

Dims consecutive(std::size_t first, std::size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(first));
  return dims;
}

void append(Dims& list, const Dims& more) { list.insert(list.end(), more.begin(), more.end()); }

// The positions of an addressing part, one for each item.
Array positions_of(const Array& array, std::size_t d, const Part& part, bool from_end, IndexMode mode,
                   const Shape& items, std::size_t outer) {
  const std::int64_t extent = array.shape()[d];
  const MemoryKind memory = memory_of(array);
  const Array positions = part.kind == Part::Kind::kPosition
                              ? to_array(part.start, memory)
                              : resolved_positions(part.positions, extent, mode, from_end);
  return spread(positions, items, consecutive(outer - positions.ndim(), positions.ndim()));
}

Array get_part(const Array& array, const Parts& parts, const GetOptions& options) {
  if (!parts.has_arrays()) return reshape(sliced(array, parts, true), parts.shape(true));
  ItemDims dims;
  std::vector<Array> positions;
  std::size_t d = 0;
  for (const Part& part : parts.list) {
    if (part.is_new()) continue;
    if (part.addresses()) {
      if (array.shape()[d] == 0 && num_elements(parts.outer) > 0 && options.mode != IndexMode::kFill) {
        throw misuse<OutOfRange>("dimension {} of {} has no element to take", d, type_of(array));
      }
      dims.dims.push_back(static_cast<std::int64_t>(d));
      positions.push_back(positions_of(array, d, part, parts.from_end, options.mode, parts.outer, parts.outer.size()));
    }
    ++d;
  }
  std::optional<Operand> fill;
  if (options.mode == IndexMode::kFill) {
    fill = options.fill_value ? options.fill_value : default_fill(array.dtype());
  }
  const Array items = items_at(sliced(array, parts, false), positions, dims, fill);
  const std::size_t outer = parts.outer.size();
  Dims perm = consecutive(outer, parts.front());
  append(perm, consecutive(0, outer));
  append(perm, consecutive(perm.size(), items.ndim() - perm.size()));
  return reshape(permuted(items, perm), parts.shape(true));
}

// ---- Replacing.

// Where values go: as items with their positions.
struct Update {
  ItemDims dims;
  std::vector<Array> positions;
  Array items;
};

// Values as those of the part.
Array as_part(const Array& values, const Parts& parts) {
  const Shape shape = parts.shape(true);
  if (broadcast_shapes(values.shape(), shape) != shape) {
    throw misuse<InvalidArgument>("values {} do not broadcast to shape {}, that of the part they replace",
                                  type_of(values), to_string(shape));
  }
  return broadcast(values, shape);
}

// Whether the part is a window of the array that is known when the program is made, which can be written as a whole.
bool is_window(const Array& array, const Parts& parts) {
  return !parts.has_arrays() && !detail::impl_of(array).type.explicit_axes &&
         std::all_of(parts.list.begin(), parts.list.end(), [](const Part& part) { return part.step == 1; });
}

Array with_window(const Array& array, const Parts& parts, const Array& values) {
  Shape shape;
  std::vector<Operand> starts;
  for (const Part& part : parts.list) {
    if (part.is_new()) continue;
    shape.push_back(part.count);
    starts.push_back(part.start);
  }
  return lax::dynamic_update_slice(array, reshape(as_part(values, parts), shape), starts);
}

// Ranges that are not whole become positions like others, with dimensions behind those of the arrays.
Update update_of(const Array& array, const Parts& parts, const Array& values, IndexMode mode) {
  const Array placed = reshape(as_part(values, parts), parts.shape(false));
  const std::size_t front = parts.front();
  const std::size_t outer = parts.outer.size();
  Shape items = parts.outer;
  Dims perm = consecutive(front, outer);
  Dims whole;
  std::size_t d = 0;
  std::size_t range = 0;
  for (const Part& part : parts.list) {
    if (part.is_new()) continue;
    if (part.is_range()) {
      const std::size_t at = range < front ? range : range + outer;
      const bool all = part.takes_all(array.shape()[d]);
      (all ? whole : perm).push_back(static_cast<std::int64_t>(at));
      if (!all) items.push_back(part.count);
      ++range;
    }
    ++d;
  }
  append(perm, whole);
  Update update{.dims = {}, .positions = {}, .items = permuted(placed, perm)};
  d = 0;
  std::size_t next = outer;
  for (const Part& part : parts.list) {
    if (part.is_new()) continue;
    std::optional<Array> at;
    if (part.addresses()) {
      at = positions_of(array, d, part, parts.from_end, mode, items, outer);
    } else if (!part.takes_all(array.shape()[d])) {
      const Array steps = multiply(counted(part.count, array), part.step);
      at = spread(add(steps, part.start), items, consecutive(next++, 1));
    }
    if (at) {
      update.dims.dims.push_back(static_cast<std::int64_t>(d));
      update.positions.push_back(*at);
    }
    ++d;
  }
  return update;
}

}  // namespace

// ---- Iterating.

namespace {

// An array whose first dimension is whole on each device, so that each of its parts does not gather it anew.
Array with_whole_rows(const Array& array) {
  if (array.is_tracer()) return array;
  const Sharding sharding = array.sharding();
  const NamedSharding* named = sharding.named();
  if (named == nullptr || named->spec().size() == 0 || named->spec()[0].is_none()) return array;
  std::vector<PartitionEntry> entries = named->spec().entries();
  entries[0] = none;
  return device_put(array, named->with_spec(PartitionSpec(std::move(entries))));
}

void check_iterable(const Array& array) {
  detail::impl_of(array);
  if (array.ndim() == 0) {
    throw misuse<TypeMismatch>("{} has no dimension to iterate over", type_of(array));
  }
}

}  // namespace

ArrayIterator Array::begin(SourceLocation where) const {
  const Caller caller("begin", where);
  check_iterable(*this);
  return {with_whole_rows(*this), 0, where};
}

ArrayIterator Array::end(SourceLocation where) const {
  const Caller caller("end", where);
  check_iterable(*this);
  return {{}, shape()[0], where};
}

// The position is an operand, so that one program serves all.
Array ArrayIterator::operator*() const {
  const Caller caller("iterator", where_);
  return lax::dynamic_index_in_dim(array_, position_, 0, false);
}

// ---- The user's functions.

namespace {

using Combine = Array (*)(const Operand&, const Operand&);

// The mask, if it is the whole index, and the values do not depend on how many elements it selects. Then the update
// chooses between the array and the values, and the mask may be traced.
const Array* choosing_mask(const Array& array, const std::vector<IndexEntry>& index, const Array& values) {
  if (index.size() != 1 || !is_mask(index[0])) return nullptr;
  const Array& mask = *array_of(index[0]);
  detail::impl_of(array);
  if (values.ndim() + mask.ndim() > array.ndim()) return nullptr;
  check_mask(array, 0, mask);
  const Shape rest(array.shape().begin() + static_cast<std::ptrdiff_t>(mask.ndim()), array.shape().end());
  return broadcast_shapes(values.shape(), rest) == rest ? &mask : nullptr;
}

// The array where the mask of its leading dimensions does not hold, and `replacement` elsewhere.
Array masked(const Array& array, const Array& mask, const Array& replacement) {
  const Array whole = spread(mask, array.shape(), consecutive(0, mask.ndim()));
  return where(whole, replacement, array);
}

// split_as, of an array, the arrays of an index to it, and others.
template <class F>
Array split_index(const OutSharding& out_sharding, const Array& array, const std::vector<IndexEntry>& index,
                  const std::vector<Array>& others, F&& f) {
  std::vector<Array> operands = {array};
  for (const IndexEntry& entry : index) {
    if (array_of(entry) != nullptr) operands.push_back(*array_of(entry));
  }
  operands.insert(operands.end(), others.begin(), others.end());
  return split_as(out_sharding, operands, [&](const std::vector<Array>& arrays) {
    std::size_t next = 1;
    std::vector<IndexEntry> entries = index;
    for (IndexEntry& entry : entries) {
      if (array_of(entry) != nullptr) entry = IndexEntry(arrays[next++]);
    }
    return f(arrays[0], entries, std::vector<Array>(arrays.begin() + static_cast<std::ptrdiff_t>(next), arrays.end()));
  });
}

// The array with a part replaced.
Array replaced(const Array& given_array, const std::vector<IndexEntry>& given_index, const Operand& given,
               const UpdateOptions& options) {
  const Array fitted = fitting(given_array, given);
  return split_index(options.out_sharding, given_array, given_index, {fitted},
                     [&](const Array& array, const std::vector<IndexEntry>& index, const std::vector<Array>& others) {
                       const Array& values = others[0];
                       if (const Array* mask = choosing_mask(array, index, values)) {
                         return masked(array, *mask, values);
                       }
                       const Indexed to = with_dims_of_bools(array, index);
                       const Parts parts = parts_of(to.array, to.index, options.wrap_negative_indices);
                       if (is_window(to.array, parts)) {
                         return in_shape(with_window(to.array, parts, values), array.shape());
                       }
                       const Update update = update_of(to.array, parts, values, options.mode);
                       const Array result = with_items(to.array, update.items, update.positions, update.dims);
                       return in_shape(result, array.shape());
                     });
}

bool has_fractions(Dtype dtype) { return is_floating(dtype) || is_complex(dtype); }

// Whether the op by which values are combined with an array is that by which `kind` combines them where they meet: back
// ends then combine them where the array lies.
bool combines_alike(std::string_view kind, Combine combine) { return kind != "prod" || combine == shoal::multiply; }

// Whether no place is addressed twice, as indices address one item. The array is not split as its type says: an item of
// it would then have no split that is certain.
bool is_one_item(const Array& array, const Parts& parts) {
  return num_elements(parts.outer) == 1 && !detail::impl_of(array).type.explicit_axes;
}

// The array combined with values, which `kind` reduces where they meet.
Array combined(std::string_view kind, Combine combine, const Array& given_array,
               const std::vector<IndexEntry>& given_index, const Operand& given, const UpdateOptions& options) {
  const Array fitted = fitting(given_array, given);
  return split_index(options.out_sharding, given_array, given_index, {fitted},
                     [&](const Array& array, const std::vector<IndexEntry>& index, const std::vector<Array>& others) {
                       const Array& values = others[0];
                       if (const Array* mask = choosing_mask(array, index, values)) {
                         return masked(array, *mask, combine(array, values));
                       }
                       const Indexed to = with_dims_of_bools(array, index);
                       const Parts parts = parts_of(to.array, to.index, options.wrap_negative_indices);
                       // Quotients of integers are floats, those with 1, too.
                       const bool keeps_dtype = combine != shoal::divide || has_fractions(array.dtype());
                       if (is_window(to.array, parts) && keeps_dtype) {
                         const Array changed = combine(get_part(to.array, parts, {}), as_part(values, parts));
                         return in_shape(with_window(to.array, parts, changed), array.shape());
                       }
                       const Update update = update_of(to.array, parts, values, options.mode);
                       if (is_one_item(to.array, parts) && !combines_alike(kind, combine) && keeps_dtype) {
                         const Array before = items_at(to.array, update.positions, update.dims, {});
                         const Array changed = combine(before, update.items);
                         return in_shape(with_items(to.array, changed, update.positions, update.dims), array.shape());
                       }
                       const Array change =
                           reduced_items(kind, to.array.shape(), update.items, update.positions, update.dims);
                       return in_shape(combine(to.array, change), array.shape());
                     });
}

void refuse_kind(const Array& array, bool refused) {
  if (!refused) return;
  throw misuse<TypeMismatch>("does not take arrays of dtype {}", name_of(array.dtype()));
}

}  // namespace

Array IndexUpdate::get(const GetOptions& options) const {
  const Caller caller("get", where_);
  return split_index(options.out_sharding, array_, index_, {},
                     [&](const Array& array, const std::vector<IndexEntry>& index, const std::vector<Array>&) {
                       const Indexed from = with_dims_of_bools(array, index);
                       const Parts parts = parts_of(from.array, from.index, options.wrap_negative_indices);
                       return get_part(from.array, parts, options);
                     });
}

Array IndexUpdate::set(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("set", values.where());
  return replaced(array_, index_, values, options);
}

Array IndexUpdate::add(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("add", values.where());
  return combined("sum", shoal::add, array_, index_, values, options);
}

Array IndexUpdate::subtract(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("subtract", values.where());
  const Array fitted = fitting(array_, values);
  refuse_kind(array_, fitted.dtype() == bool_);
  return combined("sum", shoal::add, array_, index_, negative(fitted), options);
}

Array IndexUpdate::multiply(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("multiply", values.where());
  return combined("prod", shoal::multiply, array_, index_, values, options);
}

Array IndexUpdate::divide(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("divide", values.where());
  return combined("prod", shoal::divide, array_, index_, values, options);
}

Array IndexUpdate::power(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("power", values.where());
  refuse_kind(array_, array_.dtype() == bool_);
  return combined("prod", shoal::power, array_, index_, values, options);
}

Array IndexUpdate::min(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("min", values.where());
  refuse_kind(array_, is_complex(array_.dtype()));
  return combined("min", shoal::minimum, array_, index_, values, options);
}

Array IndexUpdate::max(const Operand& values, const UpdateOptions& options) const {
  const Caller caller("max", values.where());
  refuse_kind(array_, is_complex(array_.dtype()));
  return combined("max", shoal::maximum, array_, index_, values, options);
}

Array IndexUpdate::apply(const std::function<Array(const Array&)>& f, const UpdateOptions& options) const {
  const Caller caller("apply", where_);
  const auto applied = [&](const Array& part) {
    const Caller::Pause pause;
    return f(part);
  };
  const bool chooses = index_.size() == 1 && is_mask(index_[0]);
  return split_index(options.out_sharding, array_, index_, {},
                     [&](const Array& array, const std::vector<IndexEntry>& index, const std::vector<Array>&) {
                       if (!chooses) {
                         const bool wrap = options.wrap_negative_indices;
                         const Array values =
                             applied(IndexUpdate(array, index, {}).get({.wrap_negative_indices = wrap}));
                         return replaced(array, index, values,
                                         {.mode = options.mode, .out_sharding = {}, .wrap_negative_indices = wrap});
                       }
                       check_mask(array, 0, *array_of(index[0]));
                       return masked(array, *array_of(index[0]), fitting(array, applied(array)));
                     });
}

IndexUpdate Array::at(const IndexEntry& i) const { return {*this, {i}, i.where()}; }
IndexUpdate Array::at(const IndexEntry& i, const IndexEntry& j) const { return {*this, {i, j}, i.where()}; }
IndexUpdate Array::at(const IndexEntry& i, const IndexEntry& j, const IndexEntry& k) const {
  return {*this, {i, j, k}, i.where()};
}
IndexUpdate Array::at(const IndexEntry& i, const IndexEntry& j, const IndexEntry& k, const IndexEntry& l) const {
  return {*this, {i, j, k, l}, i.where()};
}
IndexUpdate Array::at(std::vector<IndexEntry> index, SourceLocation where) const {
  return {*this, std::move(index), where};
}

Array Array::operator[](const IndexEntry& index) const {
  const Caller caller("index", index.where());
  return at(index).get();
}

Array Array::operator[](std::initializer_list<IndexEntry> index) const {
  const Caller caller("index", index.size() == 0 ? SourceLocation() : index.begin()->where());
  return at(index).get();
}

}  // namespace shoal
