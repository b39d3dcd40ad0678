#include "backend/cpu/moves/item_kernels.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/moves/strided_copy.h"
#include "backend/cpu/moves/update_kernel.h"
#include "base/function_ref.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

constexpr std::int64_t kNowhere = -1;

bool is_in(const Dims& dims, std::size_t d) {
  return std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
}

// Where the items of a shard of an array lie.
class Items {
 public:
  Items(const Attrs& attrs, const TensorView& array, Views indices, const Shape& items) {
    const Dims& dims = attrs.get<Dims>("dims");
    const Dims& array_batch = attrs.get<Dims>("array_batch");
    const Dims& index_batch = attrs.get<Dims>("index_batch");
    const auto bytes = static_cast<std::int64_t>(size_of(array.dtype));
    const Dims strides = row_major_strides(array.shape);
    StridedCopy whole;  // From an item by itself to its place in the array.
    for (std::size_t d = 0; d < array.shape.size(); ++d) {
      if (is_in(dims, d) || is_in(array_batch, d)) continue;
      whole.extents.push_back(array.shape[d]);
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

  std::int64_t count() const { return count_; }      // Of items.
  std::int64_t size() const { return size_; }        // The elements of each.
  std::int64_t targets() const { return targets_; }  // The places in the array that an item may have.

  // Calls f(i, offset, target) for items begin … end - 1: the offset is that of its first element, or kNowhere if it is
  // not in this shard; the target is the number of its place.
  template <class F>
  void for_each(std::int64_t begin, std::int64_t end, F&& f) const {
    Places places;
    for (; begin < end; begin += kMostAtOnce) {
      const std::int64_t n = std::min(kMostAtOnce, end - begin);
      find(begin, n, places);
      for (std::int64_t k = 0; k < n; ++k) {
        const auto at = static_cast<std::size_t>(k);
        f(begin + k, places.inside[at] ? places.offsets[at] : kNowhere, places.targets[at]);
      }
    }
  }

  // Between the elements of an item one after the other, and in the array.
  void read(const std::byte* array, std::size_t element, std::byte* item) const {
    StridedCopy back{.extents = whole_.extents, .from_strides = whole_.to_strides, .to_strides = whole_.from_strides};
    copy_rows(back, element, array, item, 0, back.rows());
  }
  void write(const std::byte* item, std::size_t element, std::byte* array) const {
    copy_rows(whole_, element, item, array, 0, whole_.rows());
  }
  bool is_one_piece(std::size_t element) const {
    const auto bytes = static_cast<std::int64_t>(element);
    return whole_.extents.size() == 1 &&
           (whole_.extents[0] == 1 || (whole_.to_strides[0] == bytes && whole_.from_strides[0] == bytes));
  }

  // Calls f(of the item, in the array, stride in the array, count) for rows of elements that lie one after the other in
  // the item; all but the last in elements.
  template <class F>
  void for_each_row(std::size_t element, F&& f) const {
    const auto bytes = static_cast<std::int64_t>(element);
    const std::size_t last = whole_.extents.size() - 1;
    const std::int64_t count = whole_.extents[last];
    if (num_elements(whole_.extents) == 0) return;
    const std::int64_t rows = num_elements(whole_.extents) / count;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t left = row;
      std::int64_t offset = 0;
      for (std::size_t d = last; d-- > 0;) {
        offset += left % whole_.extents[d] * whole_.to_strides[d];
        left /= whole_.extents[d];
      }
      f(row * count, offset / bytes, whole_.to_strides[last] / bytes, count);
    }
  }

 private:
  struct Addressed {
    const void* indices;
    Dtype dtype;
    std::int64_t start, extent, stride, number_stride;
  };
  struct Batch {
    std::int64_t index_stride, extent, stride, number_stride;
  };

  static constexpr std::int64_t kMostAtOnce = 128;
  struct Places {
    std::array<std::int64_t, kMostAtOnce> offsets;
    std::array<std::int64_t, kMostAtOnce> targets;
    std::array<bool, kMostAtOnce> inside;
  };

  // Those of n items.
  void find(std::int64_t begin, std::int64_t n, Places& places) const {
    auto& [offsets, targets, inside] = places;
    std::fill_n(offsets.data(), n, 0);
    std::fill_n(targets.data(), n, 0);
    std::fill_n(inside.data(), n, true);
    for (const Addressed& one : addressed_) {
      with_element_type(one.dtype, [&](auto tag) {
        using T = decltype(tag);
        if constexpr (std::is_integral_v<T>) {
          const T* const indices = static_cast<const T*>(one.indices) + begin;
          for (std::int64_t k = 0; k < n; ++k) {
            // Integers of 64 bits without sign that are too large are as far outside as negative ones.
            const std::int64_t position = static_cast<std::int64_t>(indices[k]) - one.start;
            const bool fits = position >= 0 && position < one.extent;
            const std::int64_t held = fits ? position : 0;
            inside[static_cast<std::size_t>(k)] &= fits;
            offsets[static_cast<std::size_t>(k)] += held * one.stride;
            targets[static_cast<std::size_t>(k)] += held * one.number_stride;
          }
        }
      });
    }
    for (const Batch& one : batch_) {
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t position = (begin + k) / one.index_stride % one.extent;
        offsets[static_cast<std::size_t>(k)] += position * one.stride;
        targets[static_cast<std::size_t>(k)] += position * one.number_stride;
      }
    }
  }

  boost::container::small_vector<Addressed, 4> addressed_;
  boost::container::small_vector<Batch, 2> batch_;
  StridedCopy whole_;
  std::int64_t count_ = 0;
  std::int64_t size_ = 1;
  std::int64_t targets_ = 1;
};

// Calls f(offset, members) for each place in the array that items have, with the numbers of these, ascending.
void for_each_place(const Items& items, FunctionRef<void(std::int64_t, std::span<const std::int64_t>)> f) {
  struct Known {
    std::int64_t target, offset, item;
  };
  bool ascends = true;
  std::int64_t last = -1;
  items.for_each(0, items.count(), [&](std::int64_t, std::int64_t offset, std::int64_t target) {
    if (offset == kNowhere) return;
    ascends = ascends && last < target;
    last = target;
  });
  if (ascends) {
    items.for_each(0, items.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t) {
      if (offset != kNowhere) f(offset, std::span<const std::int64_t>(&i, 1));
    });
    return;
  }
  std::vector<Known> known;
  items.for_each(0, items.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t target) {
    if (offset != kNowhere) known.push_back({target, offset, i});
  });
  const std::size_t count = known.size();
  std::vector<std::int64_t> members;
  constexpr std::int64_t kWorthCounting = 16;
  if (items.targets() > kWorthCounting * static_cast<std::int64_t>(count)) {
    std::ranges::sort(known, {}, [](const Known& one) { return std::pair(one.target, one.item); });
    for (std::size_t i = 0; i < count;) {
      members.clear();
      const Known& first = known[i];
      for (; i < count && known[i].target == first.target; ++i) members.push_back(known[i].item);
      f(first.offset, std::span<const std::int64_t>(members));
    }
    return;
  }
  // The items of a place as a list: the first one, and the next after each.
  constexpr std::size_t kEnd = static_cast<std::size_t>(-1);
  std::vector<std::size_t> first(static_cast<std::size_t>(items.targets()), kEnd);
  std::vector<std::size_t> next(count, kEnd);
  for (std::size_t i = count; i-- > 0;) {
    std::size_t& head = first[static_cast<std::size_t>(known[i].target)];
    next[i] = std::exchange(head, i);
  }
  for (const std::size_t head : first) {
    if (head == kEnd) continue;
    members.clear();
    for (std::size_t i = head; i != kEnd; i = next[i]) members.push_back(known[i].item);
    f(known[head].offset, std::span<const std::int64_t>(members));
  }
}

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  Work work(Views, Views outputs) const override { return {.tiles = update_tiles(outputs[0])}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    const Items items(attrs_, inputs[0], inputs.subspan(1), out.shape);
    const std::int64_t tiles = update_tiles(out);
    with_element_type(out.dtype, [&](auto tag) {
      using T = decltype(tag);
      gather<T>(items, inputs[0], out, items.count() * tile / tiles, items.count() * (tile + 1) / tiles);
    });
  }

 private:
  template <class T>
  static void gather(const Items& items, const TensorView& array, const TensorView& out, std::int64_t begin,
                     std::int64_t end) {
    const std::int64_t n = items.size();
    const bool one_piece = items.is_one_piece(sizeof(T));
    items.for_each(begin, end, [&](std::int64_t i, std::int64_t offset, std::int64_t) {
      T* const to = out.as<T>() + i * n;
      if (offset == kNowhere) {  // Items outside this shard are left to others, and add nothing to the sum of all.
        std::fill_n(to, n, nothing<T>());
      } else if (n == 1) {
        *to = array.as<T>()[offset];
      } else if (one_piece) {
        std::copy_n(array.as<T>() + offset, n, to);
      } else {
        items.read(reinterpret_cast<const std::byte*>(array.as<T>() + offset), sizeof(T),
                   reinterpret_cast<std::byte*>(to));
      }
    });
  }

  Attrs attrs_;
};

class ScatterKernel final : public UpdateKernel {
 public:
  explicit ScatterKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  void finish(Views inputs, Views outputs, std::byte*) const override {
    const TensorView& out = outputs[0];
    const TensorView& updates = inputs[1];
    if (num_elements(out.shape) == 0) return;
    const Items items(attrs_, out, inputs.subspan(2), updates.shape);
    const std::size_t size = size_of(out.dtype);
    const std::size_t bytes = static_cast<std::size_t>(items.size()) * size;
    const bool one_piece = items.is_one_piece(size);
    items.for_each(0, items.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t) {
      if (offset == kNowhere) return;
      const std::byte* from = static_cast<const std::byte*>(updates.data) + static_cast<std::size_t>(i) * bytes;
      std::byte* to = static_cast<std::byte*>(out.data) + static_cast<std::size_t>(offset) * size;
      one_piece ? static_cast<void>(std::memcpy(to, from, bytes)) : items.write(from, size, to);
    });
  }

 private:
  Attrs attrs_;
};

// The items of a place are reduced among themselves, in their order, as the reference does; then they take the place of
// its element, or are combined with it.
template <ReduceKind kKind, class T, class Out>
void reduce_items(const Attrs& attrs, const TensorView& updates, const TensorView& out, Views indices, bool replace) {
  using Sum = Accumulator<T>;
  constexpr std::int64_t kMostAtOnce = 256;
  const Items items(attrs, out, indices, updates.shape);
  const Sum begin = kKind == ReduceKind::kSum ? nothing<Sum>() : neutral_element<Sum>(kKind);
  const auto combine = [replace](Out x, Out reduced) {
    using Wide = CombineType<Out>;
    return replace ? reduced : static_cast<Out>(reduce_two(kKind, static_cast<Wide>(x), static_cast<Wide>(reduced)));
  };
  // The element of one item alone is as it is.
  const auto combine_row = [&](Out* elements, std::int64_t stride, const T* row, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k) elements[k * stride] = combine(elements[k * stride], static_cast<Out>(row[k]));
  };
  for_each_place(items, [&](std::int64_t offset, std::span<const std::int64_t> members) {
    Out* const place = out.as<Out>() + offset;
    const auto row_of = [&](std::int64_t item) { return updates.as<T>() + item * items.size(); };
    const bool alone = members.size() == 1;
    if (items.size() == 1) {
      if (alone) return combine_row(place, 1, row_of(members[0]), 1);
      Sum sum = begin;
      for (const std::int64_t item : members) sum = reduce_two(kKind, sum, static_cast<Sum>(*row_of(item)));
      *place = combine(*place, from_accumulator<Out>(sum));
      return;
    }
    items.for_each_row(sizeof(Out), [&](std::int64_t at, std::int64_t to, std::int64_t stride, std::int64_t count) {
      if (alone) {
        const T* const row = row_of(members[0]) + at;
        stride == 1 ? combine_row(place + to, 1, row, count) : combine_row(place + to, stride, row, count);
        return;
      }
      std::array<Sum, kMostAtOnce> sums;
      for (std::int64_t done = 0; done < count; done += kMostAtOnce) {
        const std::int64_t n = std::min(kMostAtOnce, count - done);
        std::fill_n(sums.data(), n, begin);
        for (const std::int64_t item : members) {
          const T* const from = row_of(item) + at + done;
          for (std::int64_t k = 0; k < n; ++k) {
            Sum& sum = sums[static_cast<std::size_t>(k)];
            sum = reduce_two(kKind, sum, static_cast<Sum>(from[k]));
          }
        }
        Out* const elements = place + to + done * stride;
        for (std::int64_t k = 0; k < n; ++k) {
          Out& element = elements[k * stride];
          element = combine(element, from_accumulator<Out>(sums[static_cast<std::size_t>(k)]));
        }
      }
    });
  });
}

class ScatterReduceKernel final : public Kernel {
 public:
  explicit ScatterReduceKernel(Attrs attrs)
      : attrs_(std::move(attrs)), kind_(parse_reduce_kind(attrs_.get<std::string>("kind"))) {}

  Work work(Views, Views outputs) const override { return {.tiles = update_tiles(outputs[0])}; }

  // What no item addresses.
  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const TensorView& out = outputs[0];
    const std::int64_t count = num_elements(out.shape);
    const std::int64_t tiles = update_tiles(out);
    with_types(inputs[0], out, [&]<class T, class Out>(T, Out) {
      using Sum = Accumulator<T>;
      const Sum neutral = kind_ == ReduceKind::kSum ? nothing<Sum>() : neutral_element<Sum>(kind_);
      std::fill(out.as<Out>() + count * tile / tiles, out.as<Out>() + count * (tile + 1) / tiles,
                from_accumulator<Out>(neutral));
    });
  }

  void finish(Views inputs, Views outputs, std::byte*) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    with_types(inputs[0], out, [&]<class T, class Out>(T, Out) {
      with_kind(kind_, [&]<class Kind>(Kind) {
        reduce_items<Kind::value, T, Out>(attrs_, inputs[0], out, inputs.subspan(1), true);
      });
    });
  }

 private:
  // The result has the dtype of the updates, or keeps more bits of small floats.
  template <class F>
  static void with_types(const TensorView& updates, const TensorView& out, F&& f) {
    with_element_type(updates.dtype, [&](auto tag) {
      using T = decltype(tag);
      if (out.dtype == updates.dtype) return f(T(), T());
      if constexpr (kIsSmallFloat<T>) {
        if (out.dtype == Dtype::kF32) return f(T(), float());
      }
      throw InternalError("scatter_reduce into another dtype");
    });
  }

  Attrs attrs_;
  ReduceKind kind_;
};

class ScatterCombineKernel final : public UpdateKernel {
 public:
  explicit ScatterCombineKernel(Attrs attrs)
      : attrs_(std::move(attrs)), kind_(parse_reduce_kind(attrs_.get<std::string>("kind"))) {}

  void finish(Views inputs, Views outputs, std::byte*) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    with_element_type(out.dtype, [&](auto tag) {
      using T = decltype(tag);
      with_kind(kind_, [&]<class Kind>(Kind) {
        reduce_items<Kind::value, T, T>(attrs_, inputs[1], out, inputs.subspan(2), false);
      });
    });
  }

 private:
  Attrs attrs_;
  ReduceKind kind_;
};

}  // namespace

std::unique_ptr<Kernel> gather_kernel(const Graph& graph, const Eqn& eqn) {
  if (graph.type(eqn.inputs[0]).dtype != graph.type(eqn.outputs[0]).dtype) return nullptr;
  return std::make_unique<GatherKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> scatter_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<ScatterKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> scatter_reduce_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<ScatterReduceKernel>(eqn.attrs);
}

std::unique_ptr<Kernel> scatter_combine_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<ScatterCombineKernel>(eqn.attrs);
}

}  // namespace shoal::cpu
