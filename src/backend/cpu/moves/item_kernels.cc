#include "backend/cpu/moves/item_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/moves/buckets.h"
#include "backend/cpu/moves/items.h"
#include "base/thread_pool.h"
#include "comm/transport/element_copy.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

// Arrays of so many bytes are in the caches, or soon will be: elements need not be asked for ahead.
constexpr std::int64_t kNearBytes = 1 << 19;

// Reads items begin ... end - 1, one after the other.
template <class T>
void gather(const Items& items, const TensorView& array, const TensorView& out, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = items.size();
  const T* const from = array.as<T>();
  // Those outside this shard are left to others, and add nothing to the sum of all.
  const auto fill_others = [&](std::int64_t first, std::int64_t n, const Items::Places& places) {
    if (places.all_inside) return;
    for (std::int64_t k = 0; k < n; ++k) {
      if (!places.inside[static_cast<std::size_t>(k)])
        std::fill_n(out.as<T>() + (first + k) * size, size, nothing<T>());
    }
  };
  if (size == 1) {
    const bool is_far = bytes_of(array) > kNearBytes;
    return items.for_each_places(begin, end, [&](std::int64_t first, std::int64_t n, const Items::Places& places) {
      const std::int64_t* const offsets = places.offsets.data();
      if (is_far) {
        for (std::int64_t k = 0; k < n; ++k) __builtin_prefetch(from + offsets[k]);
      }
      T* const to = out.as<T>() + first;
      for (std::int64_t k = 0; k < n; ++k) to[k] = from[offsets[k]];
      fill_others(first, n, places);
    });
  }
  const StridedCopy& copy = items.copy();
  const bool one_piece = items.is_one_piece(sizeof(T));
  const bool one_row = copy.extents.size() == 1;
  const StridedCopy back{.extents = copy.extents, .from_strides = copy.to_strides, .to_strides = copy.from_strides};
  const std::int64_t stride = copy.to_strides.back() / static_cast<std::int64_t>(sizeof(T));
  items.for_each_places(begin, end, [&](std::int64_t first, std::int64_t n, const Items::Places& places) {
    T* const to = out.as<T>() + first * size;
    const std::int64_t* const offsets = places.offsets.data();
    if (one_piece) {
      for (std::int64_t k = 0; k < n; ++k) std::copy_n(from + offsets[k], size, to + k * size);
    } else if (one_row) {
      // Elements of different items that lie near each other are read together.
      constexpr std::int64_t kTogether = 16;
      for (std::int64_t i = 0; i < size; i += kTogether) {
        const std::int64_t count = std::min(kTogether, size - i);
        for (std::int64_t k = 0; k < n; ++k) {
          const T* const element = from + offsets[k] + i * stride;
          for (std::int64_t j = 0; j < count; ++j) to[k * size + i + j] = element[j * stride];
        }
      }
    } else {
      for (std::int64_t k = 0; k < n; ++k) {
        copy_rows(back, sizeof(T), reinterpret_cast<const std::byte*>(from + offsets[k]),
                  reinterpret_cast<std::byte*>(to + k * size), 0, back.rows());
      }
    }
    fill_others(first, n, places);
  });
}

class GatherKernel final : public Kernel {
 public:
  GatherKernel(Attrs attrs, std::size_t index_rank) : attrs_(std::move(attrs)), index_rank_(index_rank) {}

  Work work(Views, Views outputs) const override { return {.tiles = tiles_of(outputs[0])}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    const Items items(attrs_, inputs[0], inputs.subspan(1), out.shape);
    const std::int64_t tiles = tiles_of(out);
    with_element_type(out.dtype, [&]<class T>(T) {
      gather<T>(items, inputs[0], out, items.count() * tile / tiles, items.count() * (tile + 1) / tiles);
    });
  }

 private:
  // Tiles have several items: elements of these may lie side by side.
  std::int64_t tiles_of(const TensorView& out) const {
    constexpr std::int64_t kLeastItems = 64;
    std::int64_t items = 1;
    for (std::size_t d = 0; d < index_rank_; ++d) items *= out.shape[d];
    return std::max<std::int64_t>(1, std::min(update_tiles(out), items / kLeastItems));
  }

  Attrs attrs_;
  std::size_t index_rank_;
};

// Items whose dimensions lie around those of the indices: the result has elements [outer, item, inner].
class PlacedGatherKernel final : public Kernel {
 public:
  // `operands` are the numbers of the array and of the indices among the inputs.
  PlacedGatherKernel(Attrs attrs, std::vector<std::size_t> operands, std::size_t index_rank, std::size_t outer_rank)
      : attrs_(std::move(attrs)), operands_(std::move(operands)), index_rank_(index_rank), outer_rank_(outer_rank) {}

  Work work(Views, Views outputs) const override { return {.tiles = Division(*this, outputs[0].shape).tiles()}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const TensorView& out = outputs[0];
    if (num_elements(out.shape) == 0) return;
    std::vector<TensorView> indices;
    for (std::size_t i = 1; i < operands_.size(); ++i) indices.push_back(inputs[operands_[i]]);
    const TensorView& array = inputs[operands_[0]];
    const Division division(*this, out.shape);
    // The items by themselves have the dimensions of the indices first.
    const auto index_dims = out.shape.begin() + static_cast<std::ptrdiff_t>(outer_rank_);
    Shape items(index_dims, index_dims + static_cast<std::ptrdiff_t>(index_rank_));
    Shape whole(out.shape.begin(), index_dims);
    whole.insert(whole.end(), index_dims + static_cast<std::ptrdiff_t>(index_rank_), out.shape.end());
    items.insert(items.end(), whole.begin(), whole.end());
    const Items all(attrs_, array, indices, items);
    with_element_type(out.dtype, [&]<class T>(T) { gather(all, whole, division, array.as<T>(), out.as<T>(), tile); });
  }

 private:
  // Blocks of items for blocks of rows, which are what the outer dimensions count.
  struct Division {
    std::int64_t rows = 1;
    std::int64_t items = 1;
    std::int64_t inner = 1;
    std::int64_t rows_of_tile;
    std::int64_t items_of_tile;

    Division(const PlacedGatherKernel& kernel, const Shape& out) {
      for (std::size_t d = 0; d < out.size(); ++d) {
        const bool is_index = d >= kernel.outer_rank_ && d < kernel.outer_rank_ + kernel.index_rank_;
        (d < kernel.outer_rank_ ? rows : is_index ? items : inner) *= out[d];
      }
      // Where items are is found out once for some rows.
      constexpr std::int64_t kElements = 1 << 15;
      constexpr std::int64_t kRows = 16;
      const std::int64_t width = std::max<std::int64_t>(1, inner);
      items_of_tile = std::clamp<std::int64_t>(kElements / width, 1, std::max<std::int64_t>(1, items));
      rows_of_tile = std::max(kRows, kElements / (items_of_tile * width));
    }
    std::int64_t blocks_of_items() const { return (items + items_of_tile - 1) / items_of_tile; }
    std::int64_t tiles() const {
      return std::max<std::int64_t>(1, blocks_of_items() * ((rows + rows_of_tile - 1) / rows_of_tile));
    }
  };

  template <class T>
  void gather(const Items& items, const Shape& whole, const Division& division, const T* from, T* out,
              std::int64_t tile) const {
    const std::int64_t first_item = tile % division.blocks_of_items() * division.items_of_tile;
    const std::int64_t last_item = std::min(division.items, first_item + division.items_of_tile);
    const std::int64_t first_row = tile / division.blocks_of_items() * division.rows_of_tile;
    const std::int64_t last_row = std::min(division.rows, first_row + division.rows_of_tile);
    const std::int64_t inner = division.inner;
    const Dims strides = items.strides_of_item();
    StridedCopy piece{.extents = Shape(whole.begin() + static_cast<std::ptrdiff_t>(outer_rank_), whole.end()),
                      .from_strides = Dims(strides.begin() + static_cast<std::ptrdiff_t>(outer_rank_), strides.end()),
                      .to_strides = {}};
    for (const std::int64_t stride : row_major_strides(piece.extents)) {
      piece.to_strides.push_back(stride * static_cast<std::int64_t>(sizeof(T)));
    }
    for (std::int64_t& stride : piece.from_strides) stride *= static_cast<std::int64_t>(sizeof(T));
    piece = piece.simplified(sizeof(T));
    items.for_each_places(first_item, last_item, [&](std::int64_t first, std::int64_t n, const Items::Places& places) {
      const std::int64_t* const offsets = places.offsets.data();
      for (std::int64_t row = first_row; row < last_row; ++row) {
        std::int64_t left = row;
        const T* start = from;
        for (std::size_t d = outer_rank_; d-- > 0;) {
          start += left % whole[d] * strides[d];
          left /= whole[d];
        }
        T* const to = out + (row * division.items + first) * inner;
        if (inner == 1) {
          for (std::int64_t k = 0; k < n; ++k) to[k] = start[offsets[k]];
        } else {
          for (std::int64_t k = 0; k < n; ++k) {
            copy_rows(piece, sizeof(T), reinterpret_cast<const std::byte*>(start + offsets[k]),
                      reinterpret_cast<std::byte*>(to + k * inner), 0, piece.rows());
          }
        }
        if (places.all_inside) continue;
        for (std::int64_t k = 0; k < n; ++k) {
          if (!places.inside[static_cast<std::size_t>(k)]) std::fill_n(to + k * inner, inner, nothing<T>());
        }
      }
    });
  }

  Attrs attrs_;
  std::vector<std::size_t> operands_;
  std::size_t index_rank_;
  std::size_t outer_rank_;  // Dimensions of the array that are taken whole and come before the indices'.
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
    if (items.size() == 1) {
      with_element_size(size, [&](auto element) { set(items, updates, out, element); });
      return;
    }
    const bool one_piece = items.is_one_piece(size);
    const StridedCopy& copy = items.copy();
    items.for_each_inside(0, items.count(), [&](std::int64_t i, std::int64_t offset, std::int64_t) {
      const std::byte* from = static_cast<const std::byte*>(updates.data) + static_cast<std::size_t>(i) * bytes;
      std::byte* to = static_cast<std::byte*>(out.data) + static_cast<std::size_t>(offset) * size;
      one_piece ? static_cast<void>(std::memcpy(to, from, bytes)) : copy_rows(copy, size, from, to, 0, copy.rows());
    });
  }

 private:
  // Of several items for a place the last one stays.
  template <class Bytes>
  static void set(const Items& items, const TensorView& updates, const TensorView& out, Bytes) {
    constexpr auto kBytes = static_cast<std::int64_t>(Bytes::value);
    const auto* const from = static_cast<const std::byte*>(updates.data);
    auto* const to = static_cast<std::byte*>(out.data);
    const bool is_far = bytes_of(out) > kNearBytes;
    items.for_each_places(0, items.count(), [&](std::int64_t first, std::int64_t n, const Items::Places& places) {
      if (is_far) {
        for (std::int64_t k = 0; k < n; ++k)
          __builtin_prefetch(to + places.offsets[static_cast<std::size_t>(k)] * kBytes, 1);
      }
      if (places.all_inside) {
        for (std::int64_t k = 0; k < n; ++k) {
          std::memcpy(to + places.offsets[static_cast<std::size_t>(k)] * kBytes, from + (first + k) * kBytes, kBytes);
        }
        return;
      }
      // Which items are inside can hardly be foretold where devices share an array: those that are not are written,
      // too.
      std::byte outside[std::size_t{kBytes}];
      for (std::int64_t k = 0; k < n; ++k) {
        const auto at = static_cast<std::size_t>(k);
        std::byte* const place = to + places.offsets[at] * kBytes;
        std::memcpy(places.inside[at] ? place : outside, from + (first + k) * kBytes, kBytes);
      }
    });
  }

  Attrs attrs_;
};

// How the items of a place are reduced among themselves, in their order, or in pieces whose results are then reduced in
// their order; then they take the place of its element, or are combined with it.
template <ReduceKind kKind, class T, class Out>
struct ItemReduction {
  using Element = T;
  using Sum = Accumulator<T>;
  /// Whether the order of the items changes nothing.
  static constexpr bool kInAnyOrder =
      std::is_integral_v<Sum> || (kKind != ReduceKind::kSum && kKind != ReduceKind::kProd);

  bool replaces;

  static Sum begin() { return kKind == ReduceKind::kSum ? nothing<Sum>() : neutral_element<Sum>(kKind); }
  static Sum take_in(Sum sum, T item) { return join(sum, static_cast<Sum>(item)); }
  static Sum join(Sum a, Sum b) { return reduce_two(kKind, a, b); }
  void combine(Out& element, Out reduced) const {
    using Wide = CombineType<Out>;
    element = replaces ? reduced
                       : static_cast<Out>(reduce_two(kKind, static_cast<Wide>(element), static_cast<Wide>(reduced)));
  }
  void finish(Out& element, Sum sum) const { combine(element, from_accumulator<Out>(sum)); }
};

// The greatest or least of floats: the integers that are in their order are compared, -0 before +0 and NaN beyond all
// others, which takes a fraction of the time.
template <ReduceKind kKind, class T, class Out>
struct OrderedReduction {
  using Element = T;
  using Wide = CombineType<T>;
  using Sum = std::conditional_t<sizeof(Wide) == 4, std::int32_t, std::int64_t>;
  static constexpr bool kInAnyOrder = true;

  bool replaces;

  static Sum begin() { return key(neutral_element<Wide>(kKind)); }
  static Sum take_in(Sum sum, T item) { return join(sum, key(static_cast<Wide>(item))); }
  static Sum join(Sum a, Sum b) { return kKind == ReduceKind::kMax ? std::max(a, b) : std::min(a, b); }
  void combine(Out& element, T item) const { finish(element, key(static_cast<Wide>(item))); }
  void finish(Out& element, Sum sum) const {
    const auto own = static_cast<Wide>(element);
    const auto reduced = static_cast<Out>(value(replaces ? sum : join(key(own), sum)));
    element = !replaces && own != own ? element : reduced;
  }

 private:
  static constexpr Sum kMagnitude = std::numeric_limits<Sum>::max();
  static constexpr Sum kSign = std::numeric_limits<Sum>::min();

  // Of negative numbers greater bits are less.
  static Sum turned(Sum bits) { return bits ^ ((bits >> (8 * sizeof(Sum) - 1)) & kMagnitude); }
  static Sum key(Wide x) {
    const auto bits = std::bit_cast<Sum>(x);
    const Sum magnitude = bits & kMagnitude;
    const bool is_nan = magnitude > std::bit_cast<Sum>(std::numeric_limits<Wide>::infinity());
    const Sum beyond = kKind == ReduceKind::kMax ? magnitude : magnitude | kSign;
    return turned(is_nan ? beyond : bits);
  }
  static Wide value(Sum key) { return std::bit_cast<Wide>(turned(key)); }
};

// ---- Many items of one element, bucket by bucket.

constexpr std::int64_t kManyItems = 1 << 12;
// A block with more than so many places for each item: those that are met are looked up.
constexpr std::int64_t kFew = 8;

// The places of a block that are met, numbered as they are.
struct FewPlaces {
  explicit FewPlaces(std::int64_t block_size) : numbers(block_size), met(block_size / kFew) {
    std::fill_n(numbers.data(), block_size, 0U);
  }
  Workspace<std::uint32_t> numbers;  // Of each place of the present block; those of blocks before it are lower.
  Workspace<std::uint32_t> met;      // The places, by number.
  std::uint32_t last = 0;
};

// The items of a bucket, whose block begins at `out`; `sums` has room for all of the block.
template <class Reduction, class T, class Out>
void reduce_bucket(const Reduction& reduction, const T* values, const std::uint32_t* places, std::int64_t count,
                   typename Reduction::Sum* sums, std::int64_t block_size, Out* out) {
  std::fill_n(sums, block_size, Reduction::begin());
  for (std::int64_t i = 0; i < count; ++i) sums[places[i]] = Reduction::take_in(sums[places[i]], values[i]);
  // What is reduced from nothing changes no element.
  for (std::int64_t place = 0; place < block_size; ++place) reduction.finish(out[place], sums[place]);
}

template <class Reduction, class T, class Out>
void reduce_few(const Reduction& reduction, const T* values, const std::uint32_t* places, std::int64_t count,
                typename Reduction::Sum* sums, FewPlaces& few, Out* out) {
  const std::uint32_t before = few.last;
  std::uint32_t* const met = few.met.data();
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t& number = few.numbers.data()[places[i]];
    if (number <= before) {
      number = ++few.last;
      met[number - before - 1] = places[i];
      sums[number - before - 1] = Reduction::begin();
      __builtin_prefetch(out + places[i], 1);
    }
    auto& sum = sums[number - before - 1];
    sum = Reduction::take_in(sum, values[i]);
  }
  for (std::uint32_t i = 0; i < few.last - before; ++i) reduction.finish(out[met[i]], sums[i]);
}

// Whether what there is of so many bytes for each place stays in the caches of a core, which adds to them as fast as
// several could put the items into buckets; threads that are many take buckets.
bool are_near(const Items& items, std::size_t bytes) {
  constexpr std::int64_t kBytes = 1 << 20;
  constexpr int kFewThreads = 4;
  return ThreadPool::shared().thread_count() <= kFewThreads && items.targets() <= items.count() * kFew &&
         items.targets() * static_cast<std::int64_t>(bytes) <= kBytes;
}

constexpr std::int64_t kFewPlaces = 1 << 12;

// In pieces, each with sums of its own, which are put together in their order: there are as many as these numbers say,
// whatever the threads.
template <class Reduction, class T, class Out>
void reduce_pieces(const Items& items, const Reduction& reduction, const T* updates, Out* out) {
  using Sum = typename Reduction::Sum;
  constexpr std::int64_t kLeastItems = 1 << 13;
  constexpr std::int64_t kMostPieces = 16;
  const std::int64_t targets = items.targets();
  const std::int64_t count = items.count();
  const std::int64_t pieces = std::clamp<std::int64_t>(count / std::max(kLeastItems, 4 * targets), 1, kMostPieces);
  Workspace<Sum> sums(pieces * targets);
  in_ranges(0, pieces, 1, [&](std::int64_t piece, std::int64_t) {
    Sum* const own = sums.data() + piece * targets;
    std::fill_n(own, targets, Reduction::begin());
    items.for_each_inside(count * piece / pieces, count * (piece + 1) / pieces,
                          [&](std::int64_t i, std::int64_t place, std::int64_t) {
                            own[place] = Reduction::take_in(own[place], updates[i]);
                          });
  });
  for (std::int64_t place = 0; place < targets; ++place) {
    Sum sum = sums.data()[place];
    for (std::int64_t piece = 1; piece < pieces; ++piece) {
      sum = Reduction::join(sum, sums.data()[piece * targets + place]);
    }
    reduction.finish(out[place], sum);
  }
}

template <class Reduction, class T, class Out>
void reduce_near(const Items& items, const Reduction& reduction, const T* updates, Out* out) {
  using Sum = typename Reduction::Sum;
  constexpr std::int64_t kElements = 1 << 14;  // Of the array that are worth a thread.
  Workspace<Sum> sums(items.targets());
  std::fill_n(sums.data(), items.targets(), Reduction::begin());
  items.for_each_inside(0, items.count(), [&, own = sums.data()](std::int64_t i, std::int64_t place, std::int64_t) {
    own[place] = Reduction::take_in(own[place], updates[i]);
  });
  in_ranges(0, items.targets(), kElements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t place = begin; place < end; ++place) reduction.finish(out[place], sums.data()[place]);
  });
}

template <class Reduction, class T, class Out>
void reduce_elements(const Items& items, const Reduction& reduction, const T* updates, Out* out) {
  if (items.targets() <= kFewPlaces) return reduce_pieces(items, reduction, updates, out);
  if constexpr (Reduction::kInAnyOrder) {
    // In place: what nobody has reduced yet is neutral, if it is to be replaced.
    if (are_near(items, sizeof(Out))) {
      const Reduction combining{false};
      return items.for_each_inside(0, items.count(), [&](std::int64_t i, std::int64_t place, std::int64_t) {
        combining.combine(out[place], updates[i]);
      });
    }
  }
  if (are_near(items, sizeof(typename Reduction::Sum))) return reduce_near(items, reduction, updates, out);
  const Buckets<sizeof(T)> buckets(items, reinterpret_cast<const std::byte*>(updates));
  constexpr std::int64_t kTasks = 16;
  in_ranges(0, buckets.blocks(), (buckets.blocks() + kTasks - 1) / kTasks, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t block_size = buckets.block_size();
    Workspace<typename Reduction::Sum> sums(block_size);
    std::optional<FewPlaces> few;
    for (std::int64_t block = first; block < last; ++block) {
      const auto [bytes, places, count] = buckets.bucket(block);
      const T* const values = reinterpret_cast<const T*>(bytes);
      Out* const begin = out + block * block_size;
      if (count * kFew < block_size) {
        if (!few) few.emplace(block_size);
        reduce_few(reduction, values, places, count, sums.data(), *few, begin);
      } else {
        const std::int64_t size = std::min(block_size, items.targets() - block * block_size);
        reduce_bucket(reduction, values, places, count, sums.data(), size, begin);
      }
    }
  });
}

// ---- Items of any size.

template <class Reduction, class T, class Out>
void reduce_place(const Items& items, const Reduction& reduction, const T* updates, Out* place,
                  std::span<const std::int64_t> members) {
  using Sum = typename Reduction::Sum;
  constexpr std::int64_t kMostAtOnce = 256;
  const auto row_of = [&](std::int64_t item) { return updates + item * items.size(); };
  items.for_each_row(sizeof(Out), [&](std::int64_t at, std::int64_t to, std::int64_t stride, std::int64_t count) {
    if (members.size() == 1) {  // The elements of one item alone are as they are.
      const T* const row = row_of(members[0]) + at;
      Out* const elements = place + to;
      if (stride == 1) {
        for (std::int64_t k = 0; k < count; ++k) reduction.combine(elements[k], static_cast<Out>(row[k]));
      } else {
        for (std::int64_t k = 0; k < count; ++k) reduction.combine(elements[k * stride], static_cast<Out>(row[k]));
      }
      return;
    }
    std::array<Sum, kMostAtOnce> sums;
    for (std::int64_t done = 0; done < count; done += kMostAtOnce) {
      const std::int64_t n = std::min(kMostAtOnce, count - done);
      std::fill_n(sums.data(), n, Reduction::begin());
      for (const std::int64_t item : members) {
        const T* const from = row_of(item) + at + done;
        for (std::int64_t k = 0; k < n; ++k) {
          Sum& sum = sums[static_cast<std::size_t>(k)];
          sum = Reduction::take_in(sum, from[k]);
        }
      }
      Out* const elements = place + to + done * stride;
      for (std::int64_t k = 0; k < n; ++k) reduction.finish(elements[k * stride], sums[static_cast<std::size_t>(k)]);
    }
  });
}

template <ReduceKind kKind, class T, class Out>
void reduce_items(const Attrs& attrs, const TensorView& updates, const TensorView& out, Views indices, bool replaces) {
  const Items items(attrs, out, indices, updates.shape);
  const ItemReduction<kKind, T, Out> reduction{replaces};
  // One times a complex number need not be that number, so that one item alone must be told from several.
  constexpr bool kIsNeutral = kKind != ReduceKind::kProd || !kIsComplexElement<T>;
  if (kIsNeutral && items.size() == 1 && items.count() >= kManyItems) {
    constexpr bool kIsOrdered =
        (kKind == ReduceKind::kMax || kKind == ReduceKind::kMin) && std::is_floating_point_v<CombineType<T>>;
    using Reduction = std::conditional_t<kIsOrdered, OrderedReduction<kKind, T, Out>, ItemReduction<kKind, T, Out>>;
    return reduce_elements(items, Reduction{replaces}, updates.as<T>(), out.as<Out>());
  }
  const PlaceLists places(items);
  constexpr std::int64_t kElements = 1 << 15;  // Of the items that are worth a thread.
  const auto count = static_cast<std::int64_t>(places.offsets.size());
  const std::int64_t elements = static_cast<std::int64_t>(places.items.size()) * items.size();
  const std::int64_t at_once = std::max<std::int64_t>(1, count * kElements / std::max<std::int64_t>(1, elements));
  in_ranges(0, count, at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto place = static_cast<std::size_t>(i);
      reduce_place(items, reduction, updates.as<T>(), out.as<Out>() + places.offsets[place], places.members(place));
    }
  });
}

class ScatterReduceKernel final : public Kernel {
 public:
  explicit ScatterReduceKernel(Attrs attrs)
      : attrs_(std::move(attrs)), kind_(parse_reduce_kind(attrs_.get<std::string>("kind"))) {}

  Work work(Views inputs, Views outputs) const override {
    return {.tiles = update_tiles(outputs[0]), .finishes_long = finishes_long(inputs[0])};
  }

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
  // Without dims, nobody's: there is one item.
  const std::size_t index_rank = eqn.inputs.size() == 1 ? 0 : graph.type(eqn.inputs[1]).rank();
  return std::make_unique<GatherKernel>(eqn.attrs, index_rank);
}

bool places_items(const Graph& graph, const Eqn& gather, const Eqn& transpose) {
  if (gather.inputs.size() < 2 || graph.type(gather.inputs[0]).dtype != graph.type(gather.outputs[0]).dtype)
    return false;
  const auto index_rank = static_cast<std::int64_t>(graph.type(gather.inputs[1]).rank());
  if (index_rank == 0) return false;
  // The dimensions of the indices, and the others, in their order; the former side by side.
  std::int64_t next_index = 0;
  std::int64_t next_whole = index_rank;
  for (const std::int64_t d : transpose.attrs.get<Dims>("perm")) {
    const bool is_index = d < index_rank;
    if (d != (is_index ? next_index : next_whole)) return false;
    if (!is_index && next_index != 0 && next_index != index_rank) return false;
    ++(is_index ? next_index : next_whole);
  }
  return true;
}

std::unique_ptr<Kernel> placed_gather_kernel(const Graph& body) {
  const Eqn& gather = body.eqns[0];
  const Dims& perm = body.eqns[1].attrs.get<Dims>("perm");
  std::vector<std::size_t> operands;
  for (const ValueId id : gather.inputs) {
    operands.push_back(static_cast<std::size_t>(std::ranges::find(body.inputs, id) - body.inputs.begin()));
  }
  return std::make_unique<PlacedGatherKernel>(gather.attrs, std::move(operands), body.type(gather.inputs[1]).rank(),
                                              static_cast<std::size_t>(std::ranges::find(perm, 0) - perm.begin()));
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
