#include "passes/hoist.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/bodies.h"

namespace shoal {
namespace {

double bytes_of_type(const Type& type) {
  return static_cast<double>(num_elements(type.shape)) * static_cast<double>(size_of(type.dtype));
}

// What leaves the body of a loop.
class Invariants {
 public:
  // The captures are the inputs from `first` on.
  Invariants(const Graph& body, std::size_t first) : body_(body), captures_(body.values.size(), false) {
    for (std::size_t i = first; i < body.inputs.size(); ++i) captures_[slot(body.inputs[i])] = true;
    std::vector<bool> same = captures_;
    for (const Eqn& eqn : body.eqns) {
      const bool is_same = eqn.op->op_class == OpClass::kCompute && bodies_of(eqn).empty() &&
                           std::ranges::all_of(eqn.inputs, [&](ValueId id) { return same[slot(id)]; });
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

  bool is_no_larger(const Eqn& eqn) const {
    double taken = 0;
    double made = 0;
    for (ValueId id : eqn.inputs) taken += bytes_of_type(body_.type(id));
    for (ValueId id : eqn.outputs) made += bytes_of_type(body_.type(id));
    return made <= taken;
  }

  void choose() {
    const std::size_t count = body_.eqns.size();
    leaves_.assign(count, false);
    stays_.assign(count, false);
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
      leaves_[i] = is_same_[i] && ((!is_cheap(eqn) && is_no_larger(eqn)) || needed_outside[i]);
      stays_[i] = leaves_[i] && needed_inside[i] && (is_cheap(eqn) || !is_no_larger(eqn));
      for (ValueId id : eqn.inputs) {
        const std::size_t made_by = maker[slot(id)];
        if (made_by == count) continue;
        if (leaves_[i]) needed_outside[made_by] = true;
        if (!leaves_[i] || stays_[i]) needed_inside[made_by] = true;
      }
    }
  }

  const Graph& body_;
  std::vector<bool> captures_;
  std::vector<bool> is_same_;  // By equation: whether it gives the same in every trip.
  std::vector<bool> leaves_;
  std::vector<bool> stays_;  // Whether it is left in the body, too.
};

// The equation without what is the same in every trip, which is written before it.
void hoist_from(Eqn& eqn, Graph& outside) {
  const Control control = eqn.op->control(eqn.attrs);
  const auto bodies = bodies_of(eqn);
  const std::size_t first = control.carries + control.slices;
  std::vector<ValueId> operands(eqn.inputs.begin() + static_cast<std::ptrdiff_t>(control.first_argument),
                                eqn.inputs.end());
  std::vector<Graph> changed;
  std::vector<std::size_t> counts;  // The captures that each body has got.
  for (const Graph* body : bodies) {
    const Invariants invariants(*body, first);
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
          changed[b].inputs.push_back(changed[b].add_value(outside.type(operands[place])));
        }
      }
    }
  }
  std::size_t next = 0;
  map_bodies(eqn, [&](const Graph&) { return std::move(changed[next++]); });
  eqn.inputs.resize(control.first_argument);
  eqn.inputs.insert(eqn.inputs.end(), operands.begin(), operands.end());
}

}  // namespace

Graph hoist(const Graph& graph) {
  Graph result = graph;
  result.eqns.clear();
  for (const Eqn& eqn : graph.eqns) {
    Eqn copy = eqn;
    map_bodies(copy, &hoist);
    if (copy.op->op_class == OpClass::kControl && copy.op->control(copy.attrs).loops) hoist_from(copy, result);
    result.eqns.push_back(std::move(copy));
  }
  return result;
}

}  // namespace shoal
