// Where the parts of a distributed matrix lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/collectives/collective.h"
#include "comm/collectives/exchange.h"
#include "linalg/tiling.h"

namespace shoal::linalg {

/// A matrix that the devices of a group hold in shards: an operand or the result of a collective.
class MatrixShards {
 public:
  /// A shard with what it holds of the matrix.
  struct Part {
    Box box;
    std::vector<std::int32_t> shards;  ///< All with the same elements.
  };
  /// A box of the matrix that lies in one shard.
  struct Piece {
    std::int32_t shard;
    Box box;
    Box of;  ///< What the shard holds.

    std::int64_t stride() const { return of.columns.size; }
    /// Elements from the shard's first to that at a place of the matrix.
    std::int64_t offset(std::int64_t row, std::int64_t column) const {
      return (row - of.rows.start) * stride() + column - of.columns.start;
    }
    std::int64_t offset() const { return offset(box.rows.start, box.columns.start); }
  };

  /// Of the matrix of rows × columns that the devices at these positions hold, split over the atoms `row_atoms` and
  /// `column_atoms`.
  MatrixShards(const ShardShapes& shapes, const std::vector<std::int64_t>& positions, std::int64_t rows,
               std::int64_t columns, const Atoms& row_atoms, const Atoms& column_atoms);

  bool is_held(int process, std::int32_t shard) const;
  /// Where a process finds what lies in a box: in shards that it holds itself, as far as there are such.
  std::vector<Piece> pieces_for(int process, const Box& box) const;
  /// Whether it holds some of a box.
  bool holds_some(int process, const Box& box) const;
  /// Adds what of a box the process does not hold.
  void add_needs(int process, const Box& box, std::int32_t operand, std::vector<Need>& needs) const;
  /// Adds what the process stores of a box, which the second operand has as number `extra`, a matrix of its own.
  void add_stored(int process, const Box& box, std::int32_t extra, std::vector<Need>& needs) const;
  /// Whether no shard's border cuts a tile.
  bool is_aligned(const Tiling& rows, const Tiling& columns) const;

 private:
  std::int32_t shard_for(int process, const Part& part) const;

  GridPtr grid_;
  AtomSet varying_;
  std::size_t element_;
  std::vector<Part> parts_;
};

}  // namespace shoal::linalg
