// The orthogonal and the upper triangular factor of a distributed matrix with no fewer rows than columns, by blocks of
// columns, which are dealt out to processes in turn. Each block is reduced by Householder's reflections, which go to
// all others as one product: Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder
// transformations", 1989. The next block is reduced while the rest of the matrix is updated. The orthogonal factor is
// made of the reflections in the reverse order, and takes their place.
#include <algorithm>
#include <complex>
#include <functional>
#include <optional>
#include <utility>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/machine/workspace.h"
#include "base/check.h"
#include "comm/collectives/collective_parts.h"
#include "core/this_process.h"
#include "linalg/column_blocks.h"
#include "linalg/table.h"

namespace shoal::linalg {
namespace {

using collectives::Context;

// Columns of the blocks, unless tiles are smaller: one thread reduces them.
constexpr std::int64_t kColumnsOfBlock = 64;
// Columns of a job that updates the block which is reduced next.
constexpr std::int64_t kUpdatedColumns = 16;

template <class T>
class Geqrf final : public ColumnBlocks<T> {
  using Base = ColumnBlocks<T>;
  using Base::add_loaded, Base::add_memory, Base::add_panel, Base::add_round, Base::add_states, Base::add_stored,
      Base::block, Base::bytes_, Base::count, Base::count_after, Base::extras_, Base::first_after, Base::groups_of,
      Base::is_good, Base::judge, Base::kernels, Base::load, Base::more_results_, Base::owner, Base::owns, Base::place,
      Base::result_, Base::row_jobs, Base::rows_, Base::rows_of_job, Base::step, Base::step_of, Base::store,
      Base::tell_state, Base::tiling_, Base::whole, Base::held;
  using typename Base::Group, typename Base::Matrix, typename Base::Memory, typename Base::Pieces, typename Base::Step;

 public:
  Geqrf(const Context& context, ShardShapes result, ShardShapes triangle)
      : Base(std::move(result), context.attrs.get<std::int64_t>("n"), blocks_of(context)) {
    const Grid& grid = *context.grid();
    const auto along = [&](const char* dim) { return grid.atoms_of(context.attrs.get<std::vector<std::string>>(dim)); };
    more_results_ = {std::move(triangle)};
    for (Group& group : groups_of(context)) {
      add_problem(
          {{.processes = group.processes,
            .from = {context.in(), group.positions, rows_, columns(), along("rows"), along("columns")},
            .to = {result_, group.positions, rows_, columns(), along("rows"), along("columns")},
            .here = group.has_this_process()},
           {more_results_[0], group.positions, columns(), columns(), along("side_rows"), along("side_columns")}});
    }
    bytes_ = 0;
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) bytes_ += 4 * result_.bytes(shard);
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    const Step& now = step(round);
    const Problem& problem = problems_[now.problem];
    if (!std::ranges::binary_search(problem.processes, process)) return;
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad:
        return add_loaded(problem, process, k, needs);
      case kBegin:
        return add_states(problem, process, needs);
      case kKeep:
      case kKeepAgain:
        if (owner(problem, k) == process) return;
        add_panel(problem, k, needs);
        needs.push_back({1, problem.products + whole(k), bytes_region(product_bytes(k))});
        return;
      case kStoreTriangle:
        if (owner(problem, k) != process) {
          const Extent own = tiling_.tile(k);
          problem.triangle.add_stored(process, {{0, own.start + own.size}, own}, problem.blocks + whole(k), needs);
        }
        return;
      case kStore:
        return add_stored(problem, process, k, needs);
      default:
        return;
    }
  }

  // The matrix is copied first, and what others read of it has been read when the result is stored.
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
        return load(problem, memory, k, job);
      case kState:
        return tell_state(problem, memory);
      case kBegin:
        return judge(problem, memory);
      case kStoreTriangle:
        return store_triangle(problem, memory, k, problem.stored_triangle[at][number]);
      case kStore:
        return store(problem, memory, k, problem.stored[at][number]);
      default:
        if (!is_good(problem, memory)) return;
    }
    switch (now.kind) {
      case kReduce:
        return reduce(problem, memory, k);
      case kKeep:
      case kKeepAgain:
        return keep(problem, memory, k, job);
      case kNext: {
        const std::int64_t first = job * kUpdatedColumns;
        return apply(problem, memory, k, k + 1, {first, std::min(kUpdatedColumns, tiling_.tile(k + 1).size - first)},
                     true);
      }
      case kRest: {
        const bool reduces = owns(problem, k + 1);
        if (reduces && job == 0) return reduce(problem, memory, k + 1);
        const std::int64_t j = problem.own[first_after(problem, k + 1) + number - (reduces ? 1 : 0)];
        return apply(problem, memory, k, j, {0, tiling_.tile(j).size}, true);
      }
      case kApply: {
        const bool owned = owns(problem, k);
        const std::int64_t j = problem.own[first_after(problem, k) + number - (owned ? 1 : 0)];
        if (j == k) begin_columns(problem, memory, k);
        return apply(problem, memory, k, j, {0, tiling_.tile(j).size}, false);
      }
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  // Blocks of columns are loaded; then each is reduced, goes to all processes, and updates the next block, and the rest
  // while that is reduced. When the triangle is stored, its place and that of the reflections is taken by the
  // orthogonal factor, from the last block to the first.
  enum Kind { kLoad, kState, kBegin, kReduce, kKeep, kNext, kRest, kStoreTriangle, kKeepAgain, kApply, kStore };

  struct Problem : Base::Blocks {
    MatrixShards triangle;
    std::vector<Pieces> stored_triangle = {};  // Of each block, where its columns of the triangle go.
    // Extras.
    std::int32_t products = 0;  // Of each block: the triangle with which its reflections are one product.
    std::int32_t kept = 0;      // The reflections that are applied,
    std::int32_t product = 0;   // and their triangle.
  };

  static cpu::BlasMatrix<const T> read(const Matrix& a, bool adjoint = false) { return {a.data, a.stride, adjoint}; }
  // The columns of the matrix, in blocks.
  static Tiling blocks_of(const Context& context) {
    const Grid& grid = *context.grid();
    const auto n = context.attrs.get<std::int64_t>("sides");
    const Atoms atoms = grid.atoms_of(context.attrs.get<std::vector<std::string>>("columns"));
    std::vector<Extent> shards;
    for (std::int64_t position = 0; position < grid.num_devices(); ++position) {
      shards.push_back(grid.extent(n, atoms, position));
    }
    return Base::in_blocks({n, tile_size(n, context.attrs.get<std::int64_t>("tile"), shards)}, kColumnsOfBlock);
  }

  std::int64_t columns() const { return tiling_.extent; }
  std::size_t product_bytes(std::int64_t k) const {
    const std::int64_t size = tiling_.tile(k).size;
    return static_cast<std::size_t>(size * size) * sizeof(T);
  }
  // ---- The plan.

  void add_problem(Problem problem) {
    place(problem);
    const auto add = [&](int holder, std::size_t bytes) { return add_memory(problem, holder, bytes); };
    problem.products = whole(std::ssize(extras_));
    for (std::int64_t k = 0; k < count(); ++k) {
      add(owner(problem, k), product_bytes(k));
      problem.stored_triangle.push_back(
          problem.here ? held(problem.triangle, more_results_[0], {{0, columns()}, tiling_.tile(k)}) : Pieces{});
    }
    problem.kept = add(this_process(), static_cast<std::size_t>(rows_ * tiling_.size) * sizeof(T));
    problem.product = add(this_process(), product_bytes(0));
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.processes.size() > 1;
    const std::int64_t one = problem.here ? 1 : 0;
    const auto add = [&](Kind kind, std::int64_t k, std::int64_t jobs, bool with_others = false) {
      // The orthogonal factor takes the place of what was sent; it may be stored where the matrix lay.
      add_round({.kind = kind, .problem = index, .k = k}, jobs,
                {.exchanges = with_others && exchanges,
                 .rewrites = (kind == kApply || (kind == kStore && k == 0)) && exchanges});
    };
    const auto if_own = [&](std::int64_t k, std::int64_t jobs) { return owns(problem, k) ? jobs : 0; };
    for (std::int64_t k = 0; k < count(); ++k) add(kLoad, k, if_own(k, row_jobs(0)), true);
    add(kState, 0, one);
    add(kBegin, 0, one, true);
    add(kReduce, 0, if_own(0, 1));
    for (std::int64_t k = 0; k + 1 < count(); ++k) {
      add(kKeep, k, one * row_jobs(tiling_.tile(k).start), true);
      add(kNext, k, if_own(k + 1, (tiling_.tile(k + 1).size + kUpdatedColumns - 1) / kUpdatedColumns));
      add(kRest, k, if_own(k + 1, 1) + count_after(problem, k + 1));
    }
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStoreTriangle, k, std::ssize(problem.stored_triangle[static_cast<std::size_t>(k)]), true);
    }
    for (std::int64_t k = count() - 1; k >= 0; --k) {
      add(kKeepAgain, k, one * row_jobs(tiling_.tile(k).start), true);
      add(kApply, k, if_own(k, 1) + count_after(problem, k));
    }
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStore, k, std::ssize(problem.stored[static_cast<std::size_t>(k)]), true);
    }
  }

  // ---- The work.

  void reduce(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Extent columns = tiling_.tile(k);
    const Matrix a = block(problem, memory, k);
    kernels().geqrf(whole(rows_ - columns.start), whole(columns.size), {a.data + columns.start * a.stride, a.stride},
                    {memory.extra(problem.products + whole(k)), whole(columns.size)});
  }

  // Also what this process has reduced itself, with the ones and zeros that are not stored in the block.
  void keep(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t job) const {
    const Extent columns = tiling_.tile(k);
    const Matrix from = block(problem, memory, k);
    if (job == 0) {
      std::copy_n(memory.extra(problem.products + whole(k)), columns.size * columns.size,
                  memory.extra(problem.product));
    }
    const Extent rows = rows_of_job(columns.start, job);
    T* const kept = memory.extra(problem.kept);
    for (std::int64_t r = rows.start; r < rows.start + rows.size; ++r) {
      T* const row = kept + r * columns.size;
      std::copy_n(from.data + r * from.stride, columns.size, row);
      const std::int64_t own = r - columns.start;
      if (own >= columns.size) continue;
      row[own] = T{1};
      std::fill(row + own + 1, row + columns.size, T{});
    }
  }

  // The reflections of block k, or of their adjoints in the reverse order, for some columns of block j.
  void apply(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t j, Extent some,
             bool adjoint) const {
    const Extent own = tiling_.tile(k);
    const std::int32_t rows = whole(rows_ - own.start);
    const std::int32_t size = whole(own.size);
    const std::int32_t columns = whole(some.size);
    const Matrix v{memory.extra(problem.kept) + own.start * own.size, size};
    const Matrix all = block(problem, memory, j);
    const Matrix a{all.data + own.start * all.stride + some.start, all.stride};
    const cpu::Workspace<T> work(own.size * some.size);
    std::fill_n(work.data(), own.size * some.size, T{});
    const Matrix product{work.data(), columns};
    kernels().subtract_product({size, columns, rows}, read(v, true), read(a), product);
    // What comes first has the other sign.
    kernels().trmm(size, columns, -1,
                   {.data = memory.extra(problem.product), .stride = size, .lower = false, .adjoint = adjoint},
                   product);
    kernels().subtract_product({rows, columns, size}, read(v), read(product), a);
  }

  // Those of the identity.
  void begin_columns(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix a = block(problem, memory, k);
    std::fill_n(a.data, rows_ * a.stride, T{});
    const std::int64_t first = tiling_.tile(k).start;
    for (std::int64_t i = 0; i < tiling_.tile(k).size; ++i) a.data[(first + i) * a.stride + i] = T{1};
  }

  void store_triangle(const Problem& problem, const Memory& memory, std::int64_t k,
                      const MatrixShards::Piece& piece) const {
    T* row = reinterpret_cast<T*>(memory.operands[1][piece.shard]) + piece.offset();
    const Matrix from = block(problem, memory, k);
    const Extent columns = tiling_.tile(k);
    const bool all_good = is_good(problem, memory);
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      const std::int64_t i = piece.box.rows.start + r;
      const std::int64_t zeros = std::clamp(i - piece.box.columns.start, std::int64_t{0}, piece.box.columns.size);
      const std::int64_t rest = piece.box.columns.size - zeros;
      std::fill_n(row, zeros, T{});
      if (rest == 0) continue;
      if (all_good) {
        std::copy_n(from.data + i * from.stride + piece.box.columns.start - columns.start + zeros, rest, row + zeros);
      } else {
        std::fill_n(row + zeros, rest, cpu::not_a_number<T>());
      }
    }
  }

  std::vector<Problem> problems_;
};

}  // namespace

collectives::CollectivePtr geqrf(const Context& context) {
  const ShardShapes& in = context.in();
  const AtomSet all = in.varying | AtomSet(context.atoms());
  ShardShapes result = collectives::shapes_of(in.grid, all & context.wanted, in.dtype, in.even(),
                                              [&](std::int64_t position) { return in.shape_at(position); });
  const Grid& grid = *in.grid;
  const auto n = context.attrs.get<std::int64_t>("sides");
  const auto along = [&](const char* dim) { return grid.atoms_of(context.attrs.get<std::vector<std::string>>(dim)); };
  const Atoms rows = along("side_rows");
  const Atoms columns = along("side_columns");
  const bool even = is_even(grid, {n, n}, {rows, columns});
  ShardShapes triangle =
      collectives::shapes_of(in.grid, all & context.more_wanted[0], in.dtype, even, [&](std::int64_t position) {
        return Shape{grid.extent(n, rows, position).size, grid.extent(n, columns, position).size};
      });
  return cpu::with_matrix_type(in.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Geqrf<decltype(tag)>>(context, std::move(result), std::move(triangle));
  });
}

}  // namespace shoal::linalg
