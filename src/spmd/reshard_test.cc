#include "spmd/reshard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sharding/test_support.h"
#include "shoal/error.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

using test_support::all_placements;
using test_support::can_reshard;

using Kind = ReshardStep::Kind;

// The bytes that a device receives in a step on average, as the header defines them: those along slow axes count more.
double bytes_of(const Grid& grid, const Shape& shape, const Placement& before, Kind kind, const Atoms& atoms) {
  double bytes = 8 * static_cast<double>(num_elements(shape)) / static_cast<double>(grid.size_of(before.sharded()));
  const auto group = static_cast<double>(grid.size_of(atoms));
  bytes *= grid.slowness(atoms);
  switch (kind) {
    case Kind::kAllReduce:
      return 2 * bytes * (group - 1) / group;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return bytes * (group - 1) / group;
    case Kind::kAllGather:
      return bytes * (group - 1);
    case Kind::kSlice:
    case Kind::kMakePartial:
      return 0;
    case Kind::kPermute:
      return bytes;
  }
  return 0;
}

// What a step does to a placement; nullopt if it cannot be taken.
std::optional<Placement> after(const Placement& before, Kind kind, const Atoms& atoms, std::size_t dim,
                               std::size_t from_dim) {
  Placement next = before;
  const AtomSet set(atoms);
  const auto append = [&] { next.dims[dim].insert(next.dims[dim].end(), atoms.begin(), atoms.end()); };
  const auto drop_from = [&](Atoms& list) {
    const bool ends = list.size() >= atoms.size() && std::equal(atoms.rbegin(), atoms.rend(), list.rbegin());
    if (ends) list.resize(list.size() - atoms.size());
    return ends;
  };
  switch (kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
      if (!(set - AtomSet(before.partial)).empty()) return std::nullopt;
      next.partial = (AtomSet(before.partial) - set).sorted();
      if (kind == Kind::kReduceScatter) append();
      return next;
    case Kind::kAllGather:
      if (!drop_from(next.dims[dim])) return std::nullopt;
      return next;
    case Kind::kAllToAll:
      if (dim == from_dim || !drop_from(next.dims[from_dim])) return std::nullopt;
      append();
      return next;
    case Kind::kSlice:
      if (!(set & before.varying()).empty()) return std::nullopt;
      append();
      return next;
    case Kind::kMakePartial:
      if (!(set & before.varying()).empty()) return std::nullopt;
      next.partial = (AtomSet(before.partial) | set).sorted();
      return next;
    case Kind::kPermute:
      return std::nullopt;
  }
  return std::nullopt;
}

// Whether whole shards can change hands between two placements: both cut every dimension into as many equal pieces.
bool can_permute(const Grid& grid, const Shape& shape, const Placement& a, const Placement& b) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (grid.size_of(a.dims[d]) != grid.size_of(b.dims[d])) return false;
  }
  return a.partial == b.partial && is_even(grid, shape, a.dims);
}

struct Cost {
  double bytes;
  int steps;
};

// Tries every sequence of steps, each on any list of atoms, and keeps the cheapest to each placement. Slices take an
// atom each: they cost no bytes, and the planner joins them afterwards.
class BruteForce {
 public:
  BruteForce(const Grid& grid, const Shape& shape) : grid_(grid), shape_(shape) {
    placements_ = all_placements(grid, shape.size(), true);
    for (std::size_t i = 0; i < placements_.size(); ++i) numbers_[to_string(grid, placements_[i])] = i;
    for (std::size_t i = 0; i < placements_.size(); ++i) add_steps(i);
  }

  const std::vector<Placement>& placements() const { return placements_; }

  std::vector<std::optional<Cost>> costs_from(std::size_t start) const {
    std::vector<std::optional<Cost>> best(placements_.size());
    best[start] = Cost{0, 0};
    bool changed = true;
    for (int round = 1; changed; ++round) {
      changed = false;
      std::vector<std::optional<Cost>> next = best;
      for (const Step& step : steps_) {
        if (!best[step.from] || best[step.from]->steps != round - 1) continue;
        const double bytes = best[step.from]->bytes + step.bytes;
        std::optional<Cost>& known = next[step.to];
        if (known && bytes >= known->bytes - 1e-6) continue;
        known = Cost{bytes, round};
        changed = true;
      }
      best = std::move(next);
    }
    return best;
  }

 private:
  struct Step {
    std::size_t from;
    std::size_t to;
    double bytes;
  };

  void add_steps(std::size_t from) {
    const Placement& before = placements_[from];
    const auto add = [&](const Placement& next, Kind kind, const Atoms& atoms) {
      steps_.push_back({from, numbers_.at(to_string(grid_, next)), bytes_of(grid_, shape_, before, kind, atoms)});
    };
    for (const Atoms& atoms : lists()) {
      for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
        for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather, Kind::kSlice}) {
          if (kind == Kind::kSlice && atoms.size() > 1) continue;
          if (const auto next = after(before, kind, atoms, dim, 0)) add(*next, kind, atoms);
        }
        for (std::size_t from_dim = 0; from_dim < shape_.size(); ++from_dim) {
          if (const auto next = after(before, Kind::kAllToAll, atoms, dim, from_dim))
            add(*next, Kind::kAllToAll, atoms);
        }
      }
      if (const auto next = after(before, Kind::kAllReduce, atoms, 0, 0)) add(*next, Kind::kAllReduce, atoms);
    }
    for (const Placement& next : placements_) {
      if (!can_permute(grid_, shape_, before, next)) continue;
      add(next, Kind::kPermute, (before.sharded() | next.sharded()).sorted());
    }
  }

  // Every list of distinct atoms.
  std::vector<Atoms> lists() const {
    std::vector<Atoms> found;
    for (const Placement& placement : all_placements(grid_, 1, false)) {
      if (!placement.dims[0].empty()) found.push_back(placement.dims[0]);
    }
    return found;
  }

  const Grid& grid_;
  Shape shape_;
  std::vector<Placement> placements_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<Step> steps_;
};

// Compares the plans between all placements that use the whole mesh with the cheapest sequences of any length.
// Returns the greatest ratio of their costs.
double compare(const Shape& mesh, const Shape& shape, const std::vector<double>& speeds = {}) {
  SCOPED_TRACE("mesh " + to_string(mesh) + ", value " + to_string(shape));
  const Grid grid(test_support::grid(mesh).with_speeds({.axes = speeds}));
  const BruteForce brute_force(grid, shape);
  double ratio = 1;
  for (std::size_t i = 0; i < brute_force.placements().size(); ++i) {
    const Placement& from = brute_force.placements()[i];
    const std::vector<std::optional<Cost>> costs = brute_force.costs_from(i);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const Placement& to = brute_force.placements()[k];
      if (!can_reshard(from, to) || (from.varying() | to.varying()).size() != grid.num_atoms()) continue;
      const ReshardPlan plan = plan_reshard(grid, shape, 8, from, to);
      const std::string text = to_string(grid, from) + " -> " + to_string(grid, to);
      if (!costs[k].has_value()) {
        ADD_FAILURE() << text;
        continue;
      }
      EXPECT_GE(plan.bytes, costs[k]->bytes - 1e-6) << text;
      if (plan.bytes <= costs[k]->bytes + 1e-6) {
        EXPECT_LE(static_cast<int>(plan.steps.size()), costs[k]->steps + (grid.num_atoms() > 2 ? 1 : 0)) << text;
      } else {
        ratio = std::max(ratio, plan.bytes / costs[k]->bytes);
      }
    }
  }
  return ratio;
}

TEST(PlanReshard, IsAsCheapAsAnySequenceOfSteps) {
  for (const Shape& mesh : std::vector<Shape>{{2}, {4}, {2, 3}}) {
    for (const Shape& shape : std::vector<Shape>{{12}, {5}, {12, 12}, {3, 5}}) EXPECT_EQ(compare(mesh, shape), 1);
  }
  EXPECT_EQ(compare({2, 2}, {4, 4, 4}), 1);
  EXPECT_EQ(compare({2, 2}, {1, 2, 3}), 1);
  EXPECT_EQ(compare({2, 2, 2}, {12}), 1);
  EXPECT_EQ(compare({2, 2, 2}, {3, 5}), 1);
}

// The planner exchanges whole shards only towards the goal, also where that goes along a slow axis and a detour would
// not.
TEST(PlanReshard, IsNearlyAsCheapWhereAxesAreNotEquallyFast) {
  for (const std::vector<double>& speeds : {std::vector<double>{1e9, 4e9}, std::vector<double>{4e9, 1e9}}) {
    for (const Shape& shape : std::vector<Shape>{{12}, {5}, {12, 12}, {3, 5}}) {
      EXPECT_LE(compare({2, 3}, shape, speeds), 4.0 / 3 + 1e-6);
    }
  }
}

// The planner exchanges whole shards only towards the goal. With three axes a detour may save a little.
TEST(PlanReshard, IsNearlyAsCheapWhereADetourPays) { EXPECT_LE(compare({2, 2, 2}, {8, 8}), 1.15); }

// Every step does to the placement before it what its kind, atoms and dimensions say, and the last one gives the goal.
TEST(PlanReshard, StepsFollowEachOther) {
  const Shape shape = {12, 6};
  for (const Shape& mesh : std::vector<Shape>{{4}, {2, 3}, {2, 2, 2}}) {
    const Grid grid(test_support::grid(mesh));
    const std::vector<Placement> placements = all_placements(grid, 2, true);
    for (const Placement& from : placements) {
      for (const Placement& to : placements) {
        const ReshardPlan plan = plan_reshard(grid, shape, 8, from, to);
        Placement at = from;
        double bytes = 0;
        for (const ReshardStep& step : plan.steps) {
          if (step.kind == Kind::kPermute) {
            ASSERT_TRUE(can_permute(grid, shape, at, step.result));
            ASSERT_EQ(step.atoms, (at.sharded() | step.result.sharded()).sorted());
          } else {
            ASSERT_EQ(after(at, step.kind, step.atoms, step.dim, step.from_dim), step.result);
          }
          bytes += bytes_of(grid, shape, at, step.kind, step.atoms);
          at = step.result;
        }
        ASSERT_EQ(at, to);
        ASSERT_NEAR(plan.bytes, bytes, 1e-6);
      }
    }
  }
}

// ---- Plans as text: "all_gather y of 0 -> [x]"

std::string text_of(const Grid& grid, const ReshardStep& step) {
  static const std::map<Kind, std::string> kNames = {
      {Kind::kAllReduce, "all_reduce"},    {Kind::kReduceScatter, "reduce_scatter"},
      {Kind::kAllGather, "all_gather"},    {Kind::kSlice, "slice"},
      {Kind::kAllToAll, "all_to_all"},     {Kind::kPermute, "permute"},
      {Kind::kMakePartial, "make_partial"}};
  return kNames.at(step.kind) + " " + to_string(grid, step.result);
}

std::vector<std::string> plan(const Mesh& mesh, const Shape& shape, const PartitionSpec& from, const PartitionSpec& to,
                              const std::vector<std::string>& partial = {}) {
  const Grid grid(mesh);
  std::vector<std::string> texts;
  for (const ReshardStep& step :
       plan_reshard(grid, shape, 4, {.dims = grid.dims_of(mesh, from, shape.size()), .partial = grid.atoms_of(partial)},
                    {.dims = grid.dims_of(mesh, to, shape.size()), .partial = {}})
           .steps) {
    texts.push_back(text_of(grid, step));
  }
  return texts;
}

using Steps = std::vector<std::string>;

TEST(PlanReshard, TakesOneStepWhereOneWillDo) {
  const Mesh mesh = test_support::grid({2, 4});
  EXPECT_EQ(plan(mesh, {8, 8}, P("x"), P("x")), Steps{});
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P("x", "y")), (Steps{"slice [_, y]", "slice [x, y]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P({"x", "y"})), (Steps{"slice [(x, y), _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P({"x", "y"}), P()), (Steps{"all_gather [_, _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P("y"), P(none, "y")), (Steps{"all_to_all [_, y]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P(), {"x", "y"}), (Steps{"all_reduce [_, _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P("x"), {"x"}), (Steps{"reduce_scatter [x, _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P({"y", "x"}), {"x", "y"}), (Steps{"reduce_scatter [(y, x), _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P({"x", "y"}), P({"y", "x"})), (Steps{"permute [(y, x), _]"}));
  EXPECT_EQ(plan(test_support::grid({2, 2}), {8, 8}, P("x", "y"), P("y", "x")), (Steps{"permute [y, x]"}));
}

TEST(PlanReshard, ReducesBeforeItGathers) {
  const Mesh mesh = test_support::grid({2, 4});
  EXPECT_EQ(plan(mesh, {8, 8}, P("x"), P(), {"y"}), (Steps{"all_reduce [x, _]", "all_gather [_, _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P(), P("x"), {"x", "y"}),
            (Steps{"reduce_scatter [x, _] partial(sum: y)", "all_reduce [x, _]"}));
}

TEST(PlanReshard, NeverReplicatesToExchangeAxes) {
  const Mesh mesh = test_support::grid({2, 4});
  EXPECT_EQ(plan(mesh, {8, 8}, P("x"), P("y")),
            (Steps{"slice [(x, y), _]", "permute [(y, x), _]", "all_gather [y, _]"}));
  EXPECT_EQ(plan(mesh, {8, 8}, P("x", "y"), P("y", "x")).size(), 3U);
}

TEST(PlanReshard, GathersUnevenShardsToExchangeThem) {
  EXPECT_EQ(plan(test_support::grid({2, 2}), {5}, P("x"), P("y")), (Steps{"all_gather [_]", "slice [y]"}));
}

TEST(PlanReshard, MakesSumsPartialForNothing) {
  const Grid grid(test_support::grid({2, 2}));
  const auto steps = [&](const Placement& from, const Placement& to) {
    const ReshardPlan plan = plan_reshard(grid, {4}, 4, from, to);
    std::vector<std::string> texts;
    for (const ReshardStep& step : plan.steps) texts.push_back(text_of(grid, step));
    return texts;
  };
  const Placement whole{.dims = {{}}, .partial = {}, .kind = ReduceKind::kMax};  // Of nothing, the kind means nothing.
  const Placement sum{.dims = {{}}, .partial = {0}};
  EXPECT_EQ(steps(whole, sum), (Steps{"make_partial [_] partial(sum: x)"}));
  EXPECT_EQ(plan_reshard(grid, {4}, 4, whole, sum).bytes, 0);
  EXPECT_EQ(steps({.dims = {{1}}, .partial = {}}, {.dims = {{1}}, .partial = {0}}),
            (Steps{"make_partial [y] partial(sum: x)"}));
  EXPECT_EQ(steps({.dims = {{0}}, .partial = {}}, sum), (Steps{"all_gather [_]", "make_partial [_] partial(sum: x)"}));
  EXPECT_EQ(steps(sum, {.dims = {{}}, .partial = {0, 1}}), (Steps{"make_partial [_] partial(sum: x, y)"}));
  EXPECT_EQ(steps(sum, {.dims = {{1}}, .partial = {0}}), (Steps{"slice [y] partial(sum: x)"}));
  const Placement max{.dims = {{}}, .partial = {0}, .kind = ReduceKind::kMax};
  EXPECT_EQ(steps(max, sum), (Steps{"all_reduce [_]", "make_partial [_] partial(sum: x)"}));
}

TEST(PlanReshard, RefusesOtherPartialResults) {
  const Grid grid(test_support::grid({2, 2}));
  const Placement whole = Placement::replicated(1);
  const Placement sum{.dims = {{}}, .partial = {0}};
  const Placement max{.dims = {{}}, .partial = {0}, .kind = ReduceKind::kMax};
  EXPECT_THROW(plan_reshard(grid, {4}, 4, whole, max), InternalError);
  EXPECT_THROW(plan_reshard(grid, {4}, 4, sum, max), InternalError);
}

// Plans on many axes are found at once: the search goes straight to the goal where it can.
TEST(PlanReshard, IsQuickOnManyAxes) {
  const Mesh mesh(test_support::cpus(64), {2, 2, 2, 2, 2, 2}, {"a", "b", "c", "d", "e", "f"});
  const Shape shape = {8, 8, 8, 8, 8, 8};
  const PartitionSpec all = P("a", "b", "c", "d", "e", "f");
  EXPECT_EQ(plan(mesh, shape, P(), all).size(), 6U);
  EXPECT_EQ(plan(mesh, shape, all, P()).size(), 6U);
  EXPECT_EQ(plan(mesh, shape, all, P("b", "c", "d", "e", "f", "a")).size(), 1U);
}

// ---- permutation_sources

TEST(PermutationSources, AreOneToOneAndHoldTheWantedBlock) {
  const Shape shape = {12, 12};
  for (const Shape& mesh : std::vector<Shape>{{4}, {2, 3}, {2, 2, 2}}) {
    const Grid grid(test_support::grid(mesh));
    const std::vector<Placement> placements = all_placements(grid, 2, false);
    for (const Placement& from : placements) {
      for (const Placement& to : placements) {
        if (!can_permute(grid, shape, from, to)) continue;
        const Atoms atoms = (from.sharded() | to.sharded()).sorted();
        const std::vector<std::int64_t> sources = permutation_sources(grid, from, to, atoms);
        std::vector<std::int64_t> sorted = sources;
        std::sort(sorted.begin(), sorted.end());
        for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<std::int64_t>(i));
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const std::int64_t target = grid.with_index_along(0, atoms, static_cast<std::int64_t>(i));
          const std::int64_t source = grid.with_index_along(0, atoms, sources[i]);
          for (std::size_t d = 0; d < 2; ++d) {
            ASSERT_EQ(grid.extent(12, from.dims[d], source), grid.extent(12, to.dims[d], target));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal
