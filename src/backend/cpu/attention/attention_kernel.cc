// A panel is as many queries as one of the products has columns (backend/cpu/products/product_kernels.h), and all keys
// that they see. Its logits are keys times queries: so the products take keys and values where they lie, and the
// softmax goes down columns, of which vectors hold several. A few panels are a block, and go through blocks of keys
// together.
#include "backend/cpu/attention/attention_kernel.h"

#include <algorithm>
#include <deque>
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
// Products are summed in blocks of so many keys, whose logits stay in the nearest cache.
constexpr std::int64_t kKeyBlock = 256;
// Queries of a block, if panels have no more.
constexpr std::int64_t kQueriesOfBlock = 48;

template <class T>
constexpr Arithmetic kArithmeticOf = std::is_same_v<T, float> ? Arithmetic::kF32 : Arithmetic::kF64;

// Those of whole panels.
std::int64_t queries_of_block(Dtype dtype) {
  const std::int64_t width = panel_columns(dtype == float32 ? Arithmetic::kF32 : Arithmetic::kF64);
  return std::max<std::int64_t>(1, kQueriesOfBlock / width) * width;
}

// A panel of the left operand, wherever it lies.
struct Left {
  const void* data;
  std::int64_t line;
  std::int64_t inner;
};

// Left times a panel on the right, of all `columns` or fewer, whose rows are `width` elements long.
template <class T>
void multiply_panel(std::int64_t rows, std::int64_t columns, std::int64_t inner, Left lhs, const T* rhs,
                    std::int64_t width, T* out, std::int64_t out_stride, bool accumulate) {
  multiply_panels({.arithmetic = kArithmeticOf<T>,
                   .rows = rows,
                   .columns = columns,
                   .inner = inner,
                   .lhs = lhs.data,
                   .lhs_layout = {lhs.line, lhs.inner, lhs.line * kPanelRows},
                   .rhs = rhs,
                   .rhs_layout = {.line = 1, .inner = width, .panel = width * inner},
                   .out = out,
                   .out_stride = out_stride,
                   .accumulate = accumulate});
}

/// Queries of a key head, of which there are those of its group at each position: a panel of them.
template <class T>
class Panel {
 public:
  Panel(const AttentionViews& views, std::int64_t b, std::int64_t k, std::int64_t width, T* memory)
      : logits(memory),
        a_(views),
        b_(b),
        k_(k),
        width_(width),
        columns_(divide_up(std::max(a_.h, a_.v), width) * width * width),
        inverses_(width) {}

  /// Those from `first` on, of `all`.
  void begin(std::int64_t first, std::int64_t all) {
    first_ = first;
    count_ = std::clamp<std::int64_t>(all - first, 0, width_);
    keys_ = count_ == 0 ? 0 : a_.s;
    // Keys behind the last query are seen by none of them.
    if (count_ > 0 && cuts())
      keys_ = std::clamp<std::int64_t>(a_.first_query + (first_ + count_ - 1) / a_.g + 1, 0, a_.s);
  }
  std::int64_t keys() const { return keys_; }
  const T* inverses() const { return inverses_.data(); }
  ColumnBlock<T> block() const { return {logits, keys_, width_}; }

  T* const logits;  ///< [key][query]

  // ---- Products, of `rows` keys from `first` on.

  /// to[key][query] = x[key] times what load_columns has loaded, where rows of x lie like those of keys or values.
  void multiply_columns(const T* x, std::int64_t extent, std::int64_t first, std::int64_t rows, T* to) const {
    const std::int64_t row = a_.k * extent;
    multiply_panel<T>(rows, width_, extent, {x + first * row, row, 1}, columns_.data(), width_, to + first * width_,
                      width_, false);
  }

  /// sums[n][query] += those of x[key][n] times block[key][query]; they begin with the first key.
  void sum_over_keys(const T* x, std::int64_t extent, const T* block, std::int64_t first, std::int64_t rows,
                     T* sums) const {
    const std::int64_t row = a_.k * extent;
    multiply_panel<T>(extent, width_, rows, {x + first * row, 1, row}, block + first * width_, width_, sums, width_,
                      first > 0);
  }

  /// out[key][n], dense, += the sum over queries of block[key][query] times what load_rows has loaded.
  void add_over_queries(const T* block, std::int64_t extent, std::int64_t first, std::int64_t rows, T* out) const {
    for (std::int64_t n = 0; n < extent; n += width_) {
      multiply_panel<T>(rows, std::min(width_, extent - n), count_, {block + first * width_, width_, 1},
                        columns_.data() + n * width_, width_, out + first * extent + n, extent, true);
    }
  }

  // ---- What they are multiplied by: parts of what has the shape of queries, but for the last extent.

  /// [n][query], zeros beyond the last query.
  void load_columns(const TensorView& x, std::int64_t extent, T scale) {
    T* to = columns_.data();
    if (count_ < width_) std::fill_n(to, extent * width_, T{});
    for (std::int64_t query = 0; query < count_; ++query) {
      const T* from = x.as<T>() + offset_of(query, extent);
      for (std::int64_t n = 0; n < extent; ++n) to[n * width_ + query] = from[n] * scale;
    }
  }

  /// [query][n], in panels of so many n as of queries, filled up with zeros.
  void load_rows(const TensorView& x, std::int64_t extent) {
    T* to = columns_.data();
    for (std::int64_t n = 0; n < extent; n += width_, to += width_ * width_) {
      const std::int64_t some = std::min(width_, extent - n);
      for (std::int64_t query = 0; query < count_; ++query) {
        std::copy_n(x.as<T>() + offset_of(query, extent) + n, some, to + query * width_);
        std::fill_n(to + query * width_ + some, width_ - some, T{});
      }
    }
  }

  // ---- Logits and weights

  /// The softmax of the logits, but for the factors `inverses`.
  void weigh() {
    if (keys_ == 0) return;
    if (a_.bias != nullptr) {
      for_each_element(
          *a_.bias, [&](std::int64_t at, T one) { logits[at] += one; }, T{});
    }
    hide(logits, static_cast<T>(kHiddenLogit));
    softmax_columns(block(), inverses_.data());
  }

  /// Writes `with` where a query does not see a key.
  void hide(T* block, T with) const {
    if (a_.mask != nullptr) {
      for_each_element(
          *a_.mask, [&](std::int64_t at, bool sees) { block[at] = sees ? block[at] : with; }, true);
    }
    if (!a_.causal) return;
    for (std::int64_t query = 0; query < count_; ++query) {
      const std::int64_t first = a_.first_query + (first_ + query) / a_.g + 1;
      for (std::int64_t s = std::max<std::int64_t>(first, 0); s < keys_; ++s) block[s * width_ + query] = with;
    }
  }

  /// Sums [n][query] as rows of a result, times factors; zeros if there are no keys.
  void store(const T* sums, std::int64_t extent, const T* factors, T factor, T* out) const {
    for (std::int64_t query = 0; query < count_; ++query) {
      T* row = out + offset_of(query, extent);
      const T times = factors == nullptr ? factor : factors[query] * factor;
      for (std::int64_t n = 0; n < extent; ++n) row[n] = keys_ == 0 ? T{} : sums[n * width_ + query] * times;
    }
  }

 private:
  // Whether keys behind a query are left out. Their weights are zeros as long as the query sees any other, which it
  // does if nothing else hides keys or makes them small.
  bool cuts() const { return a_.causal && a_.mask == nullptr && a_.bias == nullptr; }

  std::int64_t offset_of(std::int64_t query, std::int64_t extent) const {
    const std::int64_t at = first_ + query;
    return a_.query_at(b_, at / a_.g, k_, at % a_.g) * extent;
  }

  // Calls f(place in the block, element of a mask or bias).
  template <class F, class E>
  void for_each_element(const TensorView& view, F&& f, E) const {
    const AttentionViews::Logits places = a_.logits(view, b_);
    const E* data = view.as<E>();
    for (std::int64_t query = 0; query < count_; ++query) {
      const std::int64_t at = first_ + query;
      const E* from = data + places.at(k_, at % a_.g, at / a_.g, 0);
      for (std::int64_t s = 0; s < keys_; ++s) f(s * width_ + query, from[s * places.strides[3]]);
    }
  }

  const AttentionViews& a_;
  std::int64_t b_;
  std::int64_t k_;
  std::int64_t width_;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
  std::int64_t keys_ = 0;
  Workspace<T> columns_;
  Workspace<T> inverses_;
};

/// The panels of a block.
template <class T>
class Block {
 public:
  Block(const AttentionViews& views, std::int64_t head, std::int64_t queries)
      : a_(views), width_(panel_columns(kArithmeticOf<T>)), logits_(queries * views.s) {
    for (std::int64_t at = 0; at < queries; at += width_) {
      panels_.emplace_back(views, head / views.k, head % views.k, width_, logits_.data() + at * views.s);
    }
    const std::int64_t first = views.key_at(head / views.k, 0, head % views.k);
    key = views.key.as<T>() + first * views.h;
    value = views.value.as<T>() + first * views.v;
  }

  const T* key;  ///< The first of the head.
  const T* value;

  void begin(std::int64_t first) {
    for (Panel<T>& panel : panels_) {
      panel.begin(first, a_.t * a_.g);
      first += width_;
    }
  }
  std::deque<Panel<T>>& panels() { return panels_; }

  /// The weights, but for the factors `inverses`.
  void weigh() {
    for (Panel<T>& panel : panels_) panel.load_columns(a_.query, a_.h, static_cast<T>(a_.scale));
    for_each_part([&](Panel<T>& panel, std::size_t, std::int64_t first, std::int64_t rows) {
      panel.multiply_columns(key, a_.h, first, rows, panel.logits);
    });
    for (Panel<T>& panel : panels_) panel.weigh();
  }

  /// Calls f(panel, its number, first, rows) for blocks of the keys of each panel.
  template <class F>
  void for_each_part(F&& f) {
    for (std::int64_t first = 0; first < a_.s; first += kKeyBlock) {
      for (std::size_t i = 0; i < panels_.size(); ++i) {
        const std::int64_t rows = std::min(kKeyBlock, panels_[i].keys() - first);
        if (rows > 0) f(panels_[i], i, first, rows);
      }
    }
  }

 private:
  const AttentionViews& a_;
  std::int64_t width_;
  Workspace<T> logits_;
  std::deque<Panel<T>> panels_;  // They stay where they are.
};

template <class F>
void with_float_type(Dtype dtype, F&& f) {
  return dtype == float32 ? f(float{}) : f(double{});
}

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(Attrs attrs) : attrs_(std::move(attrs)) {}

  Work work(Views inputs, Views) const override { return {.tiles = Tiles(AttentionViews(attrs_, inputs)).count}; }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    const AttentionViews views(attrs_, inputs);
    const Tiles tiles(views);
    with_float_type(views.query.dtype, [&]<class T>(T) {
      const Workspace<T> sums(views.v * tiles.queries);
      const std::int64_t end = std::min(tiles.blocks, (tile + 1) * tiles.blocks_of_tile);
      for (std::int64_t number = tile * tiles.blocks_of_tile; number < end; ++number) {
        Block<T> block(views, number / tiles.blocks_of_head, tiles.queries);
        block.begin(number % tiles.blocks_of_head * tiles.queries);
        block.weigh();
        const std::int64_t size = views.v * tiles.queries / static_cast<std::int64_t>(block.panels().size());
        const auto sums_of = [&](std::size_t i) { return sums.data() + static_cast<std::int64_t>(i) * size; };
        block.for_each_part([&](Panel<T>& panel, std::size_t i, std::int64_t first, std::int64_t rows) {
          panel.sum_over_keys(block.value, views.v, panel.logits, first, rows, sums_of(i));
        });
        for (std::size_t i = 0; i < block.panels().size(); ++i) {
          const Panel<T>& panel = block.panels()[i];
          panel.store(sums_of(i), views.v, panel.inverses(), T{1}, outputs[0].as<T>());
        }
      }
    });
  }

 private:
  struct Tiles {
    explicit Tiles(const AttentionViews& views)
        : queries(queries_of_block(views.query.dtype)),
          blocks_of_head(divide_up(views.t * views.g, queries)),
          blocks(views.b * views.k * blocks_of_head),
          blocks_of_tile(std::max<std::int64_t>(1, kTileLogits / std::max<std::int64_t>(1, views.s * queries))),
          count(std::max<std::int64_t>(1, divide_up(blocks, blocks_of_tile))) {}
    std::int64_t queries;
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
      work.scratch_bytes = static_cast<std::size_t>(work.tiles * elements_of_sums(views)) * size_of(inputs[0].dtype);
    }
    work.tiles = std::max<std::int64_t>(1, work.tiles);
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t tile) const override {
    const AttentionViews views(attrs_, inputs.subspan(1));
    const Tiles tiles(views);
    if (tiles.heads == 0) return;
    with_float_type(inputs[0].dtype, [&]<class T>(T) {
      if (tiles.apart) {
        T* sums = reinterpret_cast<T*>(scratch) + tile * elements_of_sums(views);
        return run_part<T>(views, inputs[0], outputs[0], tile / tiles.parts, tile % tiles.parts, tiles, sums);
      }
      const Workspace<T> sums(elements_of_sums(views));
      for (std::int64_t part = 0; part < tiles.parts; ++part) {
        run_part<T>(views, inputs[0], outputs[0], tile, part, tiles, sums.data());
        add_part<T>(views, sums.data(), tile, part, outputs);
      }
    });
  }

  void finish(Views inputs, Views outputs, std::byte* scratch) const override {
    const AttentionViews views(attrs_, inputs.subspan(1));
    const Tiles tiles(views);
    if (!tiles.apart) return;
    with_float_type(inputs[0].dtype, [&]<class T>(T) {
      const T* sums = reinterpret_cast<const T*>(scratch);
      for (std::int64_t head = 0; head < tiles.heads; ++head) {
        for (std::int64_t part = 0; part < tiles.parts; ++part, sums += elements_of_sums(views)) {
          add_part<T>(views, sums, head, part, outputs);
        }
      }
    });
  }

 private:
  struct Tiles {
    explicit Tiles(const AttentionViews& views)
        : heads(views.b * views.k),
          queries(queries_of_block(views.query.dtype)),
          blocks_of_head(divide_up(views.t * views.g, queries)),
          parts(std::clamp<std::int64_t>(blocks_of_head / kLeastBlocksOfPart, 1, kMostParts)),
          apart(parts > 1 && heads * parts <= kMostParts) {}
    std::int64_t heads;
    std::int64_t queries;
    std::int64_t blocks_of_head;
    std::int64_t parts;
    bool apart;
  };

  // Of the cotangents of a head's keys, and then of its values.
  static std::int64_t elements_of_sums(const AttentionViews& views) { return views.s * (views.h + views.v); }

  // Writes the cotangents of the queries, and sums those of keys and values.
  template <class T>
  static void run_part(const AttentionViews& views, const TensorView& cotangent, const TensorView& of_queries,
                       std::int64_t head, std::int64_t part, const Tiles& tiles, T* of_keys) {
    Block<T> block(views, head, tiles.queries);
    const auto panels = static_cast<std::int64_t>(block.panels().size());
    const Workspace<T> all_slopes(views.s * tiles.queries);
    const Workspace<T> sums(views.h * tiles.queries);
    const auto slopes_of = [&](std::size_t i) {
      return all_slopes.data() + static_cast<std::int64_t>(i) * (views.s * tiles.queries / panels);
    };
    const auto sums_of = [&](std::size_t i) {
      return sums.data() + static_cast<std::int64_t>(i) * (views.h * tiles.queries / panels);
    };
    T* of_values = of_keys + views.s * views.h;
    std::fill_n(of_keys, elements_of_sums(views), T{});
    for (std::int64_t number = part; number < tiles.blocks_of_head; number += tiles.parts) {
      block.begin(number * tiles.queries);
      block.weigh();
      for (Panel<T>& panel : block.panels()) panel.load_columns(cotangent, views.v, T{1});
      block.for_each_part([&](Panel<T>& panel, std::size_t i, std::int64_t first, std::int64_t rows) {
        panel.multiply_columns(block.value, views.v, first, rows, slopes_of(i));
      });
      for (std::size_t i = 0; i < block.panels().size(); ++i) {
        Panel<T>& panel = block.panels()[i];
        softmax_gradient_columns(panel.block(), panel.inverses(), slopes_of(i));
        panel.hide(slopes_of(i), T{});
        panel.load_rows(cotangent, views.v);
      }
      block.for_each_part([&](Panel<T>& panel, std::size_t, std::int64_t first, std::int64_t rows) {
        panel.add_over_queries(panel.logits, views.v, first, rows, of_values);
      });
      for (Panel<T>& panel : block.panels()) panel.load_rows(views.query, views.h);
      block.for_each_part([&](Panel<T>& panel, std::size_t i, std::int64_t first, std::int64_t rows) {
        panel.add_over_queries(slopes_of(i), views.h, first, rows, of_keys);
        panel.sum_over_keys(block.key, views.h, slopes_of(i), first, rows, sums_of(i));
      });
      for (std::size_t i = 0; i < block.panels().size(); ++i) {
        block.panels()[i].store(sums_of(i), views.h, nullptr, static_cast<T>(views.scale), of_queries.as<T>());
      }
    }
  }

  template <class T>
  static void add_part(const AttentionViews& views, const T* sums, std::int64_t head, std::int64_t part,
                       Views outputs) {
    const std::int64_t first = views.key_at(head / views.k, 0, head % views.k);
    const auto add = [&](std::int64_t extent, T factor, T* to) {
      to += first * extent;
      for (std::int64_t s = 0; s < views.s; ++s, sums += extent, to += views.k * extent) {
        for (std::int64_t n = 0; n < extent; ++n) to[n] = part == 0 ? sums[n] * factor : to[n] + sums[n] * factor;
      }
    };
    add(views.h, static_cast<T>(views.scale), outputs[1].as<T>());
    add(views.v, T{1}, outputs[2].as<T>());
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
