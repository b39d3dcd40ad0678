#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "oracle.h"
#include "random_graphs.h"

namespace shoal::parity {
namespace {

// A change to a case.
struct Edit {
  std::optional<std::size_t> drop_output;
  std::map<ValueId, ValueId> replace;  // A value by an earlier one, in all uses.
  std::set<ValueId> as_input;          // Results that become inputs, with the oracle's data.
  std::int64_t extent = 0;             // Every extent of this size…
  std::int64_t new_extent = 0;         // …becomes this.
};

std::int64_t edited(const Edit& edit, std::int64_t extent) {
  return extent == edit.extent && extent != 0 ? edit.new_extent : extent;
}

Shape edited(const Edit& edit, Shape shape) {
  for (std::int64_t& extent : shape) extent = edited(edit, extent);
  return shape;
}

// Removes equations that no output needs; returns all values that some output needs.
std::set<ValueId> remove_dead(Graph& graph) {
  std::set<ValueId> live(graph.outputs.begin(), graph.outputs.end());
  for (std::size_t i = graph.eqns.size(); i-- > 0;) {
    const Eqn& eqn = graph.eqns[i];
    const bool is_live =
        std::any_of(eqn.outputs.begin(), eqn.outputs.end(), [&](ValueId id) { return live.contains(id); });
    if (is_live) {
      live.insert(eqn.inputs.begin(), eqn.inputs.end());
    } else {
      graph.eqns.erase(graph.eqns.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return live;
}

bool fits(const Case& test, const PartitionSpec& spec, ValueId id) {
  const Shape& shape = test.graph.type(id).shape;
  return spec.size() <= shape.size() && divides(test.mesh, spec, shape);
}

// The case after the change, without dead equations and unused inputs. Nothing if the change is not possible.
std::optional<Case> apply(const Case& test, const Edit& edit) {
  Case next;
  next.mesh = test.mesh;
  next.graph.name = test.graph.name;
  Graph old = test.graph;
  const auto final_id = [&](ValueId id) {
    for (auto found = edit.replace.find(id); found != edit.replace.end(); found = edit.replace.find(id)) {
      id = found->second;
    }
    return id;
  };
  for (Eqn& eqn : old.eqns) {
    for (ValueId& id : eqn.inputs) id = final_id(id);
  }
  std::vector<std::size_t> kept_outputs;
  for (std::size_t i = 0; i < old.outputs.size(); ++i) {
    if (i != edit.drop_output) kept_outputs.push_back(i);
  }
  std::vector<ValueId> outputs;
  for (std::size_t i : kept_outputs) outputs.push_back(final_id(old.outputs[i]));
  old.outputs = outputs;
  std::erase_if(old.eqns, [&](const Eqn& eqn) { return edit.as_input.contains(eqn.outputs[0]); });
  const std::set<ValueId> live = remove_dead(old);
  const auto used = [&](ValueId id) { return live.contains(id); };
  std::map<ValueId, ValueId> renamed;
  for (std::size_t i = 0; i < old.inputs.size(); ++i) {
    const ValueId id = old.inputs[i];
    if (!used(id)) continue;
    Type type = old.type(id);
    type.shape = edited(edit, type.shape);
    Rng rng(i);
    Buffer data =
        type.shape == old.type(id).shape ? test.data[i] : random_buffer(rng, type.dtype, type.shape, Fill::kIntegers);
    renamed[id] = add_input(next, type, std::move(data), test.inputs[i]);
    if (test.inputs[i] && !fits(next, *test.inputs[i], renamed[id])) return {};
  }
  if (!edit.as_input.empty()) {
    const std::vector<Buffer> values = evaluate(test.graph, test.data);
    for (ValueId id : edit.as_input) {
      if (used(id)) renamed[id] = add_input(next, old.type(id), values[static_cast<std::size_t>(id)], {});
    }
  }
  try {
    for (const Eqn& eqn : old.eqns) {
      Attrs attrs = eqn.attrs;
      for (const char* name : {"shape", "limits"}) {
        if (attrs.contains(name)) attrs.set(name, edited(edit, attrs.get<Dims>(name)));
      }
      std::vector<ValueId> inputs;
      for (ValueId id : eqn.inputs) inputs.push_back(renamed.at(id));
      const std::vector<ValueId> results = next.graph.add_eqn(*eqn.op, std::move(attrs), inputs, eqn.where);
      for (std::size_t i = 0; i < results.size(); ++i) renamed[eqn.outputs[i]] = results[i];
    }
  } catch (const Error&) {
    return {};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<PartitionSpec>& spec = test.outputs[kept_outputs[i]];
    const ValueId id = renamed.at(outputs[i]);
    if (spec && !fits(next, *spec, id)) return {};
    add_output(next, id, spec);
  }
  return next;
}

std::vector<Edit> edits_of(const Case& test) {
  std::vector<Edit> edits;
  const Graph& graph = test.graph;
  for (std::size_t i = 0; i < graph.outputs.size() && graph.outputs.size() > 1; ++i) {
    edits.push_back({});
    edits.back().drop_output = i;
  }
  for (const Eqn& eqn : graph.eqns) {
    edits.push_back({});
    edits.back().as_input = {eqn.outputs.begin(), eqn.outputs.end()};
  }
  for (auto eqn = graph.eqns.rbegin(); eqn != graph.eqns.rend(); ++eqn) {
    for (const ValueId result : eqn->outputs) {
      const bool is_output = std::ranges::count(graph.outputs, result) != 0;
      for (ValueId operand : eqn->inputs) {
        if (!is_output && graph.type(operand) != graph.type(result)) continue;
        edits.push_back({});
        edits.back().replace[result] = operand;
      }
    }
  }
  std::set<std::int64_t> extents;
  for (ValueId id : graph.inputs) {
    for (std::int64_t extent : graph.type(id).shape) extents.insert(extent);
  }
  for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
    for (std::int64_t smaller : {1, 2, 3, 4, 5, 6}) {
      if (smaller >= *extent) break;
      edits.push_back({});
      edits.back().extent = *extent;
      edits.back().new_extent = smaller;
    }
  }
  return edits;
}

// The case with one sharding less.
std::vector<Case> without_shardings(const Case& test) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    if (!test.inputs[i]) continue;
    cases.push_back(test);
    cases.back().inputs[i].reset();
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    if (!test.outputs[i]) continue;
    cases.push_back(test);
    cases.back().outputs[i].reset();
  }
  return cases;
}

bool improve(Case& test, const std::function<bool(const Case&)>& fails) {
  for (const Edit& edit : edits_of(test)) {
    std::optional<Case> next = apply(test, edit);
    if (!next || !fails(*next)) continue;
    test = std::move(*next);
    return true;
  }
  for (Case& next : without_shardings(test)) {
    if (!fails(next)) continue;
    test = std::move(next);
    return true;
  }
  return false;
}

}  // namespace

Case shrink(Case test, const std::function<bool(const Case&)>& fails) {
  for (int step = 0; step < 200 && improve(test, fails); ++step) {
  }
  return test;
}

}  // namespace shoal::parity
