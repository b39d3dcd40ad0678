// The inverse of a distributed Hermitian matrix from its Cholesky factor, by tiles: the factor is inverted in its
// place, and multiplied by its adjoint from the left in that place again (LAPACK's potri; by tiles as in Agullo,
// Bouwmeester, Dongarra, Kurzak, Langou and Rosenberg, "Towards an efficient tile matrix inversion of symmetric
// positive definite matrices on multicore architectures", 2010). Without the second half, the inverse of the triangle.
#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/machine/workspace.h"
#include "base/check.h"
#include "comm/collectives/collective_parts.h"
#include "core/this_process.h"
#include "linalg/solver.h"
#include "linalg/table.h"

namespace shoal::linalg {
namespace {

using collectives::Context;

template <class T>
class Potri final : public Solver {
 public:
  Potri(const Context& context, ShardShapes result, bool is_squared)
      : Solver(std::move(result)), tiling_(tiling_of(context)), is_squared_(is_squared) {
    const Grid& grid = *context.grid();
    const Atoms rows = grid.atoms_of(context.attrs.get<std::vector<std::string>>("rows"));
    const Atoms columns = grid.atoms_of(context.attrs.get<std::vector<std::string>>("columns"));
    for (Group& group : groups_of(context)) {
      Problem problem{.grid = ProcessGrid(group.processes),
                      .from = {context.in(), group.positions, tiling_.extent, tiling_.extent, rows, columns},
                      .to = {result_, group.positions, tiling_.extent, tiling_.extent, rows, columns}};
      problem.here = group.has_this_process();
      add_problem(std::move(problem));
    }
    bytes_ = 0;
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) bytes_ += 2 * result_.bytes(shard);
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    const Step& now = step(round);
    const Problem& problem = problems_[now.problem];
    if (!std::ranges::binary_search(problem.grid.processes(), process)) return;
    const std::int64_t k = now.k;
    const ProcessGrid& grid = problem.grid;
    switch (now.kind) {
      case kLoad:
        for (std::int64_t i = k; i < count(); ++i) {
          if (grid.owner(i, k) == process) problem.from.add_needs(process, box(i, k), 0, needs);
        }
        return;
      case kPanel:
        if (grid.has_in_column(process, k, k + 1, count())) add_tile(problem, process, k, k, needs);
        return;
      case kRest:
        // Of the panel what multiplies rows of tiles, and of the row what multiplies columns.
        for (std::int64_t i = k + 1; i < count(); ++i) {
          if (grid.has_in_row(process, i, 0, k)) add_tile(problem, process, i, k, needs);
        }
        for (std::int64_t j = 0; j < k; ++j) {
          if (grid.has_in_column(process, j, k + 1, count())) add_tile(problem, process, k, j, needs);
        }
        return;
      case kRow:
      case kSquareRow:
        if (grid.has_in_row(process, k, 0, k)) add_tile(problem, process, k, k, needs);
        return;
      case kSquare:
        for (std::int64_t j = 0; j < k; ++j) {
          if (grid.has_in_row(process, j, 0, j + 1) || grid.has_in_column(process, j, j, k)) {
            add_tile(problem, process, k, j, needs);
          }
        }
        return;
      case kStore:
        for (std::int64_t i = k; i < count(); ++i) {
          if (problem.to.holds_some(process, box(i, k)) || problem.to.holds_some(process, box(k, i))) {
            add_tile(problem, process, i, k, needs);
          }
        }
        return;
      default:
        return;
    }
  }

  // Tiles stay where they are, or were copied first, and what others read has been read when they are stored.
  std::optional<std::size_t> overwritten() const override { return 0; }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    std::int64_t job = 0;
    const Step& now = step_of(tile, job);
    const Problem& problem = problems_[now.problem];
    const Memory memory{operands, result};
    const std::int64_t k = now.k;
    const auto at = static_cast<std::size_t>(k);
    const auto number = static_cast<std::size_t>(job);
    switch (now.kind) {
      case kLoad:
        return load(problem, memory, problem.columns[at][number], k);
      case kInvert:
        return invert(problem, memory, k);
      case kPanel:
        return multiply_panel(problem, memory, problem.below[at][number], k);
      case kRest:
        return update(problem, memory, problem.rest[at][number], k);
      case kRow:
        if (number < problem.before[at].size()) return multiply_row(problem, memory, k, problem.before[at][number]);
        return change_sign(problem, memory, problem.below[at][number - problem.before[at].size()], k);
      case kSquare:
        return add_square(problem, memory, problem.above[at][number], k);
      case kSquareRow:
        return square_row(problem, memory, k, problem.before[at][number]);
      case kSquareDiagonal:
        return square_diagonal(problem, memory, k);
      case kStore:
        return store(problem, memory, problem.stored[at][number], k);
      case kMirror:
        return mirror(problem, memory, problem.columns[at][number], k);
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  // The factor is loaded by columns of tiles. For each of its tiles on the diagonal, that is inverted, the panel below
  // multiplied by it from the right, and subtracted with the row beside it from the rest; then that row is multiplied.
  // The product with the adjoint is made row by row: each is first added to the tiles above it. It has the other sign
  // until it is stored, or mirrored where it stays in its place.
  enum Kind { kLoad, kInvert, kPanel, kRest, kRow, kSquare, kSquareRow, kSquareDiagonal, kStore, kMirror };

  using Tile = std::pair<std::int64_t, std::int64_t>;
  // What becomes of a tile that is another process', or this one's.
  struct Stored {
    std::int64_t i;
    bool is_mirrored;
    MatrixShards::Piece piece;
  };
  struct Problem {
    ProcessGrid grid;
    MatrixShards from;
    MatrixShards to;
    bool here = false;
    bool direct = false;
    std::int32_t tiles = 0;  // The extra of the first tile of the lower triangle, by columns.
    // Of each column of tiles, or row: the rows of this process' tiles in it, and of those below the diagonal; the
    // columns of those beside the diagonal; the tiles below and beside both; and those above.
    std::vector<std::vector<std::int64_t>> columns = {};
    std::vector<std::vector<std::int64_t>> below = {};
    std::vector<std::vector<std::int64_t>> before = {};
    std::vector<std::vector<Tile>> rest = {};
    std::vector<std::vector<Tile>> above = {};
    std::vector<std::vector<Stored>> stored = {};  // Of each column, where tiles go in the end.
  };
  using Memory = MemoryOf<T>;
  using Matrix = cpu::BlasMatrix<T>;

  static cpu::BlasMatrix<const T> read(const Matrix& a, bool adjoint = false) { return {a.data, a.stride, adjoint}; }
  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }
  static T conjugate(const T& x) {
    if constexpr (kIsComplexElement<T>) {
      return std::conj(x);
    } else {
      return x;
    }
  }

  std::int64_t count() const { return tiling_.count(); }
  std::int64_t extent(std::int64_t i) const { return tiling_.tile(i).size; }
  Box box(std::int64_t i, std::int64_t j) const { return {tiling_.tile(i), tiling_.tile(j)}; }
  std::int64_t number(std::int64_t i, std::int64_t j) const { return j * count() - j * (j - 1) / 2 + i - j; }

  // ---- The plan.

  void add_problem(Problem problem) {
    const bool alone = problem.grid.processes().size() == 1;
    problem.direct = alone && problem.to.is_aligned(tiling_, tiling_);
    const auto owns = [&](std::int64_t i, std::int64_t j) {
      return problem.here && problem.grid.owner(i, j) == this_process();
    };
    for (std::int64_t k = 0; k < count(); ++k) {
      auto& column = problem.columns.emplace_back();
      auto& below = problem.below.emplace_back();
      auto& before = problem.before.emplace_back();
      auto& rest = problem.rest.emplace_back();
      auto& above = problem.above.emplace_back();
      for (std::int64_t i = k; i < count(); ++i) {
        if (!owns(i, k)) continue;
        column.push_back(i);
        if (i > k) below.push_back(i);
      }
      for (std::int64_t j = 0; j < k; ++j) {
        if (owns(k, j)) before.push_back(j);
        for (std::int64_t i = k + 1; i < count(); ++i) {
          if (owns(i, j)) rest.emplace_back(i, j);
        }
        for (std::int64_t i = j; i < k; ++i) {
          if (owns(i, j)) above.emplace_back(i, j);
        }
      }
    }
    if (!problem.direct) add_memory(problem);
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
  }

  void add_memory(Problem& problem) {
    const std::size_t bytes = static_cast<std::size_t>(tiling_.size * tiling_.size) * sizeof(T);
    problem.tiles = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t j = 0; j < count(); ++j) {
      for (std::int64_t i = j; i < count(); ++i) {
        const int owner = problem.grid.owner(i, j);
        add_extra({owner}, problem.here && owner == this_process() ? bytes : 0);
      }
    }
    problem.stored.resize(static_cast<std::size_t>(count()));
    for (std::int64_t j = 0; j < count() && problem.here; ++j) {
      for (std::int64_t i = j; i < count(); ++i) {
        // Of a triangle the other one is zero.
        for (const bool is_mirrored : {false, true}) {
          if (is_mirrored && i == j) continue;
          for (const auto& piece : problem.to.pieces_for(this_process(), is_mirrored ? box(j, i) : box(i, j))) {
            if (!result_.is_held(piece.shard)) continue;
            problem.stored[static_cast<std::size_t>(j)].push_back({i, is_mirrored, piece});
          }
        }
      }
    }
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.grid.processes().size() > 1;
    const auto add = [&](Kind kind, std::int64_t k, std::size_t jobs, bool with_others) {
      if (jobs == 0 && !exchanges) return;
      // Tiles change after they were sent, and the result may lie where the factor did.
      add_round({.kind = kind, .problem = index, .k = k}, static_cast<std::int64_t>(jobs),
                {.exchanges = with_others && exchanges,
                 .rewrites = exchanges && kind != kLoad && (kind != kStore || k == 0)});
    };
    const auto own = [&](std::int64_t k) -> std::size_t {
      return problem.here && problem.grid.owner(k, k) == this_process() ? 1 : 0;
    };
    const auto for_all = [&](auto&& add_rounds_of) {
      for (std::int64_t k = 0; k < count(); ++k) add_rounds_of(k, static_cast<std::size_t>(k));
    };
    for_all([&](std::int64_t k, std::size_t at) { add(kLoad, k, problem.columns[at].size(), true); });
    for_all([&](std::int64_t k, std::size_t at) {
      add(kInvert, k, own(k), false);
      add(kPanel, k, problem.below[at].size(), true);
      add(kRest, k, problem.rest[at].size(), true);
      add(kRow, k, problem.before[at].size() + problem.below[at].size(), true);
    });
    if (is_squared_)
      for_all([&](std::int64_t k, std::size_t at) {
        add(kSquare, k, problem.above[at].size(), true);
        add(kSquareRow, k, problem.before[at].size(), true);
        add(kSquareDiagonal, k, own(k), false);
      });
    for_all([&](std::int64_t k, std::size_t at) {
      if (problem.direct) return add(kMirror, k, problem.columns[at].size(), false);
      add(kStore, k, problem.stored[at].size(), true);
    });
  }

  void add_tile(const Problem& problem, int process, std::int64_t i, std::int64_t j, std::vector<Need>& needs) const {
    if (problem.grid.owner(i, j) == process) return;
    const std::size_t bytes = static_cast<std::size_t>(extent(i) * extent(j)) * sizeof(T);
    needs.push_back({1, problem.tiles + whole(number(i, j)), bytes_region(bytes)});
  }

  // ---- The work.

  Matrix tile(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j) const {
    if (!problem.direct) return {memory.extra(problem.tiles + whole(number(i, j))), whole(extent(j))};
    const MatrixShards::Piece piece = problem.to.pieces_for(this_process(), box(i, j)).front();
    return {memory.shard(piece.shard) + piece.offset(), whole(piece.stride())};
  }

  // What is above the diagonal of the factor counts as zero.
  void load(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j) const {
    const Matrix to = tile(problem, memory, i, j);
    for (const MatrixShards::Piece& piece : problem.from.pieces_for(this_process(), box(i, j))) {
      const T* from = memory.operand(0, piece.shard) + piece.offset();
      T* row =
          to.data + (piece.box.rows.start - i * tiling_.size) * to.stride + piece.box.columns.start - j * tiling_.size;
      for (std::int64_t r = 0; r < piece.box.rows.size && from != row; ++r, from += piece.stride(), row += to.stride) {
        std::copy_n(from, piece.box.columns.size, row);
      }
    }
    if (i != j) return;
    for (std::int64_t r = 0; r < extent(i); ++r) std::fill_n(to.data + r * to.stride + r + 1, extent(i) - r - 1, T{});
  }

  // Calls use(copy) with a copy of a square tile, which is then zero.
  template <class F>
  void with_copy(const Matrix& a, std::int64_t n, F&& use) const {
    const cpu::Workspace<T> copy(n * n);
    for (std::int64_t r = 0; r < n; ++r) {
      std::copy_n(a.data + r * a.stride, n, copy.data() + r * n);
      std::fill_n(a.data + r * a.stride, n, T{});
    }
    use(Matrix{copy.data(), whole(n)});
  }

  void invert(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix a = tile(problem, memory, k, k);
    const std::int64_t n = extent(k);
    with_copy(a, n, [&](const Matrix& l) {
      for (std::int64_t i = 0; i < n; ++i) a.data[i * (a.stride + 1)] = T{1};
      kernels().trsm(whole(n), whole(n), {.data = l.data, .stride = l.stride, .lower = true}, a);
    });
  }

  cpu::BlasTriangle<T> diagonal(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix a = tile(problem, memory, k, k);
    return {.data = a.data, .stride = a.stride, .lower = true};
  }

  void multiply_panel(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k) const {
    cpu::BlasTriangle<T> inverse = diagonal(problem, memory, k);
    inverse.right = true;
    kernels().trmm(whole(extent(i)), whole(extent(k)), 1, inverse, tile(problem, memory, i, k));
  }

  void update(const Problem& problem, const Memory& memory, const Tile& updated, std::int64_t k) const {
    const auto [i, j] = updated;
    kernels().subtract_product({whole(extent(i)), whole(extent(j)), whole(extent(k))},
                               read(tile(problem, memory, i, k)), read(tile(problem, memory, k, j)),
                               tile(problem, memory, i, j));
  }

  void multiply_row(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t j) const {
    kernels().trmm(whole(extent(k)), whole(extent(j)), 1, diagonal(problem, memory, k), tile(problem, memory, k, j));
  }

  void change_sign(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k) const {
    const Matrix a = tile(problem, memory, i, k);
    for (std::int64_t r = 0; r < extent(i); ++r) {
      for (std::int64_t c = 0; c < extent(k); ++c) a.data[r * a.stride + c] = -a.data[r * a.stride + c];
    }
  }

  // Of tiles on the diagonal the lower triangle.
  void add_square(const Problem& problem, const Memory& memory, const Tile& updated, std::int64_t k) const {
    const auto [i, j] = updated;
    const auto left = read(tile(problem, memory, k, i), true);
    const Matrix to = tile(problem, memory, i, j);
    if (i == j) return kernels().subtract_square(whole(extent(i)), whole(extent(k)), left, to);
    kernels().subtract_product({whole(extent(i)), whole(extent(j)), whole(extent(k))}, left,
                               read(tile(problem, memory, k, j)), to);
  }

  void square_row(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t j) const {
    cpu::BlasTriangle<T> inverse = diagonal(problem, memory, k);
    inverse.adjoint = true;
    kernels().trmm(whole(extent(k)), whole(extent(j)), -1, inverse, tile(problem, memory, k, j));
  }

  void square_diagonal(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix a = tile(problem, memory, k, k);
    with_copy(a, extent(k), [&](const Matrix& copy) {
      kernels().subtract_square(whole(extent(k)), whole(extent(k)), read(copy, true), a);
    });
  }

  // The sign is right from here on, and the diagonal real. Of tiles there what is below it counts.
  void store(const Problem& problem, const Memory& memory, const Stored& stored, std::int64_t j) const {
    const MatrixShards::Piece& piece = stored.piece;
    const Matrix from = tile(problem, memory, stored.i, j);
    T* row = memory.shard(piece.shard) + piece.offset();
    const std::int64_t top = piece.box.rows.start - (stored.is_mirrored ? j : stored.i) * tiling_.size;
    const std::int64_t left = piece.box.columns.start - (stored.is_mirrored ? stored.i : j) * tiling_.size;
    if (!is_squared_) {
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
        if (stored.is_mirrored) {
          std::fill_n(row, piece.box.columns.size, T{});
        } else {
          std::copy_n(from.data + (top + r) * from.stride + left, piece.box.columns.size, row);
        }
      }
      return;
    }
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      for (std::int64_t c = 0; c < piece.box.columns.size; ++c) {
        const bool is_above = stored.is_mirrored || (stored.i == j && left + c > top + r);
        const bool is_own = stored.i == j && left + c == top + r;
        const std::int64_t place = is_above ? (left + c) * from.stride + top + r : (top + r) * from.stride + left + c;
        const T& element = from.data[place];
        row[c] = is_own ? T{-std::real(element)} : is_above ? -conjugate(element) : -element;
      }
    }
  }

  void mirror(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j) const {
    const Matrix a = tile(problem, memory, i, j);
    const Matrix to = tile(problem, memory, j, i);
    if (!is_squared_) {
      for (std::int64_t c = 0; c < extent(j) && i != j; ++c) std::fill_n(to.data + c * to.stride, extent(i), T{});
      return;
    }
    for (std::int64_t r = 0; r < extent(i); ++r) {
      T* const row = a.data + r * a.stride;
      for (std::int64_t c = 0; c < (i == j ? r + 1 : extent(j)); ++c) {
        row[c] = i == j && c == r ? T{-std::real(row[c])} : -row[c];
        to.data[c * to.stride + r] = conjugate(row[c]);
      }
    }
  }

  Tiling tiling_;
  bool is_squared_;
  std::vector<Problem> problems_;
};

collectives::CollectivePtr inverse_of(const Context& context, bool is_squared) {
  const ShardShapes& in = context.in();
  ShardShapes result =
      collectives::shapes_of(in.grid, (in.varying | AtomSet(context.atoms())) & context.wanted, in.dtype, in.even(),
                             [&](std::int64_t position) { return in.shape_at(position); });
  return cpu::with_matrix_type(in.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Potri<decltype(tag)>>(context, std::move(result), is_squared);
  });
}

}  // namespace

collectives::CollectivePtr potri(const Context& context) { return inverse_of(context, true); }
collectives::CollectivePtr trtri(const Context& context) { return inverse_of(context, false); }

}  // namespace shoal::linalg
