#include "backend/cpu/moves/items.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/moves/positions.h"
#include "core/dispatch.h"

namespace shoal::cpu {
namespace {

bool is_in(const Dims& dims, std::size_t d) {
  return std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
}

// Extents and strides up to this one are multiplied in vectors.
constexpr std::int64_t kShort = std::numeric_limits<std::int32_t>::max();

}  // namespace

Items::Items(const Attrs& attrs, const TensorView& array, Views indices, const Shape& items) {
  const Dims& dims = attrs.get<Dims>("dims");
  const Dims& array_batch = attrs.get<Dims>("array_batch");
  const Dims& index_batch = attrs.get<Dims>("index_batch");
  const auto bytes = static_cast<std::int64_t>(size_of(array.dtype));
  const Dims strides = row_major_strides(array.shape);
  StridedCopy whole;  // From an item by itself to its place in the array.
  for (std::size_t d = 0; d < array.shape.size(); ++d) {
    if (is_in(dims, d) || is_in(array_batch, d)) continue;
    whole.extents.push_back(array.shape[d]);
    strides_of_item_.push_back(strides[d]);
    whole.to_strides.push_back(strides[d] * bytes);
    size_ *= array.shape[d];
  }
  for (const std::int64_t stride : row_major_strides(whole.extents)) whole.from_strides.push_back(stride * bytes);
  const std::size_t outer = items.size() - whole.extents.size();
  const Shape index_shape(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(outer));
  const Dims index_strides = row_major_strides(index_shape);
  count_ = num_elements(index_shape);
  Dims number_strides(array.shape.size(), 0);
  for (std::size_t d = array.shape.size(); d-- > 0;) {
    if (!is_in(dims, d) && !is_in(array_batch, d)) continue;
    number_strides[d] = targets_;
    targets_ *= array.shape[d];
  }
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims[k]);
    const TensorView& view = indices[k];
    addressed_.push_back({view.data, view.dtype, array.start_of(d), array.shape[d], strides[d], number_strides[d]});
  }
  for (std::size_t b = 0; b < array_batch.size(); ++b) {
    const auto d = static_cast<std::size_t>(array_batch[b]);
    const auto along = static_cast<std::size_t>(index_batch[b]);
    batch_.push_back({index_strides[along], index_shape[along], strides[d], number_strides[d]});
  }
  whole_ = whole.simplified(size_of(array.dtype));
}

bool Items::is_one_piece(std::size_t element) const {
  const auto bytes = static_cast<std::int64_t>(element);
  return whole_.extents.size() == 1 &&
         (whole_.extents[0] == 1 || (whole_.to_strides[0] == bytes && whole_.from_strides[0] == bytes));
}

void Items::find(std::int64_t begin, std::int64_t n, Places& places) const {
  auto& [offsets, targets, inside, all_inside] = places;
  std::fill_n(offsets.data(), n, 0);
  std::fill_n(inside.data(), n, true);
  // Places of single elements are numbered as elements are.
  const bool numbers = size_ != 1;
  if (numbers) std::fill_n(targets.data(), n, 0);
  all_inside = true;
  for (const Addressed& one : addressed_) {
    with_element_type(one.dtype, [&]<class T>(T) {
      if constexpr (std::is_integral_v<T>) {
        const T* const indices = static_cast<const T*>(one.indices) + begin;
        if constexpr (std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>) {
          const auto add = [&](std::int64_t stride, std::int64_t* to) {
            return add_positions(indices, n, one.start, one.extent, stride, to);
          };
          const bool is_short = std::max({one.extent, one.stride, one.number_stride}) <= kShort;
          if (is_short && add(one.stride, offsets.data()) && (!numbers || add(one.number_stride, targets.data()))) {
            return;
          }
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const auto at = static_cast<std::size_t>(k);
          // Integers of 64 bits without sign that are too large are as far outside as negative ones.
          const std::int64_t position = static_cast<std::int64_t>(indices[k]) - one.start;
          const bool fits = position >= 0 && position < one.extent;
          const std::int64_t held = fits ? position : 0;
          inside[at] &= fits;
          all_inside &= fits;
          offsets[at] += held * one.stride;
          if (numbers) targets[at] += held * one.number_stride;
        }
      }
    });
  }
  for (const Batch& one : batch_) {
    for (std::int64_t k = 0; k < n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const std::int64_t position = (begin + k) / one.index_stride % one.extent;
      offsets[at] += position * one.stride;
      if (numbers) targets[at] += position * one.number_stride;
    }
  }
  if (!numbers) std::copy_n(offsets.data(), n, targets.data());
}

PlaceLists::PlaceLists(const Items& all) {
  bool ascends = true;
  std::int64_t last = -1;
  std::int64_t inside = 0;
  all.for_each_inside(0, all.count(), [&](std::int64_t, std::int64_t, std::int64_t target) {
    ascends = ascends && last < target;
    last = target;
    ++inside;
  });
  offsets.reserve(static_cast<std::size_t>(inside));
  ends.reserve(static_cast<std::size_t>(inside));
  items.reserve(static_cast<std::size_t>(inside));
  if (ascends) {
    all.for_each_inside(0, all.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t) {
      offsets.push_back(offset);
      items.push_back(i);
      ends.push_back(static_cast<std::int64_t>(items.size()));
    });
    return;
  }
  constexpr std::int64_t kWorthCounting = 16;
  if (all.targets() > kWorthCounting * inside) {
    struct Known {
      std::int64_t target, offset, item;
    };
    std::vector<Known> known;
    known.reserve(static_cast<std::size_t>(inside));
    all.for_each_inside(0, all.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t target) {
      known.push_back({target, offset, i});
    });
    std::ranges::sort(known, {}, [](const Known& one) { return std::pair(one.target, one.item); });
    for (std::size_t i = 0; i < known.size(); ++i) {
      items.push_back(known[i].item);
      if (i == 0 || known[i].target != known[i - 1].target) {
        offsets.push_back(known[i].offset);
        ends.push_back(0);
      }
      ends.back() = static_cast<std::int64_t>(i + 1);
    }
    return;
  }
  // By counting: where the items of each place begin, then each item behind those before it.
  Workspace<std::int64_t> next(all.targets() + 1);
  std::int64_t* const begins = next.data();
  std::fill_n(begins, all.targets() + 1, 0);
  all.for_each_inside(0, all.count(), [&](std::int64_t, std::int64_t, std::int64_t target) { ++begins[target + 1]; });
  for (std::int64_t t = 0; t < all.targets(); ++t) {
    if (begins[t + 1] != 0) ends.push_back(begins[t] + begins[t + 1]);
    begins[t + 1] += begins[t];
  }
  items.resize(static_cast<std::size_t>(inside));
  offsets.resize(ends.size());
  // A place's number among those that have items is found by its last item.
  Workspace<std::int64_t> offset_of_item(inside);
  all.for_each_inside(0, all.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t target) {
    const std::int64_t at = begins[target]++;
    items[static_cast<std::size_t>(at)] = i;
    offset_of_item.data()[at] = offset;
  });
  for (std::size_t place = 0; place < ends.size(); ++place) offsets[place] = offset_of_item.data()[ends[place] - 1];
}

}  // namespace shoal::cpu
