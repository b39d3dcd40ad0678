#include "frontend/transforms/pull_back.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "ops/builder.h"
#include "shoal/array.h"
#include "transform/transpose.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

// The values of a map, and what is known of their cotangents.
class PartsInReverse {
 public:
  PartsInReverse(const TangentMap& map, const Leaves& arguments)
      : map_(map), graph_(*map.graph), cotangents_(graph_.values.size()) {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const bool is_residual = i < map.residuals.size();
      const Array& array = is_residual ? map.residuals[i] : arguments[i - map.residuals.size()];
      (is_residual ? residuals_ : arguments_).emplace(graph_.inputs[i], array);
    }
  }

  void add(ValueId value, const Array& cotangent) {
    Array& sum = cotangents_[slot(value)];
    sum = Access::is_empty(sum) ? cotangent : sum + cotangent;
  }
  Array take(ValueId value) { return std::exchange(cotangents_[slot(value)], Array()); }

  // The equations from number `begin` to `end`, transposed.
  void turn(std::size_t begin, std::size_t end) {
    const Part part = part_of(begin, end);
    if (part.tangents.empty()) return;
    Leaves operands = part.residuals;
    for (const ValueId value : part.outputs) operands.push_back(take(value));
    Transposed transposed = transpose(part.graph, part.residuals.size(),
                                      TransposeOptions{.unchecked = map_.unchecked, .strong_zeros = map_.strong_zeros});
    std::vector<ValueId> with_cotangent;
    for (std::size_t i = 0; i < part.tangents.size(); ++i) {
      if (transposed.has_cotangent[i]) with_cotangent.push_back(part.tangents[i]);
    }
    for (std::size_t i = 0; i < with_cotangent.size(); ++i) {
      const auto argument = arguments_.find(with_cotangent[i]);
      if (argument != arguments_.end()) lie_as_argument(transposed.graph, i, argument->second, operands);
    }
    const Leaves made = run_graph(std::make_shared<const Graph>(std::move(transposed.graph)), operands);
    for (std::size_t i = 0; i < made.size(); ++i) add(with_cotangent[i], made[i]);
  }

 private:
  struct Part {
    Graph graph;  // Of the residuals, then of the tangents.
    Leaves residuals;
    std::vector<ValueId> tangents;  // Values of the map, as the others here.
    std::vector<ValueId> outputs;
  };

  // The equations in these bounds that values with a cotangent depend on, as a graph that gives those.
  Part part_of(std::size_t begin, std::size_t end) const {
    std::vector<bool> is_wanted(graph_.values.size());
    std::vector<const Eqn*> eqns;
    Part part;
    for (std::size_t i = end; i-- > begin;) {
      const Eqn& eqn = graph_.eqns[i];
      bool is_needed = false;
      for (const ValueId output : eqn.outputs) {
        const bool is_output = !Access::is_empty(cotangents_[slot(output)]);
        if (is_output) part.outputs.push_back(output);
        is_needed = is_needed || is_output || is_wanted[slot(output)];
      }
      if (!is_needed) continue;
      eqns.push_back(&eqn);
      for (const ValueId input : eqn.inputs) is_wanted[slot(input)] = true;
    }
    part.graph.name = graph_.name;
    part.graph.axes = graph_.axes;
    std::unordered_map<ValueId, ValueId> own;
    for (auto eqn = eqns.rbegin(); eqn != eqns.rend(); ++eqn) {
      for (const ValueId output : (*eqn)->outputs) is_wanted[slot(output)] = false;
    }
    // What is wanted still comes from before, residuals first.
    for (std::size_t i = 0; i < is_wanted.size(); ++i) {
      const auto value = static_cast<ValueId>(i);
      const auto residual = residuals_.find(value);
      if (!is_wanted[i]) continue;
      if (residual == residuals_.end()) {
        part.tangents.push_back(value);
        continue;
      }
      own[value] = part.graph.add_input(graph_.type(value));
      part.residuals.push_back(residual->second);
    }
    for (const ValueId value : part.tangents) own[value] = part.graph.add_input(graph_.type(value));
    for (auto eqn = eqns.rbegin(); eqn != eqns.rend(); ++eqn) {
      Eqn copy = **eqn;
      for (ValueId& input : copy.inputs) input = own.at(input);
      for (ValueId& output : copy.outputs) {
        const ValueId made = part.graph.add_value(graph_.type(output));
        own[output] = made;
        output = made;
      }
      part.graph.eqns.push_back(std::move(copy));
    }
    for (const ValueId output : part.outputs) part.graph.outputs.push_back(own.at(output));
    return part;
  }

  const TangentMap& map_;
  const Graph& graph_;
  Leaves cotangents_;  // For each value.
  std::unordered_map<ValueId, Array> residuals_;
  std::unordered_map<ValueId, Array> arguments_;
};

}  // namespace

void lie_as_argument(Graph& graph, std::size_t output, const Array& argument, std::vector<Array>& operands) {
  if (!graph.axes.empty()) return;  // Each device computes for itself.
  const ArrayImpl& impl = impl_of(argument);
  const Type& type = impl.type;
  if (type.rank() == 0 || type.explicit_axes || impl.is_type_only() || impl.is_tangent_alone()) return;
  const ValueId like = graph.add_input(type);
  operands.push_back(argument);
  graph.outputs[output] = Builder(graph, Caller::line()).shard_alike(graph.outputs[output], like);
}

std::vector<Array> run_graph(const GraphPtr& graph, const std::vector<Array>& operands) {
  if (graph->outputs.empty()) return {};
  return shoal::bind("jit", {{"body", GraphAttr{graph}}, {"name", graph->name}}, operands);
}

bool has_tangents_alone(const std::vector<Array>& arrays) {
  return std::ranges::any_of(arrays, [](const Array& one) { return impl_of(one).is_tangent_alone(); });
}

std::vector<Array> push_forward_map(const TangentMap& map, const std::vector<Array>& operands) {
  const Graph& graph = *map.graph;
  // A call at tangents alone would run, and a map with rules for the reverse alone cannot.
  if (!has_tangents_alone(operands)) return run_graph(map.graph, operands);
  auto* const tape = dynamic_cast<Tape*>(Layer::of(operands).get());
  Leaves values(graph.values.size());
  for (std::size_t i = 0; i < operands.size(); ++i) values[slot(graph.inputs[i])] = operands[i];
  auto cut = map.cuts.begin();
  for (std::size_t i = 0; i <= graph.eqns.size(); ++i) {
    for (; cut != map.cuts.end() && cut->position == i; ++cut) {
      Leaves given;
      for (const ValueId id : cut->operands) given.push_back(values[slot(id)]);
      const Leaves made = tape->cut(given, graph.types(cut->results), cut->pull_back);
      for (std::size_t k = 0; k < made.size(); ++k) values[slot(cut->results[k])] = made[k];
    }
    if (i == graph.eqns.size()) break;
    const Eqn& eqn = graph.eqns[i];
    Leaves given;
    for (const ValueId id : eqn.inputs) given.push_back(values[slot(id)]);
    const Leaves made = shoal::bind(*eqn.op, eqn.attrs, given);
    for (std::size_t k = 0; k < made.size(); ++k) values[slot(eqn.outputs[k])] = made[k];
  }
  Leaves results;
  for (const ValueId id : graph.outputs) results.push_back(values[slot(id)]);
  return results;
}

std::vector<Array> pull_back_in_parts(const TangentMap& map, const std::vector<Array>& arguments,
                                      const std::vector<Array>& cotangents) {
  const Graph& graph = *map.graph;
  PartsInReverse parts(map, arguments);
  for (std::size_t i = 0; i < cotangents.size(); ++i) parts.add(graph.outputs[i], cotangents[i]);
  std::size_t end = graph.eqns.size();
  for (auto cut = map.cuts.rbegin(); cut != map.cuts.rend(); ++cut) {
    parts.turn(cut->position, end);
    end = cut->position;
    Leaves of_results;
    bool has_cotangent = false;
    for (const ValueId result : cut->results) {
      of_results.push_back(parts.take(result));
      has_cotangent = has_cotangent || !Access::is_empty(of_results.back());
    }
    if (!has_cotangent) continue;
    const Leaves made = cut->pull_back(of_results);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!Access::is_empty(made[i])) parts.add(cut->operands[i], made[i]);
    }
  }
  parts.turn(0, end);
  Leaves of_arguments;
  for (std::size_t i = map.residuals.size(); i < graph.inputs.size(); ++i) {
    of_arguments.push_back(parts.take(graph.inputs[i]));
  }
  return of_arguments;
}

}  // namespace shoal::detail
