#include "passes/update_last.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ops/eqn_cost.h"

namespace shoal {
namespace {

class Order {
 public:
  explicit Order(Graph graph)
      : graph_(std::move(graph)), roots_(graph_.values.size()), last_reader_(graph_.values.size()) {
    for (std::size_t id = 0; id < roots_.size(); ++id) roots_[id] = static_cast<ValueId>(id);
    std::size_t place = 0;
    for (const Eqn& eqn : graph_.eqns) {
      ++place;
      for (ValueId id : eqn.inputs) last_reader_[slot(root(id))] = place;
      if (eqn.op->keeps_order) roots_[slot(eqn.outputs[0])] = root(eqn.inputs[0]);
    }
    for (ValueId id : graph_.outputs) escapes_.push_back(root(id));
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.eqns.size(); ++i) {
      // What is moved stands before the equation, so that this is then further behind.
      const std::size_t moved = settle(i);
      i += moved;
    }
    return std::move(graph_);
  }

 private:
  // The value that this one is, or whose bytes it names.
  ValueId root(ValueId id) const { return roots_[slot(id)]; }
  bool reads(const Eqn& eqn, ValueId of_root) const {
    return std::ranges::any_of(eqn.inputs, [&](ValueId id) { return root(id) == of_root; });
  }

  // Moves what reads a value that the equation updates before it. Returns how many equations are moved.
  std::size_t settle(std::size_t at) {
    std::size_t moved = 0;
    for (std::size_t k = 0; k < graph_.eqns[at + moved].outputs.size(); ++k) {
      const Eqn& update = graph_.eqns[at + moved];
      const std::int32_t operand = updated_operand(update, k);
      if (operand < 0) continue;
      const ValueId value = update.inputs[static_cast<std::size_t>(operand)];
      if (graph_.type(value) != graph_.type(update.outputs[k])) continue;
      if (last_reader_[slot(root(value))] <= at + moved + 1) continue;
      moved += move_readers(at + moved, root(value), bytes_of(graph_.type(value)));
    }
    return moved;
  }

  std::size_t move_readers(std::size_t at, ValueId of_root, double most_bytes) {
    if (std::ranges::count(escapes_, of_root) != 0) return 0;
    const std::span<Eqn> eqns(graph_.eqns);
    std::size_t end = at + 1;
    for (std::size_t i = end; i < std::min(eqns.size(), last_reader_[slot(of_root)]); ++i) {
      if (reads(eqns[i], of_root)) end = i + 1;
    }
    if (end == at + 1) return 0;
    // Of the equations between, those that are to be moved: readers, and what these need.
    std::vector<bool> moves(end - at, false);
    std::vector<bool> needed(graph_.values.size(), false);
    double bytes = 0;
    for (std::size_t i = end; i-- > at + 1;) {
      const Eqn& eqn = eqns[i];
      const bool is_needed = std::ranges::any_of(eqn.outputs, [&](ValueId id) { return needed[slot(id)]; });
      if (!is_needed && !reads(eqn, of_root)) continue;
      if (eqn.op->op_class != OpClass::kCompute || has_effect(eqn) || updates_what_is_read(eqns, at + 1, i)) return 0;
      moves[i - at] = true;
      for (ValueId id : eqn.inputs) needed[slot(id)] = true;
      for (ValueId id : eqn.outputs) bytes += eqn.op->keeps_order ? 0 : bytes_of(graph_.type(id));
    }
    const bool needs_update =
        std::ranges::any_of(eqns[at].outputs, [&](ValueId id) { return static_cast<bool>(needed[slot(id)]); });
    if (needs_update || bytes > most_bytes) return 0;
    std::vector<Eqn> others;
    std::size_t next = at;
    for (std::size_t i = at; i < end; ++i) {
      if (moves[i - at]) {
        eqns[next++] = std::move(eqns[i]);
      } else {
        others.push_back(std::move(eqns[i]));
      }
    }
    std::ranges::move(others, eqns.begin() + static_cast<std::ptrdiff_t>(next));
    for (std::size_t i = next; i < end; ++i) {
      for (ValueId id : eqns[i].inputs) last_reader_[slot(root(id))] = std::max(last_reader_[slot(root(id))], i + 1);
    }
    return next - at;
  }

  // Whether the equation updates something that one between `first` and it reads: in front of that it would copy it.
  bool updates_what_is_read(std::span<const Eqn> eqns, std::size_t first, std::size_t at) const {
    if (!eqns[at].op->updates) return false;
    const ValueId updated = root(eqns[at].inputs[0]);
    return std::ranges::any_of(eqns.subspan(first - 1, at - first + 1),
                               [&](const Eqn& eqn) { return reads(eqn, updated); });
  }

  Graph graph_;
  std::vector<ValueId> roots_;
  std::vector<std::size_t> last_reader_;  // Of each root: one past its place, or more.
  std::vector<ValueId> escapes_;          // The roots of outputs.
};

}  // namespace

std::int32_t updated_operand(const Eqn& eqn, std::size_t result) {
  if (eqn.op->op_class != OpClass::kControl) return eqn.op->updates ? 0 : -1;
  const Control control = eqn.op->control(eqn.attrs);
  const auto bodies = bodies_of(eqn);
  for (std::size_t b = control.asks ? 1 : 0; b < bodies.size(); ++b) {
    const std::int32_t argument = updated_argument(*bodies[b], bodies[b]->outputs[result]);
    const bool is_carry = control.loops && result < control.carries && argument == static_cast<std::int32_t>(result);
    if (argument < 0 || (control.loops && !is_carry)) continue;
    return static_cast<std::int32_t>(control.first_argument) + argument;
  }
  return -1;
}

std::int32_t updated_argument(const Graph& graph, ValueId output) {
  ValueId id = output;
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    const auto made = std::ranges::find(eqn->outputs, id);
    if (made == eqn->outputs.end()) continue;
    const std::int32_t operand = updated_operand(*eqn, static_cast<std::size_t>(made - eqn->outputs.begin()));
    if (operand < 0) return -1;
    const ValueId from = eqn->inputs[static_cast<std::size_t>(operand)];
    if (graph.type(from) != graph.type(id)) return -1;
    id = from;
  }
  const auto input = std::ranges::find(graph.inputs, id);
  return input == graph.inputs.end() ? -1 : static_cast<std::int32_t>(input - graph.inputs.begin());
}

Graph update_last(Graph graph) {
  for (Eqn& eqn : graph.eqns) {
    if (eqn.op->op_class == OpClass::kControl) {
      map_bodies(eqn, [](const Graph& body) { return update_last(body); });
    }
  }
  return Order(std::move(graph)).run();
}

}  // namespace shoal
