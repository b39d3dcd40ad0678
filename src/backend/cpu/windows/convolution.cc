// Convolutions as products of matrices of which one is never written: what the places of a window meet is read from a
// padded copy of the array by a table of offsets (compare Dukhan, "The Indirect Convolution Algorithm", 2019). Vectors
// are made of places that are neighbours, or of results.
#include "backend/cpu/windows/convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/sums.h"
#include "backend/cpu/products/tiling.h"
#include "backend/cpu/windows/convolution_plan.h"
#include "core/dispatch.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Sums are of blocks of this many products, which are added in order.
constexpr std::int64_t kBlock = 128;
// Rows of results in vectors that are computed together.
constexpr std::int64_t kRowsTogether = 48;

template <class C, bool kTruth, class T>
C as_sum(T from) {
  if constexpr (kTruth) {
    return from != T{} ? C{1} : C{0};
  } else if constexpr (kIsSmallFloat<T>) {
    return static_cast<C>(static_cast<float>(from));
  } else {
    return static_cast<C>(from);
  }
}

// Whether sums of C may be of products of T.
template <class C, class T>
constexpr bool kIsOperand = kIsComplexElement<T>    ? kIsComplexElement<C> && sizeof(T) <= sizeof(C)
                            : std::is_integral_v<T> ? std::is_integral_v<C>
                            : std::is_integral_v<C> ? false
                                                    : !kIsComplexElement<C> && sizeof(T) <= sizeof(C);

// Calls f(element of the operands, sum, whether sums count what is true).
template <class F>
void with_convolved_types(const ProductTypes& types, F&& f) {
  with_arithmetic_type(types.arithmetic, [&](auto sum) {
    using C = decltype(sum);
    with_element_type(types.operands, [&](auto element) {
      using T = decltype(element);
      if constexpr (kIsOperand<C, T>) {
        if (types.arithmetic == Arithmetic::kBool) {
          f(T{}, C{}, std::true_type{});
        } else {
          f(T{}, C{}, std::false_type{});
        }
      }
    });
  });
}

template <class C, bool kTruth, class T>
void copy_line(const T* from, std::int64_t stride, std::int64_t n, C* to) {
  if constexpr (std::is_same_v<T, C> && !kTruth) {
    if (stride == 1) {
      std::copy_n(from, n, to);
      return;
    }
  }
  if constexpr (std::is_same_v<T, float16_t> && std::is_same_v<C, float>) {
    if (stride == 1) {
      convert(from, n, to);
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = as_sum<C, kTruth>(from[i * stride]);
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
  std::vector<const ConvolvedDim::Phase*> of_dims;
  std::int64_t taps;
  std::int64_t count;  // Of the products of an element.
};

class ConvolutionTile {
 public:
  ConvolutionTile(const ConvolutionPlan& plan, const ProductTypes& types, Views inputs, Views outputs,
                  std::byte* scratch, std::int64_t number)
      : plan_(plan),
        types_(types),
        loops_(convolution_loops(types.arithmetic)),
        lhs_(inputs[0]),
        rhs_(inputs[1]),
        out_(outputs[0]),
        scratch_(scratch),
        size_(types.sum_size()),
        part_(number % plan.part_tiles) {
    number /= plan.part_tiles;
    const std::int64_t first_result = number % plan.result_tiles * plan.results_of_tile;
    results_ = {first_result, std::min(first_result + plan.results_of_tile, plan.results)};
    const std::int64_t first_unit = number / plan.result_tiles * plan.units_of_tile;
    units_ = {first_unit, std::min(first_unit + plan.units_of_tile, plan.units)};
    find_phases();
    find_memory();
  }

  void run() {
    std::int64_t packed_group = -1;
    for (std::int64_t unit = units_.begin; unit < units_.end; ++unit) {
      const std::int64_t of_group = plan_.image_blocks * plan_.bands;
      group_ = unit / of_group;
      const std::int64_t block = unit % of_group / plan_.bands;
      images_ = {block * plan_.images, std::min((block + 1) * plan_.images, plan_.batch)};
      band_begin_ = unit % plan_.bands * plan_.band;
      if (group_ != packed_group) pack_weights();
      packed_group = group_;
      copy_grid();
      std::int64_t before = 0;
      for (const PhaseOfAll& phase : phases_) {
        compute(phase, before);
        before += phase.count;
      }
    }
  }

 private:
  std::size_t dims() const { return plan_.dims.size(); }
  std::int64_t results_here() const { return results_.end - results_.begin; }

  // ---- What is summed.

  void find_phases() {
    Dims extents;
    std::int64_t combinations = 1;
    for (const ConvolvedDim& dim : plan_.dims) {
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
    return round_up(results_here(), plan_.vectors_of_places ? kConvolutionRows : loops_.lanes);
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
    sums_stride_ = plan_.vectors_of_places ? panel_width_ : round_up(packed_results(), loops_.lanes);
    const std::int64_t sums_bytes = round_up(rows_of_sums_ * sums_stride_ * size_, 64);
    // Sums, those of a part, and a copy of them in the order of the result.
    const std::int64_t turned = round_up(std::max(results_here() * kRowsTogether, results_here() * panel_width_) *
                                             std::max(size_, static_cast<std::int64_t>(size_of(types_.out))),
                                         64);
    const std::int64_t offsets = (sums_.end - sums_.begin) * static_cast<std::int64_t>(sizeof(std::int64_t));
    auto* memory = static_cast<std::byte*>(
        thread_memory(ThreadMemory::kTile, static_cast<std::size_t>(2 * sums_bytes + 2 * turned + offsets)));
    sums_memory_ = memory;
    part_memory_ = memory + sums_bytes;
    turned_ = part_memory_ + sums_bytes;
    apart_ = turned_ + turned;
    offsets_ = reinterpret_cast<std::int64_t*>(apart_ + turned);
    find_offsets();
    out_strides_ = row_major_strides(plan_.out_shape);
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
    for (const ConvolvedDim::Phase* of_dim : phase.of_dims) {
      extents.push_back(static_cast<std::int64_t>(of_dim->taps.size()));
    }
    Places at(extents);
    const SumRange range = plan_.part_tiles > 1 ? sums_ : SumRange{0, phase.count};
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
          const ConvolvedDim::Tap& tap = phase.of_dims[d]->taps[static_cast<std::size_t>(at[d])];
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
      with_convolved_types(types_, [&](auto element, auto sum, auto truth) {
        using T = decltype(element);
        using C = decltype(sum);
        const T* rhs = rhs_.as<const T>() + first;
        C* to = reinterpret_cast<C*>(packed_) + before * packed_results();
        for_each_panel([&](std::int64_t panel_begin, std::int64_t width) {
          C* panel = to + panel_begin * count;
          for (std::int64_t k0 = 0; k0 < count; k0 += kBlock) {
            const std::int64_t k1 = std::min(k0 + kBlock, count);
            for (std::int64_t i = 0; i < width; ++i) {
              C* line = panel + i;
              if (panel_begin + i >= results_here()) {
                for (std::int64_t k = k0; k < k1; ++k) line[k * width] = C{};
                continue;
              }
              const T* row = rhs + (panel_begin + i) * of_result;
              for (std::int64_t k = k0; k < k1; ++k) {
                line[k * width] = as_sum<C, decltype(truth)::value>(row[from[static_cast<std::size_t>(k)]]);
              }
            }
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
      for (std::int64_t i = 0; i < results; i += kConvolutionRows) f(i, kConvolutionRows);
    } else {
      for (std::int64_t i = 0; i < results; i += panel_width_) f(i, std::min(panel_width_, results - i));
    }
  }

  // What the places of the band meet, with zeros around.
  void copy_grid() {
    with_convolved_types(types_, [&](auto element, auto sum, auto truth) {
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
    const ConvolvedDim& dim = plan_.dims[d];
    for (std::size_t line = 0; line < dim.lines.size(); ++line) {
      copy_indices<C, kTruth>(from, strides, d, dim.lines[line],
                              to + static_cast<std::int64_t>(line) * line_strides_[d]);
    }
  }

  template <class C, bool kTruth, class T>
  void copy_indices(const T* from, const Dims& strides, std::size_t d, std::int64_t line, C* to) {
    chosen_lines_.resize(dims());
    chosen_lines_[d] = line;
    if (d + 1 < dims()) return copy_lines<C, kTruth>(from, strides, d + 1, to);
    copy_box<C, kTruth>(from, strides, 0, to);
  }

  // The indices of the lines chosen for all dimensions.
  template <class C, bool kTruth, class T>
  void copy_box(const T* from, const Dims& strides, std::size_t d, C* to) {
    const ConvolvedDim& dim = plan_.dims[d];
    const std::int64_t n = indices(d);
    // Where index 0 lies in the array, and the indices that lie in it.
    const std::int64_t first = dim.origin + chosen_lines_[d] + (d == 0 ? band_begin_ * dim.step : 0);
    const std::int64_t begin = first >= 0 ? 0 : std::min(n, divide_up(-first, dim.step));
    const std::int64_t end =
        first >= dim.array ? begin : std::max(begin, std::min(n, divide_up(dim.array - first, dim.step)));
    const std::int64_t stride = dims() + 2 == strides.size() ? strides[d + 2] : 1;
    const std::int64_t size = index_strides_[d];
    std::fill_n(to, begin * size, C{});
    std::fill_n(to + end * size, (n - end) * size, C{});
    if (begin == end) return;
    from += (first + begin * dim.step) * stride;
    to += begin * size;
    if (d + 1 == dims()) return copy_line<C, kTruth>(from, dim.step * stride, end - begin, to);
    for (std::int64_t j = begin; j < end; ++j, from += dim.step * stride, to += size) {
      copy_box<C, kTruth>(from, strides, d + 1, to);
    }
  }

  // ---- Sums.

  // The places of the band that a phase has.
  std::int64_t places(const PhaseOfAll& phase, std::size_t d) const {
    const std::int64_t all = phase.of_dims[d]->places;
    return d == 0 ? std::clamp<std::int64_t>(all - band_begin_, 0, plan_.band) : all;
  }

  void compute(const PhaseOfAll& phase, std::int64_t before) {
    Dims extents;
    for (std::size_t d = 0; d < dims(); ++d) extents.push_back(places(phase, d));
    if (num_elements(extents) == 0) return;
    if (plan_.vectors_of_places) {
      by_places(phase, extents, before);
    } else {
      by_results(phase, extents, before);
    }
  }

  // Calls f(first index of what is summed, their number, whether it is the first of its part, whether a part ends) for
  // blocks of a phase in order.
  template <class F>
  void for_each_block(const PhaseOfAll& phase, F&& f) const {
    const std::int64_t count = plan_.part_tiles > 1 ? sums_.end - sums_.begin : phase.count;
    const std::int64_t size = part_size(phase.count, phase.taps);
    for (std::int64_t part = 0; part < count; part += size) {
      const std::int64_t end = std::min(part + size, count);
      for (std::int64_t k = part; k < end; k += kBlock) f(part, k, std::min(kBlock, end - k), k + kBlock >= end);
    }
  }

  // Where sums of the part that begins at `part` are computed: the first part makes the sums.
  std::byte* sums_of(std::int64_t part) const { return part == 0 ? sums_memory_ : part_memory_; }

  void add_part(std::int64_t part, std::int64_t rows, std::int64_t columns) const {
    if (part == 0) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = i * sums_stride_ * size_;
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
        for (std::int64_t column = 0; column < length; column += panel_width_) {
          const std::int64_t columns = std::min(panel_width_, length - column);
          const std::int64_t vectors = divide_up(columns, loops_.lanes);
          if (count == 0) std::memset(sums_memory_, 0, static_cast<std::size_t>(rows_of_sums_ * sums_stride_ * size_));
          for_each_block(phase, [&](std::int64_t part, std::int64_t k, std::int64_t n, bool ends) {
            for (std::int64_t row = 0; row < results_here(); row += kConvolutionRows) {
              const std::int64_t rows = std::min(kConvolutionRows, results_here() - row);
              loops_.of_vectors[rows - 1][vectors - 1]({.packed = packed + (row * count + k * kConvolutionRows) * size_,
                                                        .array = array_ + (base + column) * size_,
                                                        .rows = nullptr,
                                                        .offsets = offsets + k,
                                                        .count = n,
                                                        .out = sums_of(part) + row * sums_stride_ * size_,
                                                        .out_stride = sums_stride_,
                                                        .accumulate = k != part});
            }
            if (ends) add_part(part, results_here(), columns);
          });
          store_columns(phase, extents, image, at, column, columns);
        }
      }
    }
  }

  // The columns of a panel that are places: those between rows of the grid are not.
  void store_columns(const PhaseOfAll& phase, const Dims& extents, std::int64_t image, const Places& outer,
                     std::int64_t column, std::int64_t columns) {
    const std::size_t first_flat = dims() - plan_.flat;
    const std::size_t last = dims() - 1;
    const std::int64_t width = plan_.flat == 1 ? column + columns : indices(last);
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
        const std::int64_t n = std::min(row_end - at, extents[last] - within);
        store(sums_memory_ + (at - column) * size_, sums_stride_, n, image, place, phase_stride(last));
      }
      at = row_end;
    }
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
    std::int64_t rows[kRowsTogether];
    struct Run {
      std::int64_t row, length, image, offset;
    };
    std::vector<Run> runs;
    for (std::int64_t first = 0; first < all; first += kRowsTogether) {
      const std::int64_t n = std::min(kRowsTogether, all - first);
      runs.clear();
      for (std::int64_t i = 0; i < n; ++i) {
        rows[i] = (image - images_.begin) * image_grid_;
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < dims(); ++d) {
          rows[i] += at[d] * index_strides_[d];
          offset += place_of(phase, d, at[d]);
        }
        if (i == 0 || at[dims() - 1] == 0) {
          runs.push_back({i, 1, image, offset});
        } else {
          ++runs.back().length;
        }
        at.move_on();
        if (++place == places) {
          place = 0;
          ++image;
        }
      }
      if (count == 0) std::memset(sums_memory_, 0, static_cast<std::size_t>(rows_of_sums_ * sums_stride_ * size_));
      for_each_block(phase, [&](std::int64_t part, std::int64_t k, std::int64_t products, bool ends) {
        for_each_panel([&](std::int64_t result, std::int64_t width) {
          for (std::int64_t row = 0; row < n; row += kConvolutionRows) {
            const std::int64_t panel_rows = std::min(kConvolutionRows, n - row);
            loops_.of_elements[panel_rows - 1][width / loops_.lanes - 1](
                {.packed = packed + (result * count + k * width) * size_,
                 .array = array_,
                 .rows = rows + row,
                 .offsets = offsets + k,
                 .count = products,
                 .out = sums_of(part) + (row * sums_stride_ + result) * size_,
                 .out_stride = sums_stride_,
                 .accumulate = k != part});
          }
        });
        if (ends) add_part(part, n, results_here());
      });
      turn(n);
      for (const Run& run : runs) {
        store(turned_ + run.row * size_, kRowsTogether, run.length, run.image, run.offset, phase_stride(dims() - 1));
      }
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

  // Sums of `n` places, for each result a row. They are `stride` elements of the result apart.
  void store(const std::byte* sums, std::int64_t sums_stride, std::int64_t n, std::int64_t image, std::int64_t place,
             std::int64_t stride) {
    const std::int64_t result = group_ * plan_.results + results_.begin;
    const std::int64_t at = image * out_strides_[0] + result * out_strides_[1] + place;
    if (plan_.part_tiles > 1) {
      std::byte* to = scratch_ + (part_ * num_elements(plan_.out_shape) + at) * size_;
      for (std::int64_t o = 0; o < results_here(); ++o) {
        std::memcpy(to + o * out_strides_[1] * size_, sums + o * sums_stride * size_,
                    static_cast<std::size_t>(n * size_));
      }
      return;
    }
    const auto size = static_cast<std::int64_t>(size_of(types_.out));
    std::byte* to = out_.as<std::byte>() + at * size;
    if (stride == 1 || n == 1) {
      store_sums(types_, sums, sums_stride, results_here(), n, to, out_strides_[1]);
      return;
    }
    store_sums(types_, sums, sums_stride, results_here(), n, apart_, n);
    with_element_type(types_.out, [&](auto tag) {
      using Out = decltype(tag);
      const Out* from = reinterpret_cast<const Out*>(apart_);
      Out* row = reinterpret_cast<Out*>(to);
      for (std::int64_t o = 0; o < results_here(); ++o, row += out_strides_[1], from += n) {
        for (std::int64_t i = 0; i < n; ++i) row[i * stride] = from[i];
      }
    });
  }

  const ConvolutionPlan& plan_;
  const ProductTypes& types_;
  const ConvolutionLoops& loops_;
  const TensorView& lhs_;
  const TensorView& rhs_;
  const TensorView& out_;
  std::byte* scratch_;
  std::int64_t size_;  // Of a sum.
  std::int64_t part_;
  SumRange results_{};  // Of the group.
  SumRange units_{};
  SumRange sums_{};      // Of the phase, where a tile has a part of them; else of all phases.
  SumRange features_{};  // Those of `sums_`.
  std::vector<PhaseOfAll> phases_;
  std::int64_t all_ = 0;  // Products of all phases.

  // The unit.
  std::int64_t group_ = 0;
  SumRange images_{};
  std::int64_t band_begin_ = 0;

  Dims index_strides_;
  Dims line_strides_;
  Dims chosen_lines_;
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
};

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(Attrs attrs, const Type& lhs, const Type& rhs, const Type& out)
      : attrs_(std::move(attrs)),
        types_(lhs.dtype, out.dtype),
        planned_(plan_convolution(attrs_, types_, lhs.shape, rhs.shape, out.shape)) {}

  Work work(Views inputs, Views outputs) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    Work work{.tiles = std::max<std::int64_t>(1, plan.tiles), .scratch_bytes = 0};
    if (plan.part_tiles > 1) {
      work.scratch_bytes = static_cast<std::size_t>(plan.part_tiles * num_elements(plan.out_shape) * types_.sum_size());
    }
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t tile) const override {
    ConvolutionPlan other;
    const ConvolutionPlan& plan = plan_for(inputs, outputs, other);
    if (tile < plan.tiles) ConvolutionTile(plan, types_, inputs, outputs, scratch, tile).run();
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
  const ConvolutionPlan& plan_for(Views inputs, Views outputs, ConvolutionPlan& other) const {
    if (inputs[0].shape == planned_.lhs_shape && inputs[1].shape == planned_.rhs_shape &&
        outputs[0].shape == planned_.out_shape) {
      return planned_;
    }
    other = plan_convolution(attrs_, types_, inputs[0].shape, inputs[1].shape, outputs[0].shape);
    return other;
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
