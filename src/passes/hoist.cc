#include "passes/hoist.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ops/builder.h"
#include "ops/eqn_cost.h"

namespace shoal {
namespace {

enum class Moves { kWhatIsNoLarger, kExchanges };

bool is_collective(const Eqn& eqn) { return eqn.op->op_class == OpClass::kCollective && !has_effect(eqn); }
// Whether devices send each other something in an equation.
bool is_exchange(const Eqn& eqn) { return is_collective(eqn) && eqn.op->collective->received_bytes != nullptr; }

// What leaves the body of a loop.
class Invariants {
 public:
  // The captures are the inputs from `first` on. Gathers may add so many bytes.
  Invariants(const Graph& body, std::size_t first, Moves moves, double room)
      : body_(body), moves_(moves), room_(room), captures_(body.values.size(), false) {
    for (std::size_t i = first; i < body.inputs.size(); ++i) captures_[slot(body.inputs[i])] = true;
    std::vector<bool> same = captures_;
    for (const Eqn& eqn : body.eqns) {
      const bool may_leave = (eqn.op->op_class == OpClass::kCompute && bodies_of(eqn).empty()) ||
                             (moves == Moves::kExchanges && is_collective(eqn));
      const bool is_same = may_leave && std::ranges::all_of(eqn.inputs, [&](ValueId id) { return same[slot(id)]; });
      is_same_.push_back(is_same);
      for (ValueId id : eqn.outputs) same[slot(id)] = is_same;
    }
    choose();
  }

  bool any() const { return std::ranges::find(leaves_, true) != leaves_.end(); }

  /// Writes what leaves to `outside`, where the captures are `operands`; the body is changed to take the results that
  /// it still needs as further captures, whose operands are appended.
  Graph move_to(Graph& outside, std::size_t first, std::vector<ValueId>& operands) const {
    std::unordered_map<ValueId, ValueId> moved;
    for (std::size_t i = first; i < body_.inputs.size(); ++i) moved[body_.inputs[i]] = operands[i];
    Graph rest = body_;
    rest.eqns.clear();
    std::vector<bool> used(body_.values.size(), false);
    for (std::size_t i = 0; i < body_.eqns.size(); ++i) {
      const Eqn& eqn = body_.eqns[i];
      if (leaves_[i]) {
        Eqn copy = eqn;
        for (ValueId& id : copy.inputs) id = moved.at(id);
        for (ValueId& id : copy.outputs) {
          const ValueId inside = id;
          outside.values.push_back(body_.value(inside));
          id = moved[inside] = static_cast<ValueId>(outside.values.size() - 1);
        }
        outside.eqns.push_back(std::move(copy));
      }
      if (leaves_[i] && !stays_[i]) continue;
      for (ValueId id : eqn.inputs) used[slot(id)] = true;
      rest.eqns.push_back(eqn);
    }
    for (ValueId id : body_.outputs) used[slot(id)] = true;
    for (std::size_t i = 0; i < body_.eqns.size(); ++i) {
      for (ValueId id : body_.eqns[i].outputs) {
        if (!leaves_[i] || stays_[i] || !used[slot(id)]) continue;
        rest.inputs.push_back(id);
        operands.push_back(moved.at(id));
      }
    }
    return rest;
  }

 private:
  // What only moves elements, or makes them of nothing, is worth moving for the sake of what is made of it alone.
  static bool is_cheap(const Eqn& eqn) { return eqn.inputs.empty() || moves_elements(*eqn.op); }

  double growth(const Eqn& eqn) const {
    double bytes = 0;
    for (ValueId id : eqn.outputs) bytes += bytes_of(body_.type(id));
    for (ValueId id : eqn.inputs) bytes -= bytes_of(body_.type(id));
    return bytes;
  }
  bool is_no_larger(const Eqn& eqn) const { return growth(eqn) <= 0; }

  // Whether an equation is worth moving for itself.
  bool is_worth_it(const Eqn& eqn) const {
    return moves_ == Moves::kExchanges ? is_exchange(eqn) : !is_cheap(eqn) && is_no_larger(eqn);
  }

  // All exchanges move, or none: where layers follow each other the whole weights of one are there at a time.
  bool exchanges_fit() const {
    double bytes = 0;
    for (std::size_t i = 0; i < body_.eqns.size(); ++i) {
      if (is_same_[i] && is_exchange(body_.eqns[i])) bytes += growth(body_.eqns[i]);
    }
    return bytes <= room_;
  }

  void choose() {
    const std::size_t count = body_.eqns.size();
    leaves_.assign(count, false);
    stays_.assign(count, false);
    if (moves_ == Moves::kExchanges && !exchanges_fit()) return;
    std::vector<std::size_t> maker(body_.values.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      for (ValueId id : body_.eqns[i].outputs) maker[slot(id)] = i;
    }
    std::vector<bool> needed_outside(count, false);
    std::vector<bool> needed_inside(count, false);
    for (ValueId id : body_.outputs) {
      if (maker[slot(id)] < count) needed_inside[maker[slot(id)]] = true;
    }
    // Makers come before users: from the last to the first, all that use a result are known.
    for (std::size_t i = count; i-- > 0;) {
      const Eqn& eqn = body_.eqns[i];
      leaves_[i] = is_same_[i] && (is_worth_it(eqn) || needed_outside[i]);
      stays_[i] = leaves_[i] && needed_inside[i] && !is_worth_it(eqn);
      for (ValueId id : eqn.inputs) {
        const std::size_t made_by = maker[slot(id)];
        if (made_by == count) continue;
        if (leaves_[i]) needed_outside[made_by] = true;
        if (!leaves_[i] || stays_[i]) needed_inside[made_by] = true;
      }
    }
  }

  const Graph& body_;
  Moves moves_;
  double room_;
  std::vector<bool> captures_;
  std::vector<bool> is_same_;  // By equation: whether it gives the same in every trip.
  std::vector<bool> leaves_;
  std::vector<bool> stays_;  // Whether it is left in the body, too.
};

// The equation without what is the same in every trip, which is written before it.
void hoist_from(Eqn& eqn, Graph& outside, Moves moves) {
  const Control control = eqn.op->control(eqn.attrs);
  const auto bodies = bodies_of(eqn);
  const std::size_t first = control.carries + control.slices;
  std::vector<ValueId> operands(eqn.inputs.begin() + static_cast<std::ptrdiff_t>(control.first_argument),
                                eqn.inputs.end());
  double room = 0;
  for (ValueId id : eqn.inputs) room += bytes_of(outside.type(id));
  std::vector<Graph> changed;
  std::vector<std::size_t> counts;  // The captures that each body has got.
  for (const Graph* body : bodies) {
    const Invariants invariants(*body, first, moves, room);
    const std::size_t before = operands.size();
    changed.push_back(invariants.any() ? invariants.move_to(outside, first, operands) : *body);
    counts.push_back(operands.size() - before);
  }
  if (operands.size() + control.first_argument == eqn.inputs.size()) return;
  // All bodies take the captures of all, in one order.
  const std::size_t given = eqn.inputs.size() - control.first_argument;
  for (std::size_t b = 0; b < changed.size(); ++b) {
    const std::vector<ValueId> own(changed[b].inputs.begin() + static_cast<std::ptrdiff_t>(given),
                                   changed[b].inputs.end());
    changed[b].inputs.resize(given);
    std::size_t place = given;
    for (std::size_t other = 0; other < changed.size(); ++other) {
      for (std::size_t i = 0; i < counts[other]; ++i, ++place) {
        if (other == b) {
          changed[b].inputs.push_back(own[i]);
        } else {
          changed[b].values.push_back(outside.value(operands[place]));
          changed[b].inputs.push_back(static_cast<ValueId>(changed[b].values.size() - 1));
        }
      }
    }
  }
  std::size_t next = 0;
  map_bodies(eqn, [&](const Graph&) { return std::move(changed[next++]); });
  eqn.inputs.resize(control.first_argument);
  eqn.inputs.insert(eqn.inputs.end(), operands.begin(), operands.end());
}

// A loop without the carries that every trip hands on as they are: they are captures. Their results are their operands.
void make_captures(Eqn& eqn, const Graph& graph, std::unordered_map<ValueId, ValueId>& renamed) {
  const Control control = eqn.op->control(eqn.attrs);
  const Graph& last = *bodies_of(eqn).back();
  const auto is_handed_on = [&](std::size_t k) {
    return last.outputs[k] == last.inputs[k] &&
           graph.type(eqn.outputs[k]) == graph.type(eqn.inputs[control.first_argument + k]);
  };
  std::vector<bool> moves;
  for (std::size_t k = 0; k < control.carries; ++k) moves.push_back(is_handed_on(k));
  const auto count = std::ranges::count(moves, true);
  if (count == 0) return;
  const auto rearranged = [&](const std::vector<ValueId>& ids, std::size_t first) {
    std::vector<ValueId> kept(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first));
    std::vector<ValueId> moved;
    for (std::size_t i = first; i < ids.size(); ++i) {
      const std::size_t k = i - first;
      (k < moves.size() && moves[k] ? moved : kept).push_back(ids[i]);
    }
    kept.insert(kept.end(), moved.begin(), moved.end());
    return kept;
  };
  std::vector<ValueId> outputs;
  for (std::size_t k = 0; k < eqn.outputs.size(); ++k) {
    if (k < moves.size() && moves[k]) {
      renamed[eqn.outputs[k]] = eqn.inputs[control.first_argument + k];
    } else {
      outputs.push_back(eqn.outputs[k]);
    }
  }
  eqn.outputs = std::move(outputs);
  eqn.inputs = rearranged(eqn.inputs, control.first_argument);
  map_bodies(eqn, [&](const Graph& body) {
    Graph changed = body;
    changed.inputs = rearranged(body.inputs, 0);
    if (&body != &last) return changed;  // The question has one answer.
    for (std::size_t k = moves.size(); k-- > 0;) {
      if (moves[k]) changed.outputs.erase(changed.outputs.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return changed;
  });
  eqn.attrs = with_counts(std::move(eqn.attrs), static_cast<std::int64_t>(control.carries) - count,
                          static_cast<std::int64_t>(control.slices));
}

bool has_bodies(const Graph& graph) {
  return std::ranges::any_of(graph.eqns, [](const Eqn& eqn) { return !bodies_of(eqn).empty(); });
}

template <Moves kMoves>
Graph hoisted(const Graph& graph) {
  Graph result = graph;
  result.eqns.clear();
  std::unordered_map<ValueId, ValueId> renamed;
  const auto rename = [&](ValueId& id) {
    if (const auto found = renamed.find(id); found != renamed.end()) id = found->second;
  };
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    std::ranges::for_each(copy.inputs, rename);
    map_bodies(copy, &hoisted<kMoves>);
    if (copy.op->op_class == OpClass::kControl && copy.op->control(copy.attrs).loops) {
      if constexpr (kMoves == Moves::kWhatIsNoLarger) make_captures(copy, result, renamed);
      hoist_from(copy, result, kMoves);
    }
    result.eqns.push_back(std::move(copy));
  }
  std::ranges::for_each(result.outputs, rename);
  return result;
}

}  // namespace

Graph hoist(Graph graph) {
  if (!has_bodies(graph)) return graph;
  return hoisted<Moves::kWhatIsNoLarger>(graph);
}

Graph hoist_exchanges(Graph partitioned) {
  if (!has_bodies(partitioned)) return partitioned;
  return hoisted<Moves::kExchanges>(partitioned);
}

}  // namespace shoal
