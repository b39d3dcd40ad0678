#include "shoal/derivatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/body.h"
#include "frontend/transforms/changes.h"
#include "ir/bodies.h"
#include "ops/builder.h"
#include "ops/derivatives.h"
#include "transform/transpose.h"

namespace shoal {
namespace detail {
namespace {

using Leaves = std::vector<Array>;

// Which arrays may have tangents.
std::vector<bool> differentiable(const Leaves& leaves) {
  std::vector<bool> flags;
  for (const Array& leaf : leaves) flags.push_back(has_tangents(impl_of(leaf).type.dtype));
  return flags;
}

// A function that ran on a tape.
struct Recorded {
  TracedResult result;  // Its leaves are without tangents.
  TangentMap map;       // Of the first leaves; the others are passed on.
  Leaves arguments;     // Those that had tangents, without them.
};

// Runs the function on its arguments, of which those of `flags` carry tangents.
Recorded record(std::string_view name, const Leaves& arguments, const std::vector<bool>& flags,
                const TracedFunction& function, std::optional<std::size_t> num_mapped = {}) {
  const auto tape = std::make_shared<Tape>(std::string(name));
  Recorded made;
  Leaves leaves = arguments;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!flags[i]) continue;
    made.arguments.push_back(leaves[i]);
    leaves[i] = tape->with_tangent(leaves[i]);
  }
  {
    const Layer::Running running(tape);
    const Caller::Pause pause;
    made.result = function(leaves);
  }
  Leaves& results = made.result.leaves;
  check_values(results, made.result.tree, "result");
  Leaves mapped(results.begin(), num_mapped && *num_mapped < results.size()
                                     ? results.begin() + static_cast<std::ptrdiff_t>(*num_mapped)
                                     : results.end());
  made.map = tape->finish(mapped);
  std::ranges::copy(mapped, results.begin());
  for (Array& result : results) result = shoal::without_ended_tangents(result);
  return made;
}

// Adds to a graph that the gradients, its results, lie as the arguments that they belong to.
void lie_as_arguments(Graph& graph, const Leaves& arguments, Leaves& operands) {
  if (!graph.axes.empty()) return;  // Each device computes for itself.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArrayImpl& impl = impl_of(arguments[i]);
    const Type& type = impl.type;
    if (type.rank() == 0 || type.explicit_axes || impl.is_type_only() || impl.is_tangent_alone()) continue;
    const ValueId argument = graph.add_input(type);
    operands.push_back(arguments[i]);
    graph.outputs[i] = Builder(graph, Caller::line()).shard_alike(graph.outputs[i], argument);
  }
}

// Whether some are tangents that a rule of the user's was given.
bool has_tangents_alone(const Leaves& arrays) {
  return std::ranges::any_of(arrays, [](const Array& one) { return impl_of(one).is_tangent_alone(); });
}

Leaves run_each(const Graph& graph, const Leaves& operands) {
  Leaves values(graph.values.size());
  for (std::size_t i = 0; i < operands.size(); ++i) values[slot(graph.inputs[i])] = operands[i];
  for (const Eqn& eqn : graph.eqns) {
    Leaves given;
    for (const ValueId id : eqn.inputs) given.push_back(values[slot(id)]);
    const Leaves made = shoal::bind(*eqn.op, eqn.attrs, given);
    for (std::size_t i = 0; i < made.size(); ++i) values[slot(eqn.outputs[i])] = made[i];
  }
  Leaves results;
  for (const ValueId id : graph.outputs) results.push_back(values[slot(id)]);
  return results;
}

Leaves run(const GraphPtr& graph, const Leaves& operands) {
  if (graph->outputs.empty()) return {};
  // A call of them would run, and a map with rules for the reverse alone cannot.
  if (has_tangents_alone(operands)) return run_each(*graph, operands);
  return shoal::bind("jit", {{"body", GraphAttr{graph}}, {"name", graph->name}}, operands);
}

// Throws TypeMismatch for a map at tangents that has rules for the reverse alone. A rule of the user's that is asked
// for tangents may use such a map: whoever asks it may want the reverse.
void check_has_forward(const Graph& map, const Leaves& tangents) {
  if (has_tangents_alone(tangents)) return;
  const bool has_not =
      any_eqn(map, [](const Eqn& eqn) { return eqn.attrs.contains("transposed") && !eqn.attrs.contains("body"); });
  if (has_not) {
    throw misuse<TypeMismatch>(
        "a function with custom_vjp has a derivative in reverse alone, which jvp, linearize and jacfwd do not take; "
        "give it its derivative by custom_jvp");
  }
}

// The map in reverse, at a cotangent of 1 of its only result.
Graph gradient_graph(const TangentMap& map) {
  const Graph reverse = transpose(*map.graph, map.residuals.size(), map.unchecked);
  Graph graph;
  graph.name = map.graph->name;
  graph.axes = map.graph->axes;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < map.residuals.size(); ++i) {
    values.push_back(graph.add_input(reverse.type(reverse.inputs[i])));
  }
  Builder build(graph, Caller::line());
  const Type& value = reverse.type(reverse.inputs.back());
  const ValueId one = build.with_weakness(build.constant(1, value.dtype), value.weak);
  values.push_back(value.varying.empty() ? one : build.pvary(one, value.varying));
  graph.outputs = inline_graph(graph, reverse, values);
  return graph;
}

// The tangents or cotangents of values that have one, as a map takes them.
Leaves checked(const Leaves& given, const std::vector<Type>& types, const std::vector<bool>& flags,
               std::string_view what) {
  if (given.size() != types.size()) {
    throw misuse<TypeMismatch>("there are {} {}s for {} arrays; their structures must be the same", given.size(), what,
                               types.size());
  }
  Leaves kept;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (flags[i]) kept.push_back(checked_change(given[i], types[i], what, i));
  }
  return kept;
}

// `made` for those of `flags`, zeros like `arrays` for others.
Leaves with_zeros(const Leaves& made, const std::vector<bool>& flags, const Leaves& arrays) {
  Leaves all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < flags.size(); ++i) all.push_back(flags[i] ? made[next++] : zeros_like(arrays[i]));
  return all;
}

}  // namespace

struct LinearMap::Impl {
  std::string name;
  TangentMap map;
  Leaves results;    // Of which some have no part in the map.
  Leaves arguments;  // All, and which have tangents.
  std::vector<bool> flags;
  mutable std::mutex mutex;
  mutable GraphPtr reverse;         // Guarded; made when it is first needed.
  mutable Leaves further_operands;  // Guarded; of that, after the cotangents.
};

Leaves LinearMap::push_forward(const Leaves& tangents, SourceLocation where) const {
  const Caller caller(impl_->name, where);
  check_has_forward(*impl_->map.graph, tangents);
  Leaves operands = impl_->map.residuals;
  for (Array& one : checked(tangents, types_of(impl_->arguments), impl_->flags, "tangent")) {
    operands.push_back(std::move(one));
  }
  return with_zeros(run(impl_->map.graph, operands), impl_->map.has_tangent, impl_->results);
}

Leaves LinearMap::pull_back(const Leaves& cotangents, SourceLocation where) const {
  const Caller caller(impl_->name, where);
  Leaves operands = impl_->map.residuals;
  for (Array& one : checked(cotangents, types_of(impl_->results), impl_->map.has_tangent, "cotangent")) {
    operands.push_back(std::move(one));
  }
  GraphPtr reverse;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->reverse == nullptr) {
      Graph graph = transpose(*impl_->map.graph, impl_->map.residuals.size(), impl_->map.unchecked);
      Leaves differentiated;
      for (std::size_t i = 0; i < impl_->flags.size(); ++i) {
        if (impl_->flags[i]) differentiated.push_back(impl_->arguments[i]);
      }
      lie_as_arguments(graph, differentiated, impl_->further_operands);
      impl_->reverse = std::make_shared<const Graph>(std::move(graph));
    }
    reverse = impl_->reverse;
  }
  operands.insert(operands.end(), impl_->further_operands.begin(), impl_->further_operands.end());
  return with_zeros(run(reverse, operands), impl_->flags, impl_->arguments);
}

std::pair<Differentiated, LinearMap> call_linearize(std::string_view name, const CallArguments& arguments,
                                                    const TracedFunction& function, SourceLocation where) {
  const Caller caller(name, where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  auto impl = std::make_shared<LinearMap::Impl>();
  impl->name = name;
  impl->arguments = arguments.leaves;
  impl->flags = differentiable(arguments.leaves);
  Recorded made = record(name, arguments.leaves, impl->flags, function);
  impl->map = std::move(made.map);
  impl->results = made.result.leaves;
  return {{.results = std::move(made.result.leaves),
           .exemplar = std::move(made.result.exemplar),
           .result_tree = std::move(made.result.tree),
           .gradients = {}},
          LinearMap(std::move(impl))};
}

std::pair<Differentiated, LinearMap> call_linear_transpose(const CallArguments& arguments,
                                                           const TracedFunction& function, SourceLocation where) {
  const Caller caller("linear_transpose", where);
  auto impl = std::make_shared<LinearMap::Impl>();
  impl->name = "linear_transpose";
  impl->arguments = arguments.leaves;
  impl->flags = differentiable(arguments.leaves);
  const auto tape = std::make_shared<Tape>(impl->name);
  Leaves tangents;
  for (std::size_t i = 0; i < arguments.leaves.size(); ++i) {
    const Type& type = impl_of(arguments.leaves[i], "an argument").type;
    if (!impl->flags[i]) {
      throw misuse<TypeMismatch>("argument {} is {}, and only functions of floats and complex numbers are transposed",
                                 i, user_string(type));
    }
    tangents.push_back(tape->tangent_alone(type));
  }
  TracedResult made;
  {
    const Layer::Running running(tape);
    const Caller::Pause pause;
    made = function(tangents);
  }
  check_values(made.leaves, made.tree, "result");
  for (Array& result : made.leaves) {
    impl->results.push_back(result);
    if (!has_tangents(impl_of(result).type.dtype)) {
      throw misuse<TypeMismatch>("the function returns {}, and only floats and complex numbers are transposed",
                                 user_string(impl_of(result).type));
    }
    if (impl_of(result).tape() != tape.get()) result = Array();
  }
  impl->map = tape->finish_tangents(made.leaves);
  return {{.results = impl->results,
           .exemplar = std::move(made.exemplar),
           .result_tree = std::move(made.tree),
           .gradients = {}},
          LinearMap(std::move(impl))};
}

Differentiated call_jvp(const CallArguments& primals, const CallArguments& tangents, const TracedFunction& function,
                        SourceLocation where) {
  const Caller caller("jvp", where);
  check_values(primals.leaves, primals.tree, "primal ");
  check_values(tangents.leaves, tangents.tree, "tangent ");
  const std::vector<bool> flags = differentiable(primals.leaves);
  Leaves operands = checked(tangents.leaves, types_of(primals.leaves), flags, "tangent");
  Recorded made = record("jvp", primals.leaves, flags, function);
  check_has_forward(*made.map.graph, operands);
  operands.insert(operands.begin(), made.map.residuals.begin(), made.map.residuals.end());
  const Leaves changes = with_zeros(run(made.map.graph, operands), made.map.has_tangent, made.result.leaves);
  return {.results = std::move(made.result.leaves),
          .exemplar = std::move(made.result.exemplar),
          .result_tree = std::move(made.result.tree),
          .gradients = changes};
}

Differentiated call_value_and_grad(std::string_view name, const GradOptions& options, const CallArguments& arguments,
                                   const std::vector<bool>& wanted, const TracedFunction& function,
                                   SourceLocation where) {
  const Caller caller(name, where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const std::vector<std::string> paths = arguments.tree.leaf_paths();
  std::vector<bool> flags = wanted;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!wanted[i]) continue;
    const Type& type = impl_of(arguments.leaves[i]).type;
    flags[i] = has_tangents(type.dtype);
    if (options.holomorphic && !is_complex(type.dtype)) {
      throw misuse<TypeMismatch>("argument {} is {}: with holomorphic, what is differentiated by must be complex",
                                 paths[i], user_string(type));
    }
    if (!flags[i] && !options.allow_int) {
      throw misuse<TypeMismatch>(
          "argument {} is {}, and only floats and complex numbers can be differentiated by; convert it, or set "
          "allow_int, which gives zeros",
          paths[i], user_string(type));
    }
  }
  Recorded made = record(name, arguments.leaves, flags, function, 1);
  if (made.result.leaves.empty()) throw misuse<TypeMismatch>("the function returns no array");
  const Type& value = impl_of(made.result.leaves[0]).type;
  if (value.rank() != 0) {
    throw misuse<TypeMismatch>("the function returns {}, and only scalars have gradients; sum it, or use vjp",
                               user_string(value));
  }
  if (options.holomorphic ? !is_complex(value.dtype) : !is_floating(value.dtype)) {
    throw misuse<TypeMismatch>("the function returns {}, and should return a {} scalar{}", user_string(value),
                               options.holomorphic ? "complex" : "real",
                               is_complex(value.dtype) ? "; set holomorphic if it has a complex derivative" : "");
  }
  Leaves gradients;
  if (made.map.has_tangent[0]) {
    Graph graph = gradient_graph(made.map);
    Leaves operands = made.map.residuals;
    lie_as_arguments(graph, made.arguments, operands);
    gradients = run(std::make_shared<const Graph>(std::move(graph)), operands);
  } else {
    for (const Array& argument : made.arguments) gradients.push_back(zeros_like(argument));
  }
  Differentiated all{.results = std::move(made.result.leaves),
                     .exemplar = std::move(made.result.exemplar),
                     .result_tree = std::move(made.result.tree),
                     .gradients = {}};
  std::size_t next = 0;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (wanted[i]) all.gradients.push_back(flags[i] ? gradients[next++] : zeros_like(arguments.leaves[i]));
  }
  return all;
}

std::vector<Array> call_checkpoint(const std::vector<std::string>& saves, const CallArguments& arguments,
                                   const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const Caller caller("checkpoint", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  Body body = trace_body("checkpoint", types_of(arguments.leaves), function);
  exemplar = std::move(body.result.exemplar);
  Leaves operands = arguments.leaves;
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const GraphAttr graph{std::make_shared<const Graph>(std::move(body.graph))};
  return shoal::bind("jit", {{"body", graph}, {"name", std::string("checkpoint")}, {"saves", saves}}, operands);
}

Array without_ended_tangents(const Array& array) { return shoal::without_ended_tangents(array); }

}  // namespace detail

Array stop_gradient(const Operand& x) {
  const Caller caller("stop_gradient", x.where());
  const Array array = to_array(x);
  if (Trace::current() == nullptr && !of_layers({&array, 1})) return array;
  return bind_one("stop_gradient", {}, {array});
}

}  // namespace shoal
