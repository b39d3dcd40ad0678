#include "spmd/reshard.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace shoal {
namespace {

// Atoms that stay next to each other all the way move as one.
using Unit = Atoms;

// Neighbours in a list of atoms, where the list ends on either side counting as a neighbour of its own.
void cut_between(const std::vector<Atoms>& lists, std::set<std::pair<Atom, Atom>>& joined) {
  for (const Atoms& list : lists) {
    for (std::size_t i = 0; i + 1 < list.size(); ++i) joined.emplace(list[i], list[i + 1]);
  }
}

std::vector<Atoms> lists_of(const Placement& placement) {
  std::vector<Atoms> lists = placement.dims;
  lists.push_back(placement.partial);
  return lists;
}

// Divides the atoms of both placements into units: two atoms stay together if they are neighbours wherever they occur.
std::vector<Unit> make_units(const Placement& from, const Placement& to) {
  std::set<std::pair<Atom, Atom>> in_from;
  std::set<std::pair<Atom, Atom>> in_to;
  cut_between(lists_of(from), in_from);
  cut_between(lists_of(to), in_to);
  const AtomSet from_atoms = from.varying();
  const AtomSet to_atoms = to.varying();
  const auto together = [&](Atom a, Atom b) {
    const bool from_ok = in_from.contains({a, b}) || (!from_atoms.contains(a) && !from_atoms.contains(b));
    const bool to_ok = in_to.contains({a, b}) || (!to_atoms.contains(a) && !to_atoms.contains(b));
    return from_ok && to_ok;
  };
  std::vector<Unit> units;
  AtomSet done;
  const auto add_runs = [&](const Atoms& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (done.contains(list[i])) continue;
      done.insert(list[i]);
      if (i > 0 && !units.empty() && units.back().back() == list[i - 1] && together(list[i - 1], list[i])) {
        units.back().push_back(list[i]);
      } else {
        units.push_back({list[i]});
      }
    }
  };
  for (const Atoms& list : lists_of(from)) add_runs(list);
  for (const Atoms& list : lists_of(to)) add_runs(list);
  return units;
}

bool ends_with(const Atoms& list, const Unit& unit) {
  return list.size() >= unit.size() &&
         std::equal(unit.begin(), unit.end(), list.end() - static_cast<std::ptrdiff_t>(unit.size()));
}

// The key of a placement in the search.
using Key = std::pair<std::vector<std::vector<Atom>>, std::uint64_t>;

Key key_of(const Placement& placement) {
  Key key;
  for (const Atoms& atoms : placement.dims) key.first.emplace_back(atoms.begin(), atoms.end());
  key.second = AtomSet(placement.partial).bits();
  return key;
}

class Planner {
 public:
  Planner(const Grid& grid, const Shape& shape, std::size_t element_size, const Placement& from, const Placement& to)
      : grid_(grid), shape_(shape), element_size_(element_size), from_(from), to_(to), units_(make_units(from, to)) {}

  ReshardPlan run() {
    visit(from_, {.bytes = 0, .steps = 0}, nullptr, {});
    const Key goal = key_of(to_);
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      Node& node = nodes_.at(entry.key);
      if (node.done) continue;
      node.done = true;
      if (entry.key == goal) return trace_back(entry.key);
      expand(entry.key, node);
    }
    throw InternalError("no plan leads from one placement to the other");
  }

 private:
  struct Cost {
    double bytes;
    int steps;
    auto operator<=>(const Cost&) const = default;
  };
  struct Node {
    Placement placement;
    Cost cost;
    Key previous;
    ReshardStep step;
    bool has_previous = false;
    bool done = false;
  };
  struct Entry {
    Cost cost;
    Key key;
    bool operator>(const Entry& other) const { return std::tie(cost, key) > std::tie(other.cost, other.key); }
  };

  double local_bytes(const Placement& placement) const {
    return static_cast<double>(num_elements(local_shape(grid_, shape_, placement))) *
           static_cast<double>(element_size_);
  }

  void visit(const Placement& placement, Cost cost, const Key* previous, ReshardStep step) {
    Key key = key_of(placement);
    const auto [found, is_new] = nodes_.try_emplace(key);
    Node& node = found->second;
    if (!is_new && (node.done || node.cost <= cost)) return;
    node.placement = placement;
    node.cost = cost;
    node.has_previous = previous != nullptr;
    if (previous != nullptr) node.previous = *previous;
    node.step = std::move(step);
    node.step.result = placement;
    queue_.push({cost, std::move(key)});
  }

  void expand(const Key& key, const Node& node) {
    const Placement here = node.placement;
    const Cost cost = node.cost;
    const double bytes = local_bytes(here);
    const auto step_to = [&](Placement next, double received, ReshardStep::Kind kind, const Unit& unit, std::size_t dim,
                             std::size_t from_dim) {
      visit(next, {cost.bytes + received, cost.steps + 1}, &key,
            {.kind = kind, .atoms = unit, .dim = dim, .from_dim = from_dim, .result = {}});
    };
    const AtomSet sharded = here.sharded();
    const AtomSet partial(here.partial);
    for (const Unit& unit : units_) {
      const AtomSet atoms(unit);
      const double size = static_cast<double>(grid_.size_of(unit));
      if (!(atoms & partial).empty()) {
        Placement reduced = here;
        reduced.partial = (partial - atoms).sorted();
        step_to(reduced, 2 * bytes * (size - 1) / size, ReshardStep::Kind::kAllReduce, unit, 0, 0);
        for (std::size_t d = 0; d < here.dims.size(); ++d) {
          Placement scattered = reduced;
          scattered.dims[d].insert(scattered.dims[d].end(), unit.begin(), unit.end());
          step_to(scattered, bytes * (size - 1) / size, ReshardStep::Kind::kReduceScatter, unit, d, 0);
        }
      } else if ((atoms & sharded).empty()) {
        for (std::size_t d = 0; d < here.dims.size(); ++d) {
          Placement sliced = here;
          sliced.dims[d].insert(sliced.dims[d].end(), unit.begin(), unit.end());
          step_to(sliced, 0, ReshardStep::Kind::kSlice, unit, d, 0);
        }
      } else {
        expand_sharded(here, bytes, unit, size, step_to);
      }
    }
    expand_permutation(here, bytes, step_to);
  }

  template <class F>
  void expand_sharded(const Placement& here, double bytes, const Unit& unit, double size, F&& step_to) {
    for (std::size_t i = 0; i < here.dims.size(); ++i) {
      if (!ends_with(here.dims[i], unit)) continue;
      Placement gathered = here;
      gathered.dims[i].resize(gathered.dims[i].size() - unit.size());
      step_to(gathered, bytes * (size - 1), ReshardStep::Kind::kAllGather, unit, i, 0);
      for (std::size_t j = 0; j < here.dims.size(); ++j) {
        if (j == i) continue;
        Placement moved = gathered;
        moved.dims[j].insert(moved.dims[j].end(), unit.begin(), unit.end());
        step_to(moved, bytes * (size - 1) / size, ReshardStep::Kind::kAllToAll, unit, j, i);
      }
    }
  }

  // Whole shards change hands, straight to the goal, where both placements cut every dimension into as many equal
  // pieces.
  template <class F>
  void expand_permutation(const Placement& here, double bytes, F&& step_to) {
    if (here.partial != to_.partial || here.dims == to_.dims) return;
    for (std::size_t d = 0; d < here.dims.size(); ++d) {
      if (grid_.size_of(here.dims[d]) != grid_.size_of(to_.dims[d])) return;
    }
    if (!is_even(grid_, shape_, here.dims)) return;
    if (!((here.sharded() | to_.sharded()) & AtomSet(here.partial)).empty()) return;
    step_to(to_, bytes, ReshardStep::Kind::kPermute, (here.sharded() | to_.sharded()).sorted(), 0, 0);
  }

  ReshardPlan trace_back(const Key& goal) const {
    ReshardPlan plan;
    const Node* node = &nodes_.at(goal);
    plan.bytes = node->cost.bytes;
    for (; node->has_previous; node = &nodes_.at(node->previous)) plan.steps.push_back(node->step);
    std::reverse(plan.steps.begin(), plan.steps.end());
    return plan;
  }

  const Grid& grid_;
  const Shape& shape_;
  std::size_t element_size_;
  const Placement& from_;
  const Placement& to_;
  std::vector<Unit> units_;
  std::map<Key, Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

ReshardPlan plan_reshard(const Grid& grid, const Shape& shape, std::size_t element_size, const Placement& from,
                         const Placement& to) {
  SHOAL_CHECK((AtomSet(to.partial) - AtomSet(from.partial)).empty(), "a reshard cannot make a value partial");
  if (from == to) return {};
  Placement goal = to;
  goal.kind = from.kind;
  return Planner(grid, shape, element_size, from, goal).run();
}

std::vector<std::int64_t> permutation_sources(const Grid& grid, const Placement& from, const Placement& to,
                                              const Atoms& atoms) {
  // A device needs the block that `to` gives it. Among the devices that hold the block under `from`, the one is chosen
  // that makes the exchange one to one: it takes the receiver's place along the axes that only `from` uses.
  const Atoms only_from = (from.sharded() - to.sharded()).sorted();
  const Atoms only_to = (to.sharded() - from.sharded()).sorted();
  std::vector<std::int64_t> sources;
  for (std::int64_t index = 0; index < grid.size_of(atoms); ++index) {
    const std::int64_t target = grid.with_index_along(0, atoms, index);
    std::int64_t source = target;
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
      source = grid.with_index_along(source, from.dims[d], grid.index_along(target, to.dims[d]));
    }
    source = grid.with_index_along(source, only_to, grid.index_along(target, only_from));
    sources.push_back(grid.index_along(source, atoms));
  }
  return sources;
}

}  // namespace shoal
