// The solution of a triangular system with a distributed matrix, by tiles. What is solved of a panel's rows goes to
// whoever has the panel's tiles, and what those make of it to the rows it is subtracted from, in the order of panels.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <complex>
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

// Right sides of a job.
constexpr std::int64_t kSidesOfJob = 256;

template <class T>
class Trsm final : public Solver {
 public:
  Trsm(const Context& context, ShardShapes result)
      : Solver(std::move(result)),
        tiling_(tiling_of(context)),
        sides_{context.attrs.get<std::int64_t>("sides"), kSidesOfJob},
        is_adjoint_(context.attrs.contains("adjoint")),
        has_unit_diagonal_(context.attrs.get<bool>("unit_diagonal")),
        is_lower_(context.attrs.get<bool>("lower")) {
    const Grid& grid = *context.grid();
    const auto atoms = [&](std::string_view name) {
      return grid.atoms_of(context.attrs.get<std::vector<std::string>>(name));
    };
    const Atoms rows = atoms("rows");
    const Atoms columns = atoms("columns");
    for (Group& group : groups_of(context)) {
      Problem problem{
          .processes = group.processes,
          .matrix = {context.in(), group.positions, tiling_.extent, tiling_.extent, rows, columns},
          .from = {context.operands[1], group.positions, tiling_.extent, sides_.extent, atoms("side_rows"),
                   atoms("side_columns")},
          .to = {result_, group.positions, tiling_.extent, sides_.extent, atoms("side_rows"), atoms("side_columns")}};
      problem.here = group.has_this_process();
      add_problem(std::move(problem));
    }
    bytes_ = 0;
    for (const ShardShapes* shapes : {&context.in(), static_cast<const ShardShapes*>(&result_)}) {
      for (std::int64_t shard = 0; shard < shapes->count(); ++shard) bytes_ += shapes->bytes(shard);
    }
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    const Step& now = step(round);
    const Problem& problem = problems_[now.problem];
    if (!std::ranges::binary_search(problem.processes, process)) return;
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad:
        if (row_owner(problem, k) == process) problem.from.add_needs(process, rows_box(k), 1, needs);
        return;
      case kSolve:
        if (row_owner(problem, k) == process) problem.matrix.add_needs(process, tile_box(k, k), 0, needs);
        return;
      case kMultiply: {
        // What is solved, and those tiles of the panel that lie in several processes' shards.
        bool multiplies = false;
        for (std::int64_t i = 0; i < count(); ++i) {
          if (!comes_after(i, k) || tile_owner(problem, i, k) != process) continue;
          multiplies = true;
          problem.matrix.add_needs(process, matrix_box(i, k), 0, needs);
        }
        if (multiplies && row_owner(problem, k) != process) add_rows(problem.solution + whole(k), k, needs);
        return;
      }
      case kSubtract:
        for (std::int64_t i = 0; i < count(); ++i) {
          if (!comes_after(i, k) || row_owner(problem, i) != process) continue;
          const int maker = tile_owner(problem, i, k);
          if (maker != process) add_rows(product_of(problem, maker, i), i, needs);
        }
        return;
      case kStore: {
        if (problem.to.holds_some(process, rows_box(k)) && row_owner(problem, k) != process)
          add_rows(problem.solution + whole(k), k, needs);
        return;
      }
      default:
        return;
    }
  }

  // Right sides are copied first, and what others read of them has been read when the solution is stored.
  std::optional<std::size_t> overwritten() const override { return 1; }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    std::int64_t job = 0;
    const Step& now = step_of(tile, job);
    const Problem& problem = problems_[now.problem];
    const Memory memory{operands, result};
    const std::int64_t k = now.k;
    const auto some_sides = [&] { return sides_.tile(job % sides_.count()); };
    switch (now.kind) {
      case kLoad:
        return load(problem, memory, k, some_sides());
      case kSolve:
        return solve(problem, memory, k, some_sides());
      case kMultiply: {
        const Panel& panel = problem.panels[static_cast<std::size_t>(k)];
        return multiply(problem, memory, panel.multiplied[static_cast<std::size_t>(job / sides_.count())], k,
                        some_sides());
      }
      case kSubtract: {
        const Panel& panel = problem.panels[static_cast<std::size_t>(k)];
        return subtract(problem, memory, panel.subtracted[static_cast<std::size_t>(job / sides_.count())], k,
                        some_sides());
      }
      case kStore:
        return store(problem, memory, k, problem.stored[static_cast<std::size_t>(k)][static_cast<std::size_t>(job)]);
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  // The right sides are loaded row of tiles by row of tiles; then each panel is solved, multiplied and subtracted, and
  // the solution goes where it is wanted.
  enum Kind { kLoad, kSolve, kMultiply, kSubtract, kStore };

  // What this process does for a panel: the rows of the tiles that it multiplies by, and of what it subtracts from
  // that others have multiplied.
  struct Panel {
    std::vector<std::int64_t> multiplied;
    std::vector<std::int64_t> subtracted;
  };
  struct Problem {
    std::vector<int> processes;
    MatrixShards matrix;
    MatrixShards from;
    MatrixShards to;
    bool here = false;
    std::int32_t solution = 0;  // The extra of the first tile's rows of the solution.
    std::int32_t products = 0;  // Of what processes have multiplied: for each, its rows.
    std::vector<Panel> panels = {};
    std::vector<std::vector<MatrixShards::Piece>> stored = {};  // Of each tile's rows, where they go in the end.
    std::vector<std::vector<int>> owners = {};  // Of the tiles of the matrix, by rows; those that are not needed, too.
  };
  using Memory = MemoryOf<T>;
  using Matrix = cpu::BlasMatrix<T>;

  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }

  std::int64_t count() const { return tiling_.count(); }
  std::int64_t extent(std::int64_t i) const { return tiling_.tile(i).size; }
  Box rows_box(std::int64_t i) const { return {tiling_.tile(i), {0, sides_.extent}}; }
  Box tile_box(std::int64_t i, std::int64_t j) const { return {tiling_.tile(i), tiling_.tile(j)}; }
  // Whether the system is solved from its first row on.
  bool is_forward() const { return is_lower_ != is_adjoint_; }
  bool comes_after(std::int64_t i, std::int64_t k) const { return is_forward() ? i > k : i < k; }
  std::int64_t panel_at(std::int64_t step) const { return is_forward() ? step : count() - 1 - step; }
  // The tile that says what row i has of panel k.
  Box matrix_box(std::int64_t i, std::int64_t k) const { return is_adjoint_ ? tile_box(k, i) : tile_box(i, k); }

  // A panel is solved by who has the tile on the diagonal.
  int row_owner(const Problem& problem, std::int64_t k) const {
    return problem.owners[static_cast<std::size_t>(k)][static_cast<std::size_t>(k)];
  }
  int tile_owner(const Problem& problem, std::int64_t i, std::int64_t k) const {
    const auto [row, column] = is_adjoint_ ? std::pair(k, i) : std::pair(i, k);
    return problem.owners[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
  }
  static std::int32_t place_of(const Problem& problem, int process) {
    return static_cast<std::int32_t>(std::ranges::lower_bound(problem.processes, process) - problem.processes.begin());
  }
  std::int32_t product_of(const Problem& problem, int maker, std::int64_t i) const {
    return problem.products + place_of(problem, maker) * whole(count()) + whole(i);
  }
  void add_rows(std::int32_t extra, std::int64_t i, std::vector<Need>& needs) const {
    needs.push_back({2, extra, bytes_region(static_cast<std::size_t>(extent(i) * sides_.extent) * sizeof(T))});
  }

  // ---- The plan.

  // A tile belongs to a process that has it, or most of it; where several have it, they take turns.
  int owner_of(const Problem& problem, std::int64_t i, std::int64_t j) const {
    std::vector<int> holders;
    std::int64_t most = 0;
    for (const int process : problem.processes) {
      std::int64_t held = 0;
      for (const auto& piece : problem.matrix.pieces_for(process, tile_box(i, j))) {
        if (problem.matrix.is_held(process, piece.shard)) held += piece.box.rows.size * piece.box.columns.size;
      }
      if (held > most) holders.clear();
      if (held >= most) holders.push_back(process);
      most = std::max(most, held);
    }
    return holders[static_cast<std::size_t>(i + j) % holders.size()];
  }

  void add_problem(Problem problem) {
    for (std::int64_t i = 0; i < count(); ++i) {
      std::vector<int>& row = problem.owners.emplace_back();
      for (std::int64_t j = 0; j < count(); ++j) {
        row.push_back(problem.processes.size() == 1 ? problem.processes[0] : owner_of(problem, i, j));
      }
    }
    const auto bytes = [&](std::int64_t i) { return static_cast<std::size_t>(extent(i) * sides_.extent) * sizeof(T); };
    problem.solution = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t i = 0; i < count(); ++i) {
      const int owner = row_owner(problem, i);
      add_extra({owner}, owner == this_process() ? bytes(i) : 0);
    }
    problem.products = static_cast<std::int32_t>(extras_.size());
    problem.panels.resize(static_cast<std::size_t>(count()));
    for (const int process : problem.processes) {
      for (std::int64_t i = 0; i < count(); ++i) {
        bool is_made = false;
        for (std::int64_t k = 0; k < count(); ++k) {
          if (!comes_after(i, k) || tile_owner(problem, i, k) != process) continue;
          is_made = true;
          if (process == this_process()) problem.panels[static_cast<std::size_t>(k)].multiplied.push_back(i);
        }
        add_extra({process}, is_made && process == this_process() ? bytes(i) : 0);
      }
    }
    for (std::int64_t k = 0; k < count() && problem.here; ++k) {
      for (std::int64_t i = 0; i < count(); ++i) {
        if (!comes_after(i, k) || row_owner(problem, i) != this_process()) continue;
        problem.panels[static_cast<std::size_t>(k)].subtracted.push_back(i);
      }
    }
    problem.stored.resize(static_cast<std::size_t>(count()));
    for (std::int64_t i = 0; i < count() && problem.here; ++i) {
      for (const auto& piece : problem.to.pieces_for(this_process(), rows_box(i))) {
        if (result_.is_held(piece.shard)) problem.stored[static_cast<std::size_t>(i)].push_back(piece);
      }
    }
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.processes.size() > 1;
    const std::int64_t parts = sides_.count();
    const auto owns = [&](std::int64_t k) { return row_owner(problem, k) == this_process() ? parts : 0; };
    const auto add = [&](Kind kind, std::int64_t k, std::int64_t jobs) {
      add_round({.kind = kind, .problem = index, .k = k}, jobs,
                {.exchanges = exchanges, .rewrites = kind == kMultiply || (kind == kStore && k == 0)});
    };
    for (std::int64_t k = 0; k < count(); ++k) add(kLoad, k, owns(k));
    for (std::int64_t step = 0; step < count(); ++step) {
      const std::int64_t k = panel_at(step);
      const Panel& panel = problem.panels[static_cast<std::size_t>(k)];
      add(kSolve, k, owns(k));
      if (step + 1 == count()) break;
      add(kMultiply, k, std::ssize(panel.multiplied) * parts);
      if (exchanges) add(kSubtract, k, std::ssize(panel.subtracted) * parts);
    }
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStore, k, std::ssize(problem.stored[static_cast<std::size_t>(k)]));
    }
  }

  // ---- The work.

  // Rows of the solution, or of what is subtracted from it.
  Matrix rows(const Memory& memory, std::int32_t extra, const Extent& sides) const {
    return {memory.extra(extra) + sides.start, whole(sides_.extent)};
  }
  Matrix solution(const Problem& problem, const Memory& memory, std::int64_t i, const Extent& sides) const {
    return rows(memory, problem.solution + whole(i), sides);
  }

  // Calls use() with a part of the matrix, put together if it lies in several shards.
  template <class F>
  void with_matrix(const Problem& problem, const Memory& memory, const Box& box, F&& use) const {
    const auto pieces = problem.matrix.pieces_for(this_process(), box);
    const auto data = [&](const MatrixShards::Piece& piece) { return memory.operand(0, piece.shard) + piece.offset(); };
    if (pieces.size() == 1) return use(cpu::BlasMatrix<const T>{data(pieces[0]), whole(pieces[0].stride())});
    const cpu::Workspace<T> together(box.rows.size * box.columns.size);
    for (const MatrixShards::Piece& piece : pieces) {
      T* to = together.data() + (piece.box.rows.start - box.rows.start) * box.columns.size + piece.box.columns.start -
              box.columns.start;
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r) {
        std::copy_n(data(piece) + r * piece.stride(), piece.box.columns.size, to + r * box.columns.size);
      }
    }
    use(cpu::BlasMatrix<const T>{together.data(), whole(box.columns.size)});
  }

  void load(const Problem& problem, const Memory& memory, std::int64_t k, const Extent& sides) const {
    const Matrix to = solution(problem, memory, k, sides);
    for (const auto& piece : problem.from.pieces_for(this_process(), {tiling_.tile(k), sides})) {
      const T* from = memory.operand(1, piece.shard) + piece.offset();
      T* row =
          to.data + (piece.box.rows.start - tiling_.tile(k).start) * to.stride + piece.box.columns.start - sides.start;
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r, from += piece.stride(), row += to.stride) {
        std::copy_n(from, piece.box.columns.size, row);
      }
    }
  }

  void solve(const Problem& problem, const Memory& memory, std::int64_t k, const Extent& sides) const {
    with_matrix(problem, memory, tile_box(k, k), [&](const cpu::BlasMatrix<const T>& a) {
      kernels().trsm(whole(extent(k)), whole(sides.size),
                     {.data = a.data,
                      .stride = a.stride,
                      .lower = is_lower_,
                      .unit_diagonal = has_unit_diagonal_,
                      .adjoint = is_adjoint_},
                     solution(problem, memory, k, sides));
    });
  }

  // The product is made before it is subtracted, by whomever.
  void multiply(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k,
                const Extent& sides) const {
    const Matrix x = solution(problem, memory, k, sides);
    const Matrix product = rows(memory, product_of(problem, this_process(), i), sides);
    with_matrix(problem, memory, matrix_box(i, k), [&](const cpu::BlasMatrix<const T>& a) {
      for (std::int64_t r = 0; r < extent(i); ++r) std::fill_n(product.data + r * product.stride, sides.size, T{});
      kernels().subtract_product({whole(extent(i)), whole(sides.size), whole(extent(k))},
                                 {a.data, a.stride, is_adjoint_}, {x.data, x.stride}, product);
    });
    if (problem.processes.size() == 1) add(problem, memory, i, product, sides);
  }

  void subtract(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t k,
                const Extent& sides) const {
    add(problem, memory, i, rows(memory, product_of(problem, tile_owner(problem, i, k), i), sides), sides);
  }

  void add(const Problem& problem, const Memory& memory, std::int64_t i, const Matrix& product,
           const Extent& sides) const {
    const Matrix to = solution(problem, memory, i, sides);
    for (std::int64_t r = 0; r < extent(i); ++r) {
      for (std::int64_t c = 0; c < sides.size; ++c) to.data[r * to.stride + c] += product.data[r * product.stride + c];
    }
  }

  void store(const Problem& problem, const Memory& memory, std::int64_t i, const MatrixShards::Piece& piece) const {
    const Matrix from = solution(problem, memory, i, piece.box.columns);
    T* row = memory.shard(piece.shard) + piece.offset();
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      std::copy_n(from.data + (piece.box.rows.start - tiling_.tile(i).start + r) * from.stride, piece.box.columns.size,
                  row);
    }
  }

  Tiling tiling_;
  Tiling sides_;
  bool is_adjoint_;
  bool has_unit_diagonal_;
  bool is_lower_;
  std::vector<Problem> problems_;
};

}  // namespace

collectives::CollectivePtr trsm(const Context& context) {
  const ShardShapes& sides = context.operands[1];
  const AtomSet varying = context.in().varying | sides.varying | AtomSet(context.atoms());
  ShardShapes result = collectives::shapes_of(sides.grid, varying & context.wanted, sides.dtype, sides.even(),
                                              [&](std::int64_t position) { return sides.shape_at(position); });
  return cpu::with_matrix_type(sides.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Trsm<decltype(tag)>>(context, std::move(result));
  });
}

}  // namespace shoal::linalg
