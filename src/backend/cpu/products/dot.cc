#include "backend/cpu/products/dot.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/products/blas.h"
#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/onednn.h"
#include "base/plugin.h"
#include "core/dispatch.h"
#include "ops/reduction.h"

namespace shoal::cpu {
namespace {

// ---- What is multiplied: the dimensions by what they mean.

// A dimension of the product, and the elements from one index to the next in both operands and the result.
struct Axis {
  std::int64_t extent;
  std::int64_t lhs;
  std::int64_t rhs;
  std::int64_t out;
};

using Axes = std::vector<Axis>;

struct Product {
  Axes batch;
  Axes rows;
  Axes columns;
  Axes inner;
};

std::int64_t extent_of(const Axes& axes) {
  std::int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.extent;
  return n;
}

// Adds an inner dimension to `axes`, as part of the last one if they lie in memory as one.
void append(Axes& axes, const Axis& axis) {
  if (axis.extent == 1) return;
  if (!axes.empty()) {
    Axis& last = axes.back();
    if (last.lhs == axis.extent * axis.lhs && last.rhs == axis.extent * axis.rhs &&
        last.out == axis.extent * axis.out) {
      last = {last.extent * axis.extent, axis.lhs, axis.rhs, axis.out};
      return;
    }
  }
  axes.push_back(axis);
}

// The order in which products are summed is free: the one in which the dimensions merge best, in the order of the left
// operand's memory or of the right one's.
Axes merged_inner(Axes axes) {
  std::array<Axes, 2> merged;
  for (std::size_t side = 0; side < 2; ++side) {
    std::stable_sort(axes.begin(), axes.end(),
                     [side](const Axis& a, const Axis& b) { return side == 0 ? a.lhs > b.lhs : a.rhs > b.rhs; });
    for (const Axis& axis : axes) append(merged[side], axis);
  }
  return merged[1].size() < merged[0].size() ? merged[1] : merged[0];
}

bool contains(const Dims& dims, std::size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
}

Product product_of(const Attrs& attrs, const Shape& lhs, const Shape& rhs) {
  const auto& lhs_contract = attrs.get<Dims>("lhs_contract");
  const auto& rhs_contract = attrs.get<Dims>("rhs_contract");
  const auto& lhs_batch = attrs.get<Dims>("lhs_batch");
  const auto& rhs_batch = attrs.get<Dims>("rhs_batch");
  const Dims lhs_strides = row_major_strides(lhs);
  const Dims rhs_strides = row_major_strides(rhs);
  const auto at = [](const auto& list, std::int64_t d) { return list[static_cast<std::size_t>(d)]; };

  // From the last dimension of the result to the first, for its strides.
  std::int64_t out_stride = 1;
  const auto free_axes = [&](bool left) {
    const Shape& shape = left ? lhs : rhs;
    Axes axes;
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (contains(left ? lhs_contract : rhs_contract, d) || contains(left ? lhs_batch : rhs_batch, d)) continue;
      axes.push_back({shape[d], left ? lhs_strides[d] : 0, left ? 0 : rhs_strides[d], out_stride});
      out_stride *= shape[d];
    }
    return axes;
  };
  const Axes columns = free_axes(false);
  const Axes rows = free_axes(true);
  Axes batch;
  for (std::size_t i = lhs_batch.size(); i-- > 0;) {
    batch.push_back({at(lhs, lhs_batch[i]), at(lhs_strides, lhs_batch[i]), at(rhs_strides, rhs_batch[i]), out_stride});
    out_stride *= batch.back().extent;
  }
  Axes inner;
  for (std::size_t i = 0; i < lhs_contract.size(); ++i) {
    inner.push_back({at(lhs, lhs_contract[i]), at(lhs_strides, lhs_contract[i]), at(rhs_strides, rhs_contract[i]), 0});
  }

  const auto merged = [](const Axes& last_first) {
    Axes axes;
    for (auto axis = last_first.rbegin(); axis != last_first.rend(); ++axis) append(axes, *axis);
    return axes;
  };
  return {merged(batch), merged(rows), merged(columns), merged_inner(std::move(inner))};
}

// Of two and more dimensions all but the last become batches, if the last is long enough for a matrix of its own.
void keep_last(Axes& axes, Axes& batch) {
  constexpr std::int64_t kLongEnough = 16;
  if (axes.size() < 2 || axes.back().extent < kLongEnough) return;
  batch.insert(batch.end(), axes.begin(), axes.end() - 1);
  axes.erase(axes.begin(), axes.end() - 1);
}

// An operand as a library takes it.
struct Matrix {
  std::int64_t stride;
  bool transposed;
};

// `outer` and `inner` are the strides along the indices that the result keeps and that are summed over.
std::optional<Matrix> matrix_of(std::int64_t outer_extent, std::int64_t outer, std::int64_t inner_extent,
                                std::int64_t inner) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (outer_extent > kMost || inner_extent > kMost || outer > kMost || inner > kMost) return std::nullopt;
  if (inner_extent == 1 || inner == 1) return Matrix{std::max(outer_extent == 1 ? 1 : outer, inner_extent), false};
  if (outer_extent == 1 || outer == 1) return Matrix{std::max(inner, outer_extent), true};
  return std::nullopt;
}

// ---- How it is computed.

enum class Method : std::uint8_t { kBlocked, kBlas, kOnednn };

Arithmetic arithmetic_of(Dtype operands, Dtype out) {
  const auto of_integers = [](Dtype dtype) {
    if (dtype == Dtype::kBool) return Arithmetic::kBool;
    return size_of(dtype) == 8 ? Arithmetic::kI64 : Arithmetic::kI32;
  };
  const bool integers = is_integer(operands) || operands == Dtype::kBool;
  const bool to_integers = is_integer(out) || out == Dtype::kBool;
  if (integers) return of_integers(to_integers ? out : operands);
  if (is_complex(operands)) {
    return operands == Dtype::kC128 || out == Dtype::kC128 ? Arithmetic::kC128 : Arithmetic::kC64;
  }
  const bool small = operands != Dtype::kF64 && out != Dtype::kF64 && out != Dtype::kC128 && !to_integers;
  return small ? Arithmetic::kF32 : Arithmetic::kF64;
}

std::int64_t size_of_sum(Arithmetic arithmetic) {
  return with_arithmetic_type(arithmetic, [](auto sum) { return static_cast<std::int64_t>(sizeof(sum)); });
}

// Whether sums are elements of the result as they are.
bool is_result(Arithmetic arithmetic, Dtype out) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return out == Dtype::kF32;
    case Arithmetic::kF64:
      return out == Dtype::kF64;
    case Arithmetic::kI32:
      return out == Dtype::kI32 || out == Dtype::kU32;
    case Arithmetic::kI64:
      return out == Dtype::kI64 || out == Dtype::kU64;
    case Arithmetic::kC64:
      return out == Dtype::kC64;
    case Arithmetic::kC128:
      return out == Dtype::kC128;
    case Arithmetic::kBool:
      break;
  }
  return false;
}

// Rows of sums, rounded to elements of the result.
void store_sums(Arithmetic arithmetic, Dtype operands, Dtype out, const std::byte* sums, std::int64_t sums_stride,
                std::int64_t rows, std::int64_t columns, std::byte* to, std::int64_t to_stride) {
  const auto each = [&](auto sum_tag, auto out_tag, auto&& store_row) {
    for (std::int64_t i = 0; i < rows; ++i) {
      store_row(reinterpret_cast<const decltype(sum_tag)*>(sums) + i * sums_stride,
                reinterpret_cast<decltype(out_tag)*>(to) + i * to_stride);
    }
  };
  with_arithmetic_type(arithmetic, [&](auto sum_tag) {
    using Sum = decltype(sum_tag);
    with_element_type(out, [&](auto out_tag) {
      using Out = decltype(out_tag);
      if constexpr (std::is_same_v<Sum, float> && kIsSmallFloat<Out>) {
        each(sum_tag, out_tag, [&](const Sum* from, Out* row) { convert(from, columns, row); });
      } else if constexpr (std::is_integral_v<Sum> && !std::is_integral_v<Out>) {
        // Wrapped in the operands' dtype first.
        with_element_type(operands, [&](auto tag) {
          using T = decltype(tag);
          if constexpr (std::is_integral_v<T>) {
            each(sum_tag, out_tag, [&](const Sum* from, Out* row) {
              for (std::int64_t j = 0; j < columns; ++j) row[j] = from_accumulator<Out>(static_cast<T>(from[j]));
            });
          }
        });
      } else {
        each(sum_tag, out_tag, [&](const Sum* from, Out* row) {
          for (std::int64_t j = 0; j < columns; ++j) row[j] = from_accumulator<Out>(from[j]);
        });
      }
    });
  });
}

// Adds `n` sums to others.
void add_sums(Arithmetic arithmetic, const std::byte* from, std::int64_t n, std::byte* to) {
  with_arithmetic_type(arithmetic, [&](auto tag) {
    using Sum = decltype(tag);
    const Sum* x = reinterpret_cast<const Sum*>(from);
    Sum* y = reinterpret_cast<Sum*>(to);
    if constexpr (std::is_same_v<Sum, std::uint32_t>) {
      if (arithmetic == Arithmetic::kBool) {
        for (std::int64_t i = 0; i < n; ++i) y[i] |= x[i];
        return;
      }
    }
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
  });
}

// ---- Tiles.

// The cost of work is counted in multiplications in f32. Moving an element costs as much as this many.
constexpr double kCostOfElement = 16;
// A tile of less is not worth another thread.
constexpr double kLeastTile = 1 << 21;
// Each tile packs its operands anew, so that their number grows more slowly than the work: from these costs on there
// are 2, 4, 8 and 16.
constexpr double kCostsOfTiles[] = {1 << 21, 1 << 25, 1 << 28, 1LL << 32};
constexpr std::int64_t kMostTiles = 64;
// Tiles are multiples of this, but for the last ones.
constexpr std::int64_t kUnit = 16;
// Elements of a tile that is cut further, as its halves are as good.
constexpr std::int64_t kLargeTile = 1 << 20;
// Tiles of fewer rows or columns are not cut, or of this many where the contraction can be cut instead.
constexpr std::int64_t kSmallTile = 64;
constexpr std::int64_t kSmallTileOfLong = 256;
// The shortest part of a contraction that is cut, and the most elements of its result.
constexpr std::int64_t kShortestPart = 1024;
constexpr std::int64_t kMostSplitElements = 1 << 18;

// How a product is cut.
struct Grid {
  std::int64_t products_per_tile = 1;  // more than 1 only if nothing else is cut
  std::int64_t row_size = 0;
  std::int64_t column_size = 0;
  std::int64_t part_size = 0;
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
  std::int64_t parts = 1;  // of the contraction
  std::int64_t tiles = 1;
};

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

Grid grid_of(std::int64_t products, std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  Grid grid{.row_size = rows, .column_size = columns, .part_size = inner};
  const auto m = static_cast<double>(rows);
  const auto n = static_cast<double>(columns);
  const auto k = static_cast<double>(inner);
  const double cost = m * n * k + kCostOfElement * (m * k + k * n + m * n);
  const double total = cost * static_cast<double>(products);

  std::int64_t wanted = 1;
  for (double least : kCostsOfTiles) wanted *= total >= least ? 2 : 1;
  const double fit = std::min(kLeastTile / cost, static_cast<double>(divide_up(products, wanted)));
  grid.products_per_tile = std::max(std::int64_t{1}, static_cast<std::int64_t>(fit));
  grid.tiles = divide_up(products, grid.products_per_tile);
  if (grid.products_per_tile > 1) return grid;
  // Rows are cut first, so that tiles are wide; tiles that are large still are cut further.
  const bool is_long = inner >= 2 * kShortestPart && products * rows * columns <= kMostSplitElements;
  const std::int64_t least = is_long ? kSmallTileOfLong : kSmallTile;
  const auto halve = [](std::int64_t size) { return divide_up(divide_up(size, 2), kUnit) * kUnit; };
  for (;;) {
    const std::int64_t tiles = products * grid.row_tiles * grid.column_tiles;
    const bool by_rows = 2 * grid.row_size > grid.column_size;
    std::int64_t& size = by_rows ? grid.row_size : grid.column_size;
    const bool cut = tiles < wanted || grid.row_size * grid.column_size >= kLargeTile;
    if (!cut || tiles >= kMostTiles || size < least) break;
    size = halve(size);
    grid.row_tiles = divide_up(rows, grid.row_size);
    grid.column_tiles = divide_up(columns, grid.column_size);
  }
  const std::int64_t tiles = products * grid.row_tiles * grid.column_tiles;
  if (tiles < wanted && is_long) {
    const std::int64_t parts = std::min(divide_up(wanted, tiles), inner / kShortestPart);
    grid.part_size = divide_up(divide_up(inner, parts), kUnit) * kUnit;
    grid.parts = divide_up(inner, grid.part_size);
  }
  grid.tiles = tiles * grid.parts;
  return grid;
}

// ---- The plan for given shapes.

struct Plan {
  Shape lhs_shape;
  Shape rhs_shape;
  Method method = Method::kBlocked;
  Axes batch;
  std::vector<StridedDim> lhs_outer;
  std::vector<StridedDim> lhs_inner;
  std::vector<StridedDim> rhs_outer;
  std::vector<StridedDim> rhs_inner;
  Matrix lhs{};  // for the libraries
  Matrix rhs{};
  std::int64_t products = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t inner = 1;
  std::int64_t width = 1;  // of all columns of the result, of which those of a product may be a part
  Grid grid;
  bool merges = false;  // whether neighbouring tiles may be computed as one

  std::int64_t elements() const { return products * rows * columns; }
};

std::vector<StridedDim> dims_of(const Axes& axes, std::int64_t Axis::*stride) {
  std::vector<StridedDim> dims;
  for (const Axis& axis : axes) dims.push_back({axis.extent, axis.*stride});
  return dims;
}

// Fewer multiplications are done before a library is loaded.
constexpr std::int64_t kLeastForLibrary = 1 << 14;
// Matrices in f32 that fit the near caches: OpenBLAS is not the fastest for them, but oneDNN. It takes some 20 ms to
// get ready, which pays for more multiplications than these; Shoal's own product is as fast as OpenBLAS.
constexpr std::int64_t kMostOfSmall = 256;
constexpr std::int64_t kMostWithoutOnednn = 1 << 24;

const BlasApi* blas() {
  static const BlasApi* const api = plugin<BlasApi>("blas");
  return api;
}

const OnednnApi* onednn() {
  static const OnednnApi* const api = plugin<OnednnApi>("onednn");
  return api;
}

// Calls f(T{}, gemm, gemv) with OpenBLAS's functions for a dtype; gemv may be null.
template <class F>
auto with_blas(Dtype dtype, F&& f) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  switch (dtype) {
    case Dtype::kF32:
      return f(float{}, blas()->sgemm, blas()->sgemv);
    case Dtype::kF64:
      return f(double{}, blas()->dgemm, blas()->dgemv);
    case Dtype::kC64:
      return f(C64{}, blas()->cgemm, BlasApi::Gemv<C64>{});
    default:
      return f(C128{}, blas()->zgemm, BlasApi::Gemv<C128>{});
  }
}

// ---- Tiles as one.

// OpenBLAS packs its operands anew in each call, so that one large tile takes less time than two small ones. What most
// of its kernels compute for an element does not depend on the tile (its AVX2 kernels for f32 are an exception), unless
// it is so small that other code takes over, which is below 7.4 million multiplications (those with AVX-512).
constexpr double kLeastMultiplicationsToMerge = 1 << 24;
constexpr std::int64_t kLeastExtentToMerge = 16;
constexpr std::int64_t kMostBytesToMerge = std::int64_t{4} << 20;

bool may_merge(const Grid& grid, const Plan& plan) {
  if (grid.parts > 1 || grid.row_tiles * grid.column_tiles == 1) return false;
  const std::int64_t rows = plan.rows - (grid.row_tiles - 1) * grid.row_size;
  const std::int64_t columns = plan.columns - (grid.column_tiles - 1) * grid.column_size;
  return std::min(rows, columns) >= kLeastExtentToMerge &&
         static_cast<double>(rows * columns) * static_cast<double>(plan.inner) >= kLeastMultiplicationsToMerge;
}

// Kinds of products that kernels may differ in.
struct ProductKind {
  bool lhs_transposed;
  bool rhs_transposed;
  bool even;  // Rows and columns are multiples of kUnit, so that they fill registers.
};

// Whether OpenBLAS's kernel of this machine is one of those: tried once for each kind of product, within a millisecond.
template <class T>
bool tiles_agree(BlasApi::Gemm<T> gemm, const ProductKind& kind) {
  struct Tile {
    std::size_t row, rows, column, columns;
  };
  const std::size_t odd = kind.even ? 0 : 5;
  const Tile whole{0, 256 + odd, 0, 256 + odd};
  const Tile tiles[] = {{0, 128, 0, 128}, {128, 128 + odd, 128, 128 + odd}};
  constexpr std::size_t kInner = 450;  // Tiles have just more multiplications than that limit.
  const auto agree = [&] {
    // Sums of which the last bits depend on the order.
    const auto numbers = [](std::size_t n) {
      std::vector<T> all(n);
      std::uint32_t state = 1;
      const auto next = [&state] {
        state = state * 1664525 + 1013904223;
        return static_cast<float>(state >> 8U) / 16777216.0F - 0.5F;
      };
      for (T& x : all) {
        if constexpr (std::is_floating_point_v<T>) {
          x = static_cast<T>(next());
        } else {
          const float real = next();
          x = T(real, next());
        }
      }
      return all;
    };
    const std::vector<T> lhs = numbers(whole.rows * kInner);
    const std::vector<T> rhs = numbers(kInner * whole.columns);
    const auto multiply = [&](const Tile& tile) {
      std::vector<T> out(tile.rows * tile.columns);
      const auto matrix = [](const T* data, std::size_t rows, std::size_t columns, bool transposed) {
        return BlasMatrix<const T>{data, static_cast<std::int32_t>(transposed ? rows : columns), transposed};
      };
      gemm({static_cast<std::int32_t>(tile.rows), static_cast<std::int32_t>(tile.columns), std::int32_t{kInner}},
           matrix(&lhs[kind.lhs_transposed ? tile.row : tile.row * kInner], whole.rows, kInner, kind.lhs_transposed),
           matrix(&rhs[kind.rhs_transposed ? tile.column * kInner : tile.column], kInner, whole.columns,
                  kind.rhs_transposed),
           {out.data(), static_cast<std::int32_t>(tile.columns)});
      return out;
    };
    const std::vector<T> all = multiply(whole);
    return std::ranges::all_of(tiles, [&](const Tile& tile) {
      const std::vector<T> out = multiply(tile);
      for (std::size_t row = 0; row < tile.rows; ++row) {
        const T* expected = &all[(tile.row + row) * whole.columns + tile.column];
        if (std::memcmp(expected, &out[row * tile.columns], tile.columns * sizeof(T)) != 0) return false;
      }
      return true;
    });
  };
  static std::array<std::once_flag, 8> tried;
  static std::array<bool, 8> results;
  const std::size_t at = (kind.lhs_transposed ? 4U : 0U) + (kind.rhs_transposed ? 2U : 0U) + (kind.even ? 1U : 0U);
  std::call_once(tried[at], [&] { results[at] = agree(); });
  return results[at];
}

// ---- The kernel.

class DotKernel final : public Kernel {
 public:
  DotKernel(Attrs attrs, Type lhs, Type rhs, Dtype out, DotEpilogue epilogue)
      : attrs_(std::move(attrs)),
        operands_(lhs.dtype),
        out_(out),
        arithmetic_(arithmetic_of(operands_, out)),
        epilogue_(std::move(epilogue)),
        planned_(make_plan(lhs.shape, rhs.shape)) {}

  Work work(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    Work work{.tiles = plan.grid.tiles, .scratch_bytes = 0, .merges = plan.merges};
    if (plan.grid.parts > 1) {
      work.scratch_bytes = sums_bytes(plan) * static_cast<std::size_t>(plan.grid.parts);
      if (!in_place(plan, outputs)) work.scratch_bytes += static_cast<std::size_t>(plan.elements()) * size_of(out_);
    }
    return work;
  }

  void run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           std::int64_t tile) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    if (plan.elements() == 0) return;
    const Grid& grid = plan.grid;
    if (grid.products_per_tile > 1) {
      const std::int64_t begin = tile * grid.products_per_tile;
      const std::int64_t end = std::min(begin + grid.products_per_tile, plan.products);
      for (std::int64_t product = begin; product < end; ++product) {
        run_tile(plan, inputs, outputs, product, {0, plan.rows}, {0, plan.columns});
      }
      return;
    }
    // The parts of a contraction come first, then columns, so that neighbours in time share what they read.
    const auto next = [&tile](std::int64_t count) {
      const std::int64_t index = tile % count;
      tile /= count;
      return index;
    };
    const auto range = [](std::int64_t index, std::int64_t size, std::int64_t extent) {
      return Range{index * size, std::min((index + 1) * size, extent)};
    };
    const std::int64_t part = next(grid.parts);
    const Range columns = range(next(grid.column_tiles), grid.column_size, plan.columns);
    const Range rows = range(next(grid.row_tiles), grid.row_size, plan.rows);
    const std::int64_t product = tile;
    if (grid.parts == 1) return run_tile(plan, inputs, outputs, product, rows, columns);
    // The sums of a part are a matrix for each product, dense.
    std::byte* sums = scratch + static_cast<std::size_t>(part) * sums_bytes(plan);
    const std::int64_t at = (product * plan.rows + rows.begin) * plan.columns + columns.begin;
    multiply(plan, inputs, product, {rows, columns, range(part, grid.part_size, plan.inner)},
             sums + at * size_of_sum(arithmetic_), plan.columns);
  }

  void run_tiles(std::span<const TensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
                 std::int64_t begin, std::int64_t end) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    if (!plan.merges) return Kernel::run_tiles(inputs, outputs, scratch, begin, end);
    const Grid& grid = plan.grid;
    const std::int64_t of_product = grid.row_tiles * grid.column_tiles;
    // Tiles that are not in place lie in memory of this thread.
    const std::int64_t row_bytes = grid.row_size * plan.columns * static_cast<std::int64_t>(size_of(out_));
    const std::int64_t most_rows =
        in_place(plan, outputs) ? grid.row_tiles : std::max<std::int64_t>(1, kMostBytesToMerge / row_bytes);
    while (begin < end) {
      // The rest of a row of tiles, or whole rows of them.
      const std::int64_t row = begin % of_product / grid.column_tiles;
      const std::int64_t column = begin % grid.column_tiles;
      const std::int64_t left = std::min(end - begin, of_product - begin % of_product);
      const bool whole = column == 0 && left >= grid.column_tiles;
      const std::int64_t rows = whole ? std::min(left / grid.column_tiles, most_rows) : 1;
      const std::int64_t columns = whole ? grid.column_tiles : std::min(left, grid.column_tiles - column);
      run_tile(plan, inputs, outputs, begin / of_product,
               {row * grid.row_size, std::min((row + rows) * grid.row_size, plan.rows)},
               {column * grid.column_size, std::min((column + columns) * grid.column_size, plan.columns)});
      begin += rows * columns;
    }
  }

  void finish(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              std::byte* scratch) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    if (plan.grid.parts == 1 || plan.elements() == 0) return;
    const std::size_t bytes = sums_bytes(plan);
    const auto part = [&](std::int64_t i) { return scratch + static_cast<std::size_t>(i) * bytes; };
    for (std::int64_t step = 1; step < plan.grid.parts; step *= 2) {
      for (std::int64_t i = 0; i + step < plan.grid.parts; i += 2 * step) {
        add_sums(arithmetic_, part(i + step), plan.elements(), part(i));
      }
    }
    std::byte* to = in_place(plan, outputs) ? outputs[0].as<std::byte>() : part(plan.grid.parts);
    const std::int64_t matrix = plan.rows * plan.columns;
    for (std::int64_t product = 0; product < plan.products; ++product) {
      const Offsets offsets = offsets_of(plan, product);
      std::byte* first = to + offsets.out * static_cast<std::int64_t>(size_of(out_));
      store_sums(arithmetic_, operands_, out_, scratch + product * matrix * size_of_sum(arithmetic_), plan.columns,
                 plan.rows, plan.columns, first, plan.width);
      finish_tile(plan, inputs, outputs, offsets, {0, plan.rows}, {0, plan.columns}, first, plan.width);
    }
  }

 private:
  struct Offsets {
    std::int64_t lhs = 0;
    std::int64_t rhs = 0;
    std::int64_t out = 0;
  };

  static Offsets offsets_of(const Plan& plan, std::int64_t product) {
    Offsets offsets;
    for (auto axis = plan.batch.rbegin(); axis != plan.batch.rend(); ++axis) {
      const std::int64_t at = product % axis->extent;
      product /= axis->extent;
      offsets.lhs += at * axis->lhs;
      offsets.rhs += at * axis->rhs;
      offsets.out += at * axis->out;
    }
    return offsets;
  }

  std::size_t sums_bytes(const Plan& plan) const {
    const std::int64_t bytes = plan.elements() * size_of_sum(arithmetic_);
    return static_cast<std::size_t>(divide_up(bytes, 64) * 64);
  }

  // Whether tiles lie where they belong in outputs[0].
  bool in_place(const Plan& plan, std::span<const TensorView> outputs) const {
    return !epilogue_ ||
           (!outputs.empty() && outputs[0].dtype == out_ && num_elements(outputs[0].shape) == plan.elements());
  }

  const Plan& plan_for(std::span<const TensorView> inputs, Plan& other) const {
    if (inputs[0].shape == planned_.lhs_shape && inputs[1].shape == planned_.rhs_shape) return planned_;
    other = make_plan(inputs[0].shape, inputs[1].shape);
    return other;
  }

  Plan make_plan(const Shape& lhs, const Shape& rhs) const {
    Product product = product_of(attrs_, lhs, rhs);
    Plan plan;
    plan.lhs_shape = lhs;
    plan.rhs_shape = rhs;
    plan.width = extent_of(product.columns);
    plan.method = choose_method(product, plan);
    plan.products = extent_of(product.batch);
    plan.rows = extent_of(product.rows);
    plan.columns = extent_of(product.columns);
    plan.inner = extent_of(product.inner);
    plan.lhs_outer = dims_of(product.rows, &Axis::lhs);
    plan.lhs_inner = dims_of(product.inner, &Axis::lhs);
    plan.rhs_outer = dims_of(product.columns, &Axis::rhs);
    plan.rhs_inner = dims_of(product.inner, &Axis::rhs);
    plan.batch = std::move(product.batch);
    if (plan.elements() == 0) return plan;
    plan.grid = grid_of(plan.products, plan.rows, plan.columns, plan.inner);
    plan.merges =
        plan.method == Method::kBlas && may_merge(plan.grid, plan) && with_blas(out_, [&](auto tag, auto gemm, auto) {
          const bool even = plan.rows % kUnit == 0 && plan.columns % kUnit == 0;
          return tiles_agree<decltype(tag)>(gemm, {plan.lhs.transposed, plan.rhs.transposed, even});
        });
    return plan;
  }

  // The library that takes the product, if one does. Then the product is what it takes, and plan.lhs and plan.rhs say
  // how its operands lie.
  Method choose_method(Product& product, Plan& plan) const {
    const std::int64_t work =
        extent_of(product.batch) * extent_of(product.rows) * extent_of(product.columns) * extent_of(product.inner);
    if (work < kLeastForLibrary) return Method::kBlocked;
    Product library = product;
    keep_last(library.rows, library.batch);
    keep_last(library.columns, library.batch);
    if (library.rows.size() > 1 || library.columns.size() > 1 || library.inner.size() > 1) return Method::kBlocked;
    const auto only = [](const Axes& axes) { return axes.empty() ? Axis{1, 1, 1, 1} : axes[0]; };
    const Axis rows = only(library.rows);
    const Axis columns = only(library.columns);
    const Axis inner = only(library.inner);
    const auto lhs = matrix_of(rows.extent, rows.lhs, inner.extent, inner.lhs);
    const auto rhs = matrix_of(columns.extent, columns.rhs, inner.extent, inner.rhs);
    if (!lhs || !rhs || plan.width > std::numeric_limits<std::int32_t>::max()) return Method::kBlocked;

    const Method method = library_for(rows.extent, columns.extent, inner.extent, work);
    if (method == Method::kBlocked) return method;
    plan.lhs = *lhs;
    plan.rhs = {rhs->stride, !rhs->transposed};  // as a matrix of rows that are summed over
    product = std::move(library);
    return method;
  }

  // `work` counts the multiplications of all batches.
  Method library_for(std::int64_t rows, std::int64_t columns, std::int64_t inner, std::int64_t work) const {
    const bool same = operands_ == out_;
    const bool floats = same && (out_ == Dtype::kF32 || out_ == Dtype::kF64);
    const bool complex = same && is_complex(out_);
    if (!floats && !complex) {
      // Of the small dtypes.
      const bool may = operands_ == Dtype::kBF16 || operands_ == Dtype::kI8 || operands_ == Dtype::kU8;
      const bool in_32 = arithmetic_ == Arithmetic::kF32 || arithmetic_ == Arithmetic::kI32;
      return may && in_32 && onednn() != nullptr && onednn()->offers(operands_) ? Method::kOnednn : Method::kBlocked;
    }
    if (out_ == Dtype::kF32 && std::max({rows, columns, inner}) <= kMostOfSmall && std::min(rows, columns) > 1) {
      const bool pays = work > kMostWithoutOnednn && onednn() != nullptr && onednn()->offers(operands_);
      return pays ? Method::kOnednn : Method::kBlocked;
    }
    return blas() != nullptr ? Method::kBlas : Method::kBlocked;
  }

  // Computes a tile of a product over the whole contraction, and what follows it.
  void run_tile(const Plan& plan, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                std::int64_t product, Range rows, Range columns) const {
    const Offsets offsets = offsets_of(plan, product);
    const std::int64_t size = static_cast<std::int64_t>(size_of(out_));
    const std::int64_t sum_size = size_of_sum(arithmetic_);
    const bool here = in_place(plan, outputs);
    const bool direct = is_result(arithmetic_, out_);

    // Tiles that are not in place, and sums that are not yet elements, lie in memory of this thread.
    const std::int64_t tile_bytes = here ? 0 : divide_up(rows.size() * columns.size() * size, 64) * 64;
    const std::int64_t sums_bytes = direct ? 0 : rows.size() * columns.size() * sum_size;
    std::byte* memory = nullptr;
    if (tile_bytes + sums_bytes != 0) {
      memory = static_cast<std::byte*>(
          thread_memory(ThreadMemory::kTile, static_cast<std::size_t>(tile_bytes + sums_bytes)));
    }
    std::byte* tile = memory;
    std::int64_t stride = columns.size();
    if (here) {
      tile = outputs[0].as<std::byte>() + (offsets.out + rows.begin * plan.width + columns.begin) * size;
      stride = plan.width;
    }
    const ProductPart part{rows, columns, {0, plan.inner}};
    if (direct) {
      multiply(plan, inputs, product, part, tile, stride);
    } else {
      std::byte* sums = memory + tile_bytes;
      multiply(plan, inputs, product, part, sums, columns.size());
      store_sums(arithmetic_, operands_, out_, sums, columns.size(), rows.size(), columns.size(), tile, stride);
    }
    finish_tile(plan, inputs, outputs, offsets, rows, columns, tile, stride);
  }

  void finish_tile(const Plan& plan, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                   const Offsets& offsets, Range rows, Range columns, std::byte* data, std::int64_t stride) const {
    if (!epilogue_) return;
    epilogue_({.row = offsets.out / plan.width + rows.begin,
               .rows = rows.size(),
               .column = offsets.out % plan.width + columns.begin,
               .columns = columns.size(),
               .data = data,
               .row_stride = stride * static_cast<std::int64_t>(size_of(out_))},
              inputs, outputs);
  }

  // Writes sums, `stride` of them from a row to the next.
  void multiply(const Plan& plan, std::span<const TensorView> inputs, std::int64_t product, const ProductPart& part,
                std::byte* to, std::int64_t stride) const {
    if (part.inner.size() == 0) {
      const std::int64_t size = size_of_sum(arithmetic_);
      for (std::int64_t i = 0; i < part.rows.size(); ++i) {
        std::memset(to + i * stride * size, 0, static_cast<std::size_t>(part.columns.size() * size));
      }
      return;
    }
    const Offsets offsets = offsets_of(plan, product);
    const auto size = static_cast<std::int64_t>(size_of(operands_));
    const std::byte* lhs = inputs[0].as<const std::byte>() + offsets.lhs * size;
    const std::byte* rhs = inputs[1].as<const std::byte>() + offsets.rhs * size;
    if (plan.method != Method::kBlocked) {
      // Where the part begins in operands that are matrices.
      const auto skip = [size](const Matrix& matrix, std::int64_t row, std::int64_t column) {
        return (matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column) * size;
      };
      const std::byte* lhs_part = lhs + skip(plan.lhs, part.rows.begin, part.inner.begin);
      const std::byte* rhs_part = rhs + skip(plan.rhs, part.inner.begin, part.columns.begin);
      if (plan.method == Method::kBlas) return multiply_by_blas(plan, lhs_part, rhs_part, part, to, stride);
      if (multiply_by_onednn(plan, lhs_part, rhs_part, part, to, stride)) return;
    }
    blocked_product(arithmetic_, {operands_, lhs, plan.lhs_outer, plan.lhs_inner},
                    {operands_, rhs, plan.rhs_outer, plan.rhs_inner}, part, to, stride);
  }

  // False if oneDNN has no code for it.
  bool multiply_by_onednn(const Plan& plan, const std::byte* lhs, const std::byte* rhs, const ProductPart& part,
                          std::byte* to, std::int64_t stride) const {
    const auto along = [](const Matrix& matrix, bool row) { return row != matrix.transposed ? matrix.stride : 1; };
    const OnednnProduct product{.operands = operands_,
                                .out = arithmetic_ == Arithmetic::kF32 ? Dtype::kF32 : Dtype::kI32,
                                .rows = part.rows.size(),
                                .columns = part.columns.size(),
                                .inner = part.inner.size(),
                                .lhs_row_stride = along(plan.lhs, true),
                                .lhs_inner_stride = along(plan.lhs, false),
                                .rhs_inner_stride = along(plan.rhs, true),
                                .rhs_column_stride = along(plan.rhs, false),
                                .out_stride = stride};
    const void* code = onednn()->prepare(product);
    if (code != nullptr) onednn()->run(code, lhs, rhs, to);
    return code != nullptr;
  }

  void multiply_by_blas(const Plan& plan, const std::byte* lhs, const std::byte* rhs, const ProductPart& part,
                        std::byte* to, std::int64_t stride) const {
    with_blas(out_, [&](auto tag, auto gemm, auto gemv) {
      multiply_by_blas<decltype(tag)>(plan, lhs, rhs, part, to, stride, gemm, gemv);
    });
  }

  template <class T>
  void multiply_by_blas(const Plan& plan, const std::byte* lhs, const std::byte* rhs, const ProductPart& part,
                        std::byte* to, std::int64_t stride, BlasApi::Gemm<T> gemm, BlasApi::Gemv<T> gemv) const {
    const auto whole = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const BlasMatrix<const T> left{reinterpret_cast<const T*>(lhs), whole(plan.lhs.stride), plan.lhs.transposed};
    const BlasMatrix<const T> right{reinterpret_cast<const T*>(rhs), whole(plan.rhs.stride), plan.rhs.transposed};
    T* out = reinterpret_cast<T*>(to);
    const BlasSize size{whole(part.rows.size()), whole(part.columns.size()), whole(part.inner.size())};
    if (gemv != nullptr && plan.columns == 1) {
      for (std::int64_t i = 0; i < part.rows.size(); ++i) out[i * stride] = T{};
      gemv(size, left, {right.data, right.transposed ? 1 : right.stride}, {out, whole(stride)});
    } else if (gemv != nullptr && plan.rows == 1) {
      // The transposed product.
      std::fill_n(out, part.columns.size(), T{});
      gemv({size.columns, 1, size.inner}, {right.data, right.stride, !right.transposed},
           {left.data, left.transposed ? left.stride : 1}, {out, 1});
    } else {
      gemm(size, left, right, {out, whole(stride)});
    }
  }

  Attrs attrs_;
  Dtype operands_;
  Dtype out_;
  Arithmetic arithmetic_;
  DotEpilogue epilogue_;
  Plan planned_;
};

}  // namespace

std::unique_ptr<Kernel> dot_kernel(const Graph& graph, const Eqn& eqn, DotEpilogue epilogue) {
  return std::make_unique<DotKernel>(eqn.attrs, graph.type(eqn.inputs[0]), graph.type(eqn.inputs[1]),
                                     graph.type(eqn.outputs[0]).dtype, std::move(epilogue));
}

}  // namespace shoal::cpu
