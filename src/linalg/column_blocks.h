// What algorithms have in common that work on blocks of columns, each with all of its rows, which are dealt out to the
// processes of a group in turn: where blocks are, how they are loaded, checked and stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "core/this_process.h"
#include "linalg/solver.h"

namespace shoal::linalg {

/// An extra whose elements are not those of the matrix.
template <class Element, class Memory>
Element* memory_of(const Memory& memory, std::int32_t extra) {
  return reinterpret_cast<Element*>(memory.extra(extra));
}

template <class T>
class ColumnBlocks : public Solver {
 protected:
  using Matrix = cpu::BlasMatrix<T>;
  using Memory = MemoryOf<T>;
  using Pieces = std::vector<MatrixShards::Piece>;

  /// Rows of a job that copies or updates a part of a block.
  static constexpr std::int64_t kRowsOfJob = 512;

  /// The blocks of one matrix.
  struct Blocks {
    std::vector<int> processes;
    MatrixShards from;
    MatrixShards to;
    bool here = false;                   // Whether this process is one of them.
    std::vector<std::int64_t> own = {};  // The blocks of this process, ascending.
    std::vector<Pieces> stored = {};     // Of each block, where it goes in the end.
    // Extras: the first of several, or one.
    std::int32_t blocks = 0;   // Of each block: all of its rows.
    std::int32_t states = 0;   // Of each process: whether what it has loaded is finite.
    std::int32_t checks = 0;   // Of each job that has loaded.
    std::int32_t is_good = 0;  // Whether all of it is.
  };

  ColumnBlocks(ShardShapes result, std::int64_t rows, Tiling columns)
      : Solver(std::move(result)), rows_(rows), tiling_(columns) {}

  /// Blocks of equal size, of no more than `most` columns.
  static Tiling in_blocks(Tiling tiling, std::int64_t most) {
    const std::int64_t parts = (tiling.size + most - 1) / most;
    tiling.size = (tiling.size + parts - 1) / parts;
    return tiling;
  }

  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }

  std::int64_t count() const { return tiling_.count(); }
  std::int64_t row_jobs(std::int64_t first) const { return (rows_ - first + kRowsOfJob - 1) / kRowsOfJob; }
  /// The rows of a job that begins with the row `first`.
  Extent rows_of_job(std::int64_t first, std::int64_t job) const {
    const std::int64_t start = first + job * kRowsOfJob;
    return {start, std::min(kRowsOfJob, rows_ - start)};
  }
  Box box(std::int64_t k) const { return {{0, rows_}, tiling_.tile(k)}; }

  static int owner(const Blocks& blocks, std::int64_t k) {
    return blocks.processes[static_cast<std::size_t>(k) % blocks.processes.size()];
  }
  static bool owns(const Blocks& blocks, std::int64_t k) { return blocks.here && owner(blocks, k) == this_process(); }
  /// The first of this process' blocks behind a block, and how many there are from there on.
  static std::size_t first_after(const Blocks& blocks, std::int64_t k) {
    return static_cast<std::size_t>(std::ranges::upper_bound(blocks.own, k) - blocks.own.begin());
  }
  static std::int64_t count_after(const Blocks& blocks, std::int64_t k) {
    return static_cast<std::int64_t>(blocks.own.size() - first_after(blocks, k));
  }

  // ---- The plan.

  /// The pieces of a box that this process stores.
  static Pieces held(const MatrixShards& shards, const ShardShapes& shapes, const Box& box) {
    Pieces pieces = shards.pieces_for(this_process(), box);
    std::erase_if(pieces, [&](const MatrixShards::Piece& piece) { return !shapes.is_held(piece.shard); });
    return pieces;
  }

  /// Which blocks are here, and the memory that they take.
  void place(Blocks& blocks) {
    for (std::int64_t k = 0; k < count(); ++k) {
      if (owns(blocks, k)) blocks.own.push_back(k);
      blocks.stored.push_back(blocks.here ? held(blocks.to, result_, box(k)) : Pieces{});
    }
    blocks.blocks = whole(std::ssize(extras_));
    for (std::int64_t k = 0; k < count(); ++k) {
      add_memory(blocks, owner(blocks, k), static_cast<std::size_t>(rows_ * tiling_.tile(k).size) * sizeof(T));
    }
    blocks.states = whole(std::ssize(extras_));
    for (const int process : blocks.processes) add_memory(blocks, process, sizeof(std::int64_t));
    blocks.checks =
        add_memory(blocks, this_process(), blocks.own.size() * static_cast<std::size_t>(row_jobs(0)) * sizeof(bool));
    blocks.is_good = add_memory(blocks, this_process(), sizeof(bool));
  }

  std::int32_t add_memory(const Blocks& blocks, int holder, std::size_t bytes) {
    return add_extra({holder}, blocks.here && holder == this_process() ? bytes : 0);
  }

  // ---- What a process needs of others.

  void add_loaded(const Blocks& blocks, int process, std::int64_t k, std::vector<Need>& needs) const {
    if (owner(blocks, k) == process) blocks.from.add_needs(process, box(k), 0, needs);
  }

  void add_states(const Blocks& blocks, int process, std::vector<Need>& needs) const {
    for (std::size_t i = 0; i < blocks.processes.size(); ++i) {
      if (blocks.processes[i] == process) continue;
      needs.push_back({1, blocks.states + static_cast<std::int32_t>(i), bytes_region(sizeof(std::int64_t))});
    }
  }

  /// A block from its diagonal on.
  void add_panel(const Blocks& blocks, std::int64_t k, std::vector<Need>& needs) const {
    const Extent columns = tiling_.tile(k);
    needs.push_back({1,
                     blocks.blocks + whole(k),
                     {.shape = {rows_, columns.size},
                      .start = {columns.start, 0},
                      .extents = {rows_ - columns.start, columns.size},
                      .element = sizeof(T)}});
  }

  void add_stored(const Blocks& blocks, int process, std::int64_t k, std::vector<Need>& needs) const {
    if (owner(blocks, k) != process) blocks.to.add_stored(process, box(k), blocks.blocks + whole(k), needs);
  }

  // ---- The work.

  Matrix block(const Blocks& blocks, const Memory& memory, std::int64_t k) const {
    return {memory.extra(blocks.blocks + whole(k)), whole(tiling_.tile(k).size)};
  }

  void load(const Blocks& blocks, const Memory& memory, std::int64_t k, std::int64_t job) const {
    const Extent columns = tiling_.tile(k);
    const Extent rows = rows_of_job(0, job);
    const Matrix to = block(blocks, memory, k);
    for (const MatrixShards::Piece& piece : blocks.from.pieces_for(this_process(), {rows, columns})) {
      const T* from = memory.operand(0, piece.shard) + piece.offset();
      T* row = to.data + piece.box.rows.start * to.stride + piece.box.columns.start - columns.start;
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r, from += piece.stride(), row += to.stride) {
        std::copy_n(from, piece.box.columns.size, row);
      }
    }
    const auto number = std::ranges::lower_bound(blocks.own, k) - blocks.own.begin();
    memory_of<bool>(memory, blocks.checks)[number * row_jobs(0) + job] =
        cpu::all_finite(to.data + rows.start * to.stride, rows.size * to.stride);
  }

  /// Whether what this process has loaded is finite.
  void tell_state(const Blocks& blocks, const Memory& memory) const {
    const bool* const checks = memory_of<bool>(memory, blocks.checks);
    const bool is_finite = std::all_of(checks, checks + std::ssize(blocks.own) * row_jobs(0), std::identity());
    const auto number = std::ranges::lower_bound(blocks.processes, this_process()) - blocks.processes.begin();
    *memory_of<std::int64_t>(memory, blocks.states + whole(number)) = is_finite ? 1 : 0;
  }

  /// Whether all of the matrix is, once all have told.
  void judge(const Blocks& blocks, const Memory& memory) const {
    bool is_good = true;
    for (std::int64_t i = 0; i < std::ssize(blocks.processes); ++i) {
      is_good = is_good && *memory_of<std::int64_t>(memory, blocks.states + whole(i)) == 1;
    }
    *memory_of<bool>(memory, blocks.is_good) = is_good;
  }
  bool is_good(const Blocks& blocks, const Memory& memory) const { return *memory_of<bool>(memory, blocks.is_good); }

  /// A piece of a block to where it lies in the end, or NaN if the matrix was not finite.
  void store(const Blocks& blocks, const Memory& memory, std::int64_t k, const MatrixShards::Piece& piece) const {
    T* row = memory.shard(piece.shard) + piece.offset();
    const Matrix from = block(blocks, memory, k);
    const std::int64_t left = piece.box.columns.start - tiling_.tile(k).start;
    const bool all_good = is_good(blocks, memory);
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      if (all_good) {
        std::copy_n(from.data + (piece.box.rows.start + r) * from.stride + left, piece.box.columns.size, row);
      } else {
        std::fill_n(row, piece.box.columns.size, cpu::not_a_number<T>());
      }
    }
  }

  const std::int64_t rows_;
  const Tiling tiling_;  // Of the columns.
};

}  // namespace shoal::linalg
