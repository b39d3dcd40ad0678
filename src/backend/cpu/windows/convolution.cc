// Convolutions as products of matrices of which one is never written: what the places of a window meet is read from a
// padded copy of the array by a table of offsets (compare Dukhan, "The Indirect Convolution Algorithm", 2019). Vectors
// are made of places that are neighbours, or of results.
#include "backend/cpu/windows/convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/summed_elements.h"
#include "backend/cpu/products/sums.h"
#include "backend/cpu/products/tiling.h"
#include "backend/cpu/windows/convolution_plan.h"
#include "core/dispatch.h"
#include "ir/rearrangement.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Sums are of blocks of at most this many products, which are added in order.
constexpr std::int64_t kMostOfBlock = 256;
// Sums that are stored together: enough for long pieces of rows of the result.
constexpr std::int64_t kSumsBytes = 128 << 10;
constexpr std::int64_t kMostElementBytes = 16;
// Rows of results in vectors that are computed together.
constexpr std::int64_t kRowsTogether = 48;

template <class C, bool kTruth, class T>
void copy_line(const T* from, std::int64_t stride, std::int64_t n, C* to) {
  if constexpr (std::is_same_v<T, C> && !kTruth) {
    if (stride == 1) {
      // A call takes longer than a short line.
      constexpr std::int64_t kPiece = 16 / static_cast<std::int64_t>(sizeof(T));
      for (; n >= kPiece && n <= 4 * kPiece; n -= kPiece, from += kPiece, to += kPiece) std::memcpy(to, from, 16);
      if (n < kPiece) {
        for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i, from + i, sizeof(T));
      } else {
        std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
      }
      return;
    }
  }
  if constexpr (std::is_same_v<T, float16_t> && std::is_same_v<C, float>) {
    if (stride == 1) {
      convert(from, n, to);
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = as_summed<C, kTruth>(from[i * stride]);
}

// Writes elements of some rows side by side, `width` apart for each offset, and says how many rows these were.
template <class C, bool kTruth, class T>
std::int64_t pack_rows(const T* from, std::int64_t row_stride, std::span<const std::int64_t> offsets, std::int64_t rows,
                       std::int64_t width, C* to) {
  const auto some = [&](auto count) {
    constexpr std::int64_t kCount = decltype(count)::value;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < kCount; ++i) to[i] = as_summed<C, kTruth>(from[i * row_stride + offset]);
      to += width;
    }
    return kCount;
  };
  if (rows >= 8) return some(std::integral_constant<std::int64_t, 8>());
  if (rows >= 4) return some(std::integral_constant<std::int64_t, 4>());
  return some(std::integral_constant<std::int64_t, 1>());
}

// The indices of a row-major order, one after the other.
class Places {
 public:
  explicit Places(Dims extents) : extents_(std::move(extents)), at_(extents_.size()) {}
  std::int64_t operator[](std::size_t d) const { return at_[d]; }
  // To the next; back to the first after the last.
  void move_on() {
    for (std::size_t d = extents_.size(); d-- > 0;) {
      if (++at_[d] < extents_[d]) return;
      at_[d] = 0;
    }
  }
  void set(std::int64_t number) {
    for (std::size_t d = extents_.size(); d-- > 0;) {
      at_[d] = number % extents_[d];
      number /= extents_[d];
    }
  }

 private:
  Dims extents_;
  Dims at_;
};

// What is computed at once: the phases of all dimensions, one of each.
struct PhaseOfAll {
  std::vector<const WindowDim::Phase*> of_dims;
  std::int64_t taps;
  std::int64_t count;  // Of the products of an element.
};

// Neighbouring places whose sums are neighbours.
struct Piece {
  std::int64_t first;  // Sum.
  std::int64_t count;
  std::int64_t image;
  std::int64_t place;  // An offset in the result.
};

// Products that are added one after the other.
struct SumBlock {
  std::int64_t part;  // The first of its part.
  std::int64_t begin;
  std::int64_t count;
  bool ends;  // Its part.
};

// Computes tiles, one after the other. What neighbours share is copied and packed once.
class ConvolutionTiles {
 public:
  ConvolutionTiles(const ConvolutionPlan& plan, const ProductTypes& types, Views inputs, Views outputs,
                   std::byte* scratch)
      : plan_(plan),
        types_(types),
        loops_(convolution_loops(types.arithmetic)),
        lhs_(inputs[0]),
        rhs_(inputs[1]),
        out_(outputs[0]),
        scratch_(scratch),
        size_(types.sum_size()) {}

  void run(std::int64_t number) {
    const std::int64_t part = number % plan_.part_tiles;
    number /= plan_.part_tiles;
    const std::int64_t first_result = number % plan_.result_tiles * plan_.results_of_tile;
    const Range results{first_result, std::min(first_result + plan_.results_of_tile, plan_.results)};
    if (phases_.empty() || part != part_) {
      part_ = part;
      find_phases();
      results_ = {};
      copied_unit_ = -1;
    }
    if (results.begin != results_.begin || results.end != results_.end) {
      results_ = results;
      find_memory();
      packed_group_ = -1;
    }
    const std::int64_t first_unit = number / plan_.result_tiles * plan_.units_of_tile;
    const std::int64_t end = std::min(first_unit + plan_.units_of_tile, plan_.units);
    for (std::int64_t unit = first_unit; unit < end; ++unit) run_unit(unit);
  }

 private:
  std::size_t dims() const { return plan_.dims.size(); }
  std::int64_t results_here() const { return results_.end - results_.begin; }

  void run_unit(std::int64_t unit) {
    const std::int64_t of_group = plan_.image_blocks * plan_.bands;
    group_ = unit / of_group;
    const std::int64_t block = unit % of_group / plan_.bands;
    images_ = {block * plan_.images, std::min((block + 1) * plan_.images, plan_.batch)};
    band_begin_ = unit % plan_.bands * plan_.band;
    if (group_ != packed_group_) pack_weights();
    packed_group_ = group_;
    if (unit != copied_unit_) copy_grid();
    copied_unit_ = unit;
    std::int64_t before = 0;
    for (const PhaseOfAll& phase : phases_) {
      compute(phase, before);
      before += phase.count;
    }
  }

  // ---- What is summed.

  void find_phases() {
    phases_.clear();
    blocks_.clear();
    all_ = 0;
    Dims extents;
    std::int64_t combinations = 1;
    for (const WindowDim& dim : plan_.dims) {
      extents.push_back(static_cast<std::int64_t>(dim.phases.size()));
      combinations *= extents.back();
    }
    Places at(extents);
    for (std::int64_t i = 0; i < combinations; ++i, at.move_on()) {
      PhaseOfAll phase{.of_dims = {}, .taps = 1, .count = 0};
      for (std::size_t d = 0; d < dims(); ++d) {
        phase.of_dims.push_back(&plan_.dims[d].phases[static_cast<std::size_t>(at[d])]);
        phase.taps *= static_cast<std::int64_t>(phase.of_dims[d]->taps.size());
      }
      phase.count = phase.taps * plan_.features;
      all_ += phase.count;
      phases_.push_back(std::move(phase));
    }
    sums_ = {0, all_};
    features_ = {0, plan_.features};
    if (plan_.part_tiles > 1) {
      const PhaseOfAll& phase = phases_.front();
      const std::int64_t size = part_size(phase.count, phase.taps);
      sums_ = {part_ * size, std::min((part_ + 1) * size, phase.count)};
      features_ = {sums_.begin / phase.taps, divide_up(sums_.end, phase.taps)};
    }
  }

  // ---- Memory.

  std::int64_t round_up(std::int64_t n, std::int64_t unit) const { return divide_up(n, unit) * unit; }
  // Results, rounded up to panels.
  std::int64_t packed_results() const {
    return round_up(results_here(), plan_.vectors_of_places ? loops_.rows : loops_.lanes);
  }

  void find_memory() {
    // The grid: of each image and feature, lines by dimension, and in each of those the places.
    std::int64_t elements = 1;
    std::int64_t lines = 1;
    index_strides_.assign(dims(), 0);
    line_strides_.assign(dims(), 0);
    for (std::size_t d = dims(); d-- > 0;) {
      index_strides_[d] = elements;
      elements *= indices(d);
    }
    for (std::size_t d = dims(); d-- > 0;) {
      line_strides_[d] = elements * lines;
      lines *= static_cast<std::int64_t>(plan_.dims[d].lines.size());
    }
    grid_ = elements * lines;
    image_grid_ = grid_ * (features_.end - features_.begin);
    panel_width_ = loops_.vectors * loops_.lanes;
    // Vectors may reach beyond the last place.
    array_ = static_cast<std::byte*>(thread_memory(
        ThreadMemory::kLhsBlock, static_cast<std::size_t>((plan_.images * image_grid_ + panel_width_) * size_)));
    packed_ = static_cast<std::byte*>(thread_memory(
        ThreadMemory::kRhsBlock,
        static_cast<std::size_t>(std::max<std::int64_t>(1, (sums_.end - sums_.begin) * packed_results() * size_))));
    rows_of_sums_ = plan_.vectors_of_places ? packed_results() : kRowsTogether;
    const std::int64_t panels = std::clamp(kSumsBytes / (rows_of_sums_ * panel_width_ * size_), std::int64_t{1},
                                           divide_up(flat_length(), panel_width_));
    sums_stride_ = plan_.vectors_of_places ? panels * panel_width_ : round_up(packed_results(), loops_.lanes);
    const std::int64_t sums_bytes = round_up(rows_of_sums_ * sums_stride_ * size_, 64);
    // Sums, those of a part, and a copy of them in the order of the result.
    const std::int64_t turned = round_up(results_here() * kRowsTogether * size_, 64);
    const std::int64_t apart = round_up(std::max(kRowsTogether, sums_stride_) * kMostElementBytes, 64);
    const std::int64_t offsets = (sums_.end - sums_.begin) * static_cast<std::int64_t>(sizeof(std::int64_t));
    auto* memory = static_cast<std::byte*>(
        thread_memory(ThreadMemory::kTile, static_cast<std::size_t>(2 * sums_bytes + turned + apart + offsets)));
    sums_memory_ = memory;
    part_memory_ = memory + sums_bytes;
    turned_ = part_memory_ + sums_bytes;
    apart_ = turned_ + turned;
    offsets_ = reinterpret_cast<std::int64_t*>(apart_ + apart);
    find_offsets();
    out_strides_ = row_major_strides(plan_.out_shape);
  }

  // Places that vectors run over at once.
  std::int64_t flat_length() const {
    std::int64_t length = 1;
    for (std::size_t d = dims() - plan_.flat; d < dims(); ++d) {
      length += (indices(d) - plan_.dims[d].reach - 1) * index_strides_[d];
    }
    return length;
  }

  std::int64_t indices(std::size_t d) const {
    return (d == 0 ? plan_.band : plan_.dims[d].most_places()) + plan_.dims[d].reach;
  }

  // Calls f(index of what is summed, feature, tap of each dimension) for the products of a phase in order, as far as
  // they are this tile's. Features come first, as the array has them.
  template <class F>
  void for_each_product(const PhaseOfAll& phase, F&& f) {
    if (phase.taps == 0) return;
    Dims extents;
    for (const WindowDim::Phase* of_dim : phase.of_dims) {
      extents.push_back(static_cast<std::int64_t>(of_dim->taps.size()));
    }
    Places at(extents);
    const Range range = plan_.part_tiles > 1 ? sums_ : Range{0, phase.count};
    at.set(range.begin % phase.taps);
    std::int64_t tap = range.begin % phase.taps;
    std::int64_t feature = range.begin / phase.taps;
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      f(k - range.begin, feature, at);
      at.move_on();
      if (++tap == phase.taps) {
        tap = 0;
        ++feature;
      }
    }
  }

  void find_offsets() {
    std::int64_t* to = offsets_;
    for (const PhaseOfAll& phase : phases_) {
      for_each_product(phase, [&](std::int64_t, std::int64_t feature, const Places& at) {
        std::int64_t offset = (feature - features_.begin) * grid_;
        for (std::size_t d = 0; d < dims(); ++d) {
          const WindowDim::Tap& tap = phase.of_dims[d]->taps[static_cast<std::size_t>(at[d])];
          offset += tap.line * line_strides_[d] + tap.shift * index_strides_[d];
        }
        *to++ = offset;
      });
    }
  }

  // ---- Operands.

  // The window of the results of a group: panels of rows, or of vectors.
  void pack_weights() {
    const std::int64_t features = plan_.features;
    Dims strides(dims(), 1);
    for (std::size_t d = dims() - 1; d-- > 0;) strides[d] = strides[d + 1] * plan_.dims[d + 1].window;
    const std::int64_t of_result = features * plan_.window;
    const std::int64_t first = (group_ * plan_.results + results_.begin) * of_result;
    std::int64_t before = 0;
    for (const PhaseOfAll& phase : phases_) {
      const std::int64_t count = plan_.part_tiles > 1 ? sums_.end - sums_.begin : phase.count;
      // Where each product's element lies in the window of a result.
      std::vector<std::int64_t>& from = window_offsets_;
      from.clear();
      for_each_product(phase, [&](std::int64_t, std::int64_t feature, const Places& at) {
        std::int64_t offset = feature * plan_.window;
        for (std::size_t d = 0; d < dims(); ++d) {
          offset += phase.of_dims[d]->taps[static_cast<std::size_t>(at[d])].position * strides[d];
        }
        from.push_back(offset);
      });
      with_summed_types(types_.arithmetic, types_.operands, [&](auto element, auto sum, auto truth) {
        using T = decltype(element);
        using C = decltype(sum);
        const T* rhs = rhs_.as<const T>() + first;
        C* to = reinterpret_cast<C*>(packed_) + before * packed_results();
        for_each_panel([&](std::int64_t panel_begin, std::int64_t width) {
          C* panel = to + panel_begin * count;
          const std::int64_t rows = std::clamp<std::int64_t>(results_here() - panel_begin, 0, width);
          for (std::int64_t i = 0; i < rows;) {
            i += pack_rows<C, decltype(truth)::value>(rhs + (panel_begin + i) * of_result, of_result, from, rows - i,
                                                      width, panel + i);
          }
          // Vectors have all their elements.
          for (std::int64_t i = rows; i < width && !plan_.vectors_of_places; ++i) {
            for (std::int64_t k = 0; k < count; ++k) panel[k * width + i] = C{};
          }
        });
      });
      before += phase.count;
    }
  }

  // Calls f(first result, results) for the panels in which results are packed.
  template <class F>
  void for_each_panel(F&& f) const {
    const std::int64_t results = packed_results();
    if (plan_.vectors_of_places) {
      for (std::int64_t i = 0; i < results; i += loops_.rows) f(i, loops_.rows);
    } else {
      // Panels are alike, as narrow ones take more time for a vector.
      std::int64_t vectors = results / loops_.lanes;
      std::int64_t panels = divide_up(vectors, loops_.vectors);
      for (std::int64_t i = 0; i < results; --panels) {
        const std::int64_t of_panel = divide_up(vectors, panels);
        f(i, of_panel * loops_.lanes);
        i += of_panel * loops_.lanes;
        vectors -= of_panel;
      }
    }
  }

  // What the places of the band meet, with zeros around.
  void copy_grid() {
    with_summed_types(types_.arithmetic, types_.operands, [&](auto element, auto sum, auto truth) {
      using T = decltype(element);
      using C = decltype(sum);
      const Dims strides = row_major_strides(plan_.lhs_shape);
      C* to = reinterpret_cast<C*>(array_);
      std::fill_n(to + (images_.end - images_.begin) * image_grid_, panel_width_, C{});
      for (std::int64_t image = images_.begin; image < images_.end; ++image) {
        for (std::int64_t feature = features_.begin; feature < features_.end; ++feature) {
          const T* from = lhs_.as<const T>() + image * strides[0] + (group_ * plan_.features + feature) * strides[1];
          copy_lines<C, decltype(truth)::value>(from, strides, 0, to);
          to += grid_;
        }
      }
    });
  }

  // All lines of dimension d and those after it. A null pointer stands for padding.
  template <class C, bool kTruth, class T>
  void copy_lines(const T* from, const Dims& strides, std::size_t d, C* to) {
    const WindowDim& dim = plan_.dims[d];
    for (std::size_t line = 0; line < dim.lines.size(); ++line) {
      copy_indices<C, kTruth>(from, strides, d, dim.lines[line],
                              to + static_cast<std::int64_t>(line) * line_strides_[d]);
    }
  }

  template <class C, bool kTruth, class T>
  void copy_indices(const T* from, const Dims& strides, std::size_t d, std::int64_t line, C* to) {
    const WindowDim& dim = plan_.dims[d];
    const std::int64_t n = indices(d);
    const std::int64_t first = dim.origin + line + (d == 0 ? band_begin_ * dim.step : 0);
    const std::int64_t begin = first >= 0 ? 0 : std::min(n, divide_up(-first, dim.step));
    const std::int64_t end =
        first >= dim.array ? begin : std::max(begin, std::min(n, divide_up(dim.array - first, dim.step)));
    spans_.resize(dims());
    spans_[d] = {.first = first + begin * dim.step, .begin = begin, .end = end, .indices = n};
    if (d + 1 < dims()) return copy_lines<C, kTruth>(from, strides, d + 1, to);
    copy_box<C, kTruth>(from, strides, 0, to);
  }

  // The indices of the lines chosen for all dimensions.
  template <class C, bool kTruth, class T>
  void copy_box(const T* from, const Dims& strides, std::size_t d, C* to) {
    const WindowDim& dim = plan_.dims[d];
    const Span& span = spans_[d];
    const std::int64_t stride = dims() + 2 == strides.size() ? strides[d + 2] : 1;
    const std::int64_t size = index_strides_[d];
    std::fill_n(to, span.begin * size, C{});
    std::fill_n(to + span.end * size, (span.indices - span.end) * size, C{});
    if (span.begin == span.end) return;
    from += span.first * stride;
    to += span.begin * size;
    if (d + 1 == dims()) return copy_line<C, kTruth>(from, dim.step * stride, span.end - span.begin, to);
    for (std::int64_t j = span.begin; j < span.end; ++j, from += dim.step * stride, to += size) {
      copy_box<C, kTruth>(from, strides, d + 1, to);
    }
  }

  // ---- Sums.

  // The places of the band that a phase has.
  std::int64_t places(const PhaseOfAll& phase, std::size_t d) const {
    const std::int64_t all = phase.of_dims[d]->places;
    return d == 0 ? std::clamp<std::int64_t>(all - band_begin_, 0, plan_.band) : all;
  }

  void find_blocks(const PhaseOfAll& phase) {
    blocks_.clear();
    const std::int64_t count = plan_.part_tiles > 1 ? sums_.end - sums_.begin : phase.count;
    const std::int64_t size = part_size(phase.count, phase.taps);
    for (std::int64_t part = 0; part < count; part += size) {
      const std::int64_t end = std::min(part + size, count);
      const std::int64_t of_block = divide_up(end - part, divide_up(end - part, kMostOfBlock));
      for (std::int64_t k = part; k < end; k += of_block) {
        blocks_.push_back(
            {.part = part, .begin = k, .count = std::min(of_block, end - k), .ends = k + of_block >= end});
      }
    }
  }

  void compute(const PhaseOfAll& phase, std::int64_t before) {
    Dims extents;
    for (std::size_t d = 0; d < dims(); ++d) extents.push_back(places(phase, d));
    if (num_elements(extents) == 0) return;
    if (blocks_.empty() || phases_.size() > 1) find_blocks(phase);
    if (plan_.vectors_of_places) {
      by_places(phase, extents, before);
    } else {
      by_results(phase, extents, before);
    }
  }

  // Where sums of the part that begins at `part` are computed: the first part makes the sums.
  std::byte* sums_of(std::int64_t part) const { return part == 0 ? sums_memory_ : part_memory_; }

  void add_part(std::int64_t part, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    if (part == 0) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = (i * sums_stride_ + column) * size_;
      add_sums(types_.arithmetic, part_memory_ + at, columns, sums_memory_ + at);
    }
  }

  void by_places(const PhaseOfAll& phase, const Dims& extents, std::int64_t before) {
    const std::size_t outer = dims() - plan_.flat;
    std::int64_t length = 1;
    std::int64_t runs = 1;
    for (std::size_t d = 0; d < dims(); ++d) {
      if (d < outer) {
        runs *= extents[d];
      } else {
        length += (extents[d] - 1) * index_strides_[d];
      }
    }
    const std::int64_t count = plan_.part_tiles > 1 ? sums_.end - sums_.begin : phase.count;
    const std::int64_t* offsets = offsets_ + before;
    const std::byte* packed = packed_ + before * packed_results() * size_;
    for (std::int64_t image = images_.begin; image < images_.end; ++image) {
      Places at(Dims(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(outer)));
      for (std::int64_t run = 0; run < runs; ++run, at.move_on()) {
        std::int64_t base = (image - images_.begin) * image_grid_;
        for (std::size_t d = 0; d < outer; ++d) base += at[d] * index_strides_[d];
        for (std::int64_t column = 0; column < length; column += sums_stride_) {
          const std::int64_t columns = std::min(sums_stride_, length - column);
          if (count == 0) std::memset(sums_memory_, 0, static_cast<std::size_t>(rows_of_sums_ * sums_stride_ * size_));
          for (std::int64_t panel = 0; panel < columns; panel += panel_width_) {
            compute_columns(base + column + panel, panel, std::min(panel_width_, columns - panel), packed, count,
                            offsets);
          }
          store_columns(phase, extents, image, at, column, columns);
        }
      }
    }
  }

  // Columns of all results: places that begin at an element of the grid.
  void compute_columns(std::int64_t element, std::int64_t column, std::int64_t columns, const std::byte* packed,
                       std::int64_t count, const std::int64_t* offsets) const {
    const std::int64_t vectors = divide_up(columns, loops_.lanes);
    for (const SumBlock& block : blocks_) {
      for (std::int64_t row = 0; row < results_here(); row += loops_.rows) {
        const std::int64_t rows = std::min(loops_.rows, results_here() - row);
        loops_.of_vectors[rows - 1][vectors - 1]({.packed = packed + (row * count + block.begin * loops_.rows) * size_,
                                                  .array = array_ + element * size_,
                                                  .rows = nullptr,
                                                  .offsets = offsets + block.begin,
                                                  .count = block.count,
                                                  .out = sums_of(block.part) + (row * sums_stride_ + column) * size_,
                                                  .out_stride = sums_stride_,
                                                  .accumulate = block.begin != block.part});
      }
      if (block.ends) add_part(block.part, results_here(), column, columns);
    }
  }

  // The columns of a panel that are places: those between rows of the grid are not.
  void store_columns(const PhaseOfAll& phase, const Dims& extents, std::int64_t image, const Places& outer,
                     std::int64_t column, std::int64_t columns) {
    const std::size_t first_flat = dims() - plan_.flat;
    const std::size_t last = dims() - 1;
    const std::int64_t width = plan_.flat == 1 ? column + columns : indices(last);
    pieces_.clear();
    for (std::int64_t at = column; at < column + columns;) {
      const std::int64_t row_end = std::min(column + columns, (at / width + 1) * width);
      const std::int64_t within = at % width;
      std::int64_t rest = at / width;
      std::int64_t place = place_of(phase, last, within);
      bool lies = within < extents[last];
      for (std::size_t d = last; d-- > 0;) {
        std::int64_t t = 0;
        if (d < first_flat) {
          t = outer[d];
        } else {
          const std::int64_t extent = d == first_flat ? extents[d] : indices(d);
          t = d == first_flat ? rest : rest % extent;
          rest /= extent;
          lies = lies && t < extents[d];
        }
        place += place_of(phase, d, t);
      }
      if (lies) {
        pieces_.push_back({.first = at - column,
                           .count = std::min(row_end - at, extents[last] - within),
                           .image = image,
                           .place = place});
      }
      at = row_end;
    }
    store_pieces(sums_memory_, sums_stride_, phase_stride(last));
  }

  std::int64_t out_stride(std::size_t d) const { return out_strides_.size() == 2 ? 1 : out_strides_[d + 2]; }
  // Elements of the result from a place of a phase to the next.
  std::int64_t phase_stride(std::size_t d) const { return plan_.dims[d].period * out_stride(d); }
  // The offset in the result of index t of the places of the band.
  std::int64_t place_of(const PhaseOfAll& phase, std::size_t d, std::int64_t t) const {
    return phase.of_dims[d]->first * out_stride(d) + (t + (d == 0 ? band_begin_ : 0)) * phase_stride(d);
  }

  void by_results(const PhaseOfAll& phase, const Dims& extents, std::int64_t before) {
    const std::int64_t count = plan_.part_tiles > 1 ? sums_.end - sums_.begin : phase.count;
    const std::int64_t* offsets = offsets_ + before;
    const std::byte* packed = packed_ + before * packed_results() * size_;
    const std::int64_t places = num_elements(extents);
    const std::int64_t all = places * (images_.end - images_.begin);
    Places at(extents);
    std::int64_t image = images_.begin;
    std::int64_t place = 0;
    const std::int64_t stride = phase_stride(dims() - 1);
    std::int64_t rows[kRowsTogether];
    for (std::int64_t first = 0; first < all; first += kRowsTogether) {
      const std::int64_t n = std::min(kRowsTogether, all - first);
      pieces_.clear();
      for (std::int64_t i = 0; i < n; ++i) {
        rows[i] = (image - images_.begin) * image_grid_;
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < dims(); ++d) {
          rows[i] += at[d] * index_strides_[d];
          offset += place_of(phase, d, at[d]);
        }
        const Piece* last = pieces_.empty() ? nullptr : &pieces_.back();
        if (last == nullptr || last->image != image || last->place + last->count * stride != offset) {
          pieces_.push_back({.first = i, .count = 1, .image = image, .place = offset});
        } else {
          ++pieces_.back().count;
        }
        at.move_on();
        if (++place == places) {
          place = 0;
          ++image;
        }
      }
      if (count == 0) std::memset(sums_memory_, 0, static_cast<std::size_t>(rows_of_sums_ * sums_stride_ * size_));
      for (const SumBlock& block : blocks_) {
        for_each_panel([&](std::int64_t result, std::int64_t width) {
          for (std::int64_t row = 0; row < n; row += loops_.rows) {
            const std::int64_t panel_rows = std::min(loops_.rows, n - row);
            loops_.of_elements[panel_rows - 1][width / loops_.lanes - 1](
                {.packed = packed + (result * count + block.begin * width) * size_,
                 .array = array_,
                 .rows = rows + row,
                 .offsets = offsets + block.begin,
                 .count = block.count,
                 .out = sums_of(block.part) + (row * sums_stride_ + result) * size_,
                 .out_stride = sums_stride_,
                 .accumulate = block.begin != block.part});
          }
        });
        if (block.ends) add_part(block.part, n, 0, results_here());
      }
      turn(n);
      store_pieces(turned_, kRowsTogether, stride);
    }
  }

  // Rows of results become rows of places.
  void turn(std::int64_t n) {
    with_arithmetic_type(types_.arithmetic, [&](auto tag) {
      using C = decltype(tag);
      const C* from = reinterpret_cast<const C*>(sums_memory_);
      C* to = reinterpret_cast<C*>(turned_);
      constexpr std::int64_t kSide = 16;
      for (std::int64_t begin = 0; begin < results_here(); begin += kSide) {
        const std::int64_t end = std::min(begin + kSide, results_here());
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t o = begin; o < end; ++o) to[o * kRowsTogether + i] = from[i * sums_stride_ + o];
        }
      }
    });
  }

  // Sums of the pieces, for each result a row. Their places are `stride` elements of the result apart.
  void store_pieces(const std::byte* sums, std::int64_t sums_stride, std::int64_t stride) {
    const std::int64_t first = (group_ * plan_.results + results_.begin) * out_strides_[1];
    const auto size = static_cast<std::int64_t>(size_of(types_.out));
    // Parts of sums are stored as they are, one part after the other.
    const bool parts = plan_.part_tiles > 1;
    const bool are_results = types_.sums_are_results();
    std::byte* const to = parts ? scratch_ + part_ * num_elements(plan_.out_shape) * size_ : out_.as<std::byte>();
    for (std::int64_t o = 0; o < results_here(); ++o, sums += sums_stride * size_) {
      for (const Piece& piece : pieces_) {
        const std::int64_t at = first + o * out_strides_[1] + piece.image * out_strides_[0] + piece.place;
        const std::byte* from = sums + piece.first * size_;
        if (parts || (stride == 1 && are_results)) {
          std::memcpy(to + at * (parts ? size_ : size), from, static_cast<std::size_t>(piece.count * size_));
        } else if (stride == 1) {
          store_sums(types_, from, 0, 1, piece.count, to + at * size, 0);
        } else {
          store_sums(types_, from, 0, 1, piece.count, apart_, 0);
          with_element_type(types_.out, [&](auto tag) {
            using Out = decltype(tag);
            const Out* row = reinterpret_cast<const Out*>(apart_);
            Out* places = reinterpret_cast<Out*>(to) + at;
            for (std::int64_t i = 0; i < piece.count; ++i) places[i * stride] = row[i];
          });
        }
      }
    }
  }

  const ConvolutionPlan& plan_;
  const ProductTypes& types_;
  const ConvolutionLoops& loops_;
  const TensorView& lhs_;
  const TensorView& rhs_;
  const TensorView& out_;
  std::byte* scratch_;
  std::int64_t size_;  // Of a sum.
  std::int64_t part_ = 0;
  Range results_{};   // Of the group.
  Range sums_{};      // Of the phase, where a tile has a part of them; else of all phases.
  Range features_{};  // Those of `sums_`.
  std::vector<PhaseOfAll> phases_;
  std::int64_t all_ = 0;  // Products of all phases.

  // What is packed and copied.
  std::int64_t packed_group_ = -1;
  std::int64_t copied_unit_ = -1;

  // The unit.
  std::int64_t group_ = 0;
  Range images_{};
  std::int64_t band_begin_ = 0;

  Dims index_strides_;
  Dims line_strides_;
  // Of the lines chosen for each dimension: the element that is met first, and the indices that meet any.
  struct Span {
    std::int64_t first, begin, end, indices;
  };
  std::vector<Span> spans_;
  Dims out_strides_;
  std::int64_t grid_ = 0;
  std::int64_t image_grid_ = 0;
  std::int64_t panel_width_ = 0;
  std::int64_t rows_of_sums_ = 0;
  std::int64_t sums_stride_ = 0;
  std::byte* array_ = nullptr;
  std::byte* packed_ = nullptr;
  std::byte* sums_memory_ = nullptr;
  std::byte* part_memory_ = nullptr;
  std::byte* turned_ = nullptr;
  std::byte* apart_ = nullptr;
  std::int64_t* offsets_ = nullptr;
  std::vector<std::int64_t> window_offsets_;
  std::vector<SumBlock> blocks_;  // Of the phase.
  std::vector<Piece> pieces_;
};

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(Attrs attrs, const Type& lhs, const Type& rhs, const Type& out)
      : attrs_(std::move(attrs)),
        types_(lhs.dtype, out.dtype),
        planned_(plan_convolution(attrs_, types_, lhs.shape, rhs.shape, out.shape, attrs_.get<Dims>("low"))) {}

  Work work(Views inputs, Views outputs) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    Work work{.tiles = std::max<std::int64_t>(1, plan.tiles), .scratch_bytes = 0, .merges = merges(plan)};
    if (plan.part_tiles > 1) {
      work.scratch_bytes = static_cast<std::size_t>(plan.part_tiles * num_elements(plan.out_shape) * types_.sum_size());
    }
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t tile) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    if (tile < plan.tiles) ConvolutionTiles(plan, types_, inputs, outputs, scratch).run(tile);
  }

  void run_tiles(Views inputs, Views outputs, std::byte* scratch, std::int64_t begin, std::int64_t end) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    ConvolutionTiles tiles(plan, types_, inputs, outputs, scratch);
    for (std::int64_t tile = begin; tile < std::min(end, plan.tiles); ++tile) tiles.run(tile);
  }

  void finish(Views inputs, Views outputs, std::byte* scratch) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    if (plan.part_tiles == 1) return;
    const std::int64_t elements = num_elements(plan.out_shape);
    for (std::int64_t part = 1; part < plan.part_tiles; ++part) {
      add_sums(types_.arithmetic, scratch + part * elements * types_.sum_size(), elements, scratch);
    }
    store_sums(types_, scratch, elements, 1, elements, outputs[0].as<std::byte>(), elements);
  }

 private:
  // Whether neighbouring tiles share what they pack, or what they copy.
  static bool merges(const ConvolutionPlan& plan) {
    return plan.tiles > 1 && plan.part_tiles == 1 && (plan.result_tiles == 1 || plan.units_of_tile == 1);
  }

  const ConvolutionPlan& plan_for(Views inputs, Views outputs, ConvolutionPlan& other) const {
    const Dims low = low_of(inputs[1], outputs[0]);
    if (inputs[0].shape == planned_.lhs_shape && inputs[1].shape == planned_.rhs_shape &&
        outputs[0].shape == planned_.out_shape && low == planned_.low) {
      return planned_;
    }
    other = plan_convolution(attrs_, types_, inputs[0].shape, inputs[1].shape, outputs[0].shape, low);
    return other;
  }

  // The padding of a shard.
  Dims low_of(const TensorView& rhs, const TensorView& out) const {
    Dims low = attrs_.get<Dims>("low");
    const Dims& base = attrs_.get<Dims>("base_dilation");
    for (std::size_t d = 0; d < low.size(); ++d) {
      low[d] = low_of_shard(low[d], base[d], attrs_.get<Dims>("strides")[d], out.start_of(d + 2));
      low[d] = low_of_shard(low[d], base[d], attrs_.get<Dims>("window_dilation")[d], rhs.start_of(d + 2));
    }
    return low;
  }

  Attrs attrs_;
  ProductTypes types_;
  ConvolutionPlan planned_;
};

}  // namespace

std::unique_ptr<Kernel> convolution_kernel(const Graph& graph, const Eqn& eqn) {
  return std::make_unique<ConvolutionKernel>(eqn.attrs, graph.type(eqn.inputs[0]), graph.type(eqn.inputs[1]),
                                             graph.type(eqn.outputs[0]));
}

}  // namespace shoal::cpu
