#include "transform/control.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "transform/cut.h"
#include "transform/settle.h"
#include "transform/transpose.h"

namespace shoal {
namespace {

using Flags = std::vector<bool>;

// The bodies of an equation cut in two, at one set of tangents.
struct Cuts {
  std::vector<Cut> bodies;
  BodyFlags flags;  // What has a tangent.
};

Cuts cut_bodies(const Control& control, const Attrs& attrs, Flags arguments) {
  const std::span<const GraphAttr> all = bodies_in(attrs);
  const std::span<const GraphAttr> bodies = all.subspan(control.asks ? 1 : 0);
  Cuts made;
  made.flags = settle(control, std::move(arguments), bodies[0].graph->outputs.size(), bodies.size(),
                      [&](std::size_t b, const BodyFlags& flags) {
                        if (b == 0) made.bodies.clear();
                        return made.bodies.emplace_back(*bodies[b].graph, flags.arguments, flags.results).has_tangent;
                      });
  return made;
}

// Where an operand of the linear equation comes from.
enum class From { kOperand, kResult, kTangent };

// The arguments of the linear bodies, which are those of all of them: carries first, then slices and captures.
class LinearArguments {
 public:
  enum Group { kCarries, kSlices, kCaptures };

  /// The value in body `b`, of this type there.
  ValueId in_body(std::size_t b, Graph& body, Group group, From from, std::size_t which, const Type& type) {
    std::vector<Argument>& all = groups_[group];
    auto known = std::ranges::find_if(all, [&](const Argument& a) { return a.from == from && a.which == which; });
    if (known == all.end()) {
      all.push_back({from, which, {}});
      known = std::prev(all.end());
    }
    known->values.resize(std::max(known->values.size(), b + 1));
    MaybeValue& value = known->values[b];
    if (!value) value = body.add_value(type);
    return *value;
  }

  std::size_t count(Group group) const { return groups_[group].size(); }

  /// Completes the inputs of all bodies: where one does not use an argument, it has the type that another says.
  void finish(std::vector<Graph>& bodies) {
    for (std::vector<Argument>& group : groups_) {
      for (Argument& argument : group) {
        argument.values.resize(bodies.size());
        const auto b = static_cast<std::size_t>(
            std::ranges::find_if(argument.values, [](const MaybeValue& v) { return v.has_value(); }) -
            argument.values.begin());
        const Type type = bodies[b].type(*argument.values[b]);
        argument.type = type;
        for (std::size_t k = 0; k < bodies.size(); ++k) {
          bodies[k].inputs.push_back(argument.values[k] ? *argument.values[k] : bodies[k].add_value(type));
        }
      }
    }
  }

  /// What is given for them in the graph of `build`. `first_result` is that of the first residual.
  std::vector<ValueId> operands(std::span<const MaybeValue> tangents, std::size_t first_result, Primals& primals,
                                Builder& build) const {
    std::vector<ValueId> made;
    for (const std::vector<Argument>& group : groups_) {
      for (const Argument& argument : group) {
        const std::size_t which = argument.which;
        made.push_back(argument.from == From::kOperand  ? primals.operand(which)
                       : argument.from == From::kResult ? primals.result(first_result + which)
                       : tangents[which]                ? *tangents[which]
                                                        : build.zeros(argument.type));
      }
    }
    return made;
  }

 private:
  struct Argument {
    From from;
    std::size_t which;               // An operand of the equation, or a residual.
    std::vector<MaybeValue> values;  // In each body.
    Type type = {};
  };
  std::array<std::vector<Argument>, 3> groups_;
};

// Of a loop that ends when its values say so nothing is kept: the linear part goes through all trips again, values and
// tangents side by side.
LinearizedEqn linearize_asking(const OpDef& op, const Attrs& attrs, const Control& control, const Flags& arguments) {
  Cuts cuts = cut_bodies(control, attrs, arguments);
  const std::size_t count = cuts.flags.results.size();
  if (std::ranges::find(cuts.flags.results, true) == cuts.flags.results.end()) return without_tangents(attrs, count);
  Cut& cut = cuts.bodies[0];
  Graph question = *bodies_in(attrs)[0].graph;
  Graph body = std::move(cut.primal);
  std::vector<std::size_t> order;  // Of operands; tangents count from the number of operands on.
  std::vector<ValueId> tangents;
  const std::size_t num_operands = body.inputs.size();
  const auto extend = [&](std::size_t first, std::size_t last) {
    const std::vector<ValueId> inputs = body.inputs;
    for (std::size_t i = first; i < last; ++i) order.push_back(i);
    for (std::size_t i = first; i < last; ++i) {
      if (!cuts.flags.arguments[i]) continue;
      order.push_back(num_operands + i);
      tangents.push_back(body.add_value(body.type(inputs[i])));
    }
  };
  extend(0, control.carries);
  const std::size_t carries = order.size();
  extend(control.carries, num_operands);
  std::vector<ValueId> values = cut.residuals;
  values.insert(values.end(), tangents.begin(), tangents.end());
  const std::vector<ValueId> yields = inline_graph(body, cut.tangent, values);
  body.outputs.insert(body.outputs.end(), yields.begin(), yields.end());
  const std::vector<ValueId> body_inputs = std::exchange(body.inputs, {});
  const std::vector<ValueId> question_inputs = std::exchange(question.inputs, {});
  std::vector<Type> types;
  auto tangent = tangents.begin();
  for (const std::size_t which : order) {
    const bool is_tangent = which >= num_operands;
    body.inputs.push_back(is_tangent ? *tangent++ : body_inputs[which]);
    types.push_back(body.type(body.inputs.back()));
    question.inputs.push_back(is_tangent ? question.add_value(types.back()) : question_inputs[which]);
  }
  const Attrs joint =
      with_counts(with_bodies(attrs, {std::move(question), std::move(body)}), static_cast<std::int64_t>(carries), 0);
  return {.attrs = attrs,
          .residuals = {},
          .tangents = [&op, joint, order, types, num_operands, count, results = cuts.flags.results](
                          std::span<const MaybeValue> given, std::span<const Type>, Primals& primals, Builder& build) {
            std::vector<ValueId> operands;
            for (std::size_t k = 0; k < order.size(); ++k) {
              const std::size_t which = order[k];
              operands.push_back(which < num_operands          ? primals.operand(which)
                                 : given[which - num_operands] ? *given[which - num_operands]
                                                               : build.zeros(types[k]));
            }
            const std::vector<ValueId> made = build.equation(op, joint, operands);
            return at_flags(results, std::span(made).subspan(count));
          }};
}

// What the linear parts of bodies are made of, beside tangents.
class LinearBodies {
 public:
  LinearBodies(const Control& control, const Cuts& cuts)
      : control_(control), cuts_(cuts), further_(cuts.bodies.size()) {
    for (std::size_t b = 0; b < cuts.bodies.size(); ++b) add_body(b);
    arguments_.finish(bodies_);
  }

  const LinearArguments& arguments() const { return arguments_; }
  std::vector<Graph> take_bodies() { return std::move(bodies_); }
  /// The bodies of the equation, which give residuals after their results.
  std::vector<Graph> primals() {
    std::vector<Graph> graphs;
    for (std::size_t b = 0; b < cuts_.bodies.size(); ++b) {
      further_.append_to(graphs.emplace_back(cuts_.bodies[b].primal), b);
    }
    return graphs;
  }

 private:
  using Group = LinearArguments::Group;

  bool is_carry(std::size_t argument) const { return control_.loops && argument < control_.carries; }
  Group group_of(std::size_t argument) const {
    return control_.is_slice(argument) ? LinearArguments::kSlices : LinearArguments::kCaptures;
  }

  void add_body(std::size_t b) {
    const Cut& cut = cuts_.bodies[b];
    const Graph& primal = cut.primal;
    Graph& body = bodies_.emplace_back(empty_like(primal));
    std::vector<ValueId> tangents;
    for (std::size_t i = 0; i < cuts_.flags.arguments.size(); ++i) {
      if (!cuts_.flags.arguments[i]) continue;
      const Group group = is_carry(i) ? LinearArguments::kCarries : group_of(i);
      tangents.push_back(arguments_.in_body(b, body, group, From::kTangent, control_.first_argument + i,
                                            primal.type(primal.inputs[i])));
    }
    // Carries that all trips leave as they are stand around the body as captures do.
    std::unordered_map<ValueId, std::size_t> around;
    Flags stays(primal.inputs.size());
    for (std::size_t i = 0; i < stays.size(); ++i) {
      stays[i] = control_.loops && !control_.is_slice(i) && (!is_carry(i) || primal.outputs[i] == primal.inputs[i]);
      if (stays[i] || !is_carry(i)) around.emplace(primal.inputs[i], i);
    }
    const Flags again = control_.recomputes ? made_of(primal, Flags(stays.size(), true)) : made_of(primal, stays);
    std::vector<ValueId> values = computed(primal, cut.residuals, body, [&](ValueId id) -> MaybeValue {
      const Type& type = primal.type(id);
      if (const auto given = around.find(id); given != around.end()) {
        return arguments_.in_body(b, body, group_of(given->second), From::kOperand,
                                  control_.first_argument + given->second, type);
      }
      if (again[slot(id)]) return {};
      const Group group = control_.loops ? LinearArguments::kSlices : LinearArguments::kCaptures;
      return arguments_.in_body(b, body, group, From::kResult, further_.add(b, id, type), type);
    });
    values.insert(values.end(), tangents.begin(), tangents.end());
    body.outputs = inline_graph(body, cut.tangent, values);
  }

  const Control& control_;
  const Cuts& cuts_;
  FurtherResults further_;
  LinearArguments arguments_;
  std::vector<Graph> bodies_;
};

// The transposition of an equation whose bodies are linear in some of their arguments. A loop goes through its trips
// the other way round: it carries the cotangents of carries, and the sums of those of captures; cotangents of stacks
// are slices, those of slices are stacked.
class ControlTransposition {
 public:
  explicit ControlTransposition(const TransposeContext& context)
      : context_(context), control_(context.op.control(context.attrs)), first_(control_.first_argument) {
    for (std::size_t i = 0; i < context.operands.size() - first_; ++i) {
      // A carry that begins as a constant zero is linear, too.
      (is_carry(i) || context.wants(first_ + i) ? linear_ : others_).push_back(i);
    }
    options_.unchecked = context.unchecked;
    options_.strong_zeros = context.strong_zeros;
    options_.num_whole = control_.loops ? control_.carries : 0;
    for (std::size_t i = 0; i < first_; ++i) {
      // Devices that go different ways do not meet on them.
      options_.unchecked = union_of(options_.unchecked, context.operands[i].varying);
    }
    for (const MaybeValue& cotangent : context.cotangents) options_.given.push_back(cotangent.has_value());
  }

  std::vector<MaybeValue> run() {
    transpose_bodies();
    std::vector<MaybeValue> all(context_.operands.size());
    if (std::ranges::find(given_back_, true) == given_back_.end()) return all;
    std::vector<Graph> graphs;
    for (std::size_t b = 0; b < made_.size(); ++b) graphs.push_back(joined(b));
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < first_; ++i) operands.push_back(*context_.values[i]);
    const std::vector<ValueId> carries = carry_operands(graphs[0]);
    operands.insert(operands.end(), carries.begin(), carries.end());
    std::size_t slices = 0;
    for (const bool as_slices : {true, false}) {
      if (!as_slices) slices = operands.size() - first_ - carries.size();
      for (const std::size_t i : others_) {
        if (control_.is_slice(i) == as_slices) operands.push_back(*context_.values[first_ + i]);
      }
      for (std::size_t i = 0; i < options_.given.size(); ++i) {
        if (!is_carry(i) && options_.given[i] && control_.loops == as_slices) operands.push_back(context_.cotangent(i));
      }
    }
    Attrs attrs = with_counts(with_bodies(context_.attrs, std::move(graphs)), static_cast<std::int64_t>(carries.size()),
                              static_cast<std::int64_t>(slices));
    if (control_.loops) attrs = turned_around(std::move(attrs));
    const std::vector<ValueId> results = context_.build.equation(context_.op, std::move(attrs), std::move(operands));
    auto result = results.begin();
    for (std::size_t i = 0; i < options_.num_whole; ++i) {
      if (!options_.given[i]) continue;
      all[first_ + i] = *result++;
    }
    for (const bool stacked : {false, true}) {
      for (std::size_t k = options_.num_whole; k < linear_.size(); ++k) {
        if (given_back_[k] && is_stacked(linear_[k]) == stacked) all[first_ + linear_[k]] = *result++;
      }
    }
    return all;
  }

 private:
  bool is_carry(std::size_t i) const { return control_.loops && i < control_.carries; }
  // Whether the cotangents of an argument are results as they are.
  bool is_stacked(std::size_t i) const { return !control_.loops || control_.is_slice(i); }
  const Graph& body(std::size_t b) const { return *bodies_in(context_.attrs)[b].graph; }

  void transpose_bodies() {
    given_back_.assign(linear_.size(), false);
    for (bool settled = false; !settled;) {
      made_.clear();
      for (std::size_t b = 0; b < bodies_in(context_.attrs).size(); ++b) {
        Graph ordered = body(b);
        ordered.inputs.clear();
        for (const std::vector<std::size_t>* part : {&others_, &linear_}) {
          for (const std::size_t i : *part) ordered.inputs.push_back(body(b).inputs[i]);
        }
        made_.push_back(transpose(ordered, others_.size(), options_));
        for (std::size_t k = 0; k < linear_.size(); ++k) {
          given_back_[k] = given_back_[k] || made_.back().has_cotangent[k];
        }
      }
      settled = true;
      for (std::size_t i = 0; i < options_.num_whole; ++i) {
        settled = settled && (options_.given[i] || !given_back_[i]);
        options_.given[i] = options_.given[i] || given_back_[i];
      }
    }
  }

  // The transpose of body `b`, with the arguments and yields of the equation.
  Graph joined(std::size_t b) {
    Graph graph = std::move(made_[b].graph);
    Builder build(graph, {});
    const std::vector<ValueId> inputs = std::exchange(graph.inputs, {});
    const std::vector<MaybeValue> results = at_flags(made_[b].has_cotangent, std::exchange(graph.outputs, {}));
    const auto result = [&](std::size_t k) {
      const Type type = cotangent_type(body(b).type(body(b).inputs[linear_[k]]));
      return results[k] ? *results[k] : build.with_weakness(build.zeros(type), type.weak);
    };
    std::vector<ValueId> slices;
    std::vector<ValueId> captures;
    for (std::size_t k = 0; k < others_.size(); ++k) {
      (control_.is_slice(others_[k]) ? slices : captures).push_back(inputs[k]);
    }
    std::size_t next = others_.size();
    for (std::size_t i = 0; i < options_.given.size(); ++i) {
      if (!options_.given[i]) continue;
      (is_carry(i) ? graph.inputs : control_.loops ? slices : captures).push_back(inputs[next++]);
      if (is_carry(i)) graph.outputs.push_back(result(i));
    }
    std::vector<ValueId> stacks;
    for (std::size_t k = options_.num_whole; k < linear_.size(); ++k) {
      if (!given_back_[k]) continue;
      const ValueId cotangent = result(k);
      if (is_stacked(linear_[k])) {
        stacks.push_back(cotangent);
        continue;
      }
      const Type type = graph.type(cotangent);
      const ValueId sum = graph.add_input(type);
      graph.outputs.push_back(build.with_weakness(build.add(sum, cotangent), type.weak));
    }
    graph.inputs.insert(graph.inputs.end(), slices.begin(), slices.end());
    graph.inputs.insert(graph.inputs.end(), captures.begin(), captures.end());
    graph.outputs.insert(graph.outputs.end(), stacks.begin(), stacks.end());
    return graph;
  }

  // What the carries of the loop begin with: the cotangents of those that there were, and sums of nothing.
  std::vector<ValueId> carry_operands(const Graph& joined) {
    std::vector<ValueId> carries;
    if (!control_.loops) return carries;
    for (std::size_t i = 0; i < control_.carries; ++i) {
      if (options_.given[i]) carries.push_back(context_.cotangent(i));
    }
    for (std::size_t k = control_.carries; k < linear_.size(); ++k) {
      if (!given_back_[k] || is_stacked(linear_[k])) continue;
      const Type& type = joined.type(joined.inputs[carries.size()]);
      carries.push_back(context_.build.with_weakness(context_.build.zeros(type), type.weak));
    }
    return carries;
  }

  const TransposeContext& context_;
  const Control control_;
  const std::size_t first_;
  std::vector<std::size_t> linear_;  // Arguments: carries first, as they are the first ones.
  std::vector<std::size_t> others_;
  TransposeOptions options_;  // `given` says which results have a cotangent; a carry has one if it is given one back.
  Flags given_back_;          // Which of the linear arguments get a cotangent.
  std::vector<Transposed> made_;
};

}  // namespace

LinearizedEqn linearize_control(const OpDef& op, const Attrs& attrs, std::span<const Type> operands,
                                const std::vector<bool>& with_tangent) {
  const Control control = op.control(attrs);
  const std::size_t first = control.first_argument;
  const Flags arguments(with_tangent.begin() + static_cast<std::ptrdiff_t>(first), with_tangent.end());
  if (control.asks) return linearize_asking(op, attrs, control, arguments);
  const Cuts cuts = cut_bodies(control, attrs, arguments);
  const std::size_t count = cuts.flags.results.size();
  if (std::ranges::find(cuts.flags.results, true) == cuts.flags.results.end()) return without_tangents(attrs, count);
  LinearBodies linear(control, cuts);
  LinearizedEqn made{.attrs = with_bodies(attrs, linear.primals()), .residuals = {}, .tangents = {}};
  const std::vector<Type> results = op.infer(
      {.op = op, .inputs = operands, .attrs = made.attrs, .axes = cuts.bodies[0].primal.axes, .where = Caller::line()});
  made.residuals.assign(results.begin() + static_cast<std::ptrdiff_t>(count), results.end());
  const LinearArguments& taken = linear.arguments();
  const Attrs linear_attrs = with_counts(with_bodies(attrs, linear.take_bodies()),
                                         static_cast<std::int64_t>(taken.count(LinearArguments::kCarries)),
                                         static_cast<std::int64_t>(taken.count(LinearArguments::kSlices)));
  made.tangents = [&op, first, count, linear_attrs, taken, flags = cuts.flags.results](
                      std::span<const MaybeValue> given, std::span<const Type>, Primals& values, Builder& build) {
    std::vector<ValueId> all;
    for (std::size_t i = 0; i < first; ++i) all.push_back(values.operand(i));
    for (const ValueId id : taken.operands(given, count, values, build)) all.push_back(id);
    return at_flags(flags, build.equation(op, linear_attrs, std::move(all)));
  };
  return made;
}

std::vector<MaybeValue> cotangents_of_control(const TransposeContext& context) {
  if (context.op.control(context.attrs).asks) {
    throw no_derivative<InvalidArgument>(
        context.build,
        "a while_loop has no derivative in reverse, as how often it runs is known only when it has run. Use scan, a "
        "fori_loop whose bounds are known when it is traced, or max_checkpoints");
  }
  return ControlTransposition(context).run();
}

}  // namespace shoal
