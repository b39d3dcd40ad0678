// Windows are reduced along one dimension after the other. What few elements a window meets are reduced one by one.
// Else, where rows of many elements are reduced, the rows that a window may begin with are cut in blocks of as many
// rows as it has, counted from the first row of the array: each window is a suffix of one block and a prefix of the
// next (van Herk, "A fast algorithm for local minimum and maximum filters", 1992; Gil and Werman, "Computing 2-D min,
// median, and max filters", 1993), which takes three operations for an element. Where the elements that a window meets
// are neighbours in memory, windows of twice the width are made of pairs of windows, in vectors, until the width is
// reached.
#include "backend/cpu/windows/reduce_window.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/product_kernels.h"
#include "backend/cpu/products/tiling.h"
#include "backend/cpu/windows/window_dim.h"
#include "backend/cpu/windows/window_loops.h"
#include "core/dispatch.h"
#include "ir/rearrangement.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Windows that meet no more elements are reduced one by one.
constexpr std::int64_t kFewTaps = 8;
// Rows of fewer elements are reduced many at a time, as they lie in memory.
constexpr std::int64_t kShortRow = 16;
// What is computed together stays in the cache.
constexpr std::int64_t kUnitBytes = 256 << 10;
constexpr std::int64_t kBlockBytes = 128 << 10;
constexpr std::int64_t kFlatElements = 8192;
constexpr std::int64_t kLeastColumns = 64;
// From so many elements on there are 2, 4, 8 and 16 tiles.
constexpr double kElementsOfTiles[] = {1 << 14, 1 << 17, 1 << 19, 1 << 22};

// Taps of a phase on one line: neighbouring ones are `apart` indices of the line apart.
struct TapsOfLine {
  std::int64_t line;
  std::int64_t shift;  // Of the first.
  std::int64_t apart;
  std::int64_t count;
};

struct ReducedDim {
  WindowDim dim;
  std::vector<std::vector<TapsOfLine>> of_phases;
  std::size_t of = 0;  // The array.

  bool moves() const {
    return dim.window != 1 || dim.step != 1 || dim.period != 1 || dim.places != dim.array || dim.phases.empty() ||
           dim.phases[0].taps.size() != 1 || dim.origin != 0;
  }
};

std::int64_t remainder(std::int64_t n, std::int64_t by) { return ((n % by) + by) % by; }

ReducedDim reduced_dim(std::int64_t array, std::int64_t window, std::int64_t places, const WindowMove& move) {
  ReducedDim reduced{.dim = window_dim(array, window, places, move), .of_phases = {}};
  for (const WindowDim::Phase& phase : reduced.dim.phases) {
    std::vector<TapsOfLine> lines;
    for (const WindowDim::Tap& tap : phase.taps) {
      const auto found = std::ranges::find(lines, tap.line, &TapsOfLine::line);
      if (found == lines.end()) {
        lines.push_back({.line = tap.line, .shift = tap.shift, .apart = 1, .count = 1});
      } else {
        if (found->count == 1) found->apart = tap.shift - found->shift;
        ++found->count;
      }
    }
    reduced.of_phases.push_back(std::move(lines));
  }
  return reduced;
}

struct WindowPlan {
  Shape in_shape;
  Shape out_shape;
  Dims low;
  std::int64_t outer = 1;        // Of the dimensions before those along which windows move.
  std::vector<ReducedDim> dims;  // From the first to the last of those.
  std::int64_t inner = 1;        // Of those after them.

  // A unit is one index of the outer dimensions, some places of the first of `dims`, and, if that is the only one, some
  // of the inner elements. A tile is the same unit of some outer indices.
  std::int64_t band = 1;
  std::int64_t bands = 1;
  std::int64_t columns = 1;
  std::int64_t column_blocks = 1;
  std::int64_t outer_of_tile = 1;
  std::int64_t outer_blocks = 1;
  std::int64_t tiles = 0;
};

WindowPlan plan_windows(const Attrs& attrs, const Shape& in, const Shape& out, const Dims& low, std::int64_t size) {
  const Dims& window = attrs.get<Dims>("window");
  const Dims& strides = attrs.get<Dims>("strides");
  const Dims& base = attrs.get<Dims>("base_dilation");
  const Dims& dilation = attrs.get<Dims>("window_dilation");
  WindowPlan plan;
  plan.in_shape = in;
  plan.out_shape = out;
  plan.low = low;
  if (num_elements(out) == 0) return plan;
  for (std::size_t d = 0; d < in.size(); ++d) {
    plan.dims.push_back(reduced_dim(in[d], window[d], out[d], {strides[d], low[d], base[d], dilation[d]}));
    plan.dims.back().of = d;
  }
  while (!plan.dims.empty() && !plan.dims.back().moves()) {
    plan.inner *= plan.dims.back().dim.array;
    plan.dims.pop_back();
  }
  std::size_t first = 0;
  while (first < plan.dims.size() && !plan.dims[first].moves()) plan.outer *= plan.dims[first++].dim.array;
  plan.dims.erase(plan.dims.begin(), plan.dims.begin() + static_cast<std::ptrdiff_t>(first));
  if (plan.dims.empty()) plan.dims.push_back(reduced_dim(1, 1, 1, {}));

  double wanted = 1;
  const auto elements = static_cast<double>(num_elements(in)) + static_cast<double>(num_elements(out));
  for (const double least : kElementsOfTiles) wanted *= elements >= least ? 2 : 1;
  const WindowDim& dim = plan.dims[0].dim;
  std::int64_t rest = plan.inner;  // Elements of a row of the first dimension.
  for (std::size_t d = 1; d < plan.dims.size(); ++d) rest *= std::max(plan.dims[d].dim.array, plan.dims[d].dim.places);
  plan.columns = plan.inner;
  const auto of_outer = static_cast<std::int64_t>(wanted) / std::min(plan.outer, static_cast<std::int64_t>(wanted));
  if (plan.dims.size() == 1 && plan.inner >= 2 * kLeastColumns) {
    // Rows are cut, so that nothing is read twice.
    const std::int64_t fits = kUnitBytes / size / std::max<std::int64_t>(1, std::min(dim.array, 64 + dim.reach));
    plan.columns = std::clamp(std::min(fits, divide_up(plan.inner, of_outer)), kLeastColumns, plan.inner);
    plan.columns = divide_up(plan.columns, kLeastColumns) * kLeastColumns;
    plan.column_blocks = divide_up(plan.inner, plan.columns);
  }
  const std::int64_t places = dim.places;
  const std::int64_t of_row = rest * size / plan.column_blocks * dim.step / dim.period + 1;
  // What neighbouring bands read both is at most half of what they read.
  const std::int64_t least = std::min(places, std::max<std::int64_t>(rest == 1 ? 1024 : 1, 2 * dim.reach * dim.period));
  plan.band = std::clamp(kUnitBytes / of_row, least, places);
  const std::int64_t cut = divide_up(of_outer, plan.column_blocks);
  if (divide_up(places, plan.band) < cut) plan.band = std::max(least, divide_up(places, cut));
  plan.bands = divide_up(places, plan.band);
  plan.band = divide_up(places, plan.bands);
  plan.bands = divide_up(places, plan.band);
  const std::int64_t of_index = plan.bands * plan.column_blocks;
  plan.outer_blocks = std::clamp(divide_up(static_cast<std::int64_t>(wanted), of_index), std::int64_t{1}, plan.outer);
  plan.outer_of_tile = divide_up(plan.outer, plan.outer_blocks);
  plan.outer_blocks = divide_up(plan.outer, plan.outer_of_tile);
  plan.tiles = plan.outer_blocks * of_index;
  return plan;
}

// Places of a phase that lie in a range of all places.
struct PlaceRange {
  std::int64_t begin;
  std::int64_t end;
};
PlaceRange places_in(const WindowDim& dim, const WindowDim::Phase& phase, PlaceRange range) {
  const auto first_from = [&](std::int64_t place) {
    return place <= phase.first ? 0 : divide_up(place - phase.first, dim.period);
  };
  return {std::min(first_from(range.begin), phase.places), std::min(first_from(range.end), phase.places)};
}

// Elements of C are what sums are made in.
template <class C>
class WindowTile {
 public:
  // `firsts` has, for each dimension, what the first element is in the whole array.
  WindowTile(const WindowPlan& plan, ReduceKind kind, Dtype dtype, const Dims& firsts, const TensorView& in,
             const TensorView& out)
      : plan_(plan),
        kind_(kind),
        dtype_(dtype),
        firsts_(firsts),
        loops_(window_loops(kind, dtype)),
        in_(in),
        out_(out) {}

  void run(std::int64_t tile) {
    const std::int64_t column = tile % plan_.column_blocks * plan_.columns;
    const std::int64_t columns = std::min(plan_.columns, plan_.inner - column);
    tile /= plan_.column_blocks;
    const std::int64_t band = tile % plan_.bands * plan_.band;
    const PlaceRange places{band, std::min(band + plan_.band, plan_.dims[0].dim.places)};
    const std::int64_t first = tile / plan_.bands * plan_.outer_of_tile;
    const std::int64_t end = std::min(first + plan_.outer_of_tile, plan_.outer);
    // Whole units that are small are reduced together.
    std::int64_t together = 1;
    if (plan_.bands == 1 && plan_.column_blocks == 1) {
      const std::int64_t of_unit = std::max(num_elements(plan_.in_shape), num_elements(plan_.out_shape)) / plan_.outer;
      together = std::max<std::int64_t>(
          1, kUnitBytes / static_cast<std::int64_t>(sizeof(C)) / std::max<std::int64_t>(1, of_unit));
    }
    for (std::int64_t outer = first; outer < end; outer += together) {
      run_unit(outer, std::min(together, end - outer), places, column, columns);
    }
  }

 private:
  struct Rows {
    C* data;
    std::int64_t stride;  // Elements from a row to the next.
  };

  // Elements of the first dimension that places meet.
  PlaceRange elements_of(PlaceRange places) const {
    const WindowDim& dim = plan_.dims[0].dim;
    PlaceRange range{dim.array, 0};
    for (const WindowDim::Phase& phase : dim.phases) {
      const PlaceRange here = places_in(dim, phase, places);
      if (here.begin == here.end || phase.taps.empty()) continue;
      range.begin = std::min(range.begin, dim.origin + here.begin * dim.step);
      range.end = std::max(range.end, dim.origin + (here.end - 1 + dim.reach) * dim.step + dim.step);
    }
    range.begin = std::clamp<std::int64_t>(range.begin, 0, dim.array);
    range.end = std::clamp<std::int64_t>(range.end, range.begin, dim.array);
    return range;
  }

  void run_unit(std::int64_t outer, std::int64_t outers, PlaceRange places, std::int64_t column, std::int64_t columns) {
    const std::size_t count = plan_.dims.size();
    const PlaceRange elements = outers == 1 ? elements_of(places) : PlaceRange{0, plan_.dims[0].dim.array};
    std::int64_t in_row = columns;
    std::int64_t out_row = columns;
    for (std::size_t d = 1; d < count; ++d) {
      in_row *= plan_.dims[d].dim.array;
      out_row *= plan_.dims[d].dim.places;
    }
    const std::int64_t in_stride = in_row / columns * plan_.inner;
    const std::int64_t out_stride = out_row / columns * plan_.inner;
    const std::int64_t in_first = (outer * plan_.dims[0].dim.array + elements.begin) * in_stride + column;
    const std::int64_t out_first = (outer * plan_.dims[0].dim.places + places.begin) * out_stride + column;

    // What the passes leave to each other: two at a time, the operand in sums among them.
    std::int64_t most = outers * in_row * (elements.end - elements.begin);
    std::int64_t before = outers;
    for (std::size_t d = 0; d < count; ++d) {
      before *= d == 0 ? places.end - places.begin : plan_.dims[d].dim.places;
      std::int64_t after = columns;
      for (std::size_t e = d + 1; e < count; ++e) after *= plan_.dims[e].dim.array;
      most = std::max(most, before * after);
    }
    const bool converts = in_.dtype != dtype_;
    C* memory = nullptr;
    if (converts || count > 1) {
      memory =
          static_cast<C*>(thread_memory(ThreadMemory::kLhsBlock, static_cast<std::size_t>(2 * most) * sizeof(C) + 128));
    }
    Rows from{in_.as<C>() + in_first, in_stride};
    if (converts) {
      from = {memory, in_row};
      for (std::int64_t i = 0; i < outers * (elements.end - elements.begin); ++i) {
        widen(in_first + i * in_stride, in_row, memory + i * in_row);
      }
    }
    C* other = memory == nullptr ? nullptr : memory + most;
    std::int64_t lines = outers;
    for (std::size_t d = 0; d < count; ++d) {
      const bool last = d + 1 == count;
      std::int64_t length = columns;
      for (std::size_t e = d + 1; e < count; ++e) length *= plan_.dims[e].dim.array;
      if (d > 0) from.stride = length;
      const PlaceRange here = d == 0 ? places : PlaceRange{0, plan_.dims[d].dim.places};
      Rows to{other, length};
      if (last && !converts) to = {out_.as<C>() + out_first, count == 1 ? out_stride : length};
      const std::int64_t extent = d == 0 ? elements.end - elements.begin : plan_.dims[d].dim.array;
      reduce_dim(plan_.dims[d], from, d == 0 ? elements.begin : 0, extent, lines, length, here, to);
      lines *= here.end - here.begin;
      other = to.data == memory ? memory + most : memory;
      from = to;
    }
    if (!converts) return;
    for (std::int64_t i = 0; i < outers * (places.end - places.begin); ++i) {
      narrow(from.data + i * out_row, out_row, out_first + i * out_stride);
    }
  }

  void widen(std::int64_t at, std::int64_t n, C* to) const {
    if constexpr (std::is_same_v<C, float>) {
      if (in_.dtype == Dtype::kF16) return convert(in_.as<const float16_t>() + at, n, to);
      const bfloat16_t* from = in_.as<const bfloat16_t>() + at;
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
    }
  }

  void narrow(const C* from, std::int64_t n, std::int64_t at) const {
    if constexpr (std::is_same_v<C, float>) {
      if (out_.dtype == Dtype::kF16) return convert(from, n, out_.as<float16_t>() + at);
      convert(from, n, out_.as<bfloat16_t>() + at);
    }
  }

  C neutral() const {
    if (dtype_ == Dtype::kBool) return C(kind_ == ReduceKind::kMin ? 1 : 0);
    if constexpr (kIsComplexElement<C>) {
      return C(kind_ == ReduceKind::kProd ? 1 : 0);
    } else {
      return neutral_element<C>(kind_);
    }
  }

  // One dimension of `lines` boxes: `extent` rows of `length` elements, of which the first is element `first` of the
  // dimension.
  void reduce_dim(const ReducedDim& reduced, Rows from, std::int64_t first, std::int64_t extent, std::int64_t lines,
                  std::int64_t length, PlaceRange places, Rows to) {
    if (length == 0) return;  // Another dimension has no elements, and is all padding.
    if (length < kShortRow && from.stride == length && to.stride == length) {
      reduce_flat(reduced, from.data, first, extent, lines, length, places, to.data);
      return;
    }
    for (std::int64_t line = 0; line < lines; ++line) {
      reduce_rows(reduced, from, first, length, places, to);
      from.data += extent * from.stride;
      to.data += (places.end - places.begin) * to.stride;
    }
  }

  // ---- Rows of many elements.

  void reduce_rows(const ReducedDim& reduced, Rows from, std::int64_t first, std::int64_t length, PlaceRange places,
                   Rows to) {
    const WindowDim& dim = reduced.dim;
    for (std::size_t p = 0; p < dim.phases.size(); ++p) {
      const WindowDim::Phase& phase = dim.phases[p];
      const PlaceRange here = places_in(dim, phase, places);
      C* row = to.data + (phase.first + here.begin * dim.period - places.begin) * to.stride;
      const Rows rows{row, dim.period * to.stride};
      const auto taps = static_cast<std::int64_t>(phase.taps.size());
      const auto few = std::max<std::int64_t>(kFewTaps, 3 * static_cast<std::int64_t>(reduced.of_phases[p].size()));
      if (taps <= few) {
        reduce_taps(dim, phase, from, first, length, here, rows);
      } else {
        bool begun = false;
        for (const TapsOfLine& line : reduced.of_phases[p]) {
          reduce_line(reduced, line, from, first, length, here, rows, begun);
          begun = true;
        }
      }
    }
  }

  // Element e of the dimension.
  static const C* row_at(Rows from, std::int64_t first, std::int64_t e) {
    return from.data + (e - first) * from.stride;
  }

  void reduce_taps(const WindowDim& dim, const WindowDim::Phase& phase, Rows from, std::int64_t first,
                   std::int64_t length, PlaceRange places, Rows to) {
    pointers_.resize(std::max<std::size_t>(1, phase.taps.size()));
    for (std::int64_t t = places.begin; t < places.end; ++t, to.data += to.stride) {
      std::int64_t count = 0;
      for (const WindowDim::Tap& tap : phase.taps) {
        const std::int64_t e = dim.origin + dim.lines[static_cast<std::size_t>(tap.line)] + (tap.shift + t) * dim.step;
        if (e < 0 || e >= dim.array) continue;
        pointers_[static_cast<std::size_t>(count++)] = row_at(from, first, e);
      }
      if (count == 0) {
        std::fill_n(to.data, length, neutral());
      } else {
        loops_.reduce(pointers_.data(), count, length, to.data);
      }
    }
  }

  // Suffixes of blocks with prefixes of the next, for the taps of one line, whose windows are joined with what is
  // there already if it has begun. Shards have the blocks of the whole array.
  void reduce_line(const ReducedDim& reduced, const TapsOfLine& taps, Rows from, std::int64_t first,
                   std::int64_t length, PlaceRange places, Rows to, bool begun) {
    const WindowDim& dim = reduced.dim;
    const std::int64_t before = firsts_.empty() ? 0 : firsts_[reduced.of];
    const std::int64_t fits = kBlockBytes / static_cast<std::int64_t>(sizeof(C)) / (taps.count + 1);
    const std::int64_t columns = std::min(length, std::max(kLeastColumns, fits));
    C* suffixes = static_cast<C*>(
        thread_memory(ThreadMemory::kRhsBlock, static_cast<std::size_t>((taps.count + 1) * columns) * sizeof(C)));
    C* prefix = suffixes + taps.count * columns;
    const std::int64_t period = dim.step * taps.apart;
    for (std::int64_t column = 0; column < length; column += columns) {
      const std::int64_t n = std::min(columns, length - column);
      const Rows part{from.data + column, from.stride};
      for (std::int64_t residue = 0; residue < std::min(taps.apart, places.end - places.begin); ++residue) {
        // The elements that these windows meet: those of a residue, numbered from the first of the array.
        const std::int64_t t0 = places.begin + residue;
        const std::int64_t e0 =
            before + dim.origin + dim.lines[static_cast<std::size_t>(taps.line)] + (taps.shift + t0) * dim.step;
        const std::int64_t offset = remainder(e0, period);
        const std::int64_t held = number_from(before, offset, period);
        const std::int64_t all = number_from(before + dim.array, offset, period);
        const auto row = [&](std::int64_t v) { return row_at(part, first, offset + v * period - before); };
        std::int64_t v = (e0 - offset) / period;
        std::int64_t block_of_suffixes = kNoBlock;
        std::int64_t block_of_prefix = kNoBlock;
        std::int64_t prefix_end = 0;
        const C* prefix_row = nullptr;
        for (std::int64_t t = t0; t < places.end; t += taps.apart, ++v) {
          C* out = to.data + (t - places.begin) * to.stride + column;
          const std::int64_t begin = std::max(v, held);
          const std::int64_t end = std::min(v + taps.count, all);
          const void* joined[3];
          std::int64_t count = 0;
          if (begun) joined[count++] = out;
          if (begin < end) {
            const std::int64_t block = block_of(begin, taps.count);
            const std::int64_t last = block_of(end - 1, taps.count);
            const bool begins_block = begin == block * taps.count;
            if (block != last || !begins_block) {
              if (block != block_of_suffixes) {
                block_of_suffixes = block;
                make_suffixes(row, begin, std::min((block + 1) * taps.count, all), block * taps.count, n, columns,
                              suffixes);
              }
              joined[count++] = suffixes + (begin - block * taps.count) * columns;
            }
            if (block != last || begins_block) {
              if (last != block_of_prefix) {
                block_of_prefix = last;
                prefix_row = row(last * taps.count);
                prefix_end = last * taps.count + 1;
              }
              for (; prefix_end < end; ++prefix_end) {
                const void* two[] = {prefix_row, row(prefix_end)};
                loops_.reduce(two, 2, n, prefix);
                prefix_row = prefix;
              }
              joined[count++] = prefix_row;
            }
          }
          if (count == 0) {
            std::fill_n(out, n, neutral());
          } else if (count > 1 || joined[0] != out) {
            loops_.reduce(joined, count, n, out);
          }
        }
      }
    }
  }

  static constexpr std::int64_t kNoBlock = std::numeric_limits<std::int64_t>::min();
  static std::int64_t block_of(std::int64_t v, std::int64_t size) { return (v - remainder(v, size)) / size; }
  // The least number v of those at offset + v * period that is not before an element.
  static std::int64_t number_from(std::int64_t element, std::int64_t offset, std::int64_t period) {
    return block_of(element - offset + period - 1, period);
  }

  template <class Row>
  void make_suffixes(Row&& row, std::int64_t begin, std::int64_t end, std::int64_t block, std::int64_t n,
                     std::int64_t columns, C* suffixes) const {
    const C* behind = row(end - 1);
    std::copy_n(behind, n, suffixes + (end - 1 - block) * columns);
    for (std::int64_t v = end - 1; v-- > begin;) {
      C* here = suffixes + (v - block) * columns;
      const void* two[] = {row(v), here + columns};
      loops_.reduce(two, 2, n, here);
    }
  }

  // ---- Rows of few elements, as they lie in memory.

  void reduce_flat(const ReducedDim& reduced, const C* from, std::int64_t first, std::int64_t extent,
                   std::int64_t lines, std::int64_t length, PlaceRange places, C* to) {
    const WindowDim& dim = reduced.dim;
    const std::int64_t all = places.end - places.begin;
    for (std::size_t p = 0; p < dim.phases.size(); ++p) {
      const PlaceRange here = places_in(dim, dim.phases[p], places);
      if (here.begin == here.end) continue;  // A band may lie between the places of a phase.
      const std::int64_t indices = here.end - here.begin + dim.reach;
      // Lines that are short are taken together, long ones cut.
      const std::int64_t together = std::clamp(kFlatElements / (indices * length), std::int64_t{1}, lines);
      const std::int64_t cut = std::max(kFlatElements / length, 3 * dim.reach);
      for (std::int64_t line = 0; line < lines; line += together) {
        const std::int64_t n = std::min(together, lines - line);
        for (std::int64_t t = here.begin; t < here.end; t += cut) {
          reduce_flat_part(reduced, p, from + line * extent * length, first, extent, n, length,
                           {t, std::min(t + cut, here.end)}, to + line * all * length, places);
        }
      }
    }
  }

  void reduce_flat_part(const ReducedDim& reduced, std::size_t p, const C* from, std::int64_t first,
                        std::int64_t extent, std::int64_t lines, std::int64_t length, PlaceRange here, C* to,
                        PlaceRange places) {
    const WindowDim& dim = reduced.dim;
    const WindowDim::Phase& phase = dim.phases[p];
    const std::vector<TapsOfLine>& taps = reduced.of_phases[p];
    const std::int64_t places_here = here.end - here.begin;
    const std::int64_t all = places.end - places.begin;
    C* out = to + (phase.first + here.begin * dim.period - places.begin) * length;
    if (taps.empty()) {
      for (std::int64_t line = 0; line < lines; ++line)
        store_flat(nullptr, places_here, length, dim, out + line * all * length);
      return;
    }
    const std::int64_t indices = places_here + dim.reach;
    const std::int64_t of_line = indices * length;
    const std::int64_t elements = lines * of_line;
    const auto count = static_cast<std::int64_t>(dim.lines.size());
    C* memory = static_cast<C*>(
        thread_memory(ThreadMemory::kTile, static_cast<std::size_t>((count + 2) * elements) * sizeof(C)));
    // The lines, with what changes nothing where they reach beyond the array.
    line_data_.assign(dim.lines.size(), nullptr);
    for (const TapsOfLine& of_line_taps : taps) {
      const auto number = static_cast<std::size_t>(of_line_taps.line);
      const std::int64_t e0 = dim.origin + dim.lines[number] + here.begin * dim.step;
      const std::int64_t begin = std::clamp<std::int64_t>(e0 >= 0 ? 0 : divide_up(-e0, dim.step), 0, indices);
      const std::int64_t end =
          std::clamp<std::int64_t>(e0 >= dim.array ? 0 : divide_up(dim.array - e0, dim.step), begin, indices);
      if (lines == 1 && dim.step == 1 && begin == 0 && end == indices) {
        line_data_[number] = from + (e0 - first) * length;
        continue;
      }
      C* const line_memory = memory + of_line_taps.line * elements;
      line_data_[number] = line_memory;
      for (std::int64_t line = 0; line < lines; ++line) {
        C* row = line_memory + line * of_line;
        std::fill_n(row, begin * length, neutral());
        std::fill_n(row + end * length, (indices - end) * length, neutral());
        if (begin == end) continue;
        const C* source = from + (line * extent + e0 + begin * dim.step - first) * length;
        row += begin * length;
        if (dim.step == 1) {
          std::copy_n(source, (end - begin) * length, row);
        } else if (length == 1) {
          loops_.spread(source, dim.step, end - begin, row);
        } else {
          for (std::int64_t i = begin; i < end; ++i, source += dim.step * length, row += length) {
            std::copy_n(source, length, row);
          }
        }
      }
    }
    C* const sums = memory + count * elements;
    C* const powers = sums + elements;
    const std::int64_t n = elements - dim.reach * length;
    // Where the result is as dense as the sums, it is where they are made.
    C* const result = lines == 1 && dim.period == 1 ? out : sums;
    if (static_cast<std::int64_t>(phase.taps.size()) <=
        std::max<std::int64_t>(kFewTaps / 2, 2 * static_cast<std::int64_t>(taps.size()))) {
      pointers_.clear();
      for (const WindowDim::Tap& tap : phase.taps) {
        pointers_.push_back(line_data_[static_cast<std::size_t>(tap.line)] + tap.shift * length);
      }
      loops_.reduce(pointers_.data(), std::ssize(pointers_), n, result);
    } else {
      bool begun = false;
      for (const TapsOfLine& one : taps) {
        double_windows(line_data_[static_cast<std::size_t>(one.line)] + one.shift * length, one, length, n, powers,
                       result, begun);
        begun = true;
      }
    }
    if (result == out) return;
    for (std::int64_t line = 0; line < lines; ++line) {
      store_flat(sums + line * of_line, places_here, length, dim, out + line * all * length);
    }
  }

  // The places of a phase: neighbouring ones are `period` places of the result apart. Without sums, what changes
  // nothing.
  void store_flat(const C* sums, std::int64_t places, std::int64_t length, const WindowDim& dim, C* to) const {
    if (dim.period == 1) {
      if (sums == nullptr) {
        std::fill_n(to, places * length, neutral());
      } else {
        std::copy_n(sums, places * length, to);
      }
      return;
    }
    const std::int64_t apart = dim.period * length;
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t t = 0; t < places; ++t) to[t * apart + i] = sums == nullptr ? neutral() : sums[t * length + i];
    }
  }

  // Windows of `taps.count` elements that begin at each of `n` elements.
  void double_windows(const C* line, const TapsOfLine& taps, std::int64_t length, std::int64_t n, C* powers, C* result,
                      bool begun) const {
    const std::int64_t apart = taps.apart * length;
    const bool overlaps = kind_ == ReduceKind::kMax || kind_ == ReduceKind::kMin;
    const C* windows = line;  // Of `width` taps.
    std::int64_t width = 1;
    std::int64_t done = 0;  // Taps of which the result is made.
    for (;;) {
      const bool last = 2 * width > taps.count;
      if (last || (!overlaps && (taps.count & width) != 0)) {
        const void* joined[3];
        std::int64_t count = 0;
        if (begun) joined[count++] = result;
        joined[count++] = windows + done * apart;
        if (last && overlaps && width < taps.count) joined[count++] = windows + (taps.count - width) * apart;
        loops_.reduce(joined, count, n, result);
        begun = true;
        done += width;
      }
      if (last) return;
      const void* two[] = {windows, windows + width * apart};
      loops_.reduce(two, 2, n + (taps.count - 2 * width) * apart, powers);
      windows = powers;
      width *= 2;
    }
  }

  const WindowPlan& plan_;
  ReduceKind kind_;
  Dtype dtype_;
  const Dims& firsts_;
  WindowLoops loops_;
  const TensorView& in_;
  const TensorView& out_;
  std::vector<const void*> pointers_;
  std::vector<const C*> line_data_;
};

class ReduceWindowKernel final : public Kernel {
 public:
  ReduceWindowKernel(Attrs attrs, const Type& in, const Type& out)
      : attrs_(std::move(attrs)),
        kind_(parse_reduce_kind(attrs_.get<std::string>("kind"))),
        dtype_(in.dtype == Dtype::kF16 || in.dtype == Dtype::kBF16 ? Dtype::kF32 : in.dtype),
        planned_(plan_windows(attrs_, in.shape, out.shape, attrs_.get<Dims>("low"), size())) {}

  Work work(Views inputs, Views outputs) const override {
    WindowPlan other;
    return {.tiles = std::max<std::int64_t>(1, plan_for(inputs, outputs, other).tiles), .scratch_bytes = 0};
  }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const override {
    WindowPlan other;
    const WindowPlan& plan = plan_for(inputs, outputs, other);
    if (tile >= plan.tiles) return;
    const Dims firsts = firsts_of(outputs[0]);
    with_element_type(dtype_, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_same_v<T, bool>) {
        WindowTile<std::uint8_t>(plan, kind_, dtype_, firsts, inputs[0], outputs[0]).run(tile);
      } else if constexpr (!kIsSmallFloat<T>) {
        WindowTile<T>(plan, kind_, dtype_, firsts, inputs[0], outputs[0]).run(tile);
      }
    });
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(dtype_)); }

  const WindowPlan& plan_for(Views inputs, Views outputs, WindowPlan& other) const {
    Dims low = attrs_.get<Dims>("low");
    for (std::size_t d = 0; d < low.size(); ++d)
      low[d] = low_of_shard(low[d], base(d), stride(d), outputs[0].start_of(d));
    if (inputs[0].shape == planned_.in_shape && outputs[0].shape == planned_.out_shape && low == planned_.low) {
      return planned_;
    }
    other = plan_windows(attrs_, inputs[0].shape, outputs[0].shape, low, size());
    return other;
  }

  // What the first elements of a shard are in the whole array. Empty if there is no other shard.
  Dims firsts_of(const TensorView& out) const {
    const Dims* origin = attrs_.find_as<Dims>("origin");
    if (origin == nullptr) return {};
    Dims firsts = *origin;
    const Dims& low = attrs_.get<Dims>("low");
    for (std::size_t d = 0; d < firsts.size(); ++d) {
      const std::int64_t place = out.start_of(d);
      if (place != 0) firsts[d] += divide_up(place * stride(d) - low[d], base(d));
    }
    return firsts;
  }

  std::int64_t stride(std::size_t d) const { return attrs_.get<Dims>("strides")[d]; }
  std::int64_t base(std::size_t d) const { return attrs_.get<Dims>("base_dilation")[d]; }

  Attrs attrs_;
  ReduceKind kind_;
  Dtype dtype_;  // What sums are made in.
  WindowPlan planned_;
};

}  // namespace

std::unique_ptr<Kernel> reduce_window_kernel(const Graph& graph, const Eqn& eqn) {
  return std::make_unique<ReduceWindowKernel>(eqn.attrs, graph.type(eqn.inputs[0]), graph.type(eqn.outputs[0]));
}

}  // namespace shoal::cpu
