#include "shoal/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <set>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/layer.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/body.h"
#include "ir/bodies.h"
#include "ops/builder.h"
#include "shoal/derivatives.h"
#include "transform/save_rules.h"

namespace shoal {
namespace {

using Rules = std::vector<std::string>;

Rules of_names(std::string_view beginning, const std::vector<std::string>& names) {
  Rules rules;
  for (const std::string& name : names) rules.push_back(fmt::format("{} {}", beginning, name));
  return rules;
}

CheckpointPolicy all_but(const std::string& rule, const std::vector<std::string>& names) {
  Rules rules = of_names("but", names);
  rules.insert(rules.begin(), rule);
  return CheckpointPolicy::of_rules(std::move(rules));
}

std::string to_memory_rule(MemoryKind memory) { return fmt::format("to {}", memory.name()); }

bool offloads(const Rules& rules) {
  return std::ranges::any_of(rules, [](const std::string& rule) { return rule.starts_with("to "); });
}

// ---- Policies that are functions. What they want is named, and what has these names is kept.

CheckpointedOp description_of(const Graph& graph, const Eqn& eqn) {
  CheckpointedOp made{
      .op = std::string(eqn.op->name), .name = {}, .operands = {}, .dims = {}, .is_batched = is_batched(eqn)};
  if (const std::string* name = given_name(eqn)) made.name = *name;
  for (const ValueId id : eqn.inputs) {
    const Type& type = graph.type(id);
    made.operands.push_back({.shape = type.shape, .dtype = type.dtype, .sharding = {}, .weak_type = type.weak});
  }
  for (const auto& [name, attr] : eqn.attrs.entries()) {
    if (const Dims* dims = std::get_if<Dims>(&attr)) made.dims.emplace_back(name, *dims);
  }
  return made;
}

// Asks a function of all that a graph computes, and names what it wants.
class Asking {
 public:
  Asking(const CheckpointPolicy::Function& function, const Graph& graph) : function_(function) {
    // Checkpoints inside have names of their own.
    std::set<std::string> taken;
    for_each_eqn(graph, [&](const Eqn& eqn) {
      if (const std::string* name = given_name(eqn)) taken.insert(*name);
    });
    for (int i = 0; name_.empty() || taken.contains(name_); ++i) name_ = fmt::format("wanted {}", i);
  }

  Graph named(const Graph& graph) {
    Graph made = graph;
    std::vector<Eqn> eqns = std::exchange(made.eqns, {});
    for (Eqn& eqn : eqns) {
      map_bodies(eqn, [&](const Graph& body) { return named(body); });
      const bool computes = eqn.op->op_class == OpClass::kCompute || eqn.op->op_class == OpClass::kCollective;
      const bool is_asked = (computes || given_name(eqn) != nullptr) && !eqn.inputs.empty();
      const ValueIds outputs = eqn.outputs;
      const SourceLocation where = eqn.where;
      SaveDecision decision = false;
      if (is_asked) {
        const Caller::Pause pause;
        decision = function_(description_of(made, eqn));
      }
      made.eqns.push_back(std::move(eqn));
      if (!decision.saved) continue;
      const std::string name =
          decision.memory_kind ? fmt::format("{} in {}", name_, decision.memory_kind->name()) : name_;
      if (std::ranges::find(rules_, "name " + name) == rules_.end()) {
        rules_.push_back("name " + name);
        if (decision.memory_kind) rules_.push_back(to_memory_rule(*decision.memory_kind));
      }
      for (const ValueId id : outputs)
        Builder(made, where).apply("checkpoint_name", {{"name", name}, {"of_policy", true}}, {id});
    }
    return made;
  }

  const Rules& rules() const { return rules_; }

 private:
  const CheckpointPolicy::Function& function_;
  std::string name_;
  Rules rules_;
};

// ---- Where residuals come from.

// Finds out what made a value of a graph.
class Origins {
 public:
  explicit Origins(const Graph& graph) : graph_(graph), makers_(graph.values.size()), names_(graph.values.size()) {
    for (const Eqn& eqn : graph.eqns) {
      for (const ValueId id : eqn.outputs) makers_[slot(id)] = &eqn;
      if (given_name(eqn) != nullptr && !eqn.attrs.contains("of_policy")) names_[slot(value(eqn.inputs[0]))] = &eqn;
    }
  }

  const Eqn* maker(ValueId id) const { return makers_[slot(id)]; }
  /// What it is without names, other memories and what transformations have put round it.
  ValueId value(ValueId id) const {
    for (const Eqn* eqn = maker(id); eqn != nullptr; eqn = maker(id)) {
      const bool is_same = given_name(*eqn) != nullptr || (eqn->op->keeps_order && to_string(eqn->where).empty()) ||
                           (eqn->inputs.size() == 1 && eqn->op->attributes.find("memory") != nullptr);
      if (!is_same) break;
      id = eqn->inputs[0];
    }
    return id;
  }

  /// Says of a residual what made this value; an input of the graph made by nothing. What calls give is made inside.
  void say(ValueId id, SavedResidual& residual) const {
    id = value(id);
    if (const Eqn* name = names_[slot(id)]) {
      residual.name = *given_name(*name);
      residual.where = name->where;
    }
    const Eqn* eqn = maker(id);
    if (eqn == nullptr || eqn->inputs.empty()) return;
    const auto bodies = bodies_of(*eqn);
    residual.op = eqn->op->name;
    if (residual.name.empty()) residual.where = eqn->where;
    if (bodies.empty()) return;
    SavedResidual inside;
    const auto i = static_cast<std::size_t>(std::ranges::find(eqn->outputs, id) - eqn->outputs.begin());
    for (const Graph* body : bodies) {
      if (i < body->outputs.size() && inside.op.empty()) Origins(*body).say(body->outputs[i], inside);
    }
    if (inside.op.empty()) return;
    residual.op = inside.op;
    if (!residual.name.empty()) return;
    residual.name = inside.name;
    residual.where = inside.where;
  }

 private:
  const Graph& graph_;
  std::vector<const Eqn*> makers_;  // Of values; null for inputs.
  std::vector<const Eqn*> names_;   // That name them.
};

}  // namespace

CheckpointPolicy CheckpointPolicy::of_rules(std::vector<std::string> rules) {
  CheckpointPolicy policy;
  policy.rules_ = std::move(rules);
  return policy;
}

SaveDecision CheckpointPolicy::decide(const CheckpointedOp& op, SourceLocation where) const {
  if (function_) return function_(op);
  Computed value{.op = op.op, .is_batched = op.is_batched, .names = {}};
  if (!op.name.empty()) value.names.push_back(op.name);
  const SaveRules rules(rules_);
  if (rules.budget()) {
    throw InvalidArgument(
        "checkpoint: a policy with a budget decides of all values together, and cannot be asked of one; "
        "save_from_both_policies joins it to another policy",
        where);
  }
  const Keeping keeping = rules.keeping(value);
  return keeping.memory ? SaveDecision(*keeping.memory) : SaveDecision(keeping.kept);
}

bool CheckpointPolicy::saves_everything() const {
  return !rules_.empty() && rules_[0] == "any value" &&
         (rules_.size() == 1 || !(rules_[1].starts_with("but ") || rules_[1].starts_with("to ")));
}

namespace checkpoint_policies {

CheckpointPolicy everything_saveable() { return CheckpointPolicy::of_rules({"any value"}); }
CheckpointPolicy nothing_saveable() { return {}; }
CheckpointPolicy dots_saveable() { return save_results_of({"dot_general", "convolution"}); }
CheckpointPolicy dots_with_no_batch_dims_saveable() { return save_results_of({"unbatched dot_general"}); }
CheckpointPolicy save_results_of(const std::vector<std::string>& ops) { return CheckpointPolicy::of_rules(ops); }

CheckpointPolicy budget(std::int64_t bytes, SourceLocation where) {
  const Caller caller("budget", where);
  if (bytes < 0) throw misuse<InvalidArgument>("bytes must be at least 0, got {}", bytes);
  return CheckpointPolicy::of_rules({fmt::format("at most {}", bytes)});
}

CheckpointPolicy save_only_these_names(const std::vector<std::string>& names) {
  return CheckpointPolicy::of_rules(of_names("name", names));
}

CheckpointPolicy save_any_names_but_these(const std::vector<std::string>& names) { return all_but("any name", names); }

CheckpointPolicy save_anything_except_these_names(const std::vector<std::string>& names) {
  return all_but("any value", names);
}

CheckpointPolicy save_from_both_policies(const CheckpointPolicy& one, const CheckpointPolicy& other,
                                         SourceLocation where) {
  const Caller caller("save_from_both_policies", where);
  Rules rules;
  for (const CheckpointPolicy* policy : {&one, &other}) {
    if (policy->saves_everything()) return everything_saveable();
    if (policy->function()) {
      throw misuse<InvalidArgument>("a policy is a function; write one function that asks both");
    }
    if (offloads(policy->rules())) {
      throw misuse<InvalidArgument>(
          "a policy keeps values in another memory, and the other might keep the same ones where they are");
    }
    rules.insert(rules.end(), policy->rules().begin(), policy->rules().end());
  }
  return CheckpointPolicy::of_rules(std::move(rules));
}

CheckpointPolicy save_and_offload_only_these_names(const SaveAndOffload& options, SourceLocation where) {
  const Caller caller("save_and_offload_only_these_names", where);
  Rules rules = of_names("name", options.names_which_can_be_saved);
  for (const std::string& name : options.names_which_can_be_offloaded) {
    const std::vector<std::string>& saved = options.names_which_can_be_saved;
    if (std::ranges::find(saved, name) != saved.end()) {
      throw misuse<InvalidArgument>(
          "name '{}' is in names_which_can_be_saved and in names_which_can_be_offloaded; it may be in one of them",
          name);
    }
    rules.push_back("name " + name);
    rules.push_back(to_memory_rule(options.offload_dst));
  }
  return CheckpointPolicy::of_rules(std::move(rules));
}

CheckpointPolicy offload_dot_with_no_batch_dims(MemoryKind offload_dst) {
  return CheckpointPolicy::of_rules({"unbatched dot_general", to_memory_rule(offload_dst)});
}

}  // namespace checkpoint_policies

Array checkpoint_name(const Operand& x, const std::string& name) {
  const Caller caller("checkpoint_name", x.where());
  const Array array = to_array(x);
  if (Trace::current() == nullptr && !of_layers({&array, 1})) return array;
  return bind_one("checkpoint_name", {{"name", name}}, {array});
}

std::string to_string(const SavedResidual& residual) {
  Type type;
  type.shape = residual.type.shape;
  type.dtype = residual.type.dtype;
  type.memory = residual.memory_kind;
  const std::string line = to_string(residual.where);
  std::string text = to_string(type);
  if (!residual.argument.empty()) return text + " from the argument " + residual.argument;
  if (residual.op.empty()) return text + " from a constant";
  text += residual.name.empty() ? fmt::format(" output of {}", residual.op) : fmt::format(" named '{}'", residual.name);
  return line.empty() ? text : fmt::format("{} from {}", text, line);
}

std::ostream& operator<<(std::ostream& out, const SavedResidual& residual) { return out << to_string(residual); }

std::ostream& operator<<(std::ostream& out, const std::vector<SavedResidual>& residuals) {
  for (const SavedResidual& one : residuals) out << one << '\n';
  return out;
}

namespace detail {

std::vector<Array> call_checkpoint(const CheckpointPolicy& policy, const CallArguments& arguments,
                                   const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const Caller caller("checkpoint", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  Body body = trace_body("checkpoint", types_of(arguments.leaves), function);
  exemplar = std::move(body.result.exemplar);
  std::vector<Array> operands = arguments.leaves;
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  Rules rules = policy.rules();
  if (policy.function()) {
    Asking asking(policy.function(), body.graph);
    body.graph = asking.named(body.graph);
    rules = asking.rules();
  }
  Attrs attrs{{"body", GraphAttr{std::make_shared<const Graph>(std::move(body.graph))}},
              {"name", std::string("checkpoint")}};
  if (!policy.saves_everything()) attrs.set("saves", std::move(rules));
  return shoal::bind("jit", std::move(attrs), operands);
}

std::vector<SavedResidual> call_saved_residuals(const CallArguments& arguments, const TracedFunction& function,
                                                std::vector<std::string> argument_names, SourceLocation where) {
  const Caller caller("saved_residuals", where);
  if (argument_names.empty()) argument_names = arguments.tree.leaf_paths();
  const Body body = trace_body("saved_residuals", types_of(arguments.leaves), [&](const std::vector<Array>& leaves) {
    CallArguments traced = arguments;
    traced.leaves = leaves;
    TracedResult made;
    made.leaves = call_linearize("vjp", traced, function, where).second.residuals();
    for (std::size_t i = 0; i < made.leaves.size(); ++i) {
      made.tree.children.emplace_back(fmt::format("[{}]", i), TreeDef());
    }
    return made;
  });
  const Graph& graph = body.graph;
  const Origins origins(graph);
  std::vector<SavedResidual> residuals;
  std::vector<std::size_t> order;  // Of inputs; others come after them.
  std::set<ValueId> seen;
  for (const ValueId id : graph.outputs) {
    if (!seen.insert(origins.value(id)).second) continue;
    const Type& type = graph.type(id);
    SavedResidual one{.type = {.shape = type.shape, .dtype = type.dtype, .sharding = {}, .weak_type = type.weak},
                      .memory_kind = type.memory,
                      .bytes = num_elements(type.shape) * static_cast<std::int64_t>(size_of(type.dtype))};
    const auto input =
        static_cast<std::size_t>(std::ranges::find(graph.inputs, origins.value(id)) - graph.inputs.begin());
    if (input < argument_names.size()) one.argument = argument_names[input];
    origins.say(id, one);
    const auto place = std::ranges::upper_bound(order, input);
    residuals.insert(residuals.begin() + (place - order.begin()), std::move(one));
    order.insert(place, input);
  }
  return residuals;
}

}  // namespace detail
}  // namespace shoal
