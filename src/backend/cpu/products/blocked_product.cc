// The scheme is that of "Anatomy of High-Performance Matrix Multiplication" (Goto and van de Geijn, 2008): blocks of
// both operands are packed so that the inner loops read them one element after the other, from near caches.
#include "backend/cpu/products/blocked_product.h"

#include <algorithm>
#include <array>
#include <complex>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>

#include "backend/cpu/products/summed_elements.h"
#include "backend/cpu/products/tiling.h"
#include "core/dispatch.h"

namespace shoal::cpu {
namespace {

// Blocks of the left operand stay in the second level of the cache, those of the right one in the second or third.
constexpr std::int64_t kLhsBlockBytes = 192 << 10;
constexpr std::int64_t kRhsBlockBytes = 2 << 20;
// The most columns of a block after which something follows, so that it finds sums in the second level.
constexpr std::int64_t kMostColumnsFollowed = 512;
// The most rows or columns of a block: those of four bytes in the shortest blocks.
constexpr std::int64_t kMostLines = kRhsBlockBytes / 256 / 4;
// An operand that is read no more often is read where it lies, if that is near enough, and the right one of a few
// panels of rows always: packing would take longer than it saves.
constexpr std::int64_t kFewPanels = 16;
constexpr std::int64_t kNearBytes = 256 << 10;

// The offsets of `range` in the index that runs over `dims`.
void offsets_of(std::span<const StridedDim> dims, Range range, std::int64_t* offsets) {
  if (dims.size() <= 1) {
    const std::int64_t stride = dims.empty() ? 0 : dims[0].stride;
    for (std::int64_t i = range.begin; i < range.end; ++i) *offsets++ = i * stride;
    return;
  }
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (std::size_t d = dims.size(); d-- > 0;) {
      offset += rest % dims[d].extent * dims[d].stride;
      rest /= dims[d].extent;
    }
    *offsets++ = offset;
  }
}

bool is_contiguous(std::span<const StridedDim> dims) {
  return dims.empty() || (dims.size() == 1 && dims[0].stride == 1);
}

template <class C, bool kTruth, class T>
inline void convert_run(const T* __restrict from, std::int64_t n, C* __restrict to) {
  if constexpr (std::is_same_v<T, float16_t> && std::is_same_v<C, float>) {
    convert(from, n, to);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = as_summed<C, kTruth>(from[i]);
  }
}

// Where a block of an operand lies.
struct Block {
  std::span<const std::int64_t> lines;  // offsets along the result's rows or columns
  std::span<const std::int64_t> inner;
  bool lines_contiguous;
  bool inner_contiguous;
};

// Calls f(width as a constant, 0 for one that no machine has as its vectors).
template <class F>
void with_constant_width(std::int64_t width, F&& f) {
  switch (width) {
    case 8:
      return f(std::integral_constant<std::int64_t, 8>());
    case 16:
      return f(std::integral_constant<std::int64_t, 16>());
    case 32:
      return f(std::integral_constant<std::int64_t, 32>());
    default:
      return f(std::integral_constant<std::int64_t, 0>());
  }
}

// Writes panels of `width` lines each: for each inner index an element of each line. The last panel is filled up with
// zeros. Memory is read in the order in which it lies.
template <class C, bool kTruth, class T>
void pack(const T* data, const Block& block, const PanelLayout& layout, C* to) {
  const std::int64_t width = layout.inner;
  const auto lines = static_cast<std::int64_t>(block.lines.size());
  const auto inner = static_cast<std::int64_t>(block.inner.size());
  const std::int64_t full = lines / width * width;
  if (full < lines) std::fill_n(to + full / width * layout.panel, width * inner, C{});

  if (block.lines_contiguous) {
    with_constant_width(width, [&](auto constant) {
      const std::int64_t step = constant() == 0 ? width : constant();
      for (std::int64_t k = 0; k < inner; ++k) {
        const T* row = data + block.lines[0] + block.inner[static_cast<std::size_t>(k)];
        // The next row begins far away.
        const T* next = data + block.lines[0] + block.inner[static_cast<std::size_t>(std::min(k + 1, inner - 1))];
        C* panel = to + k * step;
        for (std::int64_t i = 0; i < full; i += step) {
          __builtin_prefetch(next + i);
          convert_run<C, kTruth>(row + i, step, panel);
          panel += layout.panel;
        }
        convert_run<C, kTruth>(row + full, lines - full, panel);
      }
    });
    return;
  }
  for (std::int64_t i = 0; i < lines; i += width, to += layout.panel) {
    const std::int64_t* offsets = block.lines.data() + i;
    const std::int64_t count = std::min(width, lines - i);
    if (block.inner_contiguous) {
      for (std::int64_t line = 0; line < count; ++line) {
        const T* from = data + offsets[line] + block.inner[0];
        if constexpr (std::is_same_v<T, float16_t> && std::is_same_v<C, float>) {
          std::array<C, kMostInner> run;
          convert_run<C, kTruth>(from, inner, run.data());
          for (std::int64_t k = 0; k < inner; ++k) to[k * width + line] = run[static_cast<std::size_t>(k)];
        } else {
          for (std::int64_t k = 0; k < inner; ++k) to[k * width + line] = as_summed<C, kTruth>(from[k]);
        }
      }
    } else {
      for (std::int64_t k = 0; k < inner; ++k) {
        const T* column = data + block.inner[static_cast<std::size_t>(k)];
        for (std::int64_t line = 0; line < count; ++line) {
          to[k * width + line] = as_summed<C, kTruth>(column[offsets[line]]);
        }
      }
    }
  }
}

void pack_block(Arithmetic arithmetic, const ProductOperand& operand, const Block& block, const PanelLayout& layout,
                void* to) {
  with_summed_types(arithmetic, operand.dtype, [&]<class T, class C, class Truth>(T, C, Truth) {
    pack<C, Truth::value>(static_cast<const T*>(operand.data), block, layout, static_cast<C*>(to));
  });
}

// How an operand lies if the kernel can read its elements as they are, but for its panels: nothing to convert, and one
// distance from a line to the next, and from an inner index to the next.
std::optional<PanelLayout> layout_as_it_lies(Arithmetic arithmetic, const ProductOperand& operand) {
  if (operand.outer.size() > 1 || operand.inner.size() > 1 || arithmetic == Arithmetic::kBool) return std::nullopt;
  const bool converts = with_arithmetic_type(arithmetic, [&](auto element) {
    return with_element_type(operand.dtype, [](auto tag) {
      using C = decltype(element);
      using T = decltype(tag);
      const bool both_integers = std::is_integral_v<T> && std::is_integral_v<C> && !std::is_same_v<T, bool>;
      return !std::is_same_v<C, T> && !(both_integers && sizeof(C) == sizeof(T));
    });
  });
  if (converts) return std::nullopt;
  const std::int64_t line = operand.outer.empty() ? 0 : operand.outer[0].stride;
  return PanelLayout{.line = line, .inner = operand.inner.empty() ? 0 : operand.inner[0].stride, .panel = 0};
}

struct Free {
  void operator()(void* data) const { ::operator delete (data, std::align_val_t{64}); }
};

}  // namespace

void* thread_memory(ThreadMemory use, std::size_t bytes) {
  struct Memory {
    std::unique_ptr<void, Free> data;
    std::size_t bytes = 0;
  };
  thread_local std::array<Memory, 3> memories;
  Memory& memory = memories[static_cast<std::size_t>(use)];
  if (memory.bytes < bytes) {
    memory.data.reset();
    memory.bytes = 0;
    memory.data.reset(::operator new (bytes, std::align_val_t{64}));
    memory.bytes = bytes;
  }
  return memory.data.get();
}

void blocked_product(const BlockedProduct& product, const WhenComplete* when_complete) {
  const auto& [arithmetic, lhs, rhs, strips, columns, inner] = product;
  const auto size =
      static_cast<std::int64_t>(with_arithmetic_type(arithmetic, [](auto element) { return sizeof(element); }));
  const std::int64_t width = panel_columns(arithmetic);
  const std::int64_t depth = inner_of_block();
  const std::int64_t most_inner = std::min(depth, inner.size());
  const std::int64_t most_rows = kLhsBlockBytes / depth / size;
  std::int64_t most_columns = kRhsBlockBytes / depth / size / width * width;
  if (when_complete != nullptr) most_columns = std::min(most_columns, kMostColumnsFollowed / width * width);
  const auto memory_for = [&](ThreadMemory use, std::int64_t lines, std::int64_t panel) {
    const std::int64_t of_panel = PanelLayout::packed(panel, most_inner, size).panel;
    return thread_memory(use, static_cast<std::size_t>(divide_up(lines, panel) * of_panel * size));
  };
  std::int64_t all_rows = 0;
  std::int64_t longest = 0;
  for (const ProductRows& strip : strips) {
    all_rows += strip.rows.size();
    longest = std::max(longest, strip.rows.size());
  }
  std::optional<PanelLayout> lhs_lies;
  if (columns.size() <= kFewPanels * width) lhs_lies = layout_as_it_lies(arithmetic, lhs);
  if (lhs_lies && std::min(most_rows, longest) * lhs_lies->line * size > kNearBytes) lhs_lies.reset();
  std::optional<PanelLayout> rhs_lies;
  if (all_rows <= kFewPanels * kPanelRows) rhs_lies = layout_as_it_lies(arithmetic, rhs);
  const bool is_near = rhs_lies && most_inner * rhs_lies->inner * size <= kNearBytes;
  if (rhs_lies && (rhs_lies->line != 1 || (!is_near && all_rows > 3 * kPanelRows))) rhs_lies.reset();

  std::array<std::int64_t, kMostLines> lines;
  std::array<std::int64_t, kMostInner> lhs_inner;
  std::array<std::int64_t, kMostInner> rhs_inner;
  const auto pack_lines = [&](const ProductOperand& operand, Range range, std::span<const std::int64_t> offsets,
                              const PanelLayout& layout, void* to) {
    offsets_of(operand.outer, range, lines.data());
    pack_block(arithmetic, operand,
               {.lines = {lines.data(), static_cast<std::size_t>(range.size())},
                .inner = offsets,
                .lines_contiguous = is_contiguous(operand.outer),
                .inner_contiguous = is_contiguous(operand.inner)},
               layout, to);
  };

  // A block of an operand, packed or as it lies.
  struct Lines {
    const void* data;
    PanelLayout layout;
  };
  const auto lines_of = [&](const ProductOperand& operand, const std::optional<PanelLayout>& lies, Range range,
                            Range block, std::span<const std::int64_t> offsets, std::int64_t panel, ThreadMemory use) {
    if (lies) {
      const std::int64_t at = range.begin * lies->line + block.begin * lies->inner;
      return Lines{static_cast<const std::byte*>(operand.data) + at * size,
                   {.line = lies->line, .inner = lies->inner, .panel = lies->line * panel}};
    }
    void* const memory = memory_for(use, range.size(), panel);
    const PanelLayout layout = PanelLayout::packed(panel, block.size(), size);
    pack_lines(operand, range, offsets, layout, memory);
    return Lines{memory, layout};
  };
  // Columns that are read where they lie end with a whole panel; others follow.
  const std::int64_t whole = columns.begin + columns.size() / width * width;
  for (std::int64_t j = columns.begin; j < columns.end;) {
    const bool is_rest = rhs_lies && j == whole;
    const Range across{j, std::min(j + most_columns, rhs_lies && !is_rest ? whole : columns.end)};
    j = across.end;
    for (std::int64_t k = inner.begin; k < inner.end; k += depth) {
      const Range block{k, std::min(k + depth, inner.end)};
      const auto count = static_cast<std::size_t>(block.size());
      if (!lhs_lies) offsets_of(lhs.inner, block, lhs_inner.data());
      if (!rhs_lies || is_rest) offsets_of(rhs.inner, block, rhs_inner.data());
      const Lines right = lines_of(rhs, is_rest ? std::nullopt : rhs_lies, across, block, {rhs_inner.data(), count},
                                   width, ThreadMemory::kRhsBlock);
      for (std::size_t index = 0; index < strips.size(); ++index) {
        const ProductRows& strip = strips[index];
        ProductOperand operand = lhs;
        operand.data = strip.lhs;
        // Blocks have about one size, or the last might have hardly a row.
        const std::int64_t blocks = std::max(divide_up(strip.rows.size(), most_rows), std::int64_t{1});
        const std::int64_t height = panel_rows_of(divide_up(strip.rows.size(), blocks));
        const std::int64_t of_block = divide_up(strip.rows.size(), blocks * height) * height;
        for (std::int64_t i = strip.rows.begin; i < strip.rows.end; i += of_block) {
          const Range rows{i, std::min(i + of_block, strip.rows.end)};
          const Lines left =
              lines_of(operand, lhs_lies, rows, block, {lhs_inner.data(), count}, height, ThreadMemory::kLhsBlock);
          const std::int64_t at = (i - strip.rows.begin) * strip.out_stride + (across.begin - columns.begin);
          multiply_panels({.arithmetic = arithmetic,
                           .rows = rows.size(),
                           .columns = across.size(),
                           .inner = block.size(),
                           .lhs = left.data,
                           .lhs_layout = left.layout,
                           .rhs = right.data,
                           .rhs_layout = right.layout,
                           .out = static_cast<std::byte*>(strip.out) + at * size,
                           .out_stride = strip.out_stride,
                           .accumulate = k != inner.begin,
                           .panel_rows = height});
          if (when_complete != nullptr && block.end == inner.end) (*when_complete)(index, rows, across);
        }
      }
    }
  }
}

}  // namespace shoal::cpu
