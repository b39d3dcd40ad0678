#include "spmd/reshard.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace shoal {
namespace {

// Atoms of one axis that stay next to each other all the way move as one.
using Unit = Atoms;

std::vector<Atoms> lists_of(const Placement& placement) {
  std::vector<Atoms> lists = placement.dims;
  lists.push_back(placement.partial);
  return lists;
}

// The pairs of atoms that follow each other in a list.
std::set<std::pair<Atom, Atom>> neighbours_in(const Placement& placement) {
  std::set<std::pair<Atom, Atom>> pairs;
  for (const Atoms& list : lists_of(placement)) {
    for (std::size_t i = 0; i + 1 < list.size(); ++i) pairs.emplace(list[i], list[i + 1]);
  }
  return pairs;
}

// Divides the atoms of both placements into units: two atoms of an axis stay together if they are neighbours wherever
// they occur.
std::vector<Unit> make_units(const Grid& grid, const Placement& from, const Placement& to) {
  const std::set<std::pair<Atom, Atom>> in_from = neighbours_in(from);
  const std::set<std::pair<Atom, Atom>> in_to = neighbours_in(to);
  const AtomSet from_atoms = from.varying();
  const AtomSet to_atoms = to.varying();
  const auto together = [&](Atom a, Atom b) {
    const bool from_ok = in_from.contains({a, b}) || (!from_atoms.contains(a) && !from_atoms.contains(b));
    const bool to_ok = in_to.contains({a, b}) || (!to_atoms.contains(a) && !to_atoms.contains(b));
    return from_ok && to_ok && grid.axis_of(a) == grid.axis_of(b);
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

// The key of a placement in the search.
using Key = std::pair<std::vector<std::vector<Atom>>, std::uint64_t>;

Key key_of(const Placement& placement) {
  Key key;
  for (const Atoms& atoms : placement.dims) key.first.emplace_back(atoms.begin(), atoms.end());
  key.second = AtomSet(placement.partial).bits();
  return key;
}

void append(Atoms& list, const Atoms& more) { list.insert(list.end(), more.begin(), more.end()); }

// The atoms of `list` from the given position on.
Atoms suffix(const Atoms& list, std::size_t begin) {
  return {list.begin() + static_cast<std::ptrdiff_t>(begin), list.end()};
}

// Calls body(atoms) for every list of one or more of the units, in every order.
template <class F>
void for_each_choice(const std::vector<Unit>& units, const Atoms& chosen, F&& body) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    Atoms longer = chosen;
    append(longer, units[i]);
    body(longer);
    std::vector<Unit> rest = units;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    for_each_choice(rest, longer, body);
  }
}

// The search is A* (Hart, Nilsson, Raphael, 1968). Its bound of what remains never overestimates.
class Planner {
 public:
  Planner(const Grid& grid, const Shape& shape, std::size_t element_size, const Placement& from, const Placement& to)
      : grid_(grid),
        shape_(shape),
        element_size_(static_cast<double>(element_size)),
        from_(from),
        to_(to),
        units_(make_units(grid, from, to)) {}

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
  // Bytes are those of all devices together: whole numbers if all axes are equally fast, so that sums in any order are
  // equal. Those along slower axes count as more.
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
    Cost bound;
    int misplaced;  // Between equal bounds, the search goes where most atoms are in place.
    Key key;
    bool operator>(const Entry& other) const {
      return std::tie(bound, misplaced, key) > std::tie(other.bound, other.misplaced, other.key);
    }
  };

  double devices() const { return static_cast<double>(grid_.num_devices()); }

  // Those of a shard, on average, times the devices.
  double mean_bytes(const Placement& placement) const {
    return static_cast<double>(num_elements(shape_)) * element_size_ *
           (devices() / static_cast<double>(grid_.size_of(placement.sharded())));
  }

  // What must be received at least, and the number of dimensions that have to be cut into more, or fewer, pieces: a
  // step changes one of either.
  Cost remaining(const Placement& here) const {
    int fewer = 0;
    int more = 0;
    for (std::size_t d = 0; d < here.dims.size(); ++d) {
      const std::int64_t pieces = grid_.size_of(here.dims[d]);
      const std::int64_t wanted = grid_.size_of(to_.dims[d]);
      fewer += pieces > wanted ? 1 : 0;
      more += pieces < wanted ? 1 : 0;
    }
    const int at_least = here.dims == to_.dims && here.partial == to_.partial ? 0 : 1;
    return {std::max(0.0, mean_bytes(to_) - mean_bytes(here)), std::max({fewer, more, at_least})};
  }

  int misplaced(const Placement& here) const {
    const AtomSet partial(here.partial);
    const AtomSet wanted(to_.partial);
    auto count = static_cast<std::size_t>((partial - wanted).size() + (wanted - partial).size());
    for (std::size_t d = 0; d < here.dims.size(); ++d) {
      const Atoms& have = here.dims[d];
      const Atoms& want = to_.dims[d];
      const auto [end, ignored] = std::mismatch(have.begin(), have.end(), want.begin(), want.end());
      count += have.size() + want.size() - 2 * static_cast<std::size_t>(end - have.begin());
    }
    return static_cast<int>(count);
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
    const Cost rest = remaining(placement);
    queue_.push({{cost.bytes + rest.bytes, cost.steps + rest.steps}, misplaced(placement), std::move(key)});
  }

  void expand(const Key& key, const Node& node) {
    const Placement here = node.placement;
    const Cost cost = node.cost;
    const double bytes = mean_bytes(here);
    const auto step_to = [&](const Placement& next, double received, ReshardStep::Kind kind, const Atoms& atoms,
                             std::size_t dim, std::size_t from_dim) {
      const double moved = received == 0 ? 0 : received * grid_.slowness(atoms);
      visit(next, {cost.bytes + moved, cost.steps + 1}, &key,
            {.kind = kind, .atoms = atoms, .dim = dim, .from_dim = from_dim, .result = {}});
    };
    expand_partial(here, bytes, step_to);
    for (const Unit& unit : units_within(AtomSet(to_.partial) - here.varying())) {
      Placement summed = here;
      summed.partial = (AtomSet(here.partial) | AtomSet(unit)).sorted();
      summed.kind = ReduceKind::kSum;
      step_to(summed, 0, ReshardStep::Kind::kMakePartial, unit, 0, 0);
    }
    for (const Unit& unit : units_within(all_atoms() - here.varying())) {
      for (std::size_t d = 0; d < here.dims.size(); ++d) {
        Placement sliced = here;
        append(sliced.dims[d], unit);
        step_to(sliced, 0, ReshardStep::Kind::kSlice, unit, d, 0);
      }
    }
    for (std::size_t d = 0; d < here.dims.size(); ++d) expand_sharded(here, bytes, d, step_to);
    if (const auto next = exchanged(here)) {
      const Atoms atoms = (here.sharded() | next->sharded()).sorted();
      step_to(*next, bytes, ReshardStep::Kind::kPermute, atoms, 0, 0);
    }
  }

  template <class F>
  void expand_partial(const Placement& here, double bytes, F&& step_to) {
    const AtomSet partial(here.partial);
    for_each_choice(units_within(partial - AtomSet(to_.partial)), {}, [&](const Atoms& atoms) {
      const auto size = static_cast<double>(grid_.size_of(atoms));
      Placement reduced = here;
      reduced.partial = (partial - AtomSet(atoms)).sorted();
      step_to(reduced, 2 * (bytes / size) * (size - 1), ReshardStep::Kind::kAllReduce, AtomSet(atoms).sorted(), 0, 0);
      for (std::size_t d = 0; d < here.dims.size(); ++d) {
        Placement scattered = reduced;
        append(scattered.dims[d], atoms);
        step_to(scattered, (bytes / size) * (size - 1), ReshardStep::Kind::kReduceScatter, atoms, d, 0);
      }
    });
  }

  // Takes units off the minor end of dimension i.
  template <class F>
  void expand_sharded(const Placement& here, double bytes, std::size_t i, F&& step_to) {
    const Atoms& list = here.dims[i];
    for (std::size_t begin = list.size(); begin-- > 0;) {
      if (!starts_unit(list[begin])) continue;
      const Atoms atoms = suffix(list, begin);
      const auto size = static_cast<double>(grid_.size_of(atoms));
      Placement gathered = here;
      gathered.dims[i].resize(begin);
      step_to(gathered, bytes * (size - 1), ReshardStep::Kind::kAllGather, atoms, i, 0);
      for (std::size_t j = 0; j < here.dims.size(); ++j) {
        if (j == i) continue;
        Placement moved = gathered;
        append(moved.dims[j], atoms);
        step_to(moved, (bytes / size) * (size - 1), ReshardStep::Kind::kAllToAll, atoms, j, i);
      }
    }
  }

  // Whole shards change hands: to the goal, or as near to it as a placement comes that cuts every dimension into as
  // many equal pieces. The goal's units come first; where they do not suffice, units that the goal does not use fill
  // up.
  std::optional<Placement> exchanged(const Placement& here) const {
    if (!is_even(grid_, shape_, here.dims)) return std::nullopt;
    const AtomSet partial(here.partial);
    std::vector<Unit> spare = units_within(all_atoms() - to_.varying() - partial);
    Placement next = here;
    for (std::size_t d = 0; d < here.dims.size(); ++d) {
      std::int64_t pieces = grid_.size_of(here.dims[d]);
      next.dims[d].clear();
      const auto take = [&](const Unit& unit) {
        const std::int64_t size = grid_.size_of(unit);
        if (pieces % size != 0) return false;
        append(next.dims[d], unit);
        pieces /= size;
        return true;
      };
      for (const Unit& unit : units_of(to_.dims[d])) {
        if (partial.contains(unit.front()) || !take(unit)) break;
      }
      std::erase_if(spare, take);
      if (pieces != 1) return std::nullopt;
    }
    if (next.dims == here.dims) return std::nullopt;
    return next;
  }

  AtomSet all_atoms() const { return from_.varying() | to_.varying(); }

  bool starts_unit(Atom atom) const {
    return std::any_of(units_.begin(), units_.end(), [&](const Unit& unit) { return unit.front() == atom; });
  }

  // The units that follow each other in a list.
  std::vector<Unit> units_of(const Atoms& list) const {
    std::vector<Unit> found;
    for (Atom atom : list) {
      if (starts_unit(atom)) found.emplace_back();
      found.back().push_back(atom);
    }
    return found;
  }

  std::vector<Unit> units_within(AtomSet atoms) const {
    std::vector<Unit> found;
    for (const Unit& unit : units_) {
      if (atoms.contains(unit.front())) found.push_back(unit);
    }
    return found;
  }

  ReshardPlan trace_back(const Key& goal) const {
    ReshardPlan plan;
    const Node* node = &nodes_.at(goal);
    plan.bytes = node->cost.bytes / devices();
    for (; node->has_previous; node = &nodes_.at(node->previous)) {
      // Neighbouring slices of one dimension are one slice.
      const auto next = plan.steps.rbegin();
      const bool joins = next != plan.steps.rend() && next->kind == ReshardStep::Kind::kSlice &&
                         node->step.kind == ReshardStep::Kind::kSlice && next->dim == node->step.dim;
      if (joins) {
        next->atoms.insert(next->atoms.begin(), node->step.atoms.begin(), node->step.atoms.end());
      } else {
        plan.steps.push_back(node->step);
      }
    }
    std::reverse(plan.steps.begin(), plan.steps.end());
    return plan;
  }

  const Grid& grid_;
  const Shape& shape_;
  double element_size_;
  const Placement& from_;
  const Placement& to_;
  std::vector<Unit> units_;
  std::map<Key, Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

ReshardPlan plan_reshard(const Grid& grid, const Shape& shape, std::size_t element_size, const Placement& from,
                         const Placement& to) {
  const bool changes_kind = !to.partial.empty() && !from.partial.empty() && to.kind != from.kind;
  const bool makes_partial = changes_kind || !(AtomSet(to.partial) - AtomSet(from.partial)).empty();
  SHOAL_CHECK(!makes_partial || to.kind == ReduceKind::kSum, "a reshard makes no partial results but sums");
  if (from == to) return {};
  if (changes_kind) {  // What is partial of one kind is finished before it is summands.
    Placement finished = to;
    finished.partial.clear();
    ReshardPlan plan = plan_reshard(grid, shape, element_size, from, finished);
    const ReshardPlan rest = plan_reshard(grid, shape, element_size, finished, to);
    plan.steps.insert(plan.steps.end(), rest.steps.begin(), rest.steps.end());
    plan.bytes += rest.bytes;
    return plan;
  }
  Placement goal = to;
  if (to.partial.empty()) goal.kind = from.kind;
  return Planner(grid, shape, element_size, from, goal).run();
}

const ReshardPlan& ReshardPlans::plan(const Shape& shape, std::size_t element_size, const Placement& from,
                                      const Placement& to) {
  const auto key = std::tie(shape, element_size, from.dims, from.partial, from.kind, to.dims, to.partial, to.kind);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  return plans_.emplace(Key(key), plan_reshard(grid_, shape, element_size, from, to)).first->second;
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
