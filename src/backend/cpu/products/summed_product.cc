#include "backend/cpu/products/summed_product.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/products/fused_product.h"
#include "backend/cpu/products/product_plan.h"
#include "comm/collectives/collective_parts.h"
#include "comm/collectives/table.h"
#include "comm/collectives/tree_reduction.h"
#include "ops/collective.h"

namespace shoal::cpu {
namespace {

// Smaller results stay in a cache by themselves, and have too few tiles for many threads.
constexpr std::int64_t kLeastElements = 1 << 19;
// The tiles of all devices together, which stay in a cache; and the least of each, which pays for packing its operands.
constexpr std::int64_t kMostBytes = 2 << 20;
constexpr std::int64_t kLeastTileElements = 1 << 14;
constexpr std::int64_t kMostMembers = 32;

const Type& operand_type(const Graph& graph, const Eqn& product, std::size_t i) {
  return graph.type(product.inputs[i]);
}

ProductTypes types_of(const Graph& graph, const Eqn& product) {
  return {operand_type(graph, product, 0).dtype, graph.type(product.outputs[0]).dtype};
}

ProductPlan plan_of(const Graph& graph, const Eqn& product, const ProductTypes& types) {
  return plan_product(product.attrs, types, operand_type(graph, product, 0).shape,
                      operand_type(graph, product, 1).shape);
}

// Whether all shards of a value have the shape of its type.
bool is_even(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return !value.global || shoal::is_even(*graph.grid, value.global->shape, value.global->placement.dims);
}

class SummedProduct final : public collectives::Collective {
 public:
  SummedProduct(const collectives::Context& context, const Graph& body)
      : Collective(result_of(context, body)),
        types_(types_of(body, body.eqns[0])),
        plan_(plan_of(body, body.eqns[0], types_)),
        teams_(partial_of(context, body), result_, context.groups, true),
        reduce_(tree_reduction(ReduceKind::kSum, result_.dtype)) {
    const ShardShapes partial = partial_of(context, body);
    for (std::size_t side = 0; side < 2; ++side) {
      operand_[side] =
          static_cast<std::size_t>(std::ranges::find(body.inputs, body.eqns[0].inputs[side]) - body.inputs.begin());
      const ShardShapes& operand = context.operands[operand_[side]];
      for (std::int64_t shard = 0; shard < partial.count(); ++shard) {
        shard_of_[side].push_back(static_cast<std::int32_t>(operand.shard_at(partial.position_of(shard))));
      }
    }
    const auto members = static_cast<std::int64_t>(teams_.of(0).size());
    splits_ = tree_splits(std::vector<std::int64_t>(static_cast<std::size_t>(members), 1));
    // As square as they may be, since the operands of each tile are packed for it alone.
    const auto size = static_cast<std::int64_t>(size_of(types_.out));
    const std::int64_t elements = std::max(kMostBytes / members / size, kLeastTileElements);
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements))) / kTileUnit * kTileUnit;
    const auto [products, rows, columns, inner] = plan_.extents;
    tiling_.column_size = std::min(columns, std::max(side, elements / std::min(rows, side) / kTileUnit * kTileUnit));
    tiling_.row_size = std::min(rows, std::max(kTileUnit, elements / tiling_.column_size));
    tiling_.part_size = inner;
    tiling_.row_tiles = divide_up(rows, tiling_.row_size);
    tiling_.column_tiles = divide_up(columns, tiling_.column_size);
    tiling_.tiles = products * tiling_.row_tiles * tiling_.column_tiles;
    tiles_ = tiling_.tiles * result_.count();
    bytes_ = collectives::total_bytes(result_);
    for (const ShardShapes& operand : context.operands) bytes_ += collectives::total_bytes(operand);
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t shard = tile / tiling_.tiles;
    const auto& [product, part, covers] = tiling_.tile(tile % tiling_.tiles, plan_.extents);
    const auto& [rows, columns, inner] = covers;
    const ProductOffsets offsets = offsets_of(plan_.batch, product);

    const auto operand_size = static_cast<std::int64_t>(size_of(types_.operands));
    const auto size = static_cast<std::int64_t>(size_of(types_.out));
    const auto data = [&](std::size_t side, std::int32_t member, std::int64_t offset) {
      return operands[operand_[side]][shard_of_[side][static_cast<std::size_t>(member)]] + offset * operand_size;
    };
    const std::span<const std::int32_t> members = teams_.of(shard);
    const std::int64_t tile_bytes = divide_up(rows.size() * columns.size() * size, 64) * 64;
    auto* memory = static_cast<std::byte*>(
        thread_memory(ThreadMemory::kTile, static_cast<std::size_t>(tile_bytes) * members.size()));
    boost::container::small_vector<const std::byte*, 16> tiles;
    for (const std::int32_t member : members) {
      const ProductRows all{data(0, member, offsets.lhs), rows, memory, columns.size()};
      blocked_product({.arithmetic = types_.arithmetic,
                       .lhs = {types_.operands, nullptr, plan_.lhs_outer, plan_.lhs_inner},
                       .rhs = {types_.operands, data(1, member, offsets.rhs), plan_.rhs_outer, plan_.rhs_inner},
                       .rows = {&all, 1},
                       .columns = columns,
                       .inner = inner});
      tiles.push_back(memory);
      memory += tile_bytes;
    }
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      const std::int64_t at = offsets.out + (rows.begin + i) * plan_.width + columns.begin;
      reduce_(tiles.data(), splits_.data(), tiles.size(), static_cast<std::size_t>(i * columns.size() * size),
              result[shard] + at * size, columns.size(), false);
    }
  }

 private:
  // The shards of the products, of which none is stored.
  static ShardShapes partial_of(const collectives::Context& context, const Graph& body) {
    const Type& type = body.type(body.outputs[0]);
    AtomSet varying;
    for (const ShardShapes& operand : context.operands) varying = varying | operand.varying;
    return {.grid = context.grid(), .varying = varying, .dtype = type.dtype, .shapes = {type.shape}};
  }

  static ShardShapes result_of(const collectives::Context& context, const Graph& body) {
    ShardShapes shapes = partial_of(context, body);
    shapes.varying = context.groups.joined(shapes.varying) & context.wanted;
    return shapes;
  }

  ProductTypes types_;
  ProductPlan plan_;
  collectives::Teams teams_;  // In device order.
  TreeReduction reduce_;
  std::vector<std::int32_t> splits_;
  std::size_t operand_[2];
  std::vector<std::int32_t> shard_of_[2];  // Of each product the shards of its operands.
  Tiling tiling_;                          // Of each shard of the result.
};

}  // namespace

bool sums_as_computed(const Graph& graph, const Eqn& product, const Eqn& sum) {
  if (graph.grid == nullptr || !graph.grid->is_local() || !is_product(product)) return false;
  if (!sum.op->collective->finishes_sums || sum.op->collective->gives != CollectiveFacts::Gives::kSame ||
      parse_reduce_kind(sum.attrs.get<std::string>("kind")) != ReduceKind::kSum || sum.attrs.contains("groups")) {
    return false;
  }
  const Value& partial = graph.value(product.outputs[0]);
  const Atoms atoms = graph.grid->atoms_of(sum.attrs.get<std::vector<std::string>>("axes"));
  const bool is_own = (AtomSet(atoms) - partial.varying).empty();  // Each device has a product of its own.
  if (!is_own || graph.grid->size_of(atoms) < 2 || graph.grid->size_of(atoms) > kMostMembers) return false;
  const std::array values = {product.inputs[0], product.inputs[1], product.outputs[0]};
  if (!std::ranges::all_of(values, [&](ValueId id) { return is_even(graph, id); })) return false;
  const bool is_here = std::ranges::all_of(
      values, [&](ValueId id) { return graph.type(id).memory == graph.type(sum.outputs[0]).memory; });
  const ProductTypes types = types_of(graph, product);
  return is_here && num_elements(partial.type.shape) >= kLeastElements && plan_of(graph, product, types).has_plain_sums;
}

collectives::CollectivePtr summed_product(const Graph& graph, const Eqn& eqn, std::span<const ShardShapes> shapes) {
  return std::make_unique<SummedProduct>(collectives::context_of(graph, eqn, shapes), eqn.attrs.graph());
}

}  // namespace shoal::cpu
