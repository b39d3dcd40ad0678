// Eigenvalues and eigenvectors of a distributed Hermitian matrix. Reflections make it tridiagonal, panel by panel:
// Dongarra, Sorensen and Hammarling, "Block reduction of matrices to condensed forms for eigenvalue computations",
// 1989; the halves of what comes out are diagonalised and joined (backend/cpu/decompositions/tridiagonal.h); and the
// reflections are applied to the vectors of that, column by column: Bischof and Van Loan, "The WY representation for
// products of Householder matrices", 1987, in the form of Schreiber and Van Loan.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/decompositions/matrix_elements.h"
#include "backend/cpu/decompositions/matrix_vectors.h"
#include "backend/cpu/decompositions/tile_kernels.h"
#include "backend/cpu/decompositions/tridiagonal.h"
#include "backend/cpu/machine/workspace.h"
#include "base/check.h"
#include "comm/collectives/collective_parts.h"
#include "core/this_process.h"
#include "linalg/solver.h"
#include "linalg/table.h"

namespace shoal::linalg {
namespace {

using collectives::Context;
using cpu::RealOf;

// Columns that become tridiagonal before the rest of the matrix is updated.
constexpr std::int64_t kPanel = 32;
// Reflections that are applied at once.
constexpr std::int64_t kBlock = 128;
// Vectors of a job.
constexpr std::int64_t kColumnsOfJob = 128;
// Jobs that weights are computed by.
constexpr std::int64_t kWeightJobs = 16;
// Elements of partial sums that are added up at a time.
constexpr std::int64_t kSummedAtOnce = 256;

// Without what the standard asks of infinities.
template <class T>
T times(const T& x, const T& y) {
  if constexpr (kIsComplexElement<T>) {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  } else {
    return x * y;
  }
}

template <class T>
T conjugate(const T& x) {
  if constexpr (kIsComplexElement<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

template <class T>
RealOf<T> imaginary(const T& x) {
  if constexpr (kIsComplexElement<T>) {
    return x.imag();
  } else {
    return 0;
  }
}

// The length of a vector whose greatest element has no square that is too great or too small.
template <class T>
RealOf<T> length_of(const T* x, std::int64_t n) {
  using Real = RealOf<T>;
  constexpr std::int64_t kSums = 16;
  const auto* const parts = reinterpret_cast<const Real*>(x);
  const std::int64_t size = n * static_cast<std::int64_t>(sizeof(T) / sizeof(Real));
  Real sums[std::size_t{kSums}] = {};
  std::int64_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (std::int64_t k = 0; k < kSums; ++k) sums[k] += parts[i + k] * parts[i + k];
  }
  for (std::int64_t k = 0; i < size; ++i, ++k) sums[k] += parts[i] * parts[i];
  Real sum = 0;
  for (const Real part : sums) sum += part;
  return std::sqrt(sum);
}

template <class T>
class Syevd final : public Solver {
 public:
  Syevd(const Context& context, ShardShapes values, std::optional<ShardShapes> vectors)
      : Solver(std::move(values)), tiling_(tiling_of(context)), has_vectors_(vectors.has_value()) {
    const Grid& grid = *context.grid();
    const Atoms rows = grid.atoms_of(context.attrs.get<std::vector<std::string>>("rows"));
    const Atoms columns = grid.atoms_of(context.attrs.get<std::vector<std::string>>("columns"));
    if (vectors) more_results_.push_back(std::move(*vectors));
    for (Group& group : groups_of(context)) {
      const ShardShapes& to = has_vectors_ ? more_results_[0] : context.in();
      std::vector<int> workers;
      for (std::size_t i = 0; i < group.devices.size(); ++i) workers.push_back(static_cast<int>(i));
      Problem problem{.processes = group.processes,
                      .workers = ProcessGrid(std::move(workers)),
                      .from = {context.in(), group.positions, extent(), extent(), rows, columns},
                      .to = {to, group.positions, extent(), extent(), rows, columns}};
      for (const std::int64_t device : group.devices) problem.process_of.push_back(grid.process_of(device));
      problem.here = group.has_this_process();
      for (const std::int64_t device : group.devices) {
        const std::int64_t shard = result_.shard_at(device);
        if (result_.is_held(shard)) problem.values.push_back(static_cast<std::int32_t>(shard));
      }
      add_problem(std::move(problem));
    }
    bytes_ = 0;
    for (std::int64_t shard = 0; shard < context.in().count(); ++shard) bytes_ += 2 * context.in().bytes(shard);
  }

  void add_needs(std::size_t round, int process, std::vector<Need>& needs) const override {
    const Step& now = step(round);
    const Problem& problem = problems_[now.problem];
    if (!std::ranges::binary_search(problem.processes, process)) return;
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad:
        for (std::int64_t i = k; i < count(); ++i) {
          if (owner(problem, i, k) == process) problem.from.add_needs(process, box(i, k), 0, needs);
        }
        return;
      case kBegin:
        return add_all(problem, process, problem.states, sizeof(State), needs);
      case kGather: {
        const Panel panel = panels_[static_cast<std::size_t>(k)];
        return add_columns(problem, process, panel.tile, panel.columns, panel.columns.start, needs);
      }
      case kReflect:
      case kFinish: {
        const std::int64_t begin = now.kind == kFinish ? k + 1 : k;
        if (now.kind == kReflect && is_first_of_panel(k)) return;
        for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
          if (problem.nodes[i].process == process) continue;
          needs.push_back(
              {1, sum_at(problem, begin - 1, static_cast<std::int64_t>(i)), elements_from(begin, extent(), sizeof(T))});
        }
        return;
      }
      case kOrder:
        return add_all(problem, process, problem.roots, bytes_of_roots(problem), needs);
      case kPrepare:
      case kApply: {
        const std::int64_t block = now.kind == kPrepare ? k : k - 1;
        if (block < 0) return;
        const Panel& reflected = blocks_[static_cast<std::size_t>(block)];
        return add_columns(problem, process, reflected.tile, reflected.columns, reflected.columns.start + 1, needs);
      }
      case kStore:
        if (problem.process_of[static_cast<std::size_t>(k)] == process) return;
        problem.to.add_stored(process, {{0, extent()}, columns_of_worker(problem, k)}, problem.vectors + whole(k),
                              needs);
        return;
      default:
        return;
    }
  }

  // The matrix is copied first, and what others read of it has been read when the result is stored.
  std::optional<std::size_t> overwritten() const override {
    return has_vectors_ ? std::optional<std::size_t>(0) : std::nullopt;
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    std::int64_t job = 0;
    const Step& now = step_of(tile, job);
    const Problem& problem = problems_[now.problem];
    const Memory memory{operands, result};
    const std::int64_t k = now.k;
    switch (now.kind) {
      case kLoad:
        return load(problem, memory, problem.begins[static_cast<std::size_t>(k)] + static_cast<std::size_t>(job));
      case kState:
        return tell_state(problem, memory);
      case kBegin:
        return begin(problem, memory);
      case kStoreValues:
        return store_values(problem, memory);
      case kStore:
        return store(problem, memory, k, problem.stored[static_cast<std::size_t>(k)][static_cast<std::size_t>(job)]);
      default:
        if (!local(problem, memory).is_good) return;
    }
    switch (now.kind) {
      case kScale:
        return scale(problem, memory, static_cast<std::size_t>(job));
      case kGather:
        return gather(problem, memory, panels_[static_cast<std::size_t>(k)],
                      panels_[static_cast<std::size_t>(k)].tile + job);
      case kReflect:
        if (!is_first_of_panel(k)) finish(problem, memory, k - 1);
        return reflect(problem, memory, k);
      case kProduct:
        if (job == 0) return multiply_panel(problem, memory, k);
        return multiply(problem, memory, k, problem.own_workers[static_cast<std::size_t>(job - 1)]);
      case kSum:
        return sum_own(problem, memory, k, problem.own_nodes[static_cast<std::size_t>(job)]);
      case kFinish:
        return finish(problem, memory, k);
      case kUpdate: {
        const Panel& panel = panels_[static_cast<std::size_t>(k)];
        const auto first = problem.begins[static_cast<std::size_t>(panel.tile)];
        return update(problem, memory, panel, problem.own[first + static_cast<std::size_t>(job)]);
      }
      case kSettle:
        return settle_size(problem, memory);
      case kHalves:
        return diagonalise(problem, memory, static_cast<int>(job));
      case kValues:
        return find_values(problem, memory);
      case kJoin:
        return join(problem, memory);
      case kRoots:
        if (job < 2) return keep_together(problem, memory, static_cast<int>(job));
        return find_roots(problem, memory, problem.own_workers[static_cast<std::size_t>(job - 2)]);
      case kOrder:
        return order(problem, memory);
      case kWeights: {
        JoinedHalves& halves = local(problem, memory).halves;
        return halves.find_weights(halves.roots() * job / kWeightJobs, halves.roots() * (job + 1) / kWeightJobs);
      }
      case kVectors:
        return find_vectors(problem, memory, problem.chunks[static_cast<std::size_t>(job)]);
      case kPrepare:
        return prepare(problem, memory, k);
      case kApply:
        if (job == 0) return k > 0 ? prepare(problem, memory, k - 1) : void();
        return apply(problem, memory, k, problem.chunks[static_cast<std::size_t>(job - 1)]);
      default:
        SHOAL_CHECK(false, "a round is of a known kind");
    }
  }

 private:
  using Real = RealOf<T>;
  using JoinedHalves = cpu::JoinedHalves<Real>;
  using Memory = MemoryOf<T>;
  using Matrix = cpu::BlasMatrix<T>;
  using Vectors = cpu::MatrixVectors<T>;

  // The lower triangle is loaded by columns of tiles, and scaled if squares of its elements would overflow or vanish.
  // For each panel its columns go to all processes; of each, the column is brought up to date and reflected, the matrix
  // multiplied by the reflection, and the parts of that are added up; then the rest of the matrix is updated.
  enum Kind {
    kLoad,
    kState,
    kBegin,
    kScale,
    kGather,
    kReflect,
    kProduct,
    kSum,
    kFinish,
    kUpdate,
    kSettle,
    kHalves,
    kValues,
    kJoin,
    kRoots,
    kOrder,
    kWeights,
    kStoreValues,
    kVectors,
    kPrepare,
    kApply,
    kStore
  };

  using Tile = std::pair<std::int64_t, std::int64_t>;
  // Columns of one column of tiles.
  struct Panel {
    std::int64_t tile;
    Extent columns;
  };
  // Workers whose parts of a product one process adds up: they follow each other, and make a node of the tree that says
  // in which order parts are added.
  struct Node {
    std::int64_t begin;
    std::int64_t end;
    int process;
  };
  // Some vectors of a worker, as numbers among its own.
  struct Chunk {
    std::int64_t worker;
    Extent columns;
  };
  // What a process knows of its tiles.
  struct State {
    double greatest;
    std::int64_t is_finite;
  };
  // What every process knows.
  struct Local {
    bool is_good;  ///< The matrix is finite, and all has converged.
    bool halves_good[2];
    Real scale;  ///< What the values are multiplied by in the end.
    JoinedHalves halves;
  };
  struct Problem {
    std::vector<int> processes;
    ProcessGrid workers;  // Those of tiles: the devices, by their numbers.
    MatrixShards from;
    MatrixShards to;
    std::vector<int> process_of = {};       // Of each worker.
    std::vector<std::int32_t> values = {};  // The shards of the values that are here.
    bool here = false;
    std::vector<Tile> own = {};            // The tiles of this process, by columns.
    std::vector<std::size_t> begins = {};  // Where those of each column begin, and the end.
    std::vector<std::int64_t> own_workers = {};
    std::vector<std::vector<Tile>> tiles_of = {};  // Of each of them.
    std::vector<Node> nodes = {};
    std::vector<std::size_t> own_nodes = {};
    std::vector<Chunk> chunks = {};
    std::vector<std::vector<MatrixShards::Piece>> stored = {};  // Of each worker's vectors, where they go.
    // Extras: the first of several, or one.
    std::int32_t tiles = 0;    // Of the lower triangle, by columns.
    std::int32_t sums = 0;     // Of each node, for even columns, and for odd ones.
    std::int32_t states = 0;   // Of each worker.
    std::int32_t roots = 0;    // Of each worker: origins, and distances.
    std::int32_t vectors = 0;  // Of each worker.
    std::int32_t parts = 0;    // Of this process' workers: of a product.
    std::int32_t checks = 0;   // Of its tiles.
    std::int32_t panel = 0;    // The columns of a panel.
    std::int32_t both = 0;     // Pairs of columns: the reflection, and what comes with it.
    std::int32_t turned = 0;   // The same in other order.
    std::int32_t reflection = 0;
    std::int32_t product = 0;
    std::int32_t factors = 0;  // Those of reflections.
    std::int32_t small = 0;    // By which the pairs are multiplied.
    std::int32_t diagonal = 0;
    std::int32_t beside = 0;
    std::int32_t halves = 0;  // The vectors of the halves.
    std::int32_t found = 0;   // The values.
    std::int32_t joined = 0;  // What is known when the halves are joined.
    std::int32_t blocks = 0;  // Two of reflections, and their triangles.
    std::int32_t local = 0;
  };

  static cpu::BlasMatrix<const T> read(const Matrix& a, bool adjoint = false) { return {a.data, a.stride, adjoint}; }
  static std::int32_t whole(std::int64_t n) { return static_cast<std::int32_t>(n); }
  static const cpu::TileKernels<T>& kernels() { return cpu::TileKernels<T>::shared(); }
  static const cpu::Tridiagonal<Real>& tridiagonal() { return cpu::Tridiagonal<Real>::shared(); }

  std::int64_t extent() const { return tiling_.extent; }
  std::int64_t count() const { return tiling_.count(); }
  std::int64_t extent(std::int64_t i) const { return tiling_.tile(i).size; }
  std::int64_t cut() const { return extent() / 2; }
  Box box(std::int64_t i, std::int64_t j) const { return {tiling_.tile(i), tiling_.tile(j)}; }
  // The place of a tile in the lower triangle, by columns.
  std::int64_t number(std::int64_t i, std::int64_t j) const { return j * count() - j * (j - 1) / 2 + i - j; }
  int owner(const Problem& problem, std::int64_t i, std::int64_t j) const {
    return problem.process_of[static_cast<std::size_t>(problem.workers.owner(i, j))];
  }
  bool is_first_of_panel(std::int64_t column) const { return column % tiling_.size % kPanel == 0; }
  std::int64_t place_in_panel(std::int64_t column) const { return column % tiling_.size % kPanel; }
  std::int64_t workers(const Problem& problem) const { return std::ssize(problem.process_of); }
  Extent columns_of_worker(const Problem& problem, std::int64_t worker) const {
    const std::int64_t begin = extent() * worker / workers(problem);
    return {begin, extent() * (worker + 1) / workers(problem) - begin};
  }
  std::int64_t most_roots(const Problem& problem) const { return extent() / workers(problem) + 1; }
  std::size_t bytes_of_roots(const Problem& problem) const {
    return static_cast<std::size_t>(most_roots(problem)) * (sizeof(std::int64_t) + sizeof(Real));
  }

  // ---- The plan.

  void add_problem(Problem problem) {
    for (std::int64_t j = 0; j < count(); ++j) {
      problem.begins.push_back(problem.own.size());
      for (std::int64_t i = j; i < count() && problem.here; ++i) {
        if (owner(problem, i, j) == this_process()) problem.own.emplace_back(i, j);
      }
    }
    problem.begins.push_back(problem.own.size());
    for (std::int64_t worker = 0; worker < workers(problem); ++worker) {
      if (problem.process_of[static_cast<std::size_t>(worker)] != this_process()) continue;
      problem.own_workers.push_back(worker);
      auto& tiles = problem.tiles_of.emplace_back();
      std::ranges::copy_if(problem.own, std::back_inserter(tiles),
                           [&](const Tile& tile) { return problem.workers.owner(tile.first, tile.second) == worker; });
      if (!has_vectors_) continue;
      const Extent columns = columns_of_worker(problem, worker);
      for (std::int64_t begin = 0; begin < columns.size; begin += kColumnsOfJob) {
        problem.chunks.push_back({worker, {begin, std::min(kColumnsOfJob, columns.size - begin)}});
      }
    }
    add_nodes(problem, 0, workers(problem));
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      if (problem.nodes[i].process == this_process()) problem.own_nodes.push_back(i);
    }
    if (problems_.empty()) {
      for (std::int64_t j = 0; j < count(); ++j) {
        const Extent tile = tiling_.tile(j);
        const auto cut_up = [&](std::int64_t size, std::int64_t end, std::vector<Panel>& panels) {
          for (std::int64_t begin = tile.start; begin < std::min(end, tile.start + tile.size); begin += size) {
            panels.push_back({j, {begin, std::min({size, tile.start + tile.size - begin, end - begin})}});
          }
        };
        cut_up(kPanel, extent(), panels_);
        if (has_vectors_) cut_up(kBlock, extent() - 1, blocks_);
      }
    }
    add_memory(problem);
    problem.stored.resize(static_cast<std::size_t>(workers(problem)));
    for (std::int64_t worker = 0; worker < workers(problem) && problem.here && has_vectors_; ++worker) {
      const Box own{{0, extent()}, columns_of_worker(problem, worker)};
      if (own.empty()) continue;
      for (const auto& piece : problem.to.pieces_for(this_process(), own)) {
        if (more_results_[0].is_held(piece.shard)) problem.stored[static_cast<std::size_t>(worker)].push_back(piece);
      }
    }
    problems_.push_back(std::move(problem));
    add_rounds(problems_.size() - 1);
  }

  static std::int64_t middle(std::int64_t begin, std::int64_t end) {
    std::int64_t half = 1;
    while (2 * half < end - begin) half *= 2;
    return begin + half;
  }

  // The largest nodes of the tree whose workers are all of one process.
  void add_nodes(Problem& problem, std::int64_t begin, std::int64_t end) const {
    const auto first = problem.process_of.begin();
    const int process = problem.process_of[static_cast<std::size_t>(begin)];
    if (std::all_of(first + begin, first + end, [&](int other) { return other == process; })) {
      problem.nodes.push_back({begin, end, process});
      return;
    }
    add_nodes(problem, begin, middle(begin, end));
    add_nodes(problem, middle(begin, end), end);
  }

  void add_memory(Problem& problem) {
    const auto n = static_cast<std::size_t>(extent());
    const std::size_t bytes = static_cast<std::size_t>(tiling_.size * tiling_.size) * sizeof(T);
    const auto add = [&](int holder, std::size_t size) {
      return add_extra({holder}, holder == this_process() && problem.here ? size : 0);
    };
    const auto add_own = [&](std::size_t size) { return add(this_process(), size); };
    problem.tiles = static_cast<std::int32_t>(extras_.size());
    for (std::int64_t j = 0; j < count(); ++j) {
      for (std::int64_t i = j; i < count(); ++i) add(owner(problem, i, j), bytes);
    }
    problem.sums = static_cast<std::int32_t>(extras_.size());
    const bool exchanges = problem.processes.size() > 1;
    for (int parity = 0; parity < 2; ++parity) {
      for (const Node& node : problem.nodes) add(node.process, exchanges ? n * sizeof(T) : 0);
    }
    const auto add_of_workers = [&](auto&& size) {
      const auto first = static_cast<std::int32_t>(extras_.size());
      for (std::int64_t w = 0; w < workers(problem); ++w) add(problem.process_of[static_cast<std::size_t>(w)], size(w));
      return first;
    };
    problem.states = add_of_workers([](std::int64_t) { return sizeof(State); });
    if (has_vectors_) {
      problem.roots = add_of_workers([&](std::int64_t) { return bytes_of_roots(problem); });
      problem.vectors = add_of_workers([&](std::int64_t worker) {
        return n * static_cast<std::size_t>(columns_of_worker(problem, worker).size) * sizeof(T);
      });
      const auto first = static_cast<std::size_t>(cut());
      problem.halves = add_own((first * first + (n - first) * (n - first)) * sizeof(Real));
      problem.joined = add_own(JoinedHalves::memory_of(extent()));
      problem.blocks =
          add_own(2 * static_cast<std::size_t>(kBlock) * (n + static_cast<std::size_t>(kBlock)) * sizeof(T));
    }
    const auto width = static_cast<std::size_t>(kPanel);
    problem.parts = add_own(problem.own_workers.size() * n * sizeof(T));
    problem.checks = add_own(problem.own.size() * sizeof(State));
    problem.panel = add_own(n * width * sizeof(T));
    problem.both = add_own(2 * n * width * sizeof(T));
    problem.turned = add_own(2 * n * width * sizeof(T));
    problem.reflection = add_own(n * sizeof(T));
    problem.product = add_own(n * sizeof(T));
    problem.factors = add_own(n * sizeof(T));
    problem.small = add_own(4 * width * sizeof(T));
    problem.diagonal = add_own(n * sizeof(Real));
    problem.beside = add_own(n * sizeof(Real));
    problem.found = add_own(n * sizeof(Real));
    problem.local = add_own(sizeof(Local));
  }

  void add_rounds(std::size_t index) {
    const Problem& problem = problems_[index];
    const bool exchanges = problem.processes.size() > 1;
    const std::int64_t one = problem.here ? 1 : 0;
    const auto own_from = [&](std::int64_t j) {
      return static_cast<std::int64_t>(problem.own.size() - problem.begins[static_cast<std::size_t>(j)]);
    };
    const auto add = [&](Kind kind, std::int64_t k, std::int64_t jobs, bool with_others = false,
                         bool rewrites = false) {
      add_round({.kind = kind, .problem = index, .k = k}, jobs,
                {.exchanges = with_others && exchanges, .rewrites = rewrites && exchanges});
    };
    for (std::int64_t j = 0; j < count(); ++j) add(kLoad, j, own_from(j) - own_from(j + 1), true);
    add(kState, 0, one);
    add(kBegin, 0, one, true);
    add(kScale, 0, own_from(0));
    const std::int64_t own_workers = std::ssize(problem.own_workers);
    for (std::size_t p = 0; p < panels_.size(); ++p) {
      const Panel& panel = panels_[p];
      add(kGather, static_cast<std::int64_t>(p), one * (count() - panel.tile), true);
      const std::int64_t end = panel.columns.start + panel.columns.size;
      for (std::int64_t column = panel.columns.start; column < end; ++column) {
        add(kReflect, column, one, !is_first_of_panel(column));
        if (column + 1 == extent()) break;
        add(kProduct, column, own_workers + one);
        // Others have read the sums of a column when theirs of the next one are here.
        if (exchanges) add(kSum, column, std::ssize(problem.own_nodes));
      }
      if (end < extent()) add(kFinish, end - 1, one, true);
      add(kUpdate, static_cast<std::int64_t>(p), own_from(panel.tile), false, true);
    }
    if (!has_vectors_) {
      add(kSettle, 0, one);
      add(kValues, 0, one);
      return add(kStoreValues, 0, one);
    }
    add(kSettle, 0, one);
    add(kHalves, 0, 2 * one);
    add(kJoin, 0, one);
    add(kRoots, 0, 2 * one + own_workers);
    add(kOrder, 0, one, true);
    add(kWeights, 0, one * kWeightJobs);
    add(kStoreValues, 0, one);
    const std::int64_t chunks = std::ssize(problem.chunks);
    add(kVectors, 0, chunks);
    const std::int64_t blocks = std::ssize(blocks_);
    if (blocks > 0) add(kPrepare, blocks - 1, one, true);
    for (std::int64_t block = blocks; block-- > 0;) add(kApply, block, one + chunks, true);
    for (std::int64_t worker = 0; worker < workers(problem); ++worker) {
      add(kStore, worker, std::ssize(problem.stored[static_cast<std::size_t>(worker)]), true, worker == 0);
    }
  }

  // ---- What processes need.

  static Region elements_from(std::int64_t begin, std::int64_t end, std::size_t element) {
    return {.shape = {end}, .start = {begin}, .extents = {end - begin}, .element = element};
  }

  // What all workers have of something.
  void add_all(const Problem& problem, int process, std::int32_t first, std::size_t bytes,
               std::vector<Need>& needs) const {
    for (std::int64_t worker = 0; worker < workers(problem); ++worker) {
      if (problem.process_of[static_cast<std::size_t>(worker)] == process) continue;
      needs.push_back({1, first + whole(worker), bytes_region(bytes)});
    }
  }

  // Some columns of tiles below each other, from a row on.
  void add_columns(const Problem& problem, int process, std::int64_t j, const Extent& columns, std::int64_t first_row,
                   std::vector<Need>& needs) const {
    const std::int64_t left = tiling_.tile(j).start;
    for (std::int64_t i = j; i < count(); ++i) {
      const std::int64_t from = std::max<std::int64_t>(0, first_row - tiling_.tile(i).start);
      if (owner(problem, i, j) == process || from >= extent(i)) continue;
      needs.push_back({1,
                       problem.tiles + whole(number(i, j)),
                       {.shape = {extent(i), extent(j)},
                        .start = {from, columns.start - left},
                        .extents = {extent(i) - from, columns.size},
                        .element = sizeof(T)}});
    }
  }

  // ---- The work.

  Matrix tile(const Problem& problem, const Memory& memory, std::int64_t i, std::int64_t j) const {
    return {memory.extra(problem.tiles + whole(number(i, j))), whole(extent(j))};
  }
  Local& local(const Problem& problem, const Memory& memory) const {
    return *reinterpret_cast<Local*>(memory.extra(problem.local));
  }
  static Real* reals(const Memory& memory, std::int32_t extra) { return reinterpret_cast<Real*>(memory.extra(extra)); }
  static State* states(const Memory& memory, std::int32_t extra) {
    return reinterpret_cast<State*>(memory.extra(extra));
  }

  void load(const Problem& problem, const Memory& memory, std::size_t own) const {
    const auto [i, j] = problem.own[own];
    const Matrix to = tile(problem, memory, i, j);
    for (const MatrixShards::Piece& piece : problem.from.pieces_for(this_process(), box(i, j))) {
      const T* from = memory.operand(0, piece.shard) + piece.offset();
      T* row =
          to.data + (piece.box.rows.start - i * tiling_.size) * to.stride + piece.box.columns.start - j * tiling_.size;
      for (std::int64_t r = 0; r < piece.box.rows.size; ++r, from += piece.stride(), row += to.stride) {
        std::copy_n(from, piece.box.columns.size, row);
      }
    }
    cpu::FiniteCheck<T> check;
    for (std::int64_t r = 0; r < extent(i); ++r) {
      check.look_at(to.data + r * to.stride, i == j ? r + 1 : extent(j));
    }
    states(memory, problem.checks)[own] = {static_cast<double>(check.greatest()), check.all_finite() ? 1 : 0};
  }

  // All workers of a process say the same.
  void tell_state(const Problem& problem, const Memory& memory) const {
    State state{0, 1};
    for (std::size_t i = 0; i < problem.own.size(); ++i) {
      const State& of_tile = states(memory, problem.checks)[i];
      state.greatest = std::max(state.greatest, of_tile.greatest);
      state.is_finite &= of_tile.is_finite;
    }
    for (const std::int64_t worker : problem.own_workers) *states(memory, problem.states + whole(worker)) = state;
  }

  void begin(const Problem& problem, const Memory& memory) const {
    State state{0, 1};
    for (std::int64_t worker = 0; worker < workers(problem); ++worker) {
      const State& of_worker = *states(memory, problem.states + whole(worker));
      state.greatest = std::max(state.greatest, of_worker.greatest);
      state.is_finite &= of_worker.is_finite;
    }
    Local& own = local(problem, memory);
    own.is_good = state.is_finite == 1;
    own.scale = 1;
    const int exponent = state.greatest == 0 || !own.is_good ? 0 : std::ilogb(static_cast<Real>(state.greatest));
    if (std::abs(exponent) >= std::numeric_limits<Real>::max_exponent / 4) own.scale = std::ldexp(Real{1}, exponent);
  }

  void scale(const Problem& problem, const Memory& memory, std::size_t own) const {
    const Real scale = local(problem, memory).scale;
    if (scale == 1) return;
    const auto [i, j] = problem.own[own];
    const Matrix a = tile(problem, memory, i, j);
    for (std::int64_t r = 0; r < extent(i); ++r) {
      const std::int64_t columns = i == j ? r + 1 : extent(j);
      for (std::int64_t c = 0; c < columns; ++c) a.data[r * a.stride + c] /= scale;
    }
  }

  // ---- Tridiagonal form.

  T* panel_at(const Problem& problem, const Memory& memory, std::int64_t row) const {
    return memory.extra(problem.panel) + row * kPanel;
  }
  T* both_at(const Problem& problem, const Memory& memory, std::int64_t row) const {
    return memory.extra(problem.both) + row * 2 * kPanel;
  }
  T* turned_at(const Problem& problem, const Memory& memory, std::int64_t row) const {
    return memory.extra(problem.turned) + row * 2 * kPanel;
  }

  void gather(const Problem& problem, const Memory& memory, const Panel& panel, std::int64_t i) const {
    const Extent rows = tiling_.tile(i);
    const Matrix from = tile(problem, memory, i, panel.tile);
    const std::int64_t left = panel.columns.start - tiling_.tile(panel.tile).start;
    for (std::int64_t r = std::max(rows.start, panel.columns.start); r < rows.start + rows.size; ++r) {
      std::copy_n(from.data + (r - rows.start) * from.stride + left, panel.columns.size, panel_at(problem, memory, r));
    }
  }

  // Brings a column up to date and makes its reflection, I - factor v v^H, whose adjoint leaves one element below the
  // diagonal, which is real: as LAPACK's larfg.
  void reflect(const Problem& problem, const Memory& memory, std::int64_t column) const {
    const std::int64_t place = place_in_panel(column);
    const std::int64_t n = extent();
    T* const v = memory.extra(problem.reflection);
    for (std::int64_t i = column; i < n; ++i) v[i] = panel_at(problem, memory, i)[place];
    if (place > 0) {
      std::array<T, std::size_t{2 * kPanel}> by;
      const T* const row = turned_at(problem, memory, column);
      for (std::int64_t j = 0; j < 2 * place; ++j) by[static_cast<std::size_t>(j)] = -conjugate(row[j]);
      Vectors::multiply(both_at(problem, memory, column), 2 * kPanel, n - column, 2 * place, by.data(), v + column);
    }
    reals(memory, problem.diagonal)[column] = std::real(v[column]);
    if (column + 1 == n) return;
    const T alpha = v[column + 1];
    const Real length = length_of(v + column + 2, n - column - 2);
    T factor{};
    Real beside = std::real(alpha);
    if (length != 0 || imaginary(alpha) != 0) {
      beside = -std::copysign(std::hypot(std::hypot(std::real(alpha), imaginary(alpha)), length), std::real(alpha));
      factor = (T{beside} - alpha) / T{beside};
      const T inverse = T{1} / (alpha - T{beside});
      for (std::int64_t i = column + 2; i < n; ++i) v[i] = times(v[i], inverse);
    } else {
      std::fill_n(v + column + 2, n - column - 2, T{});
    }
    v[column + 1] = 1;
    reals(memory, problem.beside)[column] = beside;
    memory.extra(problem.factors)[column] = factor;
    for (std::int64_t i = column + 1; i < n; ++i) {
      both_at(problem, memory, i)[2 * place] = v[i];
      turned_at(problem, memory, i)[2 * place + 1] = v[i];
    }
  }

  // The pairs of the panel, and the reflection.
  void multiply_panel(const Problem& problem, const Memory& memory, std::int64_t column) const {
    const std::int64_t place = place_in_panel(column);
    T* const small = memory.extra(problem.small);
    std::fill_n(small, 2 * place, T{});
    if (place == 0) return;
    Vectors::multiply_adjoint(both_at(problem, memory, column + 1), 2 * kPanel, extent() - column - 1, 2 * place,
                              memory.extra(problem.reflection) + column + 1, small);
  }

  // A worker's tiles of the matrix from column + 1 on, and the reflection.
  void multiply(const Problem& problem, const Memory& memory, std::int64_t column, std::int64_t worker) const {
    const auto place =
        static_cast<std::size_t>(std::ranges::lower_bound(problem.own_workers, worker) - problem.own_workers.begin());
    const std::int64_t first = column + 1;
    T* const y = memory.extra(problem.parts) + static_cast<std::int64_t>(place) * extent();
    const T* const x = memory.extra(problem.reflection);
    std::fill(y + first, y + extent(), T{});
    const std::vector<Tile>& tiles = problem.tiles_of[place];
    const std::int64_t first_tile = first / tiling_.size;
    const auto begin = std::ranges::lower_bound(tiles, first_tile, {}, &Tile::second);
    for (auto at = begin; at != tiles.end(); ++at) {
      const auto [i, j] = *at;
      const Matrix a = tile(problem, memory, i, j);
      const std::int64_t top = std::max(first, tiling_.tile(i).start);
      const std::int64_t left = std::max(first, tiling_.tile(j).start);
      const T* const data = a.data + (top - tiling_.tile(i).start) * a.stride + left - tiling_.tile(j).start;
      const std::int64_t rows = tiling_.tile(i).start + extent(i) - top;
      const std::int64_t columns = tiling_.tile(j).start + extent(j) - left;
      if (i == j) {
        Vectors::multiply_hermitian(data, a.stride, rows, x + top, y + top);
      } else {
        Vectors::multiply_both(data, a.stride, rows, columns, x + left, x + top, y + top, y + left);
      }
    }
  }

  static std::int32_t sum_at(const Problem& problem, std::int64_t column, std::int64_t node) {
    return problem.sums + whole(column % 2 * std::ssize(problem.nodes) + node);
  }

  // Adds the parts of the workers begin … end - 1 in the order of the tree. If nodes are known, for a column, those of
  // each are together.
  void sum(const Problem& problem, const Memory& memory, std::int64_t known_column, std::int64_t begin,
           std::int64_t end, std::int64_t first, std::int64_t size, T* to) const {
    const T* known = nullptr;
    if (known_column >= 0) {
      const auto node = std::ranges::find(problem.nodes, begin, &Node::begin);
      if (node != problem.nodes.end() && node->end == end) {
        known = memory.extra(sum_at(problem, known_column, node - problem.nodes.begin()));
      }
    } else if (end == begin + 1) {
      const auto place = std::ranges::lower_bound(problem.own_workers, begin) - problem.own_workers.begin();
      known = memory.extra(problem.parts) + place * extent();
    }
    if (known != nullptr) {
      std::copy_n(known + first, size, to);
      return;
    }
    std::array<T, std::size_t{kSummedAtOnce}> other;
    sum(problem, memory, known_column, begin, middle(begin, end), first, size, to);
    sum(problem, memory, known_column, middle(begin, end), end, first, size, other.data());
    for (std::int64_t i = 0; i < size; ++i) to[i] += other[static_cast<std::size_t>(i)];
  }

  void sum_own(const Problem& problem, const Memory& memory, std::int64_t column, std::size_t number) const {
    const Node& node = problem.nodes[number];
    T* const to = memory.extra(sum_at(problem, column, static_cast<std::int64_t>(number)));
    for (std::int64_t i = column + 1; i < extent(); i += kSummedAtOnce) {
      sum(problem, memory, -1, node.begin, node.end, i, std::min(kSummedAtOnce, extent() - i), to + i);
    }
  }

  // Of the product with the matrix as it is now, that which comes with the reflection.
  void finish(const Problem& problem, const Memory& memory, std::int64_t column) const {
    const std::int64_t place = place_in_panel(column);
    const std::int64_t first = column + 1;
    const std::int64_t n = extent();
    const T* const v = memory.extra(problem.reflection);
    T* const y = memory.extra(problem.product);
    for (std::int64_t i = first; i < n; i += kSummedAtOnce) {
      sum(problem, memory, problem.processes.size() > 1 ? column : -1, 0, workers(problem), i,
          std::min(kSummedAtOnce, n - i), y + i);
    }
    if (place > 0) {
      // What the one of a pair has given belongs to the other.
      const T* const small = memory.extra(problem.small);
      std::array<T, std::size_t{2 * kPanel}> by;
      for (std::int64_t j = 0; j < 2 * place; ++j) by[static_cast<std::size_t>(j)] = -small[j ^ 1];
      Vectors::multiply(both_at(problem, memory, first), 2 * kPanel, n - first, 2 * place, by.data(), y + first);
    }
    const T factor = memory.extra(problem.factors)[column];
    for (std::int64_t i = first; i < n; ++i) y[i] = times(factor, y[i]);
    T dot{};
    Vectors::multiply_adjoint(y + first, 1, n - first, 1, v + first, &dot);
    const T shift = times(T{Real{-0.5}}, times(factor, dot));
    for (std::int64_t i = first; i < n; ++i) {
      y[i] += times(shift, v[i]);
      both_at(problem, memory, i)[2 * place + 1] = y[i];
      turned_at(problem, memory, i)[2 * place] = y[i];
    }
  }

  // The rest of the matrix; and the reflections take the place of the panel.
  void update(const Problem& problem, const Memory& memory, const Panel& panel, const Tile& updated) const {
    const auto [i, j] = updated;
    const Matrix a = tile(problem, memory, i, j);
    const Extent rows = tiling_.tile(i);
    const Extent columns = tiling_.tile(j);
    const std::int64_t end = panel.columns.start + panel.columns.size;
    const std::int64_t top = std::max(rows.start, end);
    const std::int64_t left = std::max(columns.start, end);
    const std::int64_t bottom = rows.start + rows.size;
    const std::int64_t right = columns.start + columns.size;
    if (top < bottom && left < right) {
      kernels().subtract_product({whole(bottom - top), whole(right - left), whole(2 * panel.columns.size)},
                                 {both_at(problem, memory, top), whole(2 * kPanel)},
                                 {turned_at(problem, memory, left), whole(2 * kPanel), true},
                                 {a.data + (top - rows.start) * a.stride + left - columns.start, a.stride});
    }
    if (j != panel.tile || !has_vectors_) return;
    for (std::int64_t r = std::max(rows.start, panel.columns.start + 1); r < bottom; ++r) {
      const T* const from = both_at(problem, memory, r);
      T* const to = a.data + (r - rows.start) * a.stride + panel.columns.start - columns.start;
      for (std::int64_t c = 0; c < std::min(panel.columns.size, r - panel.columns.start); ++c) to[c] = from[2 * c];
    }
  }

  // ---- The tridiagonal matrix.

  // Brings it to the size of 1, by a power of two.
  void settle_size(const Problem& problem, const Memory& memory) const {
    Real* const diagonal = reals(memory, problem.diagonal);
    Real* const beside = reals(memory, problem.beside);
    Real greatest = 0;
    for (std::int64_t i = 0; i < extent(); ++i) greatest = std::max(greatest, std::abs(diagonal[i]));
    for (std::int64_t i = 0; i + 1 < extent(); ++i) greatest = std::max(greatest, std::abs(beside[i]));
    if (greatest == 0) return;
    const int exponent = std::ilogb(greatest);
    for (std::int64_t i = 0; i < extent(); ++i) diagonal[i] = std::ldexp(diagonal[i], -exponent);
    for (std::int64_t i = 0; i + 1 < extent(); ++i) beside[i] = std::ldexp(beside[i], -exponent);
    local(problem, memory).scale *= std::ldexp(Real{1}, exponent);
  }

  Real* half(const Problem& problem, const Memory& memory, int number) const {
    return reals(memory, problem.halves) + (number == 0 ? 0 : cut() * cut());
  }

  void diagonalise(const Problem& problem, const Memory& memory, int number) const {
    const std::int64_t begin = number == 0 ? 0 : cut();
    const std::int64_t size = number == 0 ? cut() : extent() - cut();
    Real* const values = reals(memory, problem.found) + begin;
    const cpu::Workspace<Real> beside(size);
    // The element that joins the halves stands beside both.
    std::copy_n(reals(memory, problem.diagonal) + begin, size, values);
    std::copy_n(reals(memory, problem.beside) + begin, std::max<std::int64_t>(0, size - 1), beside.data());
    if (cut() > 0) values[number == 0 ? size - 1 : 0] -= std::abs(reals(memory, problem.beside)[cut() - 1]);
    local(problem, memory).halves_good[number] =
        tridiagonal().decompose(size, values, beside.data(), half(problem, memory, number));
  }

  void find_values(const Problem& problem, const Memory& memory) const {
    Real* const values = reals(memory, problem.found);
    std::copy_n(reals(memory, problem.diagonal), extent(), values);
    local(problem, memory).is_good = tridiagonal().values(extent(), values, reals(memory, problem.beside));
  }

  void join(const Problem& problem, const Memory& memory) const {
    Local& own = local(problem, memory);
    own.is_good = own.halves_good[0] && own.halves_good[1];
    if (!own.is_good) return;
    own.halves.prepare(extent(), cut(), cut() == 0 ? Real{0} : reals(memory, problem.beside)[cut() - 1],
                       reals(memory, problem.found), half(problem, memory, 0), half(problem, memory, 1),
                       reinterpret_cast<std::byte*>(memory.extra(problem.joined)));
  }

  void keep_together(const Problem& problem, const Memory& memory, int number) const {
    local(problem, memory).halves.keep_together(number, half(problem, memory, number));
  }

  // Of a worker: the poles, and behind them the distances.
  std::pair<std::int64_t*, Real*> roots(const Problem& problem, const Memory& memory, std::int64_t worker) const {
    auto* const poles = reinterpret_cast<std::int64_t*>(memory.extra(problem.roots + whole(worker)));
    return {poles, reinterpret_cast<Real*>(poles + most_roots(problem))};
  }
  static Extent roots_of_worker(const Problem& problem, const JoinedHalves& halves, std::int64_t worker) {
    const auto workers = std::ssize(problem.process_of);
    const std::int64_t begin = halves.roots() * worker / workers;
    return {begin, halves.roots() * (worker + 1) / workers - begin};
  }

  void find_roots(const Problem& problem, const Memory& memory, std::int64_t worker) const {
    const JoinedHalves& halves = local(problem, memory).halves;
    const Extent own = roots_of_worker(problem, halves, worker);
    const auto [poles, distances] = roots(problem, memory, worker);
    halves.find_roots(own.start, own.start + own.size, poles, distances);
  }

  void order(const Problem& problem, const Memory& memory) const {
    JoinedHalves& halves = local(problem, memory).halves;
    const cpu::Workspace<std::int64_t> all_poles(extent());
    const cpu::Workspace<Real> all_distances(extent());
    for (std::int64_t worker = 0; worker < workers(problem); ++worker) {
      const Extent own = roots_of_worker(problem, halves, worker);
      const auto [poles, distances] = roots(problem, memory, worker);
      std::copy_n(poles, own.size, all_poles.data() + own.start);
      std::copy_n(distances, own.size, all_distances.data() + own.start);
    }
    halves.order(all_poles.data(), all_distances.data(), reals(memory, problem.found));
  }

  void store_values(const Problem& problem, const Memory& memory) const {
    const Local& own = local(problem, memory);
    for (const std::int32_t shard : problem.values) {
      auto* const to = reinterpret_cast<Real*>(memory.shard(shard));
      for (std::int64_t i = 0; i < extent(); ++i) {
        to[i] = own.is_good ? reals(memory, problem.found)[i] * own.scale : cpu::not_a_number<Real>();
      }
    }
  }

  // ---- The vectors.

  // A worker's, in row-major order.
  Matrix vectors(const Problem& problem, const Memory& memory, std::int64_t worker) const {
    return {memory.extra(problem.vectors + whole(worker)), whole(columns_of_worker(problem, worker).size)};
  }

  void find_vectors(const Problem& problem, const Memory& memory, const Chunk& chunk) const {
    const JoinedHalves& halves = local(problem, memory).halves;
    const Matrix all = vectors(problem, memory, chunk.worker);
    T* const to = all.data + chunk.columns.start;
    const std::int64_t begin = columns_of_worker(problem, chunk.worker).start + chunk.columns.start;
    const std::int64_t size = chunk.columns.size;
    const auto find = [&](Real* out, std::int64_t stride) {
      halves.vectors(begin, begin + size, half(problem, memory, 0), half(problem, memory, 1), out, stride);
    };
    if constexpr (std::is_same_v<T, Real>) {
      find(to, all.stride);
    } else {
      const cpu::Workspace<Real> real(extent() * size);
      find(real.data(), size);
      for (std::int64_t i = 0; i < extent(); ++i) std::copy_n(real.data() + i * size, size, to + i * all.stride);
    }
  }

  // The reflections of a block as columns of one matrix, from the row on that the first of them begins with; and the
  // triangle t with which I - v t v^H is their product.
  T* block_at(const Problem& problem, const Memory& memory, std::int64_t block) const {
    return memory.extra(problem.blocks) + block % 2 * kBlock * (extent() + kBlock);
  }
  T* triangle_at(const Problem& problem, const Memory& memory, std::int64_t block) const {
    return block_at(problem, memory, block) + kBlock * extent();
  }

  void prepare(const Problem& problem, const Memory& memory, std::int64_t number) const {
    const Panel& block = blocks_[static_cast<std::size_t>(number)];
    const std::int64_t size = block.columns.size;
    const std::int64_t first = block.columns.start + 1;
    T* const v = block_at(problem, memory, number);
    const std::int64_t left = block.columns.start - tiling_.tile(block.tile).start;
    for (std::int64_t i = block.tile; i < count(); ++i) {
      const Extent rows = tiling_.tile(i);
      const Matrix from = tile(problem, memory, i, block.tile);
      for (std::int64_t r = std::max(rows.start, first); r < rows.start + rows.size; ++r) {
        T* const to = v + (r - first) * size;
        const std::int64_t reflected = std::min(size, r - first + 1);
        std::copy_n(from.data + (r - rows.start) * from.stride + left, reflected, to);
        std::fill_n(to + reflected, size - reflected, T{});
      }
    }
    const cpu::Workspace<T> products(size * size);  // The negative ones.
    std::fill_n(products.data(), size * size, T{});
    const Matrix all{v, whole(size)};
    kernels().subtract_product({whole(size), whole(size), whole(extent() - first)}, read(all, true), read(all),
                               {products.data(), whole(size)});
    T* const t = triangle_at(problem, memory, number);
    const T* const factors = memory.extra(problem.factors) + block.columns.start;
    for (std::int64_t j = 0; j < size; ++j) {
      for (std::int64_t i = 0; i < size; ++i) {
        T sum{};
        for (std::int64_t k = i; k < j; ++k) sum += times(t[i * size + k], products.data()[k * size + j]);
        t[i * size + j] = i < j ? times(factors[j], sum) : i == j ? factors[j] : T{};
      }
    }
  }

  void apply(const Problem& problem, const Memory& memory, std::int64_t number, const Chunk& chunk) const {
    const Panel& block = blocks_[static_cast<std::size_t>(number)];
    const std::int32_t size = whole(block.columns.size);
    const std::int32_t columns = whole(chunk.columns.size);
    const std::int64_t first = block.columns.start + 1;
    const std::int32_t rows = whole(extent() - first);
    const Matrix all = vectors(problem, memory, chunk.worker);
    const Matrix z{all.data + first * all.stride + chunk.columns.start, all.stride};
    const Matrix v{block_at(problem, memory, number), size};
    const Matrix t{triangle_at(problem, memory, number), size};
    const cpu::Workspace<T> products(2 * size * columns);
    std::fill_n(products.data(), 2 * size * columns, T{});
    const Matrix inner{products.data(), columns};
    const Matrix turned{products.data() + size * columns, columns};
    kernels().subtract_product({size, columns, rows}, read(v, true), read(z), inner);
    kernels().subtract_product({size, columns, size}, read(t), read(inner), turned);
    kernels().subtract_product({rows, columns, size}, read(v), read(turned), z);
  }

  void store(const Problem& problem, const Memory& memory, std::int64_t worker,
             const MatrixShards::Piece& piece) const {
    T* row = reinterpret_cast<T*>(memory.operands[1][piece.shard]) + piece.offset();
    const Matrix from = vectors(problem, memory, worker);
    const std::int64_t left = piece.box.columns.start - columns_of_worker(problem, worker).start;
    const bool is_good = local(problem, memory).is_good;
    for (std::int64_t r = 0; r < piece.box.rows.size; ++r, row += piece.stride()) {
      if (is_good) {
        std::copy_n(from.data + (piece.box.rows.start + r) * from.stride + left, piece.box.columns.size, row);
      } else {
        std::fill_n(row, piece.box.columns.size, cpu::not_a_number<T>());
      }
    }
  }

  Tiling tiling_;
  bool has_vectors_;
  std::vector<Panel> panels_;
  std::vector<Panel> blocks_;  // Reflections that are applied at once.
  std::vector<Problem> problems_;
};

}  // namespace

collectives::CollectivePtr syevd(const Context& context) {
  const ShardShapes& in = context.in();
  const AtomSet all = in.varying | AtomSet(context.atoms());
  const std::int64_t n = context.attrs.get<std::int64_t>("n");
  ShardShapes values = collectives::shapes_of(in.grid, all & context.wanted, real_dtype(in.dtype), true,
                                              [&](std::int64_t) { return Shape{n}; });
  std::optional<ShardShapes> vectors;
  if (!context.more_wanted.empty()) {
    vectors = collectives::shapes_of(in.grid, all & context.more_wanted[0], in.dtype, in.even(),
                                     [&](std::int64_t position) { return in.shape_at(position); });
  }
  return cpu::with_matrix_type(in.dtype, [&](auto tag) -> collectives::CollectivePtr {
    return std::make_unique<Syevd<decltype(tag)>>(context, std::move(values), std::move(vectors));
  });
}

}  // namespace shoal::linalg
