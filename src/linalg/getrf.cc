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
#include "linalg/column_blocks.h"
#include "linalg/table.h"

namespace shoal::linalg {
namespace {

using collectives::Context;

// Columns of the blocks, unless tiles are smaller: one thread factors them.
constexpr std::int64_t kMostColumns = 128;
template <class T>
class Getrf final : public ColumnBlocks<T> {
  using Base = ColumnBlocks<T>;
  using Base::add_loaded, Base::add_memory, Base::add_panel, Base::add_round, Base::add_states, Base::add_stored,
      Base::block, Base::bytes_, Base::count, Base::count_after, Base::extras_, Base::first_after, Base::groups_of,
      Base::is_good, Base::judge, Base::kernels, Base::load, Base::more_results_, Base::owner, Base::owns, Base::place,
      Base::result_, Base::row_jobs, Base::rows_, Base::rows_of_job, Base::step, Base::step_of, Base::store,
      Base::tell_state, Base::tiling_, Base::whole;
  using typename Base::Group, typename Base::Matrix, typename Base::Memory, typename Base::Pieces, typename Base::Step;

 public:
  Getrf(const Context& context, ShardShapes result, ShardShapes exchanges)
      : Base(std::move(result), context.attrs.get<std::int64_t>("n"),
             Base::in_blocks(Base::tiling_of(context), kMostColumns)) {
    const Grid& grid = *context.grid();
    const Atoms rows = grid.atoms_of(context.attrs.get<std::vector<std::string>>("rows"));
    const Atoms columns = grid.atoms_of(context.attrs.get<std::vector<std::string>>("columns"));
    more_results_ = {exchanges, exchanges};  // The pivots, and the order of rows.
    for (Group& group : groups_of(context)) {
      Problem problem{{.processes = group.processes,
                       .from = {context.in(), group.positions, rows_, rows_, rows, columns},
                       .to = {result_, group.positions, rows_, rows_, rows, columns},
                       .here = group.has_this_process()}};
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
        return add_loaded(problem, process, k, needs);
      case kBegin:
        return add_states(problem, process, needs);
      case kKeep:
        if (owner(problem, k) == process) return;
        add_panel(problem, k, needs);
        needs.push_back({1, problem.pivots + whole(k), bytes_region(pivot_bytes(k))});
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
        if (!is_good(problem, memory)) return;
    }
    switch (now.kind) {
      case kFactor:
        return factor(problem, memory, k);
      case kKeep:
        return keep(problem, memory, k, job);
      case kNext:
        return exchange_and_solve(problem, memory, k, k + 1);
      case kNextRows: {
        const Extent rows = rows_of_job(tiling_.tile(k + 1).start, job);
        return multiply(problem, memory, k, k + 1, rows.start, rows.size);
      }
      case kRest: {
        const bool factors = owns(problem, k + 1);
        if (factors && job == 0) return factor(problem, memory, k + 1);
        const std::int64_t j =
            problem.own[first_after(problem, k + 1) + static_cast<std::size_t>(job - (factors ? 1 : 0))];
        exchange_and_solve(problem, memory, k, j);
        const std::int64_t first = tiling_.tile(k + 1).start;
        return multiply(problem, memory, k, j, first, rows_ - first);
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

  struct Problem : Base::Blocks {
    std::vector<std::int32_t> orders = {};  // The shards of pivots and orders that are here.
    // Extras.
    std::int32_t pivots = 0;  // Of each block: the rows with which its first ones were exchanged.
    std::int32_t kept = 0;    // The panel that others have made,
    std::int32_t order = 0;   // and all pivots.
  };

  std::size_t pivot_bytes(std::int64_t k) const {
    return static_cast<std::size_t>(tiling_.tile(k).size) * sizeof(std::int32_t);
  }
  // ---- The plan.

  void add_problem(Problem problem) {
    place(problem);
    const auto add = [&](int holder, std::size_t bytes) { return add_memory(problem, holder, bytes); };
    problem.pivots = whole(std::ssize(extras_));
    for (std::int64_t k = 0; k < count(); ++k) add(owner(problem, k), pivot_bytes(k));
    const auto n = static_cast<std::size_t>(rows_);
    const bool is_alone = problem.processes.size() == 1;
    problem.kept = add(this_process(), is_alone ? 0 : n * static_cast<std::size_t>(tiling_.size) * sizeof(T));
    problem.order = add(this_process(), n * sizeof(std::int32_t));
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
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
      add(kRest, k, if_own(k + 1, 1) + count_after(problem, k + 1));
    }
    add(kExchange, 0, std::ssize(problem.own));
    add(kStoreOrder, 0, one);
    for (std::int64_t k = 0; k < count(); ++k) {
      add(kStore, k, std::ssize(problem.stored[static_cast<std::size_t>(k)]), true);
    }
  }

  // ---- The work.

  // A factored one, from the diagonal on.
  Matrix panel(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Matrix all =
        owns(problem, k) ? block(problem, memory, k) : Matrix{memory.extra(problem.kept), whole(tiling_.tile(k).size)};
    return {all.data + tiling_.tile(k).start * all.stride, all.stride};
  }
  std::int32_t* order(const Problem& problem, const Memory& memory) const {
    return memory_of<std::int32_t>(memory, problem.order);
  }

  void begin(const Problem& problem, const Memory& memory) const {
    judge(problem, memory);
    std::iota(order(problem, memory), order(problem, memory) + rows_, 0);
  }

  // Pivots are counted from the first row of the matrix.
  void factor(const Problem& problem, const Memory& memory, std::int64_t k) const {
    const Extent columns = tiling_.tile(k);
    auto* const pivots = memory_of<std::int32_t>(memory, problem.pivots + whole(k));
    kernels().getrf(whole(rows_ - columns.start), whole(columns.size), panel(problem, memory, k), pivots);
    for (std::int64_t i = 0; i < columns.size; ++i) pivots[i] += whole(columns.start);
  }

  void keep(const Problem& problem, const Memory& memory, std::int64_t k, std::int64_t job) const {
    const Extent columns = tiling_.tile(k);
    if (job == 0) {
      std::copy_n(memory_of<std::int32_t>(memory, problem.pivots + whole(k)), columns.size,
                  order(problem, memory) + columns.start);
    }
    if (owns(problem, k)) return;
    const Extent rows = rows_of_job(columns.start, job);
    std::copy_n(block(problem, memory, k).data + rows.start * columns.size, rows.size * columns.size,
                memory.extra(problem.kept) + rows.start * columns.size);
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
    exchange_rows(problem, memory, j, columns.start + columns.size, rows_);
  }

  void store_order(const Problem& problem, const Memory& memory) const {
    const std::int32_t* const pivots = order(problem, memory);
    for (const std::int32_t shard : problem.orders) {
      auto* const to = reinterpret_cast<std::int32_t*>(memory.operands[1][shard]);
      auto* const permutation = reinterpret_cast<std::int32_t*>(memory.operands[2][shard]);
      std::copy_n(pivots, rows_, to);
      std::iota(permutation, permutation + rows_, 0);
      for (std::int64_t i = 0; i < rows_; ++i) std::swap(permutation[i], permutation[pivots[i]]);
    }
  }

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
