// The triangular factors of a distributed matrix whose rows are exchanged, right-looking, by blocks of columns, which
// are dealt out to processes in turn: Dongarra, Duff, Sorensen and van der Vorst, "Numerical linear algebra for
// high-performance computers", 1998, 5.4. The next panel is factored while the rest of the matrix is updated.
#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>
#include <optional>
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

// Columns of the blocks, unless tiles are smaller: one thread factors them.
constexpr std::int64_t kMostColumns = 128;
// Rows of a job that updates the next panel.
constexpr std::int64_t kRowsOfJob = 512;

template <class T>
class Getrf final : public Solver {
 public:
  Getrf(const Context& context, ShardShapes result, ShardShapes exchanges)
      : Solver(std::move(result)), tiling_(tiling_of(context)) {
    const std::int64_t parts = (tiling_.size + kMostColumns - 1) / kMostColumns;
    tiling_.size = (tiling_.size + parts - 1) / parts;
    const Grid& grid = *context.grid();
    const Atoms rows = grid.atoms_of(context.attrs.get<std::vector<std::string>>("rows"));
    const Atoms columns = grid.atoms_of(context.attrs.get<std::vector<std::string>>("columns"));
    more_results_ = {exchanges, exchanges};  // The pivots, and the order of rows.
    for (Group& group : groups_of(context)) {
      Problem problem{.processes = group.processes,
                      .from = {context.in(), group.positions, extent(), extent(), rows, columns},
                      .to = {result_, group.positions, extent(), extent(), rows, columns}};
      problem.here = group.has_this_process();
      for (const std::int64_t device : group.devices) {
        const std::int64_t shard = exchanges.shard_at(device);
        if (exchanges.is_held(shard)) problem.orders.push_back(static_cast<std::int32_t>(shard));
      }
      add_problem(std::move(problem));
    }
    bytes_ = 0;
    for (std::int64_t shard = 0; shard < result_.count(); ++shard) bytes_ += 2 * result_.bytes(shard);
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    const Step& now = step(round);
    const Problem& problem = problems_[now.problem];
    if (!std::ranges::binary_search(problem.processes, process)) return;
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad:
        if (owner(problem, k) == process) problem.from.add_needs(process, box(k), 0, needs);
        return;
      case kBegin:
        for (std::size_t i = 0; i < problem.processes.size(); ++i) {
          if (problem.processes[i] == process) continue;
          needs.push_back({1, problem.states + static_cast<std::int32_t>(i), bytes_region(sizeof(std::int64_t))});
        }
        return;
      case kKeep: {
        if (owner(problem, k) == process) return;
        const Extent columns = tiling_.tile(k);
        needs.push_back({1,
                         problem.blocks + whole(k),
                         {.shape = {extent(), columns.size},
                          .start = {columns.start, 0},
                          .extents = {extent() - columns.start, columns.size},
                          .element = sizeof(T)}});
        needs.push_back({1, problem.pivots + whole(k), bytes_region(pivot_bytes(k))});
        return;
      }
      case kStore:
        if (owner(problem, k) != process) problem.to.add_stored(process, box(k), problem.blocks + whole(k), needs);
        return;
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
    switch (now.kind) {
      case kLoad:
        return load(problem, memory, k, job);
      case kState:
        return tell_state(problem, memory);
      case kBegin:
        return begin(problem, memory);
      case kStore:
        return store(problem, memory, k, problem.stored[static_cast<std::size_t>(k)][static_cast<std::size_t>(job)]);
      case kStoreOrder:
        return store_order(problem, memory);
      default:
        if (!*memory_of<bool>(memory, problem.is_good)) return;
    }
    switch (now.kind) {
      case kFactor:
        return factor(problem, memory, k);
      case kKeep:
        return keep(problem, memory, k, job);
      case kNext:
        return exchange_and_solve(problem, memory, k, k + 1);
      case kNextRows: {
        const std::int64_t first = tiling_.tile(k + 1).start + job * kRowsOfJob;
        return multiply(problem, memory, k, k + 1, first, std::min(kRowsOfJob, extent() - first));
      }
      case kRest: {
        const bool factors = owns(problem, k + 1);
        if (factors && job == 0) return factor(problem, memory, k + 1);
        const std::int64_t j =
            problem.own[first_after(problem, k + 1) + static_cast<std::size_t>(job - (factors ? 1 : 0))];
        exchange_and_solve(problem, memory, k, j);
        const std::int64_t first = tiling_.tile(k + 1).start;
        return multiply(problem, memory, k, j, first, extent() - first);
      }
      case kExchange:
        return exchange_left(problem, memory, problem.own[static_cast<std::size_t>(job)]);
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  // Blocks of columns are loaded; then each is factored, goes to all processes, and updates the next block, and the
  // rest while that is factored. Rows of the blocks on the left are exchanged at last.
  enum Kind { kLoad, kState, kBegin, kFactor, kKeep, kNext, kNextRows, kRest, kExchange, kStoreOrder, kStore };

  struct Problem {
    std::vector<int> processes;
    MatrixShards from;
    MatrixShards to;
    bool here = false;
    std::vector<std::int32_t> orders = {};                      // The shards of pivots and orders that are here.
    std::vector<std::int64_t> own = {};                         // The blocks of this process, ascending.
    std::vector<std::vector<MatrixShards::Piece>> stored = {};  // Of each block, where it goes in the end.
    // Extras: the first of several, or one.
    std::int32_t blocks = 0;   // Of each block: all of its rows.
    std::int32_t pivots = 0;   // Of each block: the rows with which its first ones were exchanged.
    std::int32_t states = 0;   // Of each process: whether what it has loaded is finite.
    std::int32_t checks = 0;   // Of each job that has loaded.
    std::int32_t is_good = 0;  // Whether all of it is.
    std::int32_t kept = 0;     // The panel that others have made,
    std::int32_t order = 0;    // and all pivots.
  };
  using Memory = MemoryOf<T>;
  using Matrix = cpu::BlasMatrix<T>;

  static cpu::BlasMatrix<const T> read(const Matrix& a) { return {a.data, a.stride}; }
  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }
  template <class Element>
  static Element* memory_of(const Memory& memory, std::int32_t extra) {
    return reinterpret_cast<Element*>(memory.extra(extra));
  }

  std::int64_t extent() const { return tiling_.extent; }
  std::int64_t count() const { return tiling_.count(); }
  std::int64_t row_jobs(std::int64_t first) const { return (extent() - first + kRowsOfJob - 1) / kRowsOfJob; }
  Box box(std::int64_t k) const { return {{0, extent()}, tiling_.tile(k)}; }
  int owner(const Problem& problem, std::int64_t k) const {
    return problem.processes[static_cast<std::size_t>(k) % problem.processes.size()];
  }
  bool owns(const Problem& problem, std::int64_t k) const {
    return problem.here && owner(problem, k) == this_process();
  }
  std::size_t pivot_bytes(std::int64_t k) const {
    return static_cast<std::size_t>(tiling_.tile(k).size) * sizeof(std::int32_t);
  }
  // The first of this process' blocks behind a block.
  static std::size_t first_after(const Problem& problem, std::int64_t k) {
    return static_cast<std::size_t>(std::ranges::upper_bound(problem.own, k) - problem.own.begin());
  }

  // ---- The plan.

  void add_problem(Problem problem) {
    for (std::int64_t k = 0; k < count(); ++k) {
      if (owns(problem, k)) problem.own.push_back(k);
      auto& stored = problem.stored.emplace_back();
      if (!problem.here) continue;
      for (const auto& piece : problem.to.pieces_for(this_process(), box(k))) {
        if (result_.is_held(piece.shard)) stored.push_back(piece);
      }
    }
    add_memory(problem);
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
  }

  void add_memory(Problem& problem) {
    const auto n = static_cast<std::size_t>(extent());
    const auto add = [&](int holder, std::size_t bytes) {
      return add_extra({holder}, problem.here && holder == this_process() ? bytes : 0);
    };
    problem.blocks = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t k = 0; k < count(); ++k) {
      add(owner(problem, k), n * static_cast<std::size_t>(tiling_.tile(k).size) * sizeof(T));
    }
    problem.pivots = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t k = 0; k < count(); ++k) add(owner(problem, k), pivot_bytes(k));
    problem.states = static_cast<std::int32_t>(extras_.size());
    for (const int process : problem.processes) add(process, sizeof(std::int64_t));
    problem.checks = add(this_process(), problem.own.size() * static_cast<std::size_t>(row_jobs(0)));
    problem.is_good = add(this_process(), sizeof(bool));
    const bool is_alone = problem.processes.size() == 1;
    problem.kept = add(this_process(), is_alone ? 0 : n * static_cast<std::size_t>(tiling_.size) * sizeof(T));
    problem.order = add(this_process(), n * sizeof(std::int32_t));
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.processes.size() > 1;
    const std::int64_t one = problem.here ? 1 : 0;
    const auto add = [&](Kind kind, std::int64_t k, std::int64_t jobs, bool with_others = false) {
      // Panels change at last, when they were sent; and the result may lie where the matrix did.
      add_round({.kind = kind, .problem = index, .k = k}, jobs,
                {.exchanges = with_others && exchanges,
                 .rewrites = (kind == kExchange || (kind == kStore && k == 0)) && exchanges});
    };
    const auto if_own = [&](std::int64_t k, std::int64_t jobs) { return owns(problem, k) ? jobs : 0; };
    for (std::int64_t k = 0; k < count(); ++k) add(kLoad, k, if_own(k, row_jobs(0)), true);
    add(kState, 0, one);
    add(kBegin, 0, one, true);
    add(kFactor, 0, if_own(0, 1));
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kKeep, k, one * row_jobs(tiling_.tile(k).start), true);
      if (k + 1 == count()) break;
      add(kNext, k, if_own(k + 1, 1));
      add(kNextRows, k, if_own(k + 1, row_jobs(tiling_.tile(k + 1).start)));
      const auto left = static_cast<std::int64_t>(problem.own.size() - first_after(problem, k + 1));
      add(kRest, k, if_own(k + 1, 1) + left);
    }
    add(kExchange, 0, std::ssize(problem.own));
    add(kStoreOrder, 0, one);
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStore, k, std::ssize(problem.stored[static_cast<std::size_t>(k)]), true);
    }
  }

  // ---- The work.

  Matrix block(const Problem& problem, const Memory& memory, std::int64_t k) const {
    return {memory.extra(problem.blocks + whole(k)), whole(tiling_.tile(k).size)};
  }
  // A factored one, from the diagonal on.
  Matrix panel(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix all =
        owns(problem, k) ? block(problem, memory, k) : Matrix{memory.extra(problem.kept), whole(tiling_.tile(k).size)};
    return {all.data + tiling_.tile(k).start * all.stride, all.stride};
  }
  std::int32_t* order(const Problem& problem, const Memory& memory) const {
    return memory_of<std::int32_t>(memory, problem.order);
  }

  void load(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t job) const {
    const Extent columns = tiling_.tile(k);
    const Extent rows{job * kRowsOfJob, std::min(kRowsOfJob, extent() - job * kRowsOfJob)};
    const Matrix to = block(problem, memory, k);
    for (const MatrixShards::Piece& piece : problem.from.pieces_for(this_process(), {rows, columns})) {
      const T* from = memory.operand(0, piece.shard) + piece.offset();
      T* row = to.data + piece.box.rows.start * to.stride + piece.box.columns.start - columns.start;
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r, from += piece.stride(), row += to.stride) {
        std::copy_n(from, piece.box.columns.size, row);
      }
    }
    const auto place = std::ranges::lower_bound(problem.own, k) - problem.own.begin();
    memory_of<bool>(memory, problem.checks)[place * row_jobs(0) + job] =
        cpu::all_finite(to.data + rows.start * to.stride, rows.size * to.stride);
  }

  void tell_state(const Problem& problem, const Memory& memory) const {
    const bool* const checks = memory_of<bool>(memory, problem.checks);
    const bool is_finite = std::all_of(checks, checks + std::ssize(problem.own) * row_jobs(0), std::identity());
    const auto place = std::ranges::lower_bound(problem.processes, this_process()) - problem.processes.begin();
    *memory_of<std::int64_t>(memory, problem.states + whole(place)) = is_finite ? 1 : 0;
  }

  void begin(const Problem& problem, const Memory& memory) const {
    bool is_good = true;
    for (std::int64_t i = 0; i < std::ssize(problem.processes); ++i) {
      is_good = is_good && *memory_of<std::int64_t>(memory, problem.states + whole(i)) == 1;
    }
    *memory_of<bool>(memory, problem.is_good) = is_good;
    std::iota(order(problem, memory), order(problem, memory) + extent(), 0);
  }

  // Pivots are counted from the first row of the matrix.
  void factor(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Extent columns = tiling_.tile(k);
    auto* const pivots = memory_of<std::int32_t>(memory, problem.pivots + whole(k));
    kernels().getrf(whole(extent() - columns.start), whole(columns.size), panel(problem, memory, k), pivots);
    for (std::int64_t i = 0; i < columns.size; ++i) pivots[i] += whole(columns.start);
  }

  void keep(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t job) const {
    const Extent columns = tiling_.tile(k);
    if (job == 0) {
      std::copy_n(memory_of<std::int32_t>(memory, problem.pivots + whole(k)), columns.size,
                  order(problem, memory) + columns.start);
    }
    if (owns(problem, k)) return;
    const std::int64_t first = columns.start + job * kRowsOfJob;
    const std::int64_t size = std::min(kRowsOfJob, extent() - first);
    std::copy_n(block(problem, memory, k).data + first * columns.size, size * columns.size,
                memory.extra(problem.kept) + first * columns.size);
  }

  void exchange_rows(const Problem& problem, const Memory& memory, std::int64_t j, std::int64_t begin,
                     std::int64_t end) const {
    const Matrix a = block(problem, memory, j);
    const std::int32_t* const pivots = order(problem, memory);
    for (std::int64_t i = begin; i < end; ++i) {
      if (pivots[i] != i)
        std::swap_ranges(a.data + i * a.stride, a.data + (i + 1) * a.stride, a.data + pivots[i] * a.stride);
    }
  }

  // Of block j, what panel k makes of its rows beside the diagonal.
  void exchange_and_solve(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t j) const {
    const Extent rows = tiling_.tile(k);
    exchange_rows(problem, memory, j, rows.start, rows.start + rows.size);
    const Matrix l = panel(problem, memory, k);
    const Matrix a = block(problem, memory, j);
    kernels().trsm(whole(rows.size), whole(tiling_.tile(j).size),
                   {.data = l.data, .stride = l.stride, .lower = true, .unit_diagonal = true},
                   {a.data + rows.start * a.stride, a.stride});
  }

  // And of others.
  void multiply(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t j, std::int64_t first,
                std::int64_t size) const {
    const Extent rows = tiling_.tile(k);
    const Matrix l = panel(problem, memory, k);
    const Matrix a = block(problem, memory, j);
    kernels().subtract_product({whole(size), whole(tiling_.tile(j).size), whole(rows.size)},
                               {l.data + (first - rows.start) * l.stride, l.stride},
                               {a.data + rows.start * a.stride, a.stride}, {a.data + first * a.stride, a.stride});
  }

  void exchange_left(const Problem& problem, const Memory& memory, std::int64_t j) const {
    const Extent columns = tiling_.tile(j);
    exchange_rows(problem, memory, j, columns.start + columns.size, extent());
  }

  void store_order(const Problem& problem, const Memory& memory) const {
    const std::int32_t* const pivots = order(problem, memory);
    for (const std::int32_t shard : problem.orders) {
      auto* const to = reinterpret_cast<std::int32_t*>(memory.operands[1][shard]);
      auto* const permutation = reinterpret_cast<std::int32_t*>(memory.operands[2][shard]);
      std::copy_n(pivots, extent(), to);
      std::iota(permutation, permutation + extent(), 0);
      for (std::int64_t i = 0; i < extent(); ++i) std::swap(permutation[i], permutation[pivots[i]]);
    }
  }

  void store(const Problem& problem, const Memory& memory, std::int64_t k, const MatrixShards::Piece& piece) const {
    T* row = memory.shard(piece.shard) + piece.offset();
    const Matrix from = block(problem, memory, k);
    const std::int64_t left = piece.box.columns.start - tiling_.tile(k).start;
    const bool is_good = *memory_of<bool>(memory, problem.is_good);
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      if (is_good) {
        std::copy_n(from.data + (piece.box.rows.start + r) * from.stride + left, piece.box.columns.size, row);
      } else {
        std::fill_n(row, piece.box.columns.size, cpu::not_a_number<T>());
      }
    }
  }

  Tiling tiling_;
  std::vector<Problem> problems_;
};

}  // namespace

collectives::CollectivePtr getrf(const Context& context) {
  const ShardShapes& in = context.in();
  const AtomSet all = in.varying | AtomSet(context.atoms());
  const std::int64_t n = context.attrs.get<std::int64_t>("n");
  ShardShapes result = collectives::shapes_of(in.grid, all & context.wanted, in.dtype, in.even(),
                                              [&](std::int64_t position) { return in.shape_at(position); });
  // Both vary alike: they are what all devices that work together have.
  ShardShapes exchanges = collectives::shapes_of(in.grid, all & context.more_wanted[0], Dtype::kI32, true,
                                                 [&](std::int64_t) { return Shape{n}; });
  return cpu::with_matrix_type(in.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Getrf<decltype(tag)>>(context, std::move(result), std::move(exchanges));
  });
}

}  // namespace shoal::linalg
