#include "backend/cpu/products/dot.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/products/product_plan.h"

namespace shoal::cpu {
namespace {

using Views = std::span<const TensorView>;

// Bytes of tiles computed as one that do not lie in place.
constexpr std::int64_t kMostBytesToMerge = std::int64_t{4} << 20;

class DotKernel final : public Kernel {
 public:
  DotKernel(Attrs attrs, const Type& lhs, const Type& rhs, Dtype out, DotEpilogue epilogue)
      : attrs_(std::move(attrs)),
        types_(lhs.dtype, out),
        epilogue_(std::move(epilogue)),
        planned_(plan_product(attrs_, types_, lhs.shape, rhs.shape)) {}

  Work work(Views inputs, Views outputs) const override {
    ProductPlan other;
    const ProductPlan& plan = plan_for(inputs, other);
    Work work{.tiles = plan.tiling.tiles, .scratch_bytes = 0, .merges = merges(plan)};
    if (plan.tiling.parts > 1) {
      work.scratch_bytes = part_bytes(plan) * static_cast<std::size_t>(plan.tiling.parts);
      if (!in_place(plan, outputs)) {
        work.scratch_bytes += static_cast<std::size_t>(plan.extents.elements()) * size_of(types_.out);
      }
    }
    return work;
  }

  void run(Views inputs, Views outputs, std::byte* scratch, std::int64_t number) const override {
    ProductPlan other;
    const ProductPlan& plan = plan_for(inputs, other);
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
    const ShardTiles tiles{inputs, outputs, scratch, begin, end};
    run_shards({&tiles, 1});
  }

  void run_shards(std::span<const ShardTiles> shards) const override {
    std::vector<Rectangle> together;
    const auto run_together = [&] {
      if (!together.empty()) run_rectangles(planned_, together);
      together.clear();
    };
    for (const ShardTiles& shard : shards) {
      ProductPlan other;
      const ProductPlan& plan = plan_for(shard.inputs, other);
      if (!merges(plan)) {
        Kernel::run_tiles(shard.inputs, shard.outputs, shard.scratch, shard.begin, shard.end);
        continue;
      }
      const bool may_join = &plan == &planned_ && in_place(plan, shard.outputs);
      for_each_rectangle(plan, shard, [&](const Rectangle& next) {
        if (!may_join) return run_rectangles(plan, {&next, 1});
        if (!together.empty() && !have_the_same_right_side(together.back(), next)) run_together();
        together.push_back(next);
      });
    }
    run_together();
  }

  void finish(Views inputs, Views outputs, std::byte* scratch) const override {
    ProductPlan other;
    const ProductPlan& plan = plan_for(inputs, other);
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
  // Whether tiles are computed together, so that operands are packed once for them.
  static bool merges(const ProductPlan& plan) {
    return plan.has_plain_sums && plan.tiling.products_per_tile == 1 && plan.tiling.tiles > 1;
  }

  // Of the sums of a part of the contraction.
  std::size_t part_bytes(const ProductPlan& plan) const {
    return static_cast<std::size_t>(divide_up(plan.extents.elements() * types_.sum_size(), 64) * 64);
  }

  // Whether tiles lie where they belong in outputs[0].
  bool in_place(const ProductPlan& plan, Views outputs) const {
    return !epilogue_ || (!outputs.empty() && outputs[0].dtype == types_.out &&
                          num_elements(outputs[0].shape) == plan.extents.elements());
  }

  const ProductPlan& plan_for(Views inputs, ProductPlan& other) const {
    if (inputs[0].shape == planned_.lhs_shape && inputs[1].shape == planned_.rhs_shape) return planned_;
    other = plan_product(attrs_, types_, inputs[0].shape, inputs[1].shape);
    return other;
  }

  // A part of the result that is computed at once.
  struct Rectangle {
    Views inputs;
    Views outputs;
    ProductOffsets offsets;
    Range rows;
    Range columns;
  };

  static const std::byte* right_side(const Rectangle& one) {
    return one.inputs[1].as<const std::byte>() +
           one.offsets.rhs * static_cast<std::int64_t>(size_of(one.inputs[1].dtype));
  }

  static bool have_the_same_right_side(const Rectangle& a, const Rectangle& b) {
    return right_side(a) == right_side(b) && a.columns == b.columns;
  }

  // Calls f for tiles of a shard put together: the rest of a row of tiles, or whole rows of them.
  template <class F>
  void for_each_rectangle(const ProductPlan& plan, const ShardTiles& shard, F&& f) const {
    const auto& [inputs, outputs, scratch, first, end] = shard;
    const Tiling& tiling = plan.tiling;
    const std::int64_t of_product = tiling.row_tiles * tiling.column_tiles;
    // Tiles that are not in place lie in memory of this thread.
    const std::int64_t tile_bytes =
        tiling.row_size * tiling.column_size * static_cast<std::int64_t>(size_of(types_.out));
    const std::int64_t most =
        in_place(plan, outputs) ? of_product : std::max<std::int64_t>(1, kMostBytesToMerge / tile_bytes);
    for (std::int64_t begin = first; begin < end;) {
      const std::int64_t row = begin % of_product / tiling.column_tiles;
      const std::int64_t column = begin % tiling.column_tiles;
      const std::int64_t left = std::min(end - begin, of_product - begin % of_product);
      const bool whole = column == 0 && std::min(left, most) >= tiling.column_tiles;
      const std::int64_t rows = whole ? std::min(left, most) / tiling.column_tiles : 1;
      const std::int64_t columns = whole ? tiling.column_tiles : std::min({left, tiling.column_tiles - column, most});
      f(Rectangle{
          .inputs = inputs,
          .outputs = outputs,
          .offsets = offsets_of(plan.batch, begin / of_product),
          .rows = {row * tiling.row_size, std::min((row + rows) * tiling.row_size, plan.extents.rows)},
          .columns = {column * tiling.column_size,
                      std::min((column + columns) * tiling.column_size, plan.extents.columns)},
      });
      begin += rows * columns;
    }
  }

  // Computes rectangles that have the same right side over the whole contraction, and what follows. Several are in
  // place.
  void run_rectangles(const ProductPlan& plan, std::span<const Rectangle> rectangles) const {
    const std::int64_t size = static_cast<std::int64_t>(size_of(types_.out));
    boost::container::small_vector<ProductRows, 8> rows;
    for (const Rectangle& one : rectangles) {
      const TileMemory to = memory_of_tile(plan, one);
      rows.push_back(
          {one.inputs[0].as<const std::byte>() + one.offsets.lhs * static_cast<std::int64_t>(size_of(types_.operands)),
           one.rows, to.data, to.stride});
    }
    const Rectangle& first = rectangles.front();
    const BlockedProduct product{.arithmetic = types_.arithmetic,
                                 .lhs = {types_.operands, nullptr, plan.lhs_outer, plan.lhs_inner},
                                 .rhs = {types_.operands, right_side(first), plan.rhs_outer, plan.rhs_inner},
                                 .rows = rows,
                                 .columns = first.columns,
                                 .inner = {0, plan.extents.inner}};
    if (!epilogue_) return blocked_product(product);
    const auto follow = [&](std::size_t index, Range of_rows, Range of_columns) {
      const Rectangle& one = rectangles[index];
      std::byte* data =
          static_cast<std::byte*>(rows[index].out) +
          ((of_rows.begin - one.rows.begin) * rows[index].out_stride + (of_columns.begin - one.columns.begin)) * size;
      finish_tile(plan, one.inputs, one.outputs, one.offsets, of_rows, of_columns, data, rows[index].out_stride);
    };
    const WhenComplete when_complete = follow;
    blocked_product(product, &when_complete);
  }

  struct TileMemory {
    std::byte* data;
    std::int64_t stride;  // Elements from a row to the next.
    std::byte* sums;      // Where sums go that are not yet elements.
  };

  // Where a tile is computed. What is not in place, and sums that are not yet elements, lie in memory of this thread.
  TileMemory memory_of_tile(const ProductPlan& plan, const Rectangle& tile) const {
    const std::int64_t elements = tile.rows.size() * tile.columns.size();
    const std::int64_t size = static_cast<std::int64_t>(size_of(types_.out));
    const bool here = in_place(plan, tile.outputs);
    const std::int64_t tile_bytes = here ? 0 : divide_up(elements * size, 64) * 64;
    const std::int64_t sums_bytes = types_.sums_are_results() ? 0 : elements * types_.sum_size();
    std::byte* memory = nullptr;
    if (tile_bytes + sums_bytes != 0) {
      memory = static_cast<std::byte*>(
          thread_memory(ThreadMemory::kTile, static_cast<std::size_t>(tile_bytes + sums_bytes)));
    }
    if (!here) return {memory, tile.columns.size(), memory + tile_bytes};
    const std::int64_t at = tile.offsets.out + tile.rows.begin * plan.width + tile.columns.begin;
    return {tile.outputs[0].as<std::byte>() + at * size, plan.width, memory};
  }

  // Computes a tile of a product over the whole contraction, and what follows it.
  void run_tile(const ProductPlan& plan, Views inputs, Views outputs, std::int64_t product, Range rows,
                Range columns) const {
    const Rectangle tile{inputs, outputs, offsets_of(plan.batch, product), rows, columns};
    const TileMemory to = memory_of_tile(plan, tile);
    const ProductPart part{rows, columns, {0, plan.extents.inner}};
    if (types_.sums_are_results()) {
      multiply(plan, inputs, product, part, to.data, to.stride);
    } else {
      multiply(plan, inputs, product, part, to.sums, columns.size());
      store_sums(types_, to.sums, columns.size(), rows.size(), columns.size(), to.data, to.stride);
    }
    finish_tile(plan, inputs, outputs, tile.offsets, rows, columns, to.data, to.stride);
  }

  void finish_tile(const ProductPlan& plan, Views inputs, Views outputs, const ProductOffsets& offsets, Range rows,
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
  void multiply(const ProductPlan& plan, Views inputs, std::int64_t product, const ProductPart& part, std::byte* to,
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
    const ProductRows all{lhs, part.rows, to, stride};
    blocked_product({.arithmetic = types_.arithmetic,
                     .lhs = {types_.operands, lhs, plan.lhs_outer, plan.lhs_inner},
                     .rhs = {types_.operands, rhs, plan.rhs_outer, plan.rhs_inner},
                     .rows = {&all, 1},
                     .columns = part.columns,
                     .inner = part.inner});
  }

  Attrs attrs_;
  ProductTypes types_;
  DotEpilogue epilogue_;
  ProductPlan planned_;
};

}  // namespace

std::unique_ptr<Kernel> dot_kernel(const Graph& graph, const Eqn& eqn, DotEpilogue epilogue) {
  return std::make_unique<DotKernel>(eqn.attrs, graph.type(eqn.inputs[0]), graph.type(eqn.inputs[1]),
                                     graph.type(eqn.outputs[0]).dtype, std::move(epilogue));
}

}  // namespace shoal::cpu
