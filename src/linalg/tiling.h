// How distributed matrices are cut into tiles, and which process works on which.
//
// Which tiles there are follows from extents, dtype and placement alone, and what is done to an element is the same,
// in the same order, whoever does it. So bits depend neither on how many processes there are nor on threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sharding/placement.h"
#include "shoal/dtype.h"

namespace shoal::linalg {

/// A dimension in tiles of one size, the last of which may be shorter.
struct Tiling {
  std::int64_t extent = 0;
  std::int64_t size = 1;

  std::int64_t count() const { return (extent + size - 1) / size; }
  Extent tile(std::int64_t i) const { return {i * size, std::min(size, extent - i * size)}; }
};

/// The rows and columns of a part of a matrix.
struct Box {
  Extent rows;
  Extent columns;

  bool empty() const { return rows.size == 0 || columns.size == 0; }
  bool contains(const Box& other) const;
  friend bool operator==(const Box&, const Box&) = default;
};

/// What two boxes have in common; empty if that is nothing.
Box common(const Box& a, const Box& b);

/// The size of the tiles of a dimension of n elements that shards cut at these places: `wanted` or, where that is 0, a
/// usual one, or a little less or more so that tiles do not cross the borders of shards.
std::int64_t tile_size(std::int64_t n, std::int64_t wanted, const std::vector<Extent>& shards);

/// Processes as a grid, as square as their number allows, over which tiles are dealt out in turn (ScaLAPACK's
/// two-dimensional block-cyclic distribution).
class ProcessGrid {
 public:
  /// Ascending; at least one.
  explicit ProcessGrid(std::vector<int> processes);

  const std::vector<int>& processes() const { return processes_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Whose the tile in row i and column j is.
  int owner(std::int64_t i, std::int64_t j) const {
    return processes_[static_cast<std::size_t>(i % rows_ * columns_ + j % columns_)];
  }
  /// Whether a process of the grid has tiles in row i and the columns begin … end - 1, or in column j and such rows.
  bool has_in_row(int process, std::int64_t i, std::int64_t begin, std::int64_t end) const;
  bool has_in_column(int process, std::int64_t j, std::int64_t begin, std::int64_t end) const;

 private:
  std::int64_t place_of(int process) const;

  std::vector<int> processes_;
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
};

}  // namespace shoal::linalg
