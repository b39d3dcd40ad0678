// The Cholesky factor of a distributed matrix, right-looking, by tiles: Quintana-Orti, Quintana-Orti, van de Geijn, Van
// Zee and Chan, "Programming matrix algorithms-by-blocks for thread-level parallelism", 2009; over processes as
// ScaLAPACK's pdpotrf, a panel ahead.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <utility>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "base/check.h"
#include "comm/collectives/collective_parts.h"
#include "core/this_process.h"
#include "linalg/solver.h"
#include "linalg/table.h"

namespace shoal::linalg {
namespace {

using collectives::Context;

template <class T>
class Potrf final : public Solver {
 public:
  Potrf(const Context& context, ShardShapes result)
      : Solver(std::move(result)), leading_(context.attrs.contains("leading")), tiling_(tiling_of(context)) {
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
    switch (now.kind) {
      case kLoad:
        for (std::int64_t i = k; i < count(); ++i) {
          if (problem.grid.owner(i, k) == process) problem.from.add_needs(process, box(i, k), 0, needs);
        }
        return;
      case kPanel:
        if (problem.grid.has_in_column(process, k, k + 1, count())) add_tile(problem, process, k, k, needs);
        return;
      case kColumn:
        for (std::int64_t i = k + 1; i < count(); ++i) {
          if (is_read(problem, process, i, k)) add_tile(problem, process, i, k, needs);
        }
        return;
      case kStore:
        if (problem.grid.owner(count() - 1, count() - 1) != process) {
          needs.push_back({1, problem.state, bytes_region(sizeof(std::int64_t))});
        }
        for (std::int64_t i = k; i < count(); ++i) {
          if (problem.to.holds_some(process, box(i, k))) add_tile(problem, process, i, k, needs);
        }
        return;
      default:
        return;
    }
  }

  // Tiles are factored where they are, or were copied first, and what others read has been read when they are stored.
  std::optional<std::size_t> overwritten() const override { return 0; }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    std::int64_t job = 0;
    const Step& now = step_of(tile, job);
    const Problem& problem = problems_[now.problem];
    const Memory memory{operands, result};
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad: {
        const auto [i, j] = problem.own[static_cast<std::size_t>(
            problem.direct ? job : static_cast<std::int64_t>(problem.begins[static_cast<std::size_t>(k)]) + job)];
        return load(problem, memory, i, j);
      }
      case kDiagonal:
        return factor_diagonal(problem, memory, k);
      case kPanel:
        return solve_panel(problem, memory, problem.own[first_below(problem, k) + static_cast<std::size_t>(job)].first,
                           k);
      case kColumn: {
        const auto copies = static_cast<std::int64_t>(problem.copied[static_cast<std::size_t>(k)].size());
        if (job < copies)
          return keep(problem, memory, problem.copied[static_cast<std::size_t>(k)][static_cast<std::size_t>(job)], k);
        const auto [i, j] =
            problem.own[problem.begins[static_cast<std::size_t>(k + 1)] + static_cast<std::size_t>(job - copies)];
        return update(problem, memory, i, j, k, false);
      }
      case kRest: {
        const auto first = problem.begins[static_cast<std::size_t>(k + (problem.direct ? 1 : 2))];
        const auto [i, j] = problem.own[first + static_cast<std::size_t>(job)];
        return update(problem, memory, i, j, k, true);
      }
      case kState:
        return tell_state(problem, memory);
      case kStore:
        return store(problem, memory, problem.stored[static_cast<std::size_t>(k)][static_cast<std::size_t>(job)], k);
      case kFill:
        return fill(problem, memory, problem.own[k == 0 ? static_cast<std::size_t>(job) : problem.own.size() - 1]);
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  // In one process tiles are factored in the result itself, where its shards are cut at the borders of tiles: kLoad,
  // then for each panel kDiagonal, kPanel and kRest, and kFill at last. Otherwise in memory of their own, to which they
  // are brought column by column. Then kColumn updates the next panel first; that is factored, and is on its way to
  // other processes while kRest updates what is left.
  enum Kind { kLoad, kDiagonal, kPanel, kColumn, kRest, kState, kStore, kFill };

  using Tile = std::pair<std::int64_t, std::int64_t>;
  struct Stored {
    std::int64_t i;
    MatrixShards::Piece piece;
  };
  struct Problem {
    ProcessGrid grid;
    MatrixShards from;
    MatrixShards to;
    bool here = false;
    bool direct = false;
    std::vector<Tile> own = {};            // Those of this process, by columns.
    std::vector<std::size_t> begins = {};  // Where those of each column begin, and the end.
    std::int32_t tiles = 0;                // The extra of the first tile of the lower triangle, by columns.
    std::int32_t kept = 0;                 // Of a place for a tile of each row that others have made.
    std::int32_t state = 0;                // Whether the factor exists.
    std::vector<std::vector<std::int64_t>> copied = {};  // Of each panel, the rows of tiles that go there.
    std::vector<std::vector<Stored>> stored = {};        // Of each column, where tiles go in the end.
  };
  using Memory = MemoryOf<T>;
  using Matrix = cpu::BlasMatrix<T>;

  static cpu::BlasMatrix<const T> read(const Matrix& a, bool adjoint = false) { return {a.data, a.stride, adjoint}; }
  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }

  std::int64_t count() const { return tiling_.count(); }
  std::int64_t extent(std::int64_t i) const { return tiling_.tile(i).size; }
  Box box(std::int64_t i, std::int64_t j) const { return {tiling_.tile(i), tiling_.tile(j)}; }
  // The place of a tile in the lower triangle, by columns.
  std::int64_t number(std::int64_t i, std::int64_t j) const { return j * count() - j * (j - 1) / 2 + i - j; }

  // ---- The plan.

  void add_problem(Problem problem) {
    const bool alone = problem.grid.processes().size() == 1;
    problem.direct = alone && problem.to.is_aligned(tiling_, tiling_);
    for (std::int64_t j = 0; j < count(); ++j) {
      problem.begins.push_back(problem.own.size());
      for (std::int64_t i = j; i < count() && problem.here; ++i) {
        if (problem.grid.owner(i, j) == this_process()) problem.own.emplace_back(i, j);
      }
    }
    problem.begins.push_back(problem.own.size());
    problem.begins.push_back(problem.own.size());
    if (!problem.direct) add_memory(problem);
    const auto index = problems_.size();
    problems_.push_back(std::move(problem));
    add_rounds(index);
  }

  void add_memory(Problem& problem) {
    const std::size_t bytes = static_cast<std::size_t>(tiling_.size * tiling_.size) * sizeof(T);
    problem.tiles = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t j = 0; j < count(); ++j) {
      for (std::int64_t i = j; i < count(); ++i) {
        const int owner = problem.grid.owner(i, j);
        add_extra({owner}, owner == this_process() ? bytes : 0);
      }
    }
    problem.kept = static_cast<std::int32_t>(extras_.size());
    problem.copied.resize(static_cast<std::size_t>(count()));
    std::vector<bool> is_kept(static_cast<std::size_t>(count()), false);
    for (std::int64_t k = 0; k < count() && problem.here; ++k) {
      for (std::int64_t i = k + 1; i < count(); ++i) {
        if (problem.grid.owner(i, k) == this_process() || !is_read(problem, this_process(), i, k)) continue;
        problem.copied[static_cast<std::size_t>(k)].push_back(i);
        is_kept[static_cast<std::size_t>(i)] = true;
      }
    }
    for (const bool kept : is_kept) add_extra({this_process()}, kept ? bytes : 0);
    const int last = problem.grid.owner(count() - 1, count() - 1);
    problem.state = add_extra({last}, last == this_process() ? sizeof(std::int64_t) : 0);
    problem.stored.resize(static_cast<std::size_t>(count()));
    for (std::int64_t k = 0; k < count() && problem.here; ++k) {
      for (std::int64_t i = 0; i < count(); ++i) {
        for (const auto& piece : problem.to.pieces_for(this_process(), box(i, k))) {
          if (result_.is_held(piece.shard)) problem.stored[static_cast<std::size_t>(k)].push_back({i, piece});
        }
      }
    }
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.grid.processes().size() > 1;
    const auto own_from = [&](std::int64_t j) {
      return static_cast<std::int64_t>(problem.own.size() - problem.begins[static_cast<std::size_t>(j)]);
    };
    const auto below = [&](std::int64_t k) {
      return own_from(k) - own_from(k + 1) - (has_diagonal(problem, k) ? 1 : 0);
    };
    const auto add = [&](Kind kind, std::int64_t k, std::int64_t jobs, bool with_others = false, bool ahead = false) {
      // The result may lie where the matrix did.
      add_round({.kind = kind, .problem = index, .k = k}, jobs,
                {.exchanges = with_others && exchanges,
                 .ahead = ahead && exchanges,
                 .rewrites = kind == kStore && k == 0 && exchanges});
    };
    const auto add_panel = [&](std::int64_t k) {
      add(kDiagonal, k, has_diagonal(problem, k) ? 1 : 0);
      if (k + 1 < count()) add(kPanel, k, below(k), true);
    };
    if (problem.direct) {
      add(kLoad, 0, own_from(0));
      for (std::int64_t k = 0; k < count(); ++k) {
        add_panel(k);
        if (k + 1 < count()) add(kRest, k, own_from(k + 1));
      }
      // Its last element tells whether the factor exists.
      const std::int64_t filled = leading_ ? 0 : own_from(0);
      add(kFill, 0, std::max<std::int64_t>(0, filled - 1));
      return add(kFill, count() - 1, std::min<std::int64_t>(1, filled));
    }
    for (std::int64_t k = 0; k < count(); ++k) add(kLoad, k, own_from(k) - own_from(k + 1), true);
    add_panel(0);
    for (std::int64_t k = 0; k + 1 < count(); ++k) {
      const auto copies = static_cast<std::int64_t>(problem.copied[static_cast<std::size_t>(k)].size());
      add(kColumn, k, copies + own_from(k + 1) - own_from(k + 2), true, k > 0);
      add_panel(k + 1);
      add(kRest, k, own_from(k + 2));
    }
    add(kState, 0, has_diagonal(problem, count() - 1) ? 1 : 0);
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStore, k, std::ssize(problem.stored[static_cast<std::size_t>(k)]), true);
    }
  }

  static bool has_diagonal(const Problem& problem, std::int64_t k) {
    return problem.here && problem.grid.owner(k, k) == this_process();
  }

  // The first of this process' tiles of a column below the diagonal.
  static std::size_t first_below(const Problem& problem, std::int64_t k) {
    return problem.begins[static_cast<std::size_t>(k)] + (has_diagonal(problem, k) ? 1 : 0);
  }

  // Whether a process updates tiles of its own by tile (i, k): those of the row, and the column, with its number.
  bool is_read(const Problem& problem, int process, std::int64_t i, std::int64_t k) const {
    return problem.grid.has_in_row(process, i, k + 1, i + 1) || problem.grid.has_in_column(process, i, i, count());
  }

  void add_tile(const Problem& problem, int process, std::int64_t i, std::int64_t j, std::vector<Need>& needs) const {
    if (problem.grid.owner(i, j) == process) return;
    const std::size_t bytes = static_cast<std::size_t>(extent(i) * extent(j)) * sizeof(T);
    needs.push_back({1, problem.tiles + static_cast<std::int32_t>(number(i, j)), bytes_region(bytes)});
  }

  // ---- The work.

  Matrix tile(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j) const {
    if (!problem.direct) {
      return {memory.extra(problem.tiles + static_cast<std::int32_t>(number(i, j))), whole(extent(j))};
    }
    const MatrixShards::Piece piece = problem.to.pieces_for(this_process(), box(i, j)).front();
    return {memory.shard(piece.shard) + piece.offset(), whole(piece.stride())};
  }

  // A tile of a panel, which may be another process'.
  Matrix panel_tile(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k, bool is_kept) const {
    if (!is_kept || problem.direct || problem.grid.owner(i, k) == this_process()) return tile(problem, memory, i, k);
    return {memory.extra(problem.kept + static_cast<std::int32_t>(i)), whole(extent(k))};
  }

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
    if (!problem.direct || i == j) return;
    // Above the diagonal the factor is zero.
    const MatrixShards::Piece mirrored = problem.to.pieces_for(this_process(), box(j, i)).front();
    T* row = memory.shard(mirrored.shard) + mirrored.offset();
    for (std::int64_t r = 0; r < extent(j); ++r, row += mirrored.stride()) std::fill_n(row, extent(i), T{});
  }

  void factor_diagonal(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix a = tile(problem, memory, k, k);
    const std::int64_t size = extent(k);
    const std::int32_t info = kernels().potrf(whole(size), a);
    for (std::int64_t i = info == 0 ? size : info - 1; i < size; ++i) {
      std::fill_n(a.data + i * a.stride, i + 1, cpu::not_a_number<T>());
    }
    for (std::int64_t i = 0; i < size; ++i) std::fill_n(a.data + i * a.stride + i + 1, size - i - 1, T{});
  }

  void solve_panel(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k) const {
    kernels().solve_right(whole(extent(i)), whole(extent(k)), read(tile(problem, memory, k, k)),
                          tile(problem, memory, i, k));
  }

  void keep(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k) const {
    std::memcpy(memory.extra(problem.kept + static_cast<std::int32_t>(i)), tile(problem, memory, i, k).data,
                static_cast<std::size_t>(extent(i) * extent(k)) * sizeof(T));
  }

  void update(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j, std::int64_t k,
              bool is_kept) const {
    const Matrix left = panel_tile(problem, memory, i, k, is_kept);
    const Matrix to = tile(problem, memory, i, j);
    if (i == j) return kernels().subtract_square(whole(extent(i)), whole(extent(k)), read(left), to);
    const Matrix right = panel_tile(problem, memory, j, k, is_kept);
    kernels().subtract_product({whole(extent(i)), whole(extent(j)), whole(extent(k))}, read(left), read(right, true),
                               to);
  }

  // What is no number spreads to all that comes after it.
  bool exists(const Problem& problem, const Memory& memory) const {
    const std::int64_t last = count() - 1;
    const Matrix a = tile(problem, memory, last, last);
    return !std::isnan(std::real(a.data[(extent(last) - 1) * (a.stride + 1)]));
  }

  void tell_state(const Problem& problem, const Memory& memory) const {
    *reinterpret_cast<std::int64_t*>(memory.extra(problem.state)) = exists(problem, memory) ? 1 : 0;
  }

  void store(const Problem& problem, const Memory& memory, const Stored& stored, std::int64_t j) const {
    const MatrixShards::Piece& piece = stored.piece;
    const Box& box = piece.box;
    T* row = memory.shard(piece.shard) + piece.offset();
    const bool fails = !leading_ && *reinterpret_cast<const std::int64_t*>(memory.extra(problem.state)) == 0;
    const bool is_zero = stored.i < j;
    const std::int64_t stride = extent(j);
    const T* from = is_zero || fails ? nullptr
                                     : tile(problem, memory, stored.i, j).data +
                                           (box.rows.start - stored.i * tiling_.size) * stride + box.columns.start -
                                           j * tiling_.size;
    for (std::int64_t r = 0; r < box.rows.size; ++r, row += piece.stride()) {
      if (is_zero) {
        std::fill_n(row, box.columns.size, T{});
      } else if (fails) {
        fill_lower(row, box.rows.start + r, box.columns);
      } else {
        std::copy_n(from + r * stride, box.columns.size, row);
      }
    }
  }

  void fill(const Problem& problem, const Memory& memory, const Tile& filled) const {
    if (exists(problem, memory)) return;
    const auto [i, j] = filled;
    const Matrix a = tile(problem, memory, i, j);
    for (std::int64_t r = 0; r < extent(i); ++r) {
      fill_lower(a.data + r * a.stride, i * tiling_.size + r, tiling_.tile(j));
    }
  }

  // NaN up to the diagonal, in these columns of a row.
  static void fill_lower(T* to, std::int64_t row, const Extent& columns) {
    const std::int64_t below = std::clamp<std::int64_t>(row + 1 - columns.start, 0, columns.size);
    std::fill_n(to, below, cpu::not_a_number<T>());
    std::fill_n(to + below, columns.size - below, T{});
  }

  bool leading_;
  Tiling tiling_;
  std::vector<Problem> problems_;
};

}  // namespace

collectives::CollectivePtr potrf(const Context& context) {
  const ShardShapes& in = context.in();
  ShardShapes result =
      collectives::shapes_of(in.grid, (in.varying | AtomSet(context.atoms())) & context.wanted, in.dtype, in.even(),
                             [&](std::int64_t position) { return in.shape_at(position); });
  return cpu::with_matrix_type(in.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Potrf<decltype(tag)>>(context, std::move(result));
  });
}

}  // namespace shoal::linalg
