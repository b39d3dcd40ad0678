// Keys are taken in blocks, in their order, with the greatest logit and the sum of powers of each query so far (Milakov
// & Gimelshein 2018; Dao et al. 2022, "FlashAttention"). Logits are keys times queries: so the products take keys and
// values row by row, and the softmax goes down columns, of which vectors hold several.
#include "backend/cpu/attention/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <type_traits>
#include <utility>

#include "backend/cpu/attention/softmax_columns.h"
#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/products/product_kernels.h"
#include "backend/cpu/products/tiling.h"
#include "ops/attention.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Logits that a tile has at least, as there are that many.
constexpr std::int64_t kTileLogits = 1 << 13;
// Sums over queries are made in up to so many parts, which are added up. Each part is a tile if there are no more, as
// each takes as much memory as the result.
constexpr std::int64_t kMostParts = 4;
constexpr std::int64_t kLeastBlocksOfPart = 4;
// Keys of a block: its logits for a panel of queries stay in the nearest cache, its keys and values in the second.
constexpr std::int64_t kKeyBlock = 128;
// Queries that go through a block of keys together, if panels of products have no more columns.
constexpr std::int64_t kQueriesOfBlock = 128;
// Of these, gradients keep what has an element for each query and key.
constexpr std::int64_t kQueriesOfGradient = 48;

template <class T>
constexpr Arithmetic kArithmeticOf = std::is_same_v<T, float> ? Arithmetic::kF32 : Arithmetic::kF64;

// Some of `most` queries, in whole panels.
std::int64_t whole_panels(Dtype dtype, std::int64_t most) {
  const std::int64_t width = panel_columns(dtype == float64 ? Arithmetic::kF64 : Arithmetic::kF32);
  return std::max<std::int64_t>(1, most / width) * width;
}

// ---- Elements in the dtype of sums, T, of arrays of this dtype or, if it is f32, of a smaller one.

template <class T>
void load(const TensorView& from, std::int64_t first, std::int64_t count, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (from.dtype == float16) return convert(from.as<float16_t>() + first, count, to);
    if (from.dtype == bfloat16) {
      std::copy_n(from.as<bfloat16_t>() + first, count, to);
      return;
    }
  }
  std::copy_n(from.as<T>() + first, count, to);
}

template <class T>
void store(const T* from, std::int64_t count, const TensorView& to, std::int64_t first) {
  if constexpr (std::is_same_v<T, float>) {
    if (to.dtype == float16) return convert(from, count, to.as<float16_t>() + first);
    if (to.dtype == bfloat16) return convert(from, count, to.as<bfloat16_t>() + first);
  }
  std::copy_n(from, count, to.as<T>() + first);
}

/// Rows of a matrix.
template <class T>
struct Rows {
  const T* data;
  std::int64_t stride;
};

/// The keys or the values of a head, in blocks. Blocks of smaller dtypes are copied, and those that are read often,
/// because rows that lie as far apart as those of arrays with several heads share few sets of the cache.
template <class T>
class HeadRows {
 public:
  HeadRows(const AttentionViews& views, const TensorView& view, bool is_read_often)
      : a_(views),
        view_(view),
        extent_(view.shape.back()),
        stride_(odd_lines(extent_)),
        copies_((is_read_often && views.k > 1) || size_of(view.dtype) < static_cast<std::int64_t>(sizeof(T))),
        copy_(copies_ ? kKeyBlock * stride_ : 0) {}

  Rows<T> block(std::int64_t head, std::int64_t first, std::int64_t count) const {
    std::int64_t from = a_.key_at(head / a_.k, first, head % a_.k) * extent_;
    const std::int64_t stride = a_.k * extent_;
    if (!copies_) return {view_.as<T>() + from, stride};
    T* to = copy_.data();
    for (std::int64_t i = 0; i < count; ++i, from += stride, to += stride_) load(view_, from, extent_, to);
    return {copy_.data(), stride_};
  }

 private:
  // An odd number of lines of the cache, so that rows take all of its sets by turns.
  static std::int64_t odd_lines(std::int64_t extent) {
    constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
    return (divide_up(extent, kLine) | 1) * kLine;
  }

  const AttentionViews& a_;
  const TensorView& view_;
  std::int64_t extent_;
  std::int64_t stride_;
  bool copies_;
  Workspace<T> copy_;
};

/// A strip of queries of a key head, of which there are those of its group at each position. What they have for each of
/// some rows, such as logits for each key, is a block of so many columns as the strip has.
template <class T>
class Strip {
 public:
  /// Of up to `most` queries, whole panels. `extent` is that of `sums`.
  Strip(const AttentionViews& views, std::int64_t most, std::int64_t extent)
      : a_(views),
        width_(panel_columns(kArithmeticOf<T>)),
        most_(most),
        extent_(extent),
        numbers_(4 * most),
        row_(std::max(views.h, views.v)),
        sums_(extent * most) {}

  /// Begins with the queries from `first` on.
  void begin(std::int64_t head, std::int64_t first) {
    b_ = head / a_.k;
    k_ = head % a_.k;
    first_ = first;
    count_ = std::clamp<std::int64_t>(a_.t * a_.g - first, 0, most_);
    columns_ = divide_up(count_, width_) * width_;
    end_ = count_ == 0 ? 0 : a_.s;
    // Keys behind the last query are seen by none of them.
    if (count_ > 0 && a_.causal)
      end_ = std::clamp<std::int64_t>(a_.first_query + (first + count_ - 1) / a_.g + 1, 0, a_.s);
    forget();
  }
  std::int64_t columns() const { return columns_; }
  /// How many keys from `first` on are a block of this strip.
  std::int64_t keys_from(std::int64_t first) const { return std::clamp<std::int64_t>(end_ - first, 0, kKeyBlock); }

  /// To be called after the last block. The weights of hidden keys are zeros, and those behind the last query were left
  /// out, unless a query sees no key at all: then begins again, with all keys.
  bool begins_again() {
    if (end_ == a_.s || !hides_all()) return false;
    end_ = a_.s;
    forget();
    return true;
  }
  /// Takes no more keys.
  void leave() { end_ = 0; }
  /// Whether a query sees no key.
  bool hides_all() const {
    const T* most = softmax().most;
    return std::any_of(most, most + count_, [](T one) { return one <= static_cast<T>(kHiddenLogit); });
  }

  // ---- Numbers for each query, and sums [n][query].

  RunningSoftmax<T> softmax() const {
    return {numbers_.data(), numbers_.data() + columns_, numbers_.data() + 2 * columns_};
  }
  T* means() const { return numbers_.data() + 3 * columns_; }
  void invert_totals() const {
    for (T* total = softmax().totals; total != softmax().totals + columns_; ++total) *total = T{1} / *total;
  }
  bool has_finite_totals() const {
    return std::all_of(softmax().totals, softmax().totals + count_, [](T total) { return std::isfinite(total); });
  }
  ColumnBlock<T> sums() const { return {sums_.data(), extent_, columns_}; }
  ColumnBlock<T> block(T* data, std::int64_t keys) const { return {data, keys, columns_}; }

  // ---- Products with blocks.

  /// block[key][query] = x[key] times columns, which load_columns has loaded.
  void multiply(Rows<T> x, std::int64_t extent, const T* columns, ColumnBlock<T> block) const {
    multiply_panels({.arithmetic = kArithmeticOf<T>,
                     .rows = block.rows,
                     .columns = columns_,
                     .inner = extent,
                     .lhs = x.data,
                     .lhs_layout = {x.stride, 1, x.stride * kPanelRows},
                     .rhs = columns,
                     .rhs_layout = {.line = 1, .inner = width_, .panel = width_ * extent},
                     .out = block.data,
                     .out_stride = columns_,
                     .accumulate = false});
  }

  /// sums[n][query] += those of x[key][n] times block[key][query].
  void sum_over_keys(Rows<T> x, ColumnBlock<T> block) const {
    multiply_panels({.arithmetic = kArithmeticOf<T>,
                     .rows = extent_,
                     .columns = columns_,
                     .inner = block.rows,
                     .lhs = x.data,
                     .lhs_layout = {1, x.stride, kPanelRows},
                     .rhs = block.data,
                     .rhs_layout = {.line = 1, .inner = columns_, .panel = width_},
                     .out = sums_.data(),
                     .out_stride = columns_,
                     .accumulate = true});
  }

  /// out[key][n], dense, += the sum over queries of block[key][query] times rows, which load_rows has loaded.
  void add_over_queries(ColumnBlock<T> block, const T* rows, std::int64_t extent, T* out) const {
    multiply_panels({.arithmetic = kArithmeticOf<T>,
                     .rows = block.rows,
                     .columns = extent,
                     .inner = count_,
                     .lhs = block.data,
                     .lhs_layout = {columns_, 1, columns_ * kPanelRows},
                     .rhs = rows,
                     .rhs_layout = {.line = 1, .inner = width_, .panel = width_ * columns_},
                     .out = out,
                     .out_stride = extent,
                     .accumulate = true});
  }

  // ---- Parts of what has the shape of queries, but for the last extent.

  /// Panels [n][query], zeros beyond the last query.
  void load_columns(const TensorView& x, T scale, T* to) const {
    const std::int64_t extent = x.shape.back();
    for (std::int64_t panel = 0; panel < columns_; panel += width_, to += extent * width_) {
      const std::int64_t some = std::clamp<std::int64_t>(count_ - panel, 0, width_);
      if (some < width_) std::fill_n(to, extent * width_, T{});
      for (std::int64_t query = 0; query < some; ++query) {
        load(x, offset_of(panel + query, extent), extent, row_.data());
        for (std::int64_t n = 0; n < extent; ++n) to[n * width_ + query] = row_.data()[n] * scale;
      }
    }
  }

  /// Panels [query][n], filled up with zeros.
  void load_rows(const TensorView& x, T* to) const {
    const std::int64_t extent = x.shape.back();
    for (std::int64_t n = 0; n < extent; n += width_, to += width_ * columns_) {
      const std::int64_t some = std::min(width_, extent - n);
      for (std::int64_t query = 0; query < count_; ++query) {
        load(x, offset_of(query, extent) + n, some, to + query * width_);
        std::fill_n(to + query * width_ + some, width_ - some, T{});
      }
    }
  }

  /// The sums as rows of a result, times factors of queries, if there are any, and one of all.
  void store_sums(const T* factors, T factor, const TensorView& result) const {
    for (std::int64_t query = 0; query < count_; ++query) {
      const T times = factors == nullptr ? factor : factors[query] * factor;
      for (std::int64_t n = 0; n < extent_; ++n)
        row_.data()[n] = a_.s == 0 ? T{} : sums_.data()[n * columns_ + query] * times;
      store(row_.data(), extent_, result, offset_of(query, extent_));
    }
  }

  // ---- Blocks of the keys from `first` on

  /// Adds the bias to logits, and writes those of keys that a query does not see.
  void complete(ColumnBlock<T> logits, std::int64_t first) const {
    if (a_.bias != nullptr) {
      const auto add = [](T& logit, auto one) { logit += static_cast<T>(one); };
      if (a_.bias->dtype == float16) {
        for_each_element(*a_.bias, logits, first, add, float16_t{});
      } else if (a_.bias->dtype == bfloat16) {
        for_each_element(*a_.bias, logits, first, add, bfloat16_t{});
      } else {
        for_each_element(*a_.bias, logits, first, add, T{});
      }
    }
    hide(logits, first, static_cast<T>(kHiddenLogit));
  }

  /// Writes `with` where a query does not see a key.
  void hide(ColumnBlock<T> block, std::int64_t first, T with) const {
    if (a_.mask != nullptr) {
      for_each_element(
          *a_.mask, block, first, [&](T& logit, bool sees) { logit = sees ? logit : with; }, true);
    }
    if (!a_.causal) return;
    for (std::int64_t query = 0; query < count_; ++query) {
      const std::int64_t behind = a_.first_query + (first_ + query) / a_.g + 1 - first;
      for (std::int64_t s = std::max<std::int64_t>(behind, 0); s < block.rows; ++s)
        block.data[s * columns_ + query] = with;
    }
  }

 private:
  void forget() {
    std::fill_n(softmax().most, columns_, std::numeric_limits<T>::lowest());
    std::fill_n(softmax().totals, columns_, T{});
    std::fill_n(means(), columns_, T{});
    std::fill_n(sums_.data(), extent_ * columns_, T{});
  }

  std::int64_t offset_of(std::int64_t query, std::int64_t extent) const {
    const std::int64_t at = first_ + query;
    return a_.query_at(b_, at / a_.g, k_, at % a_.g) * extent;
  }

  // Calls f(element of the block, element of a mask or bias).
  template <class F, class E>
  void for_each_element(const TensorView& view, ColumnBlock<T> block, std::int64_t first, F&& f, E) const {
    const AttentionViews::Logits places = a_.logits(view, b_);
    const E* data = view.as<E>();
    for (std::int64_t query = 0; query < count_; ++query) {
      const std::int64_t at = first_ + query;
      const E* from = data + places.at(k_, at % a_.g, at / a_.g, first);
      for (std::int64_t s = 0; s < block.rows; ++s) f(block.data[s * columns_ + query], from[s * places.strides[3]]);
    }
  }

  const AttentionViews& a_;
  std::int64_t width_;
  std::int64_t most_;
  std::int64_t extent_;
  std::int64_t columns_ = 0;
  std::int64_t b_ = 0;
  std::int64_t k_ = 0;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
  std::int64_t end_ = 0;
  Workspace<T> numbers_;
  Workspace<T> row_;
  Workspace<T> sums_;
};

// Calls f(T{}) with the type of sums.
template <class F>
void with_type_of_sums(Dtype dtype, F&& f) {
  return dtype == float64 ? f(double{}) : f(float{});
}

/// The cotangents of keys and values of a head: parts of sums, which are added up in their order.
template <class T>
class SumOfParts {
 public:
  /// `results` are those of attention_gradient. Smaller ones than T have no room for sums.
  SumOfParts(const AttentionViews& views, Views results)
      : a_(views),
        results_(results),
        is_apart_(size_of(results[1].dtype) < static_cast<std::int64_t>(sizeof(T))),
        sums_(is_apart_ ? size(views) : 0) {}

  static std::int64_t size(const AttentionViews& views) { return views.s * (views.h + views.v); }

  /// The sums of a part: those of keys, and then of values.
  void add(const T* part, std::int64_t head, bool is_first) {
    T* sums = sums_.data();
    const auto add_rows = [&](const TensorView& result, std::int64_t extent, T factor) {
      const std::int64_t stride = is_apart_ ? extent : a_.k * extent;
      T* to = is_apart_ ? sums : result.as<T>() + first_of(head) * extent;
      for (std::int64_t s = 0; s < a_.s; ++s, part += extent, to += stride) {
        for (std::int64_t n = 0; n < extent; ++n) to[n] = is_first ? part[n] * factor : to[n] + part[n] * factor;
      }
      sums += a_.s * extent;
    };
    add_rows(results_[1], a_.h, static_cast<T>(a_.scale));
    add_rows(results_[2], a_.v, T{1});
  }

  /// To be called after the last part.
  void finish(std::int64_t head) const {
    if (!is_apart_) return;
    const T* sums = sums_.data();
    for (const TensorView& result : results_.subspan(1)) {
      const std::int64_t extent = result.shape.back();
      for (std::int64_t s = 0; s < a_.s; ++s, sums += extent) {
        store(sums, extent, result, (first_of(head) + s * a_.k) * extent);
      }
    }
  }

 private:
  std::int64_t first_of(std::int64_t head) const { return a_.key_at(head / a_.k, 0, head % a_.k); }

  const AttentionViews& a_;
  Views results_;
  bool is_apart_;
  Workspace<T> sums_;
};

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  Work work(Views inputs, Views) const override { return {.tiles = Tiles(AttentionViews(attrs_, inputs)).count}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const AttentionViews views(attrs_, inputs);
    const Tiles tiles(views);
    with_type_of_sums(views.query.dtype, [&]<class T>(T) {
      const std::int64_t width = panel_columns(kArithmeticOf<T>);
      const std::int64_t count = divide_up(tiles.queries, width);
      std::deque<Strip<T>> strips;  // They stay where they are.
      for (std::int64_t i = 0; i < count; ++i) strips.emplace_back(views, width, views.v);
      const HeadRows<T> keys(views, views.key, count > 1);
      const HeadRows<T> values(views, views.value, count > 1);
      const Workspace<T> columns(count * width * views.h);
      const Workspace<T> logits(kKeyBlock * width);
      const std::int64_t end = std::min(tiles.blocks, (tile + 1) * tiles.blocks_of_tile);
      for (std::int64_t number = tile * tiles.blocks_of_tile; number < end; ++number) {
        const std::int64_t head = number / tiles.blocks_of_head;
        const auto columns_of = [&](std::size_t i) {
          return columns.data() + static_cast<std::int64_t>(i) * width * views.h;
        };
        for (std::size_t i = 0; i < strips.size(); ++i) {
          strips[i].begin(head, number % tiles.blocks_of_head * tiles.queries + static_cast<std::int64_t>(i) * width);
          strips[i].load_columns(views.query, static_cast<T>(views.scale), columns_of(i));
        }
        const auto go_through_keys = [&] {
          for (std::int64_t first = 0; first < views.s; first += kKeyBlock) {
            std::int64_t most = 0;
            for (const Strip<T>& strip : strips) most = std::max(most, strip.keys_from(first));
            if (most == 0) continue;
            const Rows<T> some_keys = keys.block(head, first, most);
            const Rows<T> some_values = values.block(head, first, most);
            for (std::size_t i = 0; i < strips.size(); ++i) {
              const Strip<T>& strip = strips[i];
              const ColumnBlock<T> block = strip.block(logits.data(), strip.keys_from(first));
              if (block.rows == 0) continue;
              strip.multiply(some_keys, views.h, columns_of(i), block);
              strip.complete(block, first);
              softmax_columns(block, strip.softmax());
              scale_columns(strip.sums(), strip.softmax().factors);
              strip.sum_over_keys(some_values, block);
            }
          }
        };
        go_through_keys();
        bool again = false;
        for (Strip<T>& strip : strips) {
          if (strip.begins_again()) {
            again = true;
          } else {
            strip.leave();
          }
        }
        if (again) go_through_keys();
        for (const Strip<T>& strip : strips) {
          strip.invert_totals();
          strip.store_sums(strip.softmax().totals, T{1}, outputs[0]);
        }
      }
    });
  }

 private:
  struct Tiles {
    explicit Tiles(const AttentionViews& views)
        : queries(
              std::max<std::int64_t>(1, std::min(views.t * views.g, whole_panels(views.query.dtype, kQueriesOfBlock)))),
          blocks_of_head(divide_up(views.t * views.g, queries)),
          blocks(views.b * views.k * blocks_of_head),
          blocks_of_tile(std::max<std::int64_t>(1, kTileLogits / std::max<std::int64_t>(1, views.s * queries))),
          count(std::max<std::int64_t>(1, divide_up(blocks, blocks_of_tile))) {}
    std::int64_t queries;  ///< Of a block.
    std::int64_t blocks_of_head;
    std::int64_t blocks;
    std::int64_t blocks_of_tile;
    std::int64_t count;
  };

  Attrs attrs_;
};

/// A tile is a key head, or a part of its queries. Parts depend on the queries of a head alone, so that it makes no
/// difference to sums over queries how many heads there are.
class AttentionGradientKernel final : public Kernel {
 public:
  explicit AttentionGradientKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  Work work(Views inputs, Views) const override {
    const AttentionViews views(attrs_, inputs.subspan(1));
    const Tiles tiles(views);
    Work work{.tiles = tiles.heads, .scratch_bytes = 0};
    if (tiles.apart) {
      work.tiles *= tiles.parts;
      with_type_of_sums(inputs[0].dtype, [&]<class T>(T) {
        work.scratch_bytes = static_cast<std::size_t>(work.tiles * SumOfParts<T>::size(views)) * sizeof(T);
      });
    }
    work.tiles = std::max<std::int64_t>(1, work.tiles);
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t tile) const override {
    const AttentionViews views(attrs_, inputs.subspan(1));
    const Tiles tiles(views);
    if (tiles.heads == 0) return;
    with_type_of_sums(inputs[0].dtype, [&]<class T>(T) {
      const std::int64_t size = SumOfParts<T>::size(views);
      if (tiles.apart) {
        T* sums = reinterpret_cast<T*>(scratch) + tile * size;
        return run_part<T>(views, inputs[0], outputs[0], tile / tiles.parts, tile % tiles.parts, tiles, sums);
      }
      SumOfParts<T> all(views, outputs);
      const Workspace<T> sums(size);
      for (std::int64_t part = 0; part < tiles.parts; ++part) {
        run_part<T>(views, inputs[0], outputs[0], tile, part, tiles, sums.data());
        all.add(sums.data(), tile, part == 0);
      }
      all.finish(tile);
    });
  }

  void finish(Views inputs, Views outputs, std::byte* scratch) const override {
    const AttentionViews views(attrs_, inputs.subspan(1));
    const Tiles tiles(views);
    if (!tiles.apart) return;
    with_type_of_sums(inputs[0].dtype, [&]<class T>(T) {
      const T* sums = reinterpret_cast<const T*>(scratch);
      SumOfParts<T> all(views, outputs);
      for (std::int64_t head = 0; head < tiles.heads; ++head) {
        for (std::int64_t part = 0; part < tiles.parts; ++part, sums += SumOfParts<T>::size(views)) {
          all.add(sums, head, part == 0);
        }
        all.finish(head);
      }
    });
  }

 private:
  struct Tiles {
    explicit Tiles(const AttentionViews& views)
        : heads(views.b * views.k),
          queries(whole_panels(views.query.dtype, kQueriesOfGradient)),
          blocks_of_head(divide_up(views.t * views.g, queries)),
          parts(std::clamp<std::int64_t>(blocks_of_head / kLeastBlocksOfPart, 1, kMostParts)),
          apart(parts > 1 && heads * parts <= kMostParts) {}
    std::int64_t heads;
    std::int64_t queries;  ///< Of a block, which is a strip.
    std::int64_t blocks_of_head;
    std::int64_t parts;
    bool apart;
  };

  // Writes the cotangents of the queries, and sums those of keys and values. Each block of keys is gone through twice:
  // for the powers of logits and the slopes, and, once their sums are known, for the products with these. In between
  // they are in memory of the thread, with the maxima that the powers of each block were made with.
  template <class T>
  static void run_part(const AttentionViews& views, const TensorView& cotangent, const TensorView& of_queries,
                       std::int64_t head, std::int64_t part, const Tiles& tiles, T* of_keys) {
    Strip<T> strip(views, tiles.queries, views.h);
    const HeadRows<T> keys(views, views.key, true);
    const HeadRows<T> values(views, views.value, true);
    const std::int64_t most_columns = tiles.queries;
    const std::int64_t width = panel_columns(kArithmeticOf<T>);
    const Workspace<T> queries(views.h * most_columns);
    const Workspace<T> cotangents(views.v * most_columns);
    const Workspace<T> query_rows(divide_up(views.h, width) * width * most_columns);
    const Workspace<T> cotangent_rows(divide_up(views.v, width) * width * most_columns);
    const Workspace<T> weights(views.s * most_columns);
    const Workspace<T> slopes(views.s * most_columns);
    const Workspace<T> maxima(divide_up(views.s, kKeyBlock) * most_columns);
    T* of_values = of_keys + views.s * views.h;
    std::fill_n(of_keys, SumOfParts<T>::size(views), T{});
    const auto for_each_block = [&](auto&& f) {
      for (std::int64_t first = 0; first < views.s; first += kKeyBlock) {
        const std::int64_t count = strip.keys_from(first);
        const std::int64_t at = first * strip.columns();
        if (count == 0) continue;
        f(first, strip.block(weights.data() + at, count), slopes.data() + at,
          maxima.data() + first / kKeyBlock * strip.columns());
      }
    };
    for (std::int64_t number = part; number < tiles.blocks_of_head; number += tiles.parts) {
      strip.begin(head, number * most_columns);
      const std::int64_t columns = strip.columns();
      const RunningSoftmax<T> softmax = strip.softmax();
      strip.load_columns(views.query, static_cast<T>(views.scale), queries.data());
      strip.load_columns(cotangent, T{1}, cotangents.data());
      const auto weigh = [&] {
        for_each_block([&](std::int64_t first, ColumnBlock<T> block, T* slope, T* most) {
          strip.multiply(keys.block(head, first, block.rows), views.h, queries.data(), block);
          strip.complete(block, first);
          softmax_columns(block, softmax);
          std::copy_n(softmax.most, columns, most);
          strip.multiply(values.block(head, first, block.rows), views.v, cotangents.data(),
                         strip.block(slope, block.rows));
          add_products_of_columns(block, slope, softmax.factors, strip.means());
        });
      };
      weigh();
      if (strip.begins_again()) weigh();
      strip.invert_totals();
      for (std::int64_t i = 0; i < columns; ++i) strip.means()[i] *= softmax.totals[i];
      strip.load_rows(views.query, query_rows.data());
      strip.load_rows(cotangent, cotangent_rows.data());
      // Elsewhere the weights of hidden keys are 0, and so are their slopes.
      const bool hides = strip.hides_all() || !strip.has_finite_totals();
      for_each_block([&](std::int64_t first, ColumnBlock<T> block, T* slope, const T* most) {
        power_columns(most, softmax.most, columns, softmax.factors);
        for (std::int64_t i = 0; i < columns; ++i) softmax.factors[i] *= softmax.totals[i];
        softmax_gradient_columns(block, softmax.factors, strip.means(), slope);
        const ColumnBlock<T> slopes_of_block = strip.block(slope, block.rows);
        if (hides) strip.hide(slopes_of_block, first, T{});
        strip.add_over_queries(block, cotangent_rows.data(), views.v, of_values + first * views.v);
        strip.add_over_queries(slopes_of_block, query_rows.data(), views.h, of_keys + first * views.h);
        strip.sum_over_keys(keys.block(head, first, block.rows), slopes_of_block);
      });
      strip.store_sums(nullptr, static_cast<T>(views.scale), of_queries);
    }
  }

  Attrs attrs_;
};

}  // namespace

std::unique_ptr<Kernel> attention_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<AttentionKernel>(eqn.attrs);
}
std::unique_ptr<Kernel> attention_gradient_kernel(const Graph&, const Eqn& eqn) {
  return std::make_unique<AttentionGradientKernel>(eqn.attrs);
}

}  // namespace shoal::cpu
