// Basic indexing: positions, ranges, ellipsis and newaxis.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/trace.h"
#include "shoal/array.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal {
namespace {

bool takes_dimension(const IndexEntry& entry) {
  return std::holds_alternative<std::int64_t>(entry.value()) || std::holds_alternative<Range>(entry.value());
}

bool is_ellipsis(const IndexEntry& entry) { return std::holds_alternative<Ellipsis>(entry.value()); }

// Replaces the ellipsis, or adds one at the end, by as many whole ranges as there are dimensions left.
std::vector<IndexEntry> expanded(const Array& array, const std::vector<IndexEntry>& index, SourceLocation where) {
  detail::impl_of(array, "index", where);
  const auto taken = static_cast<std::size_t>(std::count_if(index.begin(), index.end(), takes_dimension));
  if (taken > array.ndim()) {
    throw OutOfRange(
        fmt::format("index: {} entries for an array {} with {} dimensions", taken, type_of(array), array.ndim()),
        where);
  }
  if (std::count_if(index.begin(), index.end(), is_ellipsis) > 1) {
    throw OutOfRange("index: an index can have one ellipsis only", where);
  }
  const std::vector<IndexEntry> rest(array.ndim() - taken, IndexEntry(Range{}));
  std::vector<IndexEntry> result = index;
  auto position = std::find_if(result.begin(), result.end(), is_ellipsis);
  if (position != result.end()) position = result.erase(position);
  result.insert(position, rest.begin(), rest.end());
  return result;
}

// The positions that a range names: `count` of them, `step` apart, from `low` on.
struct Positions {
  std::int64_t low = 0;
  std::int64_t count = 0;
};

Positions positions_of(const Range& range, std::int64_t extent) {
  // Bounds are counted from the end if negative, and clipped to the dimension, as in Python.
  const auto clipped = [&](std::int64_t bound, std::int64_t low, std::int64_t high) {
    return std::clamp(bound < 0 ? bound + extent : bound, low, high);
  };
  if (range.step > 0) {
    const std::int64_t start = clipped(range.start.value_or(0), 0, extent);
    const std::int64_t stop = std::max(start, clipped(range.stop.value_or(extent), 0, extent));
    return {start, (stop - start + range.step - 1) / range.step};
  }
  const std::int64_t start = range.start ? clipped(*range.start, -1, extent - 1) : extent - 1;
  const std::int64_t stop = range.stop ? std::min(start, clipped(*range.stop, -1, extent - 1)) : -1;
  // Written so that it holds for the least integer, too.
  const std::int64_t count = start == stop ? 0 : 1 + (stop - start + 1) / range.step;
  return count == 0 ? Positions{} : Positions{start + (count - 1) * range.step, count};
}

Array index_array(const Array& array, const std::vector<IndexEntry>& index, SourceLocation where) {
  Dims starts;
  Dims limits;
  Dims strides;
  Dims reversed;
  Shape shape;
  for (const IndexEntry& entry : expanded(array, index, where)) {
    if (std::holds_alternative<NewAxis>(entry.value())) {
      shape.push_back(1);
      continue;
    }
    const std::size_t d = starts.size();
    const std::int64_t extent = array.shape()[d];
    if (const auto* at = std::get_if<std::int64_t>(&entry.value())) {
      if (*at < -extent || *at >= extent) {
        throw OutOfRange(fmt::format("index {} is out of range for dimension {} of {}, which has extent {}", *at, d,
                                     type_of(array), extent),
                         entry.where());
      }
      starts.push_back(*at < 0 ? *at + extent : *at);
      limits.push_back(starts.back() + 1);
      strides.push_back(1);
      continue;
    }
    const Range& range = std::get<Range>(entry.value());
    if (range.step == 0) {
      throw InvalidArgument("index: the step of a range is 0; it must not be 0", entry.where());
    }
    const Positions positions = positions_of(range, extent);
    // Steps beyond the dimension reach no second element.
    const std::int64_t stride = positions.count > 1 ? std::abs(range.step) : 1;
    starts.push_back(positions.low);
    limits.push_back(positions.low + (positions.count == 0 ? 0 : (positions.count - 1) * stride + 1));
    strides.push_back(stride);
    shape.push_back(positions.count);
    if (range.step < 0 && positions.count > 1) reversed.push_back(static_cast<std::int64_t>(d));
  }
  Array result = array;
  if (limits != array.shape() || starts != Dims(array.ndim(), 0) || strides != Dims(array.ndim(), 1)) {
    result = bind_one("slice", {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {result}, where);
  }
  if (!reversed.empty()) result = lax::rev({result, where}, reversed);
  return reshape({result, where}, shape);
}

// An array whose first dimension is whole on each device, so that each of its parts does not gather it anew.
Array with_whole_rows(const Array& array, SourceLocation where) {
  if (array.is_tracer()) return array;
  const Sharding sharding = array.sharding(where);
  const NamedSharding* named = sharding.named();
  if (named == nullptr || named->spec().size() == 0 || named->spec()[0].is_none()) return array;
  std::vector<PartitionEntry> entries = named->spec().entries();
  entries[0] = none;
  return device_put({array, where}, named->with_spec(PartitionSpec(std::move(entries))));
}

void check_iterable(const Array& array, SourceLocation where) {
  detail::impl_of(array, "begin", where);
  if (array.ndim() == 0) {
    throw TypeMismatch(fmt::format("begin: {} has no dimension to iterate over", type_of(array)), where);
  }
}

}  // namespace

ArrayIterator Array::begin(SourceLocation where) const {
  check_iterable(*this, where);
  return {with_whole_rows(*this, where), 0, where};
}

ArrayIterator Array::end(SourceLocation where) const {
  check_iterable(*this, where);
  return {{}, shape()[0], where};
}

// The position is an operand, so that one program serves all.
Array ArrayIterator::operator*() const {
  return lax::dynamic_index_in_dim({array_, where_}, {position_, where_}, 0, false);
}

Array Array::at(std::vector<IndexEntry> index, SourceLocation where) const { return index_array(*this, index, where); }

Array Array::operator[](const IndexEntry& index) const { return at({index}, index.where()); }

Array Array::operator[](std::initializer_list<IndexEntry> index) const {
  return at(index, index.size() == 0 ? SourceLocation() : index.begin()->where());
}

}  // namespace shoal
