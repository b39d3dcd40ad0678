// Elements are compared by words: unsigned numbers in the order of the elements, where NaNs are one number, and both
// zeros are. Values alone are sorted as such words, and turned back. Several operands, and top_k, need to know who goes
// where: the low bits of a word are the element's position, which also keeps equal ones in their order.
#include "backend/cpu/sorts/sort_kernels.h"

#include <algorithm>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/machine/workspace.h"
#include "backend/cpu/moves/strided_copy.h"
#include "backend/cpu/sorts/sort_words.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "comm/transport/element_copy.h"
#include "core/dispatch.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Elements of one tile, if lines are short.
constexpr std::int64_t kTileElements = 1 << 15;
// Lines that lie side by side are sorted so many at a time: their elements share cache lines.
constexpr std::int64_t kLinesTogether = 16;
// Elements of such lines together, beyond which there are fewer of them.
constexpr std::int64_t kMostTogether = 1 << 20;
// Elements of a line that a thread takes at a time.
constexpr std::int64_t kPiece = 1 << 16;
// top_k orders all elements unless there are so many for each that is wanted.
constexpr std::int64_t kMuchMore = 16;

// ---- Words of elements.

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmallFloat<T>;

template <std::size_t kSize>
using Unsigned = std::conditional_t<
    kSize == 1, std::uint8_t,
    std::conditional_t<kSize == 2, std::uint16_t, std::conditional_t<kSize == 4, std::uint32_t, std::uint64_t>>>;

/// The word of a real element.
template <class T>
using WordOf = Unsigned<sizeof(T)>;

template <class T>
inline constexpr WordOf<T> kSign = static_cast<WordOf<T>>(WordOf<T>{1} << (8 * sizeof(T) - 1));
template <class T>
inline constexpr WordOf<T> kWordOfNan = std::numeric_limits<WordOf<T>>::max();

template <class T>
constexpr WordOf<T> bits_of_infinity() {
  if constexpr (std::is_same_v<T, float16_t>) {
    return 0x7C00;
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return 0x7F80;
  } else {
    return std::bit_cast<WordOf<T>>(std::numeric_limits<T>::infinity());
  }
}

template <class T>
WordOf<T> word_of(T x) {
  using Word = WordOf<T>;
  const auto bits = std::bit_cast<Word>(x);
  if constexpr (kIsFloat<T>) {
    const auto size = static_cast<Word>(bits & ~kSign<T>);
    const bool is_negative = size != bits && size != 0;
    const auto word = static_cast<Word>(is_negative ? ~bits : size | kSign<T>);
    return size > bits_of_infinity<T>() ? kWordOfNan<T> : word;
  } else if constexpr (std::is_signed_v<T>) {
    return bits ^ kSign<T>;
  } else {
    return bits;
  }
}

/// An element with this word.
template <class T>
T element_of(WordOf<T> word) {
  using Word = WordOf<T>;
  if constexpr (kIsFloat<T>) {
    return std::bit_cast<T>(static_cast<Word>((word & kSign<T>) != 0 ? word ^ kSign<T> : ~word));
  } else if constexpr (std::is_signed_v<T>) {
    return std::bit_cast<T>(static_cast<Word>(word ^ kSign<T>));
  } else {
    return std::bit_cast<T>(word);
  }
}

// ---- Values alone.

template <class T>
void sort_values(const T* in, T* out, std::int64_t n, bool descending) {
  // Vectors have no use for shorter words.
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const auto flip = static_cast<WordOf<T>>(descending ? ~WordOf<T>{0} : WordOf<T>{0});
  const auto flipped = [flip](WordOf<T> word) { return static_cast<WordOf<T>>(word ^ flip); };
  Workspace<Word> words(n);
  Workspace<Word> spare(spare_words(n));
  in_ranges(0, n, kPiece, [&, to = words.data()](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = flipped(word_of(in[i]));
  });
  const Word* const sorted = sort_words(words.data(), spare.data(), n);
  in_ranges(0, n, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = element_of<T>(flipped(static_cast<WordOf<T>>(sorted[i])));
  });
  if constexpr (kIsFloat<T>) {
    // Elements of one word may differ in their bits: they stay in their order.
    for (const WordOf<T> word : {kSign<T>, kWordOfNan<T>}) {
      const auto [first, last] = std::equal_range(sorted, sorted + n, Word{flipped(word)});
      T* to = out + (first - sorted);
      T* const end = out + (last - sorted);
      for (const T* from = in; to != end; ++from) {
        if (word_of(*from) == word) *to++ = *from;
      }
    }
  }
}

// ---- Several operands.

/// A part of what elements are compared by: the elements of an operand, or the real or imaginary parts of them.
struct KeyPart {
  Dtype dtype;  ///< Real.
  const std::byte* data;
  std::int64_t stride;  ///< In numbers of `dtype`.

  int bits() const { return static_cast<int>(8 * size_of(dtype)); }
};

using KeyParts = boost::container::small_vector<KeyPart, 4>;

void add_parts(KeyParts& parts, Dtype dtype, const std::byte* data) {
  if (!is_complex(dtype)) {
    parts.push_back({.dtype = dtype, .data = data, .stride = 1});
    return;
  }
  const Dtype real = dtype == Dtype::kC64 ? Dtype::kF32 : Dtype::kF64;
  parts.push_back({.dtype = real, .data = data, .stride = 2});
  parts.push_back({.dtype = real, .data = data + size_of(real), .stride = 2});
}

/// Words of parts, the most significant first, that end in a position. Together they fit a Word.
template <class Word>
void make_words(std::span<const KeyPart> parts, int position_bits, bool descending, const std::int64_t* order,
                std::int64_t begin, std::int64_t end, Word* words) {
  std::fill(words + begin, words + end, Word{0});
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const KeyPart& part = parts[p];
    const int shift = p + 1 < parts.size() ? parts[p + 1].bits() : position_bits;
    with_element_type(part.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (!kIsComplexElement<T>) {
        const T* const data = reinterpret_cast<const T*>(part.data);
        const auto flip = static_cast<WordOf<T>>(descending ? ~WordOf<T>{0} : WordOf<T>{0});
        const auto add = [&](auto index_of) {
          for (std::int64_t i = begin; i < end; ++i) {
            const auto word = static_cast<WordOf<T>>(word_of(data[index_of(i) * part.stride]) ^ flip);
            words[i] = (words[i] | word) << shift;
          }
        };
        order == nullptr ? add(std::identity()) : add([order](std::int64_t i) { return order[i]; });
      }
    });
  }
  for (std::int64_t i = begin; i < end; ++i) words[i] |= static_cast<Word>(i);
}

int bits_of_positions(std::int64_t n) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 2) - 1)));
}

/// Puts the positions of n elements in the order of `parts`; `order` holds an order of them, that of equal elements, or
/// is nullptr if they come in their own. Calls use(position_of), where position_of(i) is the i-th.
template <class Word, class F>
void order_by_words(std::span<const KeyPart> parts, bool descending, const std::int64_t* order, std::int64_t n,
                    F&& use) {
  Workspace<Word> words(n);
  Workspace<Word> spare(spare_words(n));
  const int position_bits = bits_of_positions(n);
  in_ranges(0, n, kPiece, [&, to = words.data()](std::int64_t begin, std::int64_t end) {
    make_words(parts, position_bits, descending, order, begin, end, to);
  });
  const Word* const sorted = sort_words(words.data(), spare.data(), n);
  const auto mask = static_cast<std::uint64_t>((Word{1} << position_bits) - 1);
  use([=](std::int64_t i) {
    const auto place = static_cast<std::int64_t>(static_cast<std::uint64_t>(sorted[i]) & mask);
    return order == nullptr ? place : order[place];
  });
}

int sum_of_bits(std::span<const KeyPart> parts) {
  return std::transform_reduce(parts.begin(), parts.end(), 0, std::plus(),
                               [](const KeyPart& part) { return part.bits(); });
}

/// The same for any number of parts. Those that do not fit one word are taken in turns, the least significant first.
template <class F>
void order_by(std::span<const KeyPart> parts, bool descending, const std::int64_t* order, std::int64_t n, F&& use) {
  const int position_bits = bits_of_positions(n);
  std::size_t first = parts.size() - 1;
  while (first > 0 && sum_of_bits(parts.subspan(first - 1)) + position_bits <= 128) --first;
  const std::span<const KeyPart> last = parts.subspan(first);
  const auto order_by_last = [&](auto&& f) {
    if (sum_of_bits(last) + position_bits <= 64) {
      order_by_words<std::uint64_t>(last, descending, order, n, f);
    } else {
      order_by_words<Word128>(last, descending, order, n, f);
    }
  };
  if (first == 0) return order_by_last(use);
  Workspace<std::int64_t> next(n);
  order_by_last([&](auto position_of) {
    in_ranges(0, n, kPiece, [&, to = next.data()](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = position_of(i);
    });
  });
  order_by(parts.first(first), descending, next.data(), n, use);
}

template <class F>
void take(std::size_t size, const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end,
          F&& position_of) {
  with_element_size(size, [&](auto bytes) {
    constexpr auto kStep = static_cast<std::int64_t>(decltype(bytes)::value);
    for (std::int64_t i = begin; i < end; ++i) std::memcpy(to + i * kStep, from + position_of(i) * kStep, bytes);
  });
}

// ---- Lines.

/// Lines of n elements, which are dense, in order; what becomes of one has `kept` elements.
struct Line {
  std::int64_t n;
  std::int64_t kept;
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
};

/// How the lines along a dimension are divided: in tiles of blocks of lines that lie side by side.
struct Division {
  std::int64_t n = 1;      ///< Elements of a line.
  std::int64_t kept = 1;   ///< Of what becomes of it.
  std::int64_t outer = 1;  ///< Groups of lines that lie side by side.
  std::int64_t inner = 1;  ///< Lines of a group.
  std::int64_t width = 1;  ///< Lines of a block.
  std::int64_t blocks_of_group = 1;
  std::int64_t blocks_of_tile = 1;

  Division(const Shape& in, const Shape& out, std::size_t dim) : n(in[dim]), kept(out[dim]) {
    for (std::size_t d = 0; d < dim; ++d) outer *= in[d];
    for (std::size_t d = dim + 1; d < in.size(); ++d) inner *= in[d];
    const std::int64_t length = std::max<std::int64_t>(1, n);
    const std::int64_t together = std::clamp<std::int64_t>(kMostTogether / length, 1, kLinesTogether);
    width = std::min(std::max(kTileElements / length, together), std::max<std::int64_t>(1, inner));
    blocks_of_group = (inner + width - 1) / width;
    blocks_of_tile = std::max<std::int64_t>(1, kTileElements / (length * width));
  }
  std::int64_t blocks() const { return outer * blocks_of_group; }
  std::int64_t tiles() const { return std::max<std::int64_t>(1, (blocks() + blocks_of_tile - 1) / blocks_of_tile); }
};

/// An op on the lines of its operands along a dimension.
class LineKernel : public Kernel {
 public:
  Work work(Views inputs, Views outputs) const final {
    return {.tiles = Division(inputs[0].shape, outputs[0].shape, dim_).tiles()};
  }

  void run(Views inputs, Views outputs, std::byte*, std::int64_t tile) const final {
    const Division lines(inputs[0].shape, outputs[0].shape, dim_);
    if (num_elements(outputs[0].shape) == 0) return;
    const std::int64_t end = std::min(lines.blocks(), (tile + 1) * lines.blocks_of_tile);
    // Lines whose elements lie apart are copied to dense ones, and back.
    const bool dense = lines.inner == 1;
    std::vector<Buffer> copies;
    const auto add_copy = [&](const TensorView& view, std::int64_t length) {
      if (!dense) copies.emplace_back(host_space({}), view.dtype, Shape{lines.width, length});
    };
    for (const TensorView& view : inputs) add_copy(view, lines.n);
    for (const TensorView& view : outputs) add_copy(view, lines.kept);
    const auto copy_of = [&](std::size_t k) { return static_cast<std::byte*>(copies[k].mutable_data()); };
    std::vector<const std::byte*> in(inputs.size());
    std::vector<std::byte*> out(outputs.size());
    for (std::int64_t block = tile * lines.blocks_of_tile; block < end; ++block) {
      const std::int64_t group = block / lines.blocks_of_group;
      const std::int64_t first = block % lines.blocks_of_group * lines.width;
      const std::int64_t width = std::min(lines.width, lines.inner - first);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const std::int64_t size = bytes_of(inputs[k]);
        in[k] = static_cast<const std::byte*>(inputs[k].data) + (group * lines.n * lines.inner + first) * size;
        if (dense) continue;
        std::byte* const copy = copy_of(k);
        transpose(in[k], size, lines.inner * size, copy, lines.n * size, size, width, lines.n, size);
        in[k] = copy;
      }
      const auto place_of = [&](std::size_t k) {
        return static_cast<std::byte*>(outputs[k].data) +
               (group * lines.kept * lines.inner + first) * bytes_of(outputs[k]);
      };
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        out[k] = dense ? place_of(k) : copy_of(inputs.size() + k);
      }
      for (std::int64_t line = 0; line < width; ++line) {
        run_line(inputs, outputs, {.n = lines.n, .kept = lines.kept, .in = in, .out = out});
        for (std::size_t k = 0; k < inputs.size(); ++k) in[k] += lines.n * bytes_of(inputs[k]);
        for (std::size_t k = 0; k < outputs.size(); ++k) out[k] += lines.kept * bytes_of(outputs[k]);
      }
      for (std::size_t k = 0; k < outputs.size() && !dense; ++k) {
        const std::int64_t size = bytes_of(outputs[k]);
        transpose(copy_of(inputs.size() + k), size, lines.kept * size, place_of(k), lines.inner * size, size,
                  lines.kept, width, size);
      }
    }
  }

 protected:
  explicit LineKernel(const Attrs& attrs) : dim_(static_cast<std::size_t>(attrs.get<std::int64_t>("dim"))) {}
  /// The views tell dtypes alone.
  virtual void run_line(Views inputs, Views outputs, const Line& line) const = 0;

 private:
  static std::int64_t bytes_of(const TensorView& view) { return static_cast<std::int64_t>(size_of(view.dtype)); }

  // Copies rows and columns that lie along columns and rows.
  static void transpose(const std::byte* from, std::int64_t from_row, std::int64_t from_column, std::byte* to,
                        std::int64_t to_row, std::int64_t to_column, std::int64_t rows, std::int64_t columns,
                        std::int64_t size) {
    const StridedCopy copy = StridedCopy{
        .extents = {rows, columns},
        .from_strides = {from_row, from_column},
        .to_strides = {
            to_row, to_column}}.simplified(static_cast<std::size_t>(size));
    copy_rows(copy, static_cast<std::size_t>(size), from, to, 0, copy.rows());
  }

  std::size_t dim_;
};

class SortKernel final : public LineKernel {
 public:
  explicit SortKernel(const Attrs& attrs)
      : LineKernel(attrs),
        num_keys_(static_cast<std::size_t>(attrs.get<std::int64_t>("num_keys"))),
        descending_(attrs.get<bool>("descending")) {}

 private:
  void run_line(Views inputs, Views, const Line& line) const override {
    if (inputs.size() == 1 && !is_complex(inputs[0].dtype)) {
      with_element_type(inputs[0].dtype, [&](auto tag) {
        using T = decltype(tag);
        if constexpr (!kIsComplexElement<T>) {
          sort_values(reinterpret_cast<const T*>(line.in[0]), reinterpret_cast<T*>(line.out[0]), line.n, descending_);
        }
      });
      return;
    }
    KeyParts parts;
    for (std::size_t k = 0; k < num_keys_; ++k) add_parts(parts, inputs[k].dtype, line.in[k]);
    order_by(parts, descending_, nullptr, line.n, [&](auto position_of) {
      in_ranges(0, line.n, kPiece, [&](std::int64_t begin, std::int64_t end) {
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          take(size_of(inputs[k].dtype), line.in[k], line.out[k], begin, end, position_of);
        }
      });
    });
  }

  std::size_t num_keys_;
  bool descending_;
};

class TopKernel final : public LineKernel {
 public:
  explicit TopKernel(const Attrs& attrs) : LineKernel(attrs) {}

 private:
  void run_line(Views inputs, Views, const Line& line) const override {
    KeyParts parts;
    add_parts(parts, inputs[0].dtype, line.in[0]);
    const auto keep = [&](auto position_of) {
      take(size_of(inputs[0].dtype), line.in[0], line.out[0], 0, line.kept, position_of);
      auto* const positions = reinterpret_cast<std::int32_t*>(line.out[1]);
      for (std::int64_t i = 0; i < line.kept; ++i) positions[i] = static_cast<std::int32_t>(position_of(i));
    };
    if (line.kept * kMuchMore > line.n) return order_by(parts, true, nullptr, line.n, keep);
    with_element_type(inputs[0].dtype, [&]<class T>(T) {
      if constexpr (!kIsComplexElement<T>) keep_few(reinterpret_cast<const T*>(line.in[0]), line, keep);
    });
  }

  template <class T>
  struct Kept {
    WordOf<T> word;
    std::int64_t position;

    bool comes_before(const Kept& other) const {
      return word > other.word || (word == other.word && position < other.position);
    }
  };

  // The greatest of each piece of the line, and of these those of the whole.
  template <class T, class F>
  static void keep_few(const T* in, const Line& line, F&& keep) {
    const std::int64_t piece = std::max(kPiece, line.kept * kMuchMore);
    std::vector<std::vector<Kept<T>>> of_pieces(static_cast<std::size_t>((line.n + piece - 1) / piece));
    in_ranges(0, line.n, piece, [&](std::int64_t begin, std::int64_t end) {
      of_pieces[static_cast<std::size_t>(begin / piece)] = greatest_of(in, begin, end, line.kept);
    });
    std::vector<Kept<T>>& kept = of_pieces[0];
    for (std::size_t i = 1; i < of_pieces.size(); ++i)
      kept.insert(kept.end(), of_pieces[i].begin(), of_pieces[i].end());
    std::ranges::sort(kept, &Kept<T>::comes_before);
    keep([&](std::int64_t i) { return kept[static_cast<std::size_t>(i)].position; });
  }

  // Few elements of many are greater than those that are kept already: the others are passed by, some at a time.
  template <class T>
  static std::vector<Kept<T>> greatest_of(const T* in, std::int64_t begin, std::int64_t end, std::int64_t most) {
    constexpr std::int64_t kAtOnce = 16;
    std::vector<Kept<T>> kept;  // A heap with the last of them in front.
    kept.reserve(static_cast<std::size_t>(std::min(most, end - begin)));
    for (std::int64_t i = begin; i < std::min(end, begin + most); ++i) kept.push_back({word_of(in[i]), i});
    std::ranges::make_heap(kept, &Kept<T>::comes_before);
    for (std::int64_t first = begin + std::ssize(kept); first < end; first += kAtOnce) {
      const std::int64_t last = std::min(end, first + kAtOnce);
      if (!may_exceed(in + first, last - first, in[kept.front().position])) continue;
      for (std::int64_t i = first; i < last; ++i) {
        const Kept<T> one{word_of(in[i]), i};
        if (one.word <= kept.front().word) continue;
        std::ranges::pop_heap(kept, &Kept<T>::comes_before);
        kept.back() = one;
        std::ranges::push_heap(kept, &Kept<T>::comes_before);
      }
    }
    return kept;
  }

  // Whether any element may come before `least`; never false if one does.
  template <class T>
  static bool may_exceed(const T* elements, std::int64_t count, T least) {
    if constexpr (kIsSmallFloat<T>) {
      return true;
    } else {
      bool found = false;
      for (std::int64_t i = 0; i < count; ++i) found |= !(elements[i] <= least);
      return found;
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> sort_kernel(const Graph&, const Eqn& eqn) { return std::make_unique<SortKernel>(eqn.attrs); }

std::unique_ptr<Kernel> top_k_kernel(const Graph&, const Eqn& eqn) { return std::make_unique<TopKernel>(eqn.attrs); }

}  // namespace shoal::cpu
