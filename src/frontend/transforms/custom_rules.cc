#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/mapping.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/array/tracer_errors.h"
#include "frontend/transforms/body.h"
#include "frontend/transforms/changes.h"
#include "frontend/transforms/host_callback.h"
#include "ir/dim_attrs.h"
#include "ops/builder.h"
#include "ops/rules.h"
#include "shoal/control_flow.h"
#include "shoal/custom_batching.h"
#include "shoal/custom_derivatives.h"
#include "shoal/numpy.h"
#include "transform/batch.h"
#include "transform/linearize.h"

namespace shoal::detail {
namespace {

using Leaves = std::vector<Array>;

[[noreturn]] void refuse_closure() {
  throw misuse<LeakedTracer>(
      "a function with rules of its own, or one of these, uses an array from outside that is differentiated; pass it "
      "as an argument");
}

// The cotangents that a rule gives, which should be of these types.
Leaves checked_cotangents(Leaves cotangents, const std::vector<Type>& types) {
  if (cotangents.size() != types.size()) {
    throw misuse<TypeMismatch>("the rule gives {} cotangents for {} arrays; their structures must be the same",
                               cotangents.size(), types.size());
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (Access::is_empty(cotangents[i])) continue;
    cotangents[i] = checked_change(cotangents[i], types[i], "the rule's cotangent", i);
  }
  return cotangents;
}

// The rule on these arguments.
RuleResult apply(const TangentRule& rule, const Leaves& primals, const Leaves& tangents) {
  RuleResult made = rule(primals, tangents);
  Leaves& results = made.result.leaves;
  check_values(results, made.result.tree, "result of the rule");
  if (made.tangents.size() != results.size()) {
    throw misuse<TypeMismatch>("the rule gives {} tangents for {} results; their structures must be the same",
                               made.tangents.size(), results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    Array& tangent = made.tangents[i];
    const Type& type = impl_of(results[i]).type;
    if (!has_tangents(type.dtype)) tangent = Array();
    if (!Access::is_empty(tangent)) tangent = checked_change(tangent, type, "the rule's tangent", i);
  }
  return made;
}

// The elements of an array that a rule has from outside, where a graph takes no more operands: a call that gives them.
ValueId constant(Graph& graph, const Array& array) {
  const Type& type = impl_of(array).type;
  const Buffer elements =
      to_host(concrete(array, "an array from outside"), Caller::function_or("custom_jvp"), Caller::line());
  const auto on_values = [elements](std::span<const Buffer>) { return std::vector<Buffer>{elements}; };
  return Builder(graph, Caller::line())
      .apply("pure_callback",
             {{"results", std::vector<std::string>{promise_of(type)}},
              {"callback", CallbackAttr::of({.on_values = on_values})}},
             {});
}

// The graph of a trace, whose captures are constants, but for those that the call has from outside, too: its last
// operands.
Graph without_captures(const Graph& traced, const Leaves& captures, const Leaves& of_call) {
  if (captures.empty()) return traced;
  Graph graph;
  graph.name = traced.name;
  graph.axes = traced.axes;
  const std::size_t count = traced.inputs.size() - captures.size();
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(graph.add_input(traced.type(traced.inputs[i])));
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const auto known =
        std::ranges::find(of_call, Access::get(captures[i]), [](const Array& one) { return Access::get(one); });
    if (known != of_call.end()) {
      values.push_back(values[count - static_cast<std::size_t>(of_call.end() - known)]);
      continue;
    }
    const ValueId made = constant(graph, captures[i]);
    const Type& type = traced.type(traced.inputs[count + i]);
    values.push_back(Builder(graph, Caller::line()).with_weakness(made, type.weak));
  }
  graph.outputs = inline_graph(graph, traced, values);
  return graph;
}

// What the rules of calls that stand in graphs have from where the call was traced.
class CallInGraph {
 public:
  CallInGraph(std::size_t num_arguments, std::vector<Type> results, Leaves captures)
      : num_arguments_(num_arguments), results_(std::move(results)), captures_(std::move(captures)) {}

 protected:
  // Whether one of the arrays that the function has from outside, which a rule is not given, is of `flags`.
  bool has_capture(const std::vector<bool>& flags) const {
    return std::find(flags.begin() + static_cast<std::ptrdiff_t>(num_arguments_), flags.end(), true) != flags.end();
  }
  // Tracers of what a rule is given.
  Leaves arguments(Trace& trace, std::span<const Type> operands) const {
    Leaves leaves;
    for (const Type& type : operands) leaves.push_back(trace.add_input(type));
    leaves.resize(num_arguments_);
    return leaves;
  }
  // What a rule gives, as what the function gave when it was traced; type_of(i, type) is that here.
  template <class TypeOf>
  Leaves checked_results(Leaves made, TypeOf&& type_of) const {
    if (made.size() != results_.size()) {
      throw misuse<TypeMismatch>("the rule gives {} results, and its function {}", made.size(), results_.size());
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = checked_change(made[i], type_of(i, results_[i]), "the rule's result", i);
    }
    return made;
  }

  std::size_t num_arguments_;
  std::vector<Type> results_;
  Leaves captures_;  // What the function has from outside.
  std::string name_ = std::string(Caller::function_or("custom_jvp"));
  SourceLocation where_ = Caller::line();
  Trace::Surroundings surroundings_ = Trace::surroundings();
};

class RuleInGraph : CallInGraph {
 public:
  RuleInGraph(TangentRule rule, std::size_t num_arguments, std::vector<Type> results, Leaves captures)
      : CallInGraph(num_arguments, std::move(results), std::move(captures)), rule_(std::move(rule)) {}

  Linearized operator()(std::span<const Type> operands, const std::vector<bool>& with_tangent) const {
    if (has_capture(with_tangent)) refuse_closure();
    const Caller caller(name_, where_);
    const auto trace = Trace::begin_in(surroundings_, name_);
    TangentMap map;
    const Graph graph = trace_graph(trace, [&] {
      const auto tape = std::make_shared<Tape>(name_, Tape::Direction::kReverse);
      const Leaves primals = arguments(*trace, operands);
      Leaves tangents(num_arguments_);
      for (std::size_t i = 0; i < num_arguments_; ++i) {
        if (with_tangent[i]) tangents[i] = tape->tangent_alone(operands[i]);
      }
      const Layer::Running running(tape);
      RuleResult made = apply(rule_, primals, tangents);
      Leaves results =
          checked_results(std::move(made.result.leaves), [](std::size_t, const Type& type) { return type; });
      map = tape->finish_tangents(made.tangents);
      results.insert(results.end(), map.residuals.begin(), map.residuals.end());
      return results;
    });
    return {.primal = without_captures(graph, trace->captures(), captures_),
            .tangent = *map.graph,
            .num_residuals = map.residuals.size(),
            .has_tangent = map.has_tangent};
  }

 private:
  TangentRule rule_;
};

// From the cotangents of those results that can have some, empty where they are zero, and what was kept, to those of
// what changes, empty where they are zero.
using Reverse = std::function<Leaves(const Leaves& cotangents, const Leaves& kept)>;

// What a linear_call asks for its transpose when that is made, and knows which cotangents there are.
class PullbackInGraph {
 public:
  PullbackInGraph(Reverse reverse, std::string name) : reverse_(std::move(reverse)), name_(std::move(name)) {}

  // Operands are the cotangents, all of which `given` speaks of, and what was kept.
  Linearized operator()(std::span<const Type> operands, const std::vector<bool>& given) const {
    const Caller caller(name_, where_);
    const auto trace = Trace::begin_in(surroundings_, name_);
    Linearized made;
    const Graph graph = trace_graph(trace, [&] {
      Leaves cotangents(given.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (given[i]) cotangents[i] = trace->add_input(operands[i]);
      }
      Leaves kept;
      for (const Type& type : operands.subspan(given.size())) kept.push_back(trace->add_input(type));
      Leaves results;
      for (Array& one : reverse_(cotangents, kept)) {
        made.has_tangent.push_back(!Access::is_empty(one));
        if (made.has_tangent.back()) results.push_back(std::move(one));
      }
      return results;
    });
    made.primal = without_captures(graph, trace->captures(), {});
    return made;
  }

 private:
  Reverse reverse_;
  std::string name_;
  SourceLocation where_ = Caller::line();
  Trace::Surroundings surroundings_ = Trace::surroundings();
};

// The call as an equation with the rule that is made for the body, of so many arguments.
template <class Make>
Leaves bind_with_rules(const Leaves& leaves, const TracedFunction& function, std::any& exemplar, Make&& make) {
  const std::string name(Caller::function_or("custom_jvp"));
  Body body = trace_body(name, types_of(leaves), function);
  exemplar = std::move(body.result.exemplar);
  Leaves operands = leaves;
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const CallbackAttr rules = CallbackAttr::of(make(body.graph.types(body.graph.outputs), body.captures));
  const GraphAttr graph{std::make_shared<const Graph>(std::move(body.graph))};
  return shoal::bind("jit", {{"body", graph}, {"name", name}, {"rules", rules}}, operands);
}

// Whether a function runs as it is, as nobody asks for rules here.
bool runs_at_once() {
  const Trace* trace = Trace::current();
  return trace == nullptr || trace->kind() == Trace::Kind::kEager;
}

// While a rule is asked for what its function gives for a tangent of a tape. A rule may call its own function there; if
// that calls it once more, the function is taken as it is, which must be linear.
class RuleOfTangents {
 public:
  explicit RuleOfTangents(const Layer* tape) : outer_(std::exchange(tape_, tape)) {}
  RuleOfTangents(const RuleOfTangents&) = delete;
  RuleOfTangents& operator=(const RuleOfTangents&) = delete;
  ~RuleOfTangents() { tape_ = outer_; }
  static const Layer* tape() { return tape_; }

 private:
  static inline thread_local const Layer* tape_ = nullptr;
  const Layer* outer_;
};

// The function as it is.
Leaves run(const TracedFunction& function, const Leaves& leaves, std::any& exemplar) {
  const Caller::Pause pause;
  TracedResult made = function(leaves);
  exemplar = std::move(made.exemplar);
  return std::move(made.leaves);
}

// A result of a rule with its tangent on the tape, which `of_tape` is of. If the rule has an array of a mapping inside
// of that from outside, both are in all of its places.
Array with_tangent_in_places(Tape& tape, const Array& result, const Array& tangent, const Array& of_tape) {
  if (Access::is_empty(tangent)) return result;
  const std::shared_ptr<Layer> layer = Layer::of(std::array{result, tangent, of_tape});
  auto* const mapping = dynamic_cast<Mapping*>(layer.get());
  if (mapping == nullptr) {
    if (impl_of(result).tape() == &tape) refuse_closure();
    return tape.with_tangent(result, tangent);
  }
  const auto in_all_places = [&](const Array& array) {
    const ArrayImpl& impl = impl_of(array);
    if (impl.mapping() == mapping) {
      return moveaxis(impl.abstract->outside, static_cast<std::int64_t>(impl.abstract->dim), 0);
    }
    Shape shape = impl.type.shape;
    shape.insert(shape.begin(), mapping->axis().size);
    return broadcast_to(expand_dims(array, 0), shape);
  };
  return mapping->mapped(with_tangent_in_places(tape, in_all_places(result), in_all_places(tangent), of_tape), 0);
}

Leaves call_with_rule(const CallArguments& arguments, const TracedFunction& function, const TangentRule& rule,
                      std::any& exemplar) {
  const Leaves& leaves = arguments.leaves;
  check_values(leaves, arguments.tree, "argument ");
  const std::shared_ptr<Layer> layer = Layer::of(leaves);
  if (auto* tape = dynamic_cast<Tape*>(layer.get())) {
    Leaves primals;
    Leaves tangents;
    bool is_alone = false;
    const Array* of_tape = nullptr;
    for (const Array& leaf : leaves) {
      if (impl_of(leaf).tape() == tape) of_tape = &leaf;
      tangents.push_back(tape->tangent_of(leaf));
      is_alone = is_alone || impl_of(leaf).is_tangent_alone();
      primals.push_back(Access::is_empty(tangents.back()) ? leaf : impl_of(leaf).abstract->outside);
    }
    // Of a tangent alone the function has to be linear, and is its derivative at any value.
    RuleResult made = apply(rule, with_zeros(primals, leaves), tangents);
    exemplar = std::move(made.result.exemplar);
    Leaves results = std::move(made.result.leaves);
    for (std::size_t i = 0; i < made.tangents.size(); ++i) {
      if (is_alone && !Access::is_empty(made.tangents[i])) {
        results[i] = made.tangents[i];
        continue;
      }
      if (impl_of(results[i]).tape() == tape) refuse_closure();
      results[i] = with_tangent_in_places(*tape, results[i], made.tangents[i], *of_tape);
    }
    return results;
  }
  if (layer == nullptr && runs_at_once()) {
    Leaves results = run(function, leaves, exemplar);
    for (const Array& result : results) {
      if (impl_of(result).tape() != nullptr) refuse_closure();
    }
    return results;
  }
  return bind_with_rules(leaves, function, exemplar, [&](std::vector<Type> results, Leaves captures) {
    return Callback{.on_tangents = RuleInGraph(rule, leaves.size(), std::move(results), std::move(captures))};
  });
}

// What a call with custom_vjp changes, by tangents of its leaves, whose transpose is the pullback.
class TangentsInReverse {
 public:
  TangentsInReverse(const Leaves& results, const Leaves& leaves, const Leaves& tangents)
      : results_(results), leaves_(leaves) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (Access::is_empty(tangents[i])) continue;
      operands_.push_back(tangents[i]);
      changed_.push_back(i);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Type& type = impl_of(results[i]).type;
      if (!has_tangents(type.dtype)) continue;
      types_.push_back(type);
      given_.push_back(i);
    }
  }

  // Where all runs at once the pullback is called when the derivative is taken, with values; elsewhere it is traced,
  // and the tangents are a linear_call without a body.
  Leaves by(const PullbackRule& pull_back) {
    if (types_.empty()) return Leaves(results_.size());
    refuse_other_mappings();
    const Reverse reverse =
        in_reverse([pull_back](const Leaves& cotangents, const Leaves&) { return pull_back(cotangents); });
    if (Tape* const tape = at_once()) return of_results(cut(*tape, reverse, {}));
    Body body = trace_body(name_, cotangent_types(types_), [&](const Leaves& tracers) {
      TracedResult wanted;
      wanted.leaves = reverse(tracers, {});
      for (std::size_t i = 0; i < changed_.size(); ++i) {
        if (Access::is_empty(wanted.leaves[i])) wanted.leaves[i] = zero_cotangent_of(leaves_[changed_[i]]);
      }
      return wanted;
    });
    for (const Array& capture : body.captures) {
      if (impl_of(capture).tape() != nullptr && impl_of(capture).tape() == impl_of(operands_[0]).tape()) {
        refuse_closure();
      }
      operands_.push_back(capture);
    }
    const GraphAttr transposed{std::make_shared<const Graph>(std::move(body.graph))};
    return of_results(shoal::bind("linear_call", {{"transposed", transposed}}, operands_));
  }

  // It is called when the derivative is taken in traces, too.
  Leaves by(const PullbackOfKept& rule) {
    if (types_.empty()) return Leaves(results_.size());
    refuse_other_mappings();
    const Reverse reverse = in_reverse(rule.pull_back);
    if (Tape* const tape = at_once()) return of_results(cut(*tape, reverse, rule.kept));
    // Until then there are its types.
    Graph types;
    types.name = name_;
    for (const Type& type : cotangent_types(types_)) types.add_input(type);
    for (const Array& one : rule.kept) types.add_input(impl_of(one).type);
    Builder build(types, Caller::line());
    const std::vector<Type> of_leaves = cotangent_types(types_of(leaves_));
    for (const std::size_t i : changed_) {
      const Type& type = of_leaves[i];
      types.outputs.push_back(build.with_weakness(build.zeros(type), type.weak));
    }
    operands_.insert(operands_.end(), rule.kept.begin(), rule.kept.end());
    const GraphAttr transposed{std::make_shared<const Graph>(std::move(types))};
    const CallbackAttr rules = CallbackAttr::of({.on_tangents = PullbackInGraph(reverse, name_)});
    return of_results(shoal::bind("linear_call", {{"transposed", transposed}, {"rules", rules}}, operands_));
  }

 private:
  void refuse_other_mappings() const {
    Leaves both = results_;
    both.insert(both.end(), operands_.begin(), operands_.end());
    const auto layer = Layer::of(both);
    if (layer == Layer::of(operands_) || dynamic_cast<Mapping*>(layer.get()) == nullptr) return;
    throw misuse<LeakedTracer>(
        "a function with custom_vjp uses an array from outside that is mapped inside of the derivative; pass it as an "
        "argument");
  }

  // The user is in his own function.
  template <class PullBack>
  Reverse in_reverse(PullBack pull_back) const {
    return
        [pull_back, given = given_, changed = changed_, name = name_, where = Caller::line(), count = results_.size(),
         of_leaves = cotangent_types(types_of(leaves_))](const Leaves& of_given, const Leaves& kept) {
          Leaves cotangents(count);
          for (std::size_t i = 0; i < given.size(); ++i) cotangents[given[i]] = of_given[i];
          Leaves all = [&] {
            const Caller::Pause pause;
            return pull_back(cotangents, kept);
          }();
          const Caller caller(name, where);
          all = checked_cotangents(std::move(all), of_leaves);
          Leaves wanted;
          for (const std::size_t i : changed) wanted.push_back(all[i]);
          return wanted;
        };
  }

  // The tape, if it runs at once.
  Tape* at_once() const {
    auto* const tape = dynamic_cast<Tape*>(Layer::of(operands_).get());
    return tape != nullptr && tape->is_at_once() ? tape : nullptr;
  }

  Leaves cut(Tape& tape, const Reverse& reverse, const Leaves& kept) const {
    return tape.cut(operands_, types_, [reverse, kept](const Leaves& of_given) {
      const Caller::Pause pause;
      return reverse(of_given, kept);
    });
  }

  Leaves of_results(const Leaves& changes) const {
    Leaves made(results_.size());
    for (std::size_t i = 0; i < given_.size(); ++i) made[given_[i]] = changes[i];
    return made;
  }

  const Leaves& results_;
  const Leaves& leaves_;
  Leaves operands_;                   // The tangents of what changes,
  std::vector<std::size_t> changed_;  // and which leaves those are.
  std::vector<Type> types_;           // Of the results that can have tangents,
  std::vector<std::size_t> given_;    // and which ones those are.
  std::string name_ = std::string(Caller::function_or("custom_vjp"));
};

// ---- vmap

// The rule on these arguments.
BatchedResult apply(const BatchRule& rule, std::int64_t size, const std::vector<bool>& mapped, const Leaves& leaves) {
  BatchedResult made = [&] {
    const Caller::Pause pause;
    return rule(size, mapped, leaves);
  }();
  const Leaves& results = made.result.leaves;
  check_values(results, made.result.tree, "result of the rule");
  if (made.mapped.size() != results.size()) {
    throw misuse<TypeMismatch>("the rule says of {} results whether they are mapped, and gives {}", made.mapped.size(),
                               results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Type& type = impl_of(results[i]).type;
    if (!made.mapped[i] || (type.rank() > 0 && type.shape[0] == size)) continue;
    throw misuse<ShapeMismatch>("the rule gives {} for result {}, which should have the {} places first",
                                user_string(type), i, size);
  }
  return made;
}

class BatchRuleInGraph : CallInGraph {
 public:
  BatchRuleInGraph(BatchRule rule, std::size_t num_arguments, std::vector<Type> results, Leaves captures)
      : CallInGraph(num_arguments, std::move(results), std::move(captures)), rule_(std::move(rule)) {}

  BatchedGraph operator()(std::span<const Type> operands, const std::vector<bool>& mapped,
                          const MappedAxis& axis) const {
    if (has_capture(mapped)) {
      throw misuse<LeakedTracer>(
          "a function with custom_vmap uses an array from outside that is mapped; pass it as an argument");
    }
    const Caller caller(name_, where_);
    Trace::Surroundings around = surroundings_;
    around.axes = without_axis(surroundings_.axes, axis);
    const auto trace = Trace::begin_in(around, name_);
    BatchedResult made;
    const Graph graph = trace_graph(trace, [&] {
      const Leaves leaves = arguments(*trace, operands);
      made = apply(rule_, axis.size, {mapped.begin(), mapped.begin() + static_cast<std::ptrdiff_t>(num_arguments_)},
                   leaves);
      return checked_results(std::move(made.result.leaves), [&](std::size_t i, const Type& type) {
        return made.mapped[i] ? with_dim(type, 0, axis.size) : type;
      });
    });
    return {.graph = without_captures(graph, trace->captures(), captures_), .mapped = made.mapped};
  }

 private:
  BatchRule rule_;
};

}  // namespace

std::vector<Array> call_custom_vmap(const CallArguments& arguments, const TracedFunction& function,
                                    const BatchRule& rule, std::any& exemplar, SourceLocation where) {
  const Caller caller("custom_vmap", where);
  Leaves leaves = arguments.leaves;
  check_values(leaves, arguments.tree, "argument ");
  const std::shared_ptr<Layer> layer = Layer::of(leaves);
  if (auto* mapping = dynamic_cast<Mapping*>(layer.get())) {
    std::vector<bool> mapped;
    for (Array& leaf : leaves) {
      const ArrayImpl& impl = impl_of(leaf);
      mapped.push_back(impl.mapping() == mapping);
      if (mapped.back()) leaf = moveaxis(impl.abstract->outside, static_cast<std::int64_t>(impl.abstract->dim), 0);
    }
    BatchedResult made = apply(rule, mapping->axis().size, mapped, leaves);
    exemplar = std::move(made.result.exemplar);
    Leaves results = std::move(made.result.leaves);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (made.mapped[i]) results[i] = mapping->mapped(results[i], 0);
    }
    return results;
  }
  if (layer == nullptr && runs_at_once()) return run(function, leaves, exemplar);
  return bind_with_rules(leaves, function, exemplar, [&](std::vector<Type> results, Leaves captures) {
    return Callback{.on_batch = BatchRuleInGraph(rule, leaves.size(), std::move(results), std::move(captures))};
  });
}

BatchRule one_by_one(TracedFunction function) {
  return [function = std::move(function)](std::int64_t, const std::vector<bool>& mapped, const Leaves& leaves) {
    Leaves given;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (mapped[i]) given.push_back(leaves[i]);
    }
    BatchedResult made;
    const auto on_slices = [&](const Leaves& slices) {
      Leaves all = leaves;
      std::size_t next = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (mapped[i]) all[i] = slices[next++];
      }
      TracedResult result = function(all);
      made.result.tree = result.tree;
      return result;
    };
    made.result.leaves =
        call_map({}, flatten_arguments(std::tuple<Leaves>(given)), on_slices, made.result.exemplar, Caller::line());
    made.mapped.assign(made.result.leaves.size(), true);
    return made;
  };
}

struct Closure::Impl {
  std::string name;
  GraphPtr graph;
  std::any exemplar;
  Leaves captures;
  std::vector<bool> is_const;
};

Closure::Closure(std::string_view name, const CallArguments& arguments, const TracedFunction& function,
                 SourceLocation where) {
  const Caller caller(name, where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  auto impl = std::make_shared<Impl>();
  impl->name = name;
  Body body = trace_body(impl->name, types_of(arguments.leaves), function);
  impl->graph = std::make_shared<const Graph>(std::move(body.graph));
  impl->exemplar = std::move(body.result.exemplar);
  impl->captures = std::move(body.captures);
  for (const Array& capture : impl->captures) {
    const ArrayImpl& array = impl_of(capture);
    impl->is_const.push_back(array.abstract != nullptr && has_tangents(array.type.dtype));
  }
  impl_ = std::move(impl);
}

std::vector<Array> Closure::consts() const {
  Leaves consts;
  for (std::size_t i = 0; i < impl_->captures.size(); ++i) {
    if (impl_->is_const[i]) consts.push_back(impl_->captures[i]);
  }
  return consts;
}

const std::any& Closure::exemplar() const { return impl_->exemplar; }

std::vector<Array> Closure::operator()(const std::vector<Array>& leaves, const std::vector<Array>& consts,
                                       SourceLocation where) const {
  const Caller caller(impl_->name, where);
  Leaves operands;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    operands.push_back(checked_change(leaves[i], impl_->graph->type(impl_->graph->inputs[i]), "argument", i));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < impl_->captures.size(); ++i) {
    operands.push_back(impl_->is_const[i] ? consts.at(next++) : impl_->captures[i]);
  }
  return shoal::bind("jit", {{"body", GraphAttr{impl_->graph}}, {"name", impl_->name}}, operands);
}

bool is_empty(const Array& array) { return Access::is_empty(array); }

std::vector<Array> with_zeros(std::vector<Array> tangents, const std::vector<Array>& values) {
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    if (Access::is_empty(tangents[i])) tangents[i] = zeros_like(values[i]);
  }
  return tangents;
}

std::vector<Array> call_custom_jvp(const CallArguments& arguments, const TracedFunction& function,
                                   const TangentRule& rule, std::any& exemplar, SourceLocation where) {
  const Caller caller("custom_jvp", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const bool by_tangents =
      std::ranges::any_of(arguments.leaves, [](const Array& leaf) { return impl_of(leaf).is_tangent_alone(); });
  const std::shared_ptr<Layer> layer = by_tangents ? Layer::of(arguments.leaves) : nullptr;
  if (by_tangents && RuleOfTangents::tape() == layer.get()) return run(function, arguments.leaves, exemplar);
  std::optional<RuleOfTangents> here;
  if (by_tangents) here.emplace(layer.get());
  const auto on_tangents = [rule](const Leaves& leaves, const Leaves& tangents) {
    const Caller::Pause pause;
    return rule(leaves, tangents);
  };
  return call_with_rule(arguments, function, on_tangents, exemplar);
}

namespace {

template <class Rule>
Leaves call_in_reverse(const CallArguments& arguments, const TracedFunction& function, const Rule& rule,
                       std::any& exemplar, SourceLocation where) {
  const Caller caller("custom_vjp", where);
  const auto on_tangents = [rule](const Leaves& leaves, const Leaves& tangents) {
    std::vector<bool> changes;
    for (const Array& tangent : tangents) changes.push_back(!Access::is_empty(tangent));
    auto [result, pull_back] = [&] {
      const Caller::Pause pause;
      return rule(leaves, changes);
    }();
    check_values(result.leaves, result.tree, "result of the rule");
    RuleResult made{.result = std::move(result), .tangents = {}};
    made.tangents = TangentsInReverse(made.result.leaves, leaves, tangents).by(pull_back);
    return made;
  };
  return call_with_rule(arguments, function, on_tangents, exemplar);
}

}  // namespace

std::vector<Array> call_custom_vjp(const CallArguments& arguments, const TracedFunction& function,
                                   const ForwardRule& rule, std::any& exemplar, SourceLocation where) {
  return call_in_reverse(arguments, function, rule, exemplar, where);
}

std::vector<Array> call_custom_vjp_with_zeros(const CallArguments& arguments, const TracedFunction& function,
                                              const ForwardRuleWithZeros& rule, std::any& exemplar,
                                              SourceLocation where) {
  return call_in_reverse(arguments, function, rule, exemplar, where);
}

std::vector<Array> call_linear(const CallArguments& linear, const CallArguments& others, const TracedFunction& function,
                               const TracedFunction& transposed, std::any& exemplar, SourceLocation where) {
  const Caller caller("linear_call", where);
  check_values(linear.leaves, linear.tree, "argument ");
  check_values(others.leaves, others.tree, "argument ");
  Leaves operands = linear.leaves;
  operands.insert(operands.end(), others.leaves.begin(), others.leaves.end());
  Body body = trace_body("linear_call", types_of(operands), function);
  exemplar = std::move(body.result.exemplar);
  std::vector<Type> types = cotangent_types(body.graph.types(body.graph.outputs));
  const std::vector<Type> types_of_others = types_of(others.leaves);
  types.insert(types.end(), types_of_others.begin(), types_of_others.end());
  Body back = trace_body("transpose of linear_call", types, transposed, [&](Leaves& cotangents) {
    cotangents = checked_cotangents(std::move(cotangents), cotangent_types(types_of(linear.leaves)));
  });
  Body* const bodies[] = {&body, &back};
  const Leaves captures = share_captures(bodies);
  operands.insert(operands.end(), captures.begin(), captures.end());
  const std::vector<GraphAttr> graphs = graphs_of(bodies);
  return shoal::bind("linear_call", {{"body", graphs[0]}, {"transposed", graphs[1]}}, operands);
}

}  // namespace shoal::detail
