#include "backend/cpu/products/dot.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/products/blocked_product.h"
#include "backend/cpu/products/library_product.h"
#include "backend/cpu/products/product.h"
#include "backend/cpu/products/sums.h"
#include "backend/cpu/products/tiles_agree.h"
#include "backend/cpu/products/tiling.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// How a product is computed for given shapes.
struct Plan {
  Shape lhs_shape;
  Shape rhs_shape;
  std::optional<LibraryProduct> library;
  ProductAxes batch;
  std::vector<StridedDim> lhs_outer;
  std::vector<StridedDim> lhs_inner;
  std::vector<StridedDim> rhs_outer;
  std::vector<StridedDim> rhs_inner;
  ProductExtents extents;
  std::int64_t width = 1;  // Of all columns of the result, of which those of a product may be a part.
  Tiling tiling;
  bool merges = false;  // Whether neighbouring tiles may be computed as one.
};

std::vector<StridedDim> dims_of(const ProductAxes& axes, std::int64_t ProductAxis::*stride) {
  std::vector<StridedDim> dims;
  for (const ProductAxis& axis : axes) dims.push_back({axis.extent, axis.*stride});
  return dims;
}

// OpenBLAS packs its operands anew in each call, so that one large tile takes less time than two small ones. What most
// of its kernels compute for an element does not depend on the tile (its AVX2 kernels for f32 are an exception), unless
// it is small.
bool may_merge(const LibraryProduct& library, const Tiling& tiling, const ProductExtents& extents) {
  if (tiling.parts > 1 || tiling.row_tiles * tiling.column_tiles == 1) return false;
  const std::int64_t rows = extents.rows - (tiling.row_tiles - 1) * tiling.row_size;
  const std::int64_t columns = extents.columns - (tiling.column_tiles - 1) * tiling.column_size;
  if (std::min(rows, columns) < kLeastExtentToMerge ||
      static_cast<double>(rows * columns) * static_cast<double>(extents.inner) < kLeastMultiplicationsToMerge) {
    return false;
  }
  return library.tiles_agree(extents.rows % kTileUnit == 0 && extents.columns % kTileUnit == 0);
}

// Bytes of tiles computed as one that do not lie in place.
constexpr std::int64_t kMostBytesToMerge = std::int64_t{4} << 20;

class DotKernel final : public Kernel {
 public:
  DotKernel(Attrs attrs, const Type& lhs, const Type& rhs, Dtype out, DotEpilogue epilogue)
      : attrs_(std::move(attrs)),
        types_(lhs.dtype, out),
        epilogue_(std::move(epilogue)),
        planned_(make_plan(lhs.shape, rhs.shape)) {}

  Work work(Views inputs, Views outputs) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    Work work{.tiles = plan.tiling.tiles, .scratch_bytes = 0, .merges = plan.merges};
    if (plan.tiling.parts > 1) {
      work.scratch_bytes = part_bytes(plan) * static_cast<std::size_t>(plan.tiling.parts);
      if (!in_place(plan, outputs)) {
        work.scratch_bytes += static_cast<std::size_t>(plan.extents.elements()) * size_of(types_.out);
      }
    }
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t number) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    const ProductExtents& extents = plan.extents;
    if (extents.elements() == 0) return;
    if (plan.tiling.products_per_tile > 1) {
      const std::int64_t begin = number * plan.tiling.products_per_tile;
      const std::int64_t end = std::min(begin + plan.tiling.products_per_tile, extents.products);
      for (std::int64_t product = begin; product < end; ++product) {
        run_tile(plan, inputs, outputs, product, {0, extents.rows}, {0, extents.columns});
      }
      return;
    }
    const Tile tile = plan.tiling.tile(number, extents);
    const auto& [rows, columns, inner] = tile.covers;
    if (plan.tiling.parts == 1) return run_tile(plan, inputs, outputs, tile.product, rows, columns);
    // The sums of a part are a matrix for each product, dense.
    std::byte* sums = scratch + static_cast<std::size_t>(tile.part) * part_bytes(plan);
    const std::int64_t at = (tile.product * extents.rows + rows.begin) * extents.columns + columns.begin;
    multiply(plan, inputs, tile.product, tile.covers, sums + at * types_.sum_size(), extents.columns);
  }

  void run_tiles(Views inputs, Views outputs, std::byte* scratch, std::int64_t begin, std::int64_t end) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    if (!plan.merges) return Kernel::run_tiles(inputs, outputs, scratch, begin, end);
    const Tiling& tiling = plan.tiling;
    const ProductExtents& extents = plan.extents;
    const std::int64_t of_product = tiling.row_tiles * tiling.column_tiles;
    // Tiles that are not in place lie in memory of this thread.
    const std::int64_t row_bytes = tiling.row_size * extents.columns * static_cast<std::int64_t>(size_of(types_.out));
    const std::int64_t most_rows =
        in_place(plan, outputs) ? tiling.row_tiles : std::max<std::int64_t>(1, kMostBytesToMerge / row_bytes);
    while (begin < end) {
      // The rest of a row of tiles, or whole rows of them.
      const std::int64_t row = begin % of_product / tiling.column_tiles;
      const std::int64_t column = begin % tiling.column_tiles;
      const std::int64_t left = std::min(end - begin, of_product - begin % of_product);
      const bool whole = column == 0 && left >= tiling.column_tiles;
      const std::int64_t rows = whole ? std::min(left / tiling.column_tiles, most_rows) : 1;
      const std::int64_t columns = whole ? tiling.column_tiles : std::min(left, tiling.column_tiles - column);
      run_tile(plan, inputs, outputs, begin / of_product,
               {row * tiling.row_size, std::min((row + rows) * tiling.row_size, extents.rows)},
               {column * tiling.column_size, std::min((column + columns) * tiling.column_size, extents.columns)});
      begin += rows * columns;
    }
  }

  void finish(Views inputs, Views outputs, std::byte* scratch) const override {
    Plan other;
    const Plan& plan = plan_for(inputs, other);
    const ProductExtents& extents = plan.extents;
    if (plan.tiling.parts == 1 || extents.elements() == 0) return;
    const std::size_t bytes = part_bytes(plan);
    const auto part = [&](std::int64_t i) { return scratch + static_cast<std::size_t>(i) * bytes; };
    for (std::int64_t step = 1; step < plan.tiling.parts; step *= 2) {
      for (std::int64_t i = 0; i + step < plan.tiling.parts; i += 2 * step) {
        add_sums(types_.arithmetic, part(i + step), extents.elements(), part(i));
      }
    }
    std::byte* to = in_place(plan, outputs) ? outputs[0].as<std::byte>() : part(plan.tiling.parts);
    const std::int64_t matrix = extents.rows * extents.columns;
    for (std::int64_t product = 0; product < extents.products; ++product) {
      const ProductOffsets offsets = offsets_of(plan.batch, product);
      std::byte* first = to + offsets.out * static_cast<std::int64_t>(size_of(types_.out));
      store_sums(types_, scratch + product * matrix * types_.sum_size(), extents.columns, extents.rows, extents.columns,
                 first, plan.width);
      finish_tile(plan, inputs, outputs, offsets, {0, extents.rows}, {0, extents.columns}, first, plan.width);
    }
  }

 private:
  // Of the sums of a part of the contraction.
  std::size_t part_bytes(const Plan& plan) const {
    return static_cast<std::size_t>(divide_up(plan.extents.elements() * types_.sum_size(), 64) * 64);
  }

  // Whether tiles lie where they belong in outputs[0].
  bool in_place(const Plan& plan, Views outputs) const {
    return !epilogue_ || (!outputs.empty() && outputs[0].dtype == types_.out &&
                          num_elements(outputs[0].shape) == plan.extents.elements());
  }

  const Plan& plan_for(Views inputs, Plan& other) const {
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
    plan.library = LibraryProduct::of(product, types_);
    plan.extents = {extent_of(product.batch), extent_of(product.rows), extent_of(product.columns),
                    extent_of(product.inner)};
    plan.lhs_outer = dims_of(product.rows, &ProductAxis::lhs);
    plan.lhs_inner = dims_of(product.inner, &ProductAxis::lhs);
    plan.rhs_outer = dims_of(product.columns, &ProductAxis::rhs);
    plan.rhs_inner = dims_of(product.inner, &ProductAxis::rhs);
    plan.batch = std::move(product.batch);
    if (plan.extents.elements() == 0) return plan;
    plan.tiling = tiling_of(plan.extents);
    plan.merges = plan.library && may_merge(*plan.library, plan.tiling, plan.extents);
    return plan;
  }

  // Computes a tile of a product over the whole contraction, and what follows it.
  void run_tile(const Plan& plan, Views inputs, Views outputs, std::int64_t product, Range rows, Range columns) const {
    const ProductOffsets offsets = offsets_of(plan.batch, product);
    const std::int64_t size = static_cast<std::int64_t>(size_of(types_.out));
    const bool here = in_place(plan, outputs);
    const bool direct = types_.sums_are_results();

    // Tiles that are not in place, and sums that are not yet elements, lie in memory of this thread.
    const std::int64_t tile_bytes = here ? 0 : divide_up(rows.size() * columns.size() * size, 64) * 64;
    const std::int64_t sums_bytes = direct ? 0 : rows.size() * columns.size() * types_.sum_size();
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
    const ProductPart part{rows, columns, {0, plan.extents.inner}};
    if (direct) {
      multiply(plan, inputs, product, part, tile, stride);
    } else {
      std::byte* sums = memory + tile_bytes;
      multiply(plan, inputs, product, part, sums, columns.size());
      store_sums(types_, sums, columns.size(), rows.size(), columns.size(), tile, stride);
    }
    finish_tile(plan, inputs, outputs, offsets, rows, columns, tile, stride);
  }

  void finish_tile(const Plan& plan, Views inputs, Views outputs, const ProductOffsets& offsets, Range rows,
                   Range columns, std::byte* data, std::int64_t stride) const {
    if (!epilogue_) return;
    epilogue_({.row = offsets.out / plan.width + rows.begin,
               .rows = rows.size(),
               .column = offsets.out % plan.width + columns.begin,
               .columns = columns.size(),
               .data = data,
               .row_stride = stride * static_cast<std::int64_t>(size_of(types_.out))},
              inputs, outputs);
  }

  // Writes sums, `stride` of them from a row to the next.
  void multiply(const Plan& plan, Views inputs, std::int64_t product, const ProductPart& part, std::byte* to,
                std::int64_t stride) const {
    if (part.inner.size() == 0) {
      const std::int64_t size = types_.sum_size();
      for (std::int64_t i = 0; i < part.rows.size(); ++i) {
        std::memset(to + i * stride * size, 0, static_cast<std::size_t>(part.columns.size() * size));
      }
      return;
    }
    const ProductOffsets offsets = offsets_of(plan.batch, product);
    const auto size = static_cast<std::int64_t>(size_of(types_.operands));
    const std::byte* lhs = inputs[0].as<const std::byte>() + offsets.lhs * size;
    const std::byte* rhs = inputs[1].as<const std::byte>() + offsets.rhs * size;
    if (plan.library && plan.library->multiply(lhs, rhs, part, to, stride)) return;
    blocked_product(types_.arithmetic, {types_.operands, lhs, plan.lhs_outer, plan.lhs_inner},
                    {types_.operands, rhs, plan.rhs_outer, plan.rhs_inner}, part, to, stride);
  }

  Attrs attrs_;
  ProductTypes types_;
  DotEpilogue epilogue_;
  Plan planned_;
};

}  // namespace

std::unique_ptr<Kernel> dot_kernel(const Graph& graph, const Eqn& eqn, DotEpilogue epilogue) {
  return std::make_unique<DotKernel>(eqn.attrs, graph.type(eqn.inputs[0]), graph.type(eqn.inputs[1]),
                                     graph.type(eqn.outputs[0]).dtype, std::move(epilogue));
}

}  // namespace shoal::cpu
