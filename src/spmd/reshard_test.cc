#include "spmd/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sharding/test_support.h"
#include "shoal/error.h"
#include "spmd/test_support.h"

namespace shoal {
namespace {

using test_support::all_placements;
using test_support::can_reshard;

using Kind = ReshardStep::Kind;

// The bytes that a device receives in a step on average, as the header defines them.
double bytes_of(const Grid& grid, const Shape& shape, const Placement& before, Kind kind, const Atoms& atoms) {
  const double bytes =
      8 * static_cast<double>(num_elements(shape)) / static_cast<double>(grid.size_of(before.sharded()));
  const auto group = static_cast<double>(grid.size_of(atoms));
  switch (kind) {
    case Kind::kAllReduce:
      return 2 * bytes * (group - 1) / group;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return bytes * (group - 1) / group;
    case Kind::kAllGather:
      return bytes * (group - 1);
    case Kind::kSlice:
      return 0;
    case Kind::kPermute:
      return bytes;
  }
  return 0;
}

// The text of a step's rule: what it does to a placement. Throws nothing; a step that cannot be taken gives nullopt.
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

// Tries every sequence of at most `length` steps, each on any list of atoms, and keeps the cheapest to each placement.
class BruteForce {
 public:
  BruteForce(const Grid& grid, const Shape& shape) : grid_(grid), shape_(shape) {
    placements_ = all_placements(grid, shape.size(), true);
    for (std::size_t i = 0; i < placements_.size(); ++i) numbers_[to_string(grid, placements_[i])] = i;
    for (std::size_t i = 0; i < placements_.size(); ++i) add_steps(i);
  }

  const std::vector<Placement>& placements() const { return placements_; }

  std::vector<std::optional<Cost>> costs_from(std::size_t start, int length) const {
    std::vector<std::optional<Cost>> best(placements_.size());
    best[start] = Cost{0, 0};
    for (int round = 1; round <= length; ++round) {
      std::vector<std::optional<Cost>> next = best;
      for (const Step& step : steps_) {
        if (!best[step.from] || best[step.from]->steps != round - 1) continue;
        const double bytes = best[step.from]->bytes + step.bytes;
        std::optional<Cost>& known = next[step.to];
        if (!known || bytes < known->bytes - 1e-6) known = Cost{bytes, round};
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
      if (can_permute(grid_, shape_, before, next)) add(next, Kind::kPermute, {});
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

void compare(const Shape& mesh, const Shape& shape) {
  SCOPED_TRACE("mesh " + to_string(mesh) + ", value " + to_string(shape));
  const Grid grid(test_support::grid(mesh));
  const BruteForce brute_force(grid, shape);
  int worse = 0, longer = 0, pairs = 0; double maxr = 1;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < brute_force.placements().size(); ++i) {
    const Placement& from = brute_force.placements()[i];
    const std::vector<std::optional<Cost>> costs = brute_force.costs_from(i, 20);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const Placement& to = brute_force.placements()[k];
      if (!can_reshard(from, to)) continue;
      if ((from.varying() | to.varying()).size() != grid.num_atoms()) continue;
      const ReshardPlan plan = plan_reshard(grid, shape, 8, from, to);
      ++pairs;
      const std::string text = to_string(grid, from) + " -> " + to_string(grid, to);
      ASSERT_TRUE(costs[k].has_value()) << text;
      EXPECT_GE(plan.bytes, costs[k]->bytes - 1e-6) << text;
      std::string p;
      for (auto& s : plan.steps) p += " ; " + std::to_string((int)s.kind) + " " + to_string(grid, s.result);
      if (plan.bytes > costs[k]->bytes + 1e-6) { maxr = std::max(maxr, plan.bytes / costs[k]->bytes);
        ++worse;
        if (worse < 8)
          std::printf("WORSE %s: %g vs %g (%d steps)%s\n", text.c_str(), plan.bytes, costs[k]->bytes, costs[k]->steps,
                      p.c_str());
      } else if ((int)plan.steps.size() > costs[k]->steps) {
        ++longer;
        if (longer < 8)
          std::printf("LONGER %s: %zu vs %d at %g%s\n", text.c_str(), plan.steps.size(), costs[k]->steps, plan.bytes,
                      p.c_str());
      }
    }
  }
  std::printf("%s %s: %d pairs, %d worse, %d longer\n", to_string(mesh).c_str(), to_string(shape).c_str(), pairs, worse,
              longer);
}

TEST(Reshard, IsAsCheapAsAnySequenceOfSteps) {
  for (Shape mesh : std::vector<Shape>{{2}, {4}, {2, 3}, {2, 2, 2}}) {
    compare(mesh, {12});
    compare(mesh, {5});
    compare(mesh, {12, 12});
    compare(mesh, {3, 5});
  }
  compare({2, 2}, {4, 4, 4});
  compare({2, 2}, {1, 2, 3});
}

}  // namespace
}  // namespace shoal
