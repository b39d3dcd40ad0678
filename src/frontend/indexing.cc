// Basic indexing: positions, ranges, ellipsis and newaxis.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/array_impl.h"
#include "frontend/trace.h"
#include "shoal/array.h"
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

// A bound counted from the end if negative, and clipped to the dimension, as in Python.
std::int64_t clipped(std::int64_t bound, std::int64_t extent) {
  return std::clamp<std::int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
}

Array index_array(const Array& array, const std::vector<IndexEntry>& index, SourceLocation where) {
  Dims starts;
  Dims limits;
  Dims strides;
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
    if (range.step < 1) {
      throw InvalidArgument(fmt::format("index: the step of a range is {}; it must be at least 1", range.step),
                            entry.where());
    }
    starts.push_back(clipped(range.start.value_or(0), extent));
    limits.push_back(std::max(starts.back(), clipped(range.stop.value_or(extent), extent)));
    strides.push_back(range.step);
    shape.push_back((limits.back() - starts.back() + range.step - 1) / range.step);
  }
  const Array sliced =
      limits == array.shape() && starts == Dims(array.ndim(), 0) && strides == Dims(array.ndim(), 1)
          ? array
          : bind_one("slice", {{"starts", starts}, {"limits", limits}, {"strides", strides}}, {array}, where);
  return reshape({sliced, where}, shape);
}

}  // namespace

Array Array::at(std::vector<IndexEntry> index, SourceLocation where) const { return index_array(*this, index, where); }

Array Array::operator[](const IndexEntry& index) const { return at({index}, index.where()); }

Array Array::operator[](std::initializer_list<IndexEntry> index) const {
  return at(index, index.size() == 0 ? SourceLocation() : index.begin()->where());
}

}  // namespace shoal
