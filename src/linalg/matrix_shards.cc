#include "linalg/matrix_shards.h"

#include <algorithm>

namespace shoal::linalg {

MatrixShards::MatrixShards(const ShardShapes& shapes, const std::vector<std::int64_t>& positions, std::int64_t rows,
                           std::int64_t columns, const Atoms& row_atoms, const Atoms& column_atoms)
    : grid_(shapes.grid), varying_(shapes.varying), element_(size_of(shapes.dtype)) {
  for (const std::int64_t position : positions) {
    const Box box{grid_->extent(rows, row_atoms, position), grid_->extent(columns, column_atoms, position)};
    if (box.empty()) continue;
    auto found = std::ranges::find(parts_, box, &Part::box);
    if (found == parts_.end()) found = parts_.insert(found, {box, {}});
    const auto shard = static_cast<std::int32_t>(shapes.shard_at(position));
    if (std::ranges::find(found->shards, shard) == found->shards.end()) found->shards.push_back(shard);
  }
}

bool MatrixShards::is_held(int process, std::int32_t shard) const {
  return grid_->held_by(process, varying_).has(shard);
}

std::int32_t MatrixShards::shard_for(int process, const Part& part) const {
  const auto held = std::ranges::find_if(part.shards, [&](std::int32_t shard) { return is_held(process, shard); });
  return held == part.shards.end() ? part.shards.front() : *held;
}

std::vector<MatrixShards::Piece> MatrixShards::pieces_for(int process, const Box& box) const {
  std::vector<Piece> pieces;
  for (const Part& part : parts_) {
    const Box both = common(part.box, box);
    if (!both.empty()) pieces.push_back({.shard = shard_for(process, part), .box = both, .of = part.box});
  }
  return pieces;
}

bool MatrixShards::holds_some(int process, const Box& box) const {
  return std::ranges::any_of(pieces_for(process, box),
                             [&](const Piece& piece) { return is_held(process, piece.shard); });
}

void MatrixShards::add_needs(int process, const Box& box, std::int32_t operand, std::vector<Need>& needs) const {
  for (const Piece& piece : pieces_for(process, box)) {
    if (is_held(process, piece.shard)) continue;
    needs.push_back({.operand = operand,
                     .shard = piece.shard,
                     .region = {.shape = {piece.of.rows.size, piece.of.columns.size},
                                .start = {piece.box.rows.start - piece.of.rows.start,
                                          piece.box.columns.start - piece.of.columns.start},
                                .extents = {piece.box.rows.size, piece.box.columns.size},
                                .element = element_}});
  }
}

void MatrixShards::add_stored(int process, const Box& box, std::int32_t extra, std::vector<Need>& needs) const {
  for (const Piece& piece : pieces_for(process, box)) {
    if (!is_held(process, piece.shard)) continue;
    needs.push_back({1,
                     extra,
                     {.shape = {box.rows.size, box.columns.size},
                      .start = {piece.box.rows.start - box.rows.start, piece.box.columns.start - box.columns.start},
                      .extents = {piece.box.rows.size, piece.box.columns.size},
                      .element = element_}});
  }
}

bool MatrixShards::is_aligned(const Tiling& rows, const Tiling& columns) const {
  return std::ranges::all_of(parts_, [&](const Part& part) {
    const auto fits = [](const Extent& held, const Tiling& tiles) {
      const std::int64_t end = held.start + held.size;
      return held.start % tiles.size == 0 && (end % tiles.size == 0 || end == tiles.extent);
    };
    return fits(part.box.rows, rows) && fits(part.box.columns, columns);
  });
}

}  // namespace shoal::linalg
