#include "transform/checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "ir/bodies.h"
#include "ops/builder.h"
#include "ops/table.h"
#include "transform/budget.h"
#include "transform/cut.h"
#include "transform/region.h"

namespace shoal {
namespace {

using Flags = std::vector<bool>;

GraphAttr held(Graph graph) { return {std::make_shared<const Graph>(std::move(graph))}; }

// The outputs of a graph of these flags.
std::vector<ValueId> outputs_of(const Graph& graph, const Flags& wanted) {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) values.push_back(graph.outputs[i]);
  }
  return values;
}

// ---- Equations that hold graphs, cut in two. What is kept inside leaves the first as further results, which the
// second takes as operands.

// Leaves out of what runs again the results that are nothing but what is kept: pairs of a result and of its number
// among that. `may` says of which results.
std::vector<std::pair<std::size_t, std::size_t>> take_kept_results(Recomputed& parts, Flags& results,
                                                                   FunctionRef<bool(std::size_t)> may) {
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  const auto first_kept = parts.again.inputs.begin() + static_cast<std::ptrdiff_t>(parts.inputs.size());
  std::vector<ValueId> outputs;
  auto output = parts.again.outputs.begin();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    const auto kept = std::find(first_kept, parts.again.inputs.end(), *output);
    if (may(i) && kept != parts.again.inputs.end()) {
      taken.emplace_back(i, static_cast<std::size_t>(kept - first_kept));
      results[i] = false;
    } else {
      outputs.push_back(*output);
    }
    ++output;
  }
  parts.again.outputs = std::move(outputs);
  return taken;
}

CutEqn cut_call(const Eqn& eqn, const Flags& wanted, const SaveRules& rules) {
  const Graph& body = eqn.attrs.graph();
  Recomputed parts = recompute(body, outputs_of(body, wanted), rules);
  CutEqn made{.kept = eqn.attrs, .again = {}, .operands = parts.inputs, .results = wanted, .kept_results = {}};
  made.kept_results = take_kept_results(parts, made.results, [](std::size_t) { return true; });
  for (std::size_t k = wanted.size(); k < parts.kept.outputs.size(); ++k) {
    made.operands.push_back(body.inputs.size() + k - wanted.size());
  }
  made.again = {{"body", held(std::move(parts.again))}, {"name", body.name}};
  made.kept.set("body", held(std::move(parts.kept)));
  return made;
}

CutEqn cut_region(const Eqn& eqn, const Flags& wanted, const SaveRules& rules) {
  const Graph& body = eqn.attrs.graph();
  return recomputed_region(eqn.attrs, recompute(body, outputs_of(body, wanted), rules), wanted);
}

// A loop is gone through again for all carries that the wanted results depend on.
CutEqn cut_control(const Eqn& eqn, Flags wanted, const SaveRules& rules) {
  const Control control = eqn.op->control(eqn.attrs);
  const std::vector<GraphAttr>& bodies = bodies_in(eqn.attrs);
  const std::size_t num_arguments = eqn.inputs.size() - control.first_argument;
  const std::size_t carries = control.loops ? control.carries : 0;
  std::vector<Recomputed> parts;
  Flags takes(num_arguments);
  for (bool settled = false; !settled;) {
    parts.clear();
    for (const GraphAttr& body : bodies) {
      parts.push_back(recompute(*body.graph, outputs_of(*body.graph, wanted), rules));
      for (const std::size_t i : parts.back().inputs) takes[i] = true;
    }
    settled = true;
    for (std::size_t i = 0; i < carries; ++i) {
      settled = settled && (wanted[i] || !takes[i]);
      takes[i] = wanted[i] = wanted[i] || takes[i];
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> kept_results;
  Flags results = wanted;
  if (control.loops) {
    kept_results = take_kept_results(parts[0], results, [&](std::size_t i) { return control.is_stack(i); });
  }
  FurtherResults further(bodies.size());
  std::vector<std::map<std::size_t, ValueId>> taken(bodies.size());  // The arguments of the bodies that run again;
  for (std::size_t b = 0; b < bodies.size(); ++b) {                  // what is kept follows those that there are.
    Recomputed& part = parts[b];
    auto input = part.again.inputs.begin();
    for (const std::size_t i : part.inputs) taken[b][i] = *input++;
    for (std::size_t k = wanted.size(); k < part.kept.outputs.size(); ++k) {
      const ValueId value = part.kept.outputs[k];
      taken[b][num_arguments + further.add(b, value, part.kept.type(value))] = *input++;
    }
    part.kept.outputs.resize(wanted.size());
  }
  std::vector<std::size_t> order;
  std::size_t slices = 0;
  const auto take = [&](bool as_slices) {
    for (std::size_t i = carries; i < num_arguments; ++i) {
      if (takes[i] && control.is_slice(i) == as_slices) order.push_back(i);
    }
    for (std::size_t k = 0; k < further.count(); ++k) {
      if (control.loops == as_slices) order.push_back(num_arguments + k);
    }
  };
  for (std::size_t i = 0; i < carries; ++i) {
    if (takes[i]) order.push_back(i);
  }
  const std::size_t carried = order.size();
  take(true);
  slices = order.size() - carried;
  take(false);
  std::vector<Graph> kept;
  std::vector<Graph> again;
  for (std::size_t b = 0; b < bodies.size(); ++b) {
    further.append_to(kept.emplace_back(std::move(parts[b].kept)), b);
    Graph& body = again.emplace_back(std::move(parts[b].again));
    body.inputs.clear();
    for (const std::size_t i : order) {
      const auto own = taken[b].find(i);
      if (own != taken[b].end()) {
        body.inputs.push_back(own->second);
      } else if (i < num_arguments) {
        body.add_input(bodies[b].graph->type(bodies[b].graph->inputs[i]));
      } else {
        body.add_input(kept[b].type(kept[b].outputs[wanted.size() + i - num_arguments]));
      }
    }
  }
  CutEqn made{.kept = with_bodies(eqn.attrs, std::move(kept)),
              .again = with_counts(with_bodies(eqn.attrs, std::move(again)), static_cast<std::int64_t>(carried),
                                   static_cast<std::int64_t>(slices)),
              .operands = {},
              .results = std::move(results),
              .kept_results = std::move(kept_results)};
  for (std::size_t i = 0; i < control.first_argument; ++i) made.operands.push_back(i);
  for (const std::size_t i : order) made.operands.push_back(control.first_argument + i);
  return made;
}

CutEqn cut_eqn(const Eqn& eqn, const Flags& wanted, const SaveRules& rules) {
  if (eqn.op->op_class == OpClass::kCall) return cut_call(eqn, wanted, rules);
  return eqn.op->op_class == OpClass::kRegion ? cut_region(eqn, wanted, rules) : cut_control(eqn, wanted, rules);
}

class Recomputation {
 public:
  Recomputation(const Graph& graph, const SaveRules& rules)
      : graph_(graph),
        rules_(rules),
        kept_(graph),
        again_(empty_like(graph)),
        num_eqns_(graph.eqns.size()),
        after_(num_eqns_),
        maker_(graph.values.size(), num_eqns_),
        keeping_(graph.values.size()),
        known_(graph.values.size()),
        needed_(graph.values.size()) {
    find_kept();
  }

  Recomputed run(std::span<const ValueId> wanted) {
    for (const ValueId id : wanted) need(id);
    std::vector<Eqn> eqns;  // Those that run again, the last one first, with values of the graph.
    for (std::size_t i = num_eqns_; i-- > 0;) {
      const ValueIds& outputs = kept_.eqns[i].outputs;
      if (std::ranges::any_of(outputs, [&](ValueId id) { return needed_[slot(id)]; })) eqns.push_back(run_again(i));
    }
    for (auto eqn = eqns.rbegin(); eqn != eqns.rend(); ++eqn) {
      if (!eqn->outputs.empty()) write(std::move(*eqn));
    }
    for (const ValueId id : wanted) again_.outputs.push_back(at_hand(id));
    Recomputed made;
    for (const auto& [input, value] : inputs_) {
      made.inputs.push_back(input);
      again_.inputs.push_back(value);
    }
    std::ranges::stable_sort(all_kept_, {}, &Kept::maker);
    for (const Kept& one : all_kept_) {
      kept_.outputs.push_back(one.output);
      again_.inputs.push_back(one.input);
    }
    std::vector<Eqn> all;
    for (std::size_t i = 0; i < num_eqns_; ++i) {
      all.push_back(std::move(kept_.eqns[i]));
      std::ranges::move(after_[i], std::back_inserter(all));
    }
    kept_.eqns = std::move(all);
    made.kept = std::move(kept_);
    made.again = std::move(again_);
    return made;
  }

 private:
  // What is kept: the equation that makes it, the output that it is, and the input of what runs again.
  struct Kept {
    std::size_t maker;
    ValueId output;
    ValueId input;
  };

  void find_kept() {
    const std::vector<Names> names = names_of_values(kept_);
    for (std::size_t i = 0; i < num_eqns_; ++i) {
      const Eqn& eqn = kept_.eqns[i];
      for (const ValueId id : eqn.outputs) {
        maker_[slot(id)] = i;
        if (has_effect(eqn) || rules_.is_chosen(graph_, id)) {
          keeping_[slot(id)] = {.kept = true};
        } else if (given_name(eqn) == nullptr && !can_be_cut(eqn) && !eqn.inputs.empty()) {
          keeping_[slot(id)] =
              rules_.keeping({.op = eqn.op->name, .is_batched = is_batched(eqn), .names = names[slot(id)]});
        }
      }
    }
  }

  void need(ValueId id) {
    if (known_[slot(id)] || needed_[slot(id)]) return;
    if (const auto input = std::ranges::find(kept_.inputs, id); input != kept_.inputs.end()) {
      const auto i = static_cast<std::size_t>(input - kept_.inputs.begin());
      known_[slot(id)] = inputs_[i] = again_.add_value(kept_.type(id));
    } else if (const Keeping& keeping = keeping_[slot(id)]; keeping.kept) {
      keep(id, keeping.memory.value_or(kept_.type(id).memory));
    } else {
      needed_[slot(id)] = true;
    }
  }

  void keep(ValueId id, MemoryKind memory) {
    ValueId leaves = id;
    if (memory != kept_.type(id).memory) {
      const std::size_t maker = maker_[slot(id)];
      leaves = Builder(kept_, kept_.eqns[maker].where).to_memory(id, memory);
      after_[maker].push_back(std::move(kept_.eqns.back()));
      kept_.eqns.pop_back();
    }
    known_[slot(id)] = again_.add_value(kept_.type(leaves));
    all_kept_.push_back({maker_[slot(id)], leaves, *known_[slot(id)]});
  }

  // What runs in the place of an equation, with values of the graph. What is kept inside is further results of that.
  // Within a budget nothing is kept for results that nobody wants.
  Eqn run_again(std::size_t i) {
    Eqn copy = kept_.eqns[i];
    if (can_be_cut(copy) && (rules_.budget() || rules_.keep_any_inside(copy))) copy = cut(i);
    std::ranges::for_each(copy.inputs, [&](ValueId id) { need(id); });
    return copy;
  }

  Eqn cut(std::size_t i) {
    Eqn& eqn = kept_.eqns[i];
    Flags wanted;
    for (const ValueId id : eqn.outputs) wanted.push_back(needed_[slot(id)]);
    CutEqn parts = cut_eqn(eqn, wanted, rules_);
    Eqn again{.op = eqn.op, .attrs = std::move(parts.again), .inputs = {}, .outputs = {}, .where = eqn.where};
    eqn.attrs = std::move(parts.kept);
    for (std::size_t k = 0; k < parts.results.size(); ++k) {
      if (parts.results[k]) again.outputs.push_back(eqn.outputs[k]);
    }
    const std::size_t count = eqn.outputs.size();
    const std::vector<Type> operands = kept_.types(eqn.inputs);
    const std::vector<Type> results =
        eqn.op->infer({.op = *eqn.op, .inputs = operands, .attrs = eqn.attrs, .axes = kept_.axes, .where = eqn.where});
    ValueIds all = eqn.inputs;
    for (std::size_t k = eqn.outputs.size(); k < results.size(); ++k) {
      const ValueId further = kept_.add_value(results[k]);
      known_.resize(kept_.values.size());
      needed_.resize(kept_.values.size());
      maker_.resize(kept_.values.size(), i);
      eqn.outputs.push_back(further);
      all.push_back(further);
      keep(further, results[k].memory);
    }
    for (const auto& [result, number] : parts.kept_results) {
      known_[slot(eqn.outputs[result])] = known_[slot(eqn.outputs[count + number])];
    }
    if (again.outputs.empty()) return again;
    for (const std::size_t operand : parts.operands) again.inputs.push_back(all[operand]);
    return again;
  }

  void write(Eqn eqn) {
    for (ValueId& id : eqn.inputs) id = at_hand(id);
    for (ValueId& id : eqn.outputs) {
      const ValueId own = again_.add_value(kept_.type(id));
      if (!known_[slot(id)]) known_[slot(id)] = own;
      id = own;
    }
    again_.eqns.push_back(std::move(eqn));
  }

  // What stands for a value in what runs again. From another memory it comes when it is first used.
  ValueId at_hand(ValueId id) {
    ValueId& value = known_[slot(id)].value();
    const MemoryKind memory = kept_.type(id).memory;
    if (again_.type(value).memory != memory) value = Builder(again_, {}).to_memory(value, memory);
    return value;
  }

  const Graph& graph_;
  const SaveRules& rules_;
  Graph kept_;
  Graph again_;
  const std::size_t num_eqns_;
  std::vector<std::vector<Eqn>> after_;    // Of each equation: what comes after it.
  std::vector<std::size_t> maker_;         // Of each value.
  std::vector<Keeping> keeping_;           // The same.
  std::vector<MaybeValue> known_;          // What stands for it in what runs again.
  Flags needed_;                           // Whether it is computed again.
  std::map<std::size_t, ValueId> inputs_;  // Of those that are needed again: what stands for them.
  std::vector<Kept> all_kept_;
};

}  // namespace

Recomputed recompute(const Graph& graph, std::span<const ValueId> wanted, const SaveRules& rules) {
  return Recomputation(graph, rules).run(wanted);
}

LinearizedEqn linearize_checkpoint(const Attrs& attrs, const std::vector<bool>& with_tangent) {
  const Cut cut(attrs.graph(), with_tangent);
  const std::size_t count = cut.has_tangent.size();
  if (std::ranges::find(cut.has_tangent, true) == cut.has_tangent.end()) return without_tangents(attrs, count);
  SaveRules rules(attrs.get<std::vector<std::string>>("saves"));
  if (rules.budget()) rules.keep_also(cheapest_to_keep(cut.primal, cut.residuals, rules));
  Recomputed parts = recompute(cut.primal, cut.residuals, rules);
  Graph linear = std::move(parts.again);
  std::vector<ValueId> values = std::exchange(linear.outputs, {});
  for (std::size_t i = 0; i < with_tangent.size(); ++i) {
    if (with_tangent[i]) values.push_back(linear.add_input(cut.primal.type(cut.primal.inputs[i])));
  }
  linear.outputs = inline_graph(linear, cut.tangent, values);
  LinearizedEqn made{.attrs = attrs, .residuals = parts.kept.types(parts.kept.outputs), .tangents = {}};
  made.residuals.erase(made.residuals.begin(), made.residuals.begin() + static_cast<std::ptrdiff_t>(count));
  made.attrs.set("body", held(std::move(parts.kept)));
  made.tangents = [inputs = std::move(parts.inputs), num_kept = made.residuals.size(), flags = cut.has_tangent,
                   region = with_bodies({}, {std::move(linear)})](
                      std::span<const MaybeValue> tangents, std::span<const Type>, Primals& primals, Builder& build) {
    std::vector<ValueId> operands;
    for (const std::size_t i : inputs) operands.push_back(primals.operand(i));
    for (std::size_t k = 0; k < num_kept; ++k) operands.push_back(primals.result(flags.size() + k));
    for (const MaybeValue& tangent : tangents) {
      if (tangent) operands.push_back(*tangent);
    }
    return at_flags(flags, build.equation(op_named("region"), region, std::move(operands)));
  };
  return made;
}

}  // namespace shoal
