#include "shoal/derivatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/check.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/body.h"
#include "frontend/transforms/changes.h"
#include "frontend/transforms/pull_back.h"
#include "ir/bodies.h"
#include "ir/graph_digest.h"
#include "ops/builder.h"
#include "ops/derivatives.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/vmap.h"
#include "transform/strong_zeros.h"
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
                const TracedFunction& function, Tape::Direction direction, std::optional<std::size_t> num_mapped = {}) {
  const auto tape = std::make_shared<Tape>(std::string(name), direction);
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

// Throws TypeMismatch for a map at tangents that has rules for the reverse alone. A rule of the user's that is asked
// for tangents may use such a map: whoever asks it may want the reverse.
void check_has_forward(const TangentMap& map, const Leaves& tangents) {
  if (has_tangents_alone(tangents)) return;
  const bool has_not = !map.cuts.empty() || any_eqn(*map.graph, [](const Eqn& eqn) {
    return eqn.attrs.contains("transposed") && !eqn.attrs.contains("body");
  });
  if (has_not) {
    throw misuse<TypeMismatch>(
        "a function with custom_vjp has a derivative in reverse alone, which jvp, linearize and jacfwd do not take; "
        "give it its derivative by custom_jvp");
  }
}

// Which of the arguments that are wanted have tangents.
std::vector<bool> differentiated_by(const GradOptions& options, const CallArguments& arguments,
                                    const std::vector<bool>& wanted) {
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
  return flags;
}

// The map in reverse, at a cotangent of 1 of its only result.
Graph gradient_graph(const TangentMap& map) {
  const Graph reverse = transpose(*map.graph, map.residuals.size(), map.unchecked, map.strong_zeros);
  Graph graph;
  graph.name = map.graph->name;
  graph.axes = map.graph->axes;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < map.residuals.size(); ++i) {
    values.push_back(graph.add_input(reverse.type(reverse.inputs[i])));
  }
  Builder build(graph, Caller::line());
  const Type& value = reverse.type(reverse.inputs.back());
  ValueId one = build.with_weakness(build.constant(1, value.dtype), value.weak);
  one = build.summed_as(build.split_as(one, value), value);
  const AxisNames differ = difference_of(value.varying, build.type(one).varying);
  values.push_back(differ.empty() ? one : build.pvary(one, differ));
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

// `made` for those of `flags`, for others, and where `made` is empty, the zero that belongs to each of `arrays`.
Leaves with_zeros(const Leaves& made, const std::vector<bool>& flags, const Leaves& arrays,
                  Array (*zero_of)(const Array&)) {
  Leaves all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    Array one = flags[i] ? made[next++] : Array();
    all.push_back(Access::is_empty(one) ? zero_of(arrays[i]) : std::move(one));
  }
  return all;
}

// A cotangent of 1, of a value of this type.
Array one_of(const Type& type) {
  const Scalar one = Scalar::of(1).converted_to(type.dtype);
  return summed_as(bind_one("full", {{"shape", type.shape}, {"value", one}, {"weak", type.weak}}, {}),
                   cotangent_type(type));
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

namespace {

// The map forward, which it is by its graph alone unless zeros shall stay zeros. A map with cuts is one in reverse.
Leaves pushed_forward(const TangentMap& map, const Leaves& operands) {
  if (!map.strong_zeros || !map.cuts.empty()) return push_forward_map(map, operands);
  TangentMap shielded = map;
  shielded.graph = std::make_shared<const Graph>(with_strong_zeros(*map.graph, map.residuals.size()));
  return push_forward_map(shielded, operands);
}

}  // namespace

Leaves LinearMap::push_forward(const Leaves& tangents, SourceLocation where) const {
  const Caller caller(impl_->name, where);
  check_has_forward(impl_->map, tangents);
  Leaves operands = impl_->map.residuals;
  for (Array& one : checked(tangents, types_of(impl_->arguments), impl_->flags, "tangent")) {
    operands.push_back(std::move(one));
  }
  return with_zeros(pushed_forward(impl_->map, operands), impl_->map.has_tangent, impl_->results, zeros_like);
}

Leaves LinearMap::pull_back(const Leaves& cotangents, SourceLocation where) const {
  const Caller caller(impl_->name, where);
  Leaves given = checked(cotangents, cotangent_types(types_of(impl_->results)), impl_->map.has_tangent, "cotangent");
  Leaves differentiated;
  for (std::size_t i = 0; i < impl_->flags.size(); ++i) {
    if (impl_->flags[i]) differentiated.push_back(impl_->arguments[i]);
  }
  if (!impl_->map.cuts.empty()) {
    return with_zeros(pull_back_in_parts(impl_->map, differentiated, given), impl_->flags, impl_->arguments,
                      zero_cotangent_of);
  }
  Leaves operands = impl_->map.residuals;
  operands.insert(operands.end(), given.begin(), given.end());
  GraphPtr reverse;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->reverse == nullptr) {
      Graph graph =
          transpose(*impl_->map.graph, impl_->map.residuals.size(), impl_->map.unchecked, impl_->map.strong_zeros);
      for (std::size_t i = 0; i < differentiated.size(); ++i) {
        lie_as_argument(graph, i, differentiated[i], impl_->further_operands);
      }
      impl_->reverse = std::make_shared<const Graph>(std::move(graph));
    }
    reverse = impl_->reverse;
  }
  operands.insert(operands.end(), impl_->further_operands.begin(), impl_->further_operands.end());
  return with_zeros(run_graph(reverse, operands), impl_->flags, impl_->arguments, zero_cotangent_of);
}

const Leaves& LinearMap::residuals() const { return impl_->map.residuals; }

Leaves LinearMap::arrays() const {
  Leaves all = impl_->map.residuals;
  for (const Leaves* more : {&impl_->arguments, &impl_->results}) all.insert(all.end(), more->begin(), more->end());
  return all;
}

LinearMap LinearMap::with_arrays(const Leaves& arrays) const {
  if (!impl_->map.cuts.empty()) {
    throw misuse<Unsupported>(
        "this function calls a derivative that the user's program gives, outside of jit; it cannot be an argument or "
        "result of a jitted function: differentiate inside of it");
  }
  SHOAL_CHECK(arrays.size() == this->arrays().size(), "a linear function has as many arrays as before");
  auto impl = std::make_shared<Impl>();
  impl->name = impl_->name;
  impl->map = impl_->map;
  impl->flags = impl_->flags;
  auto next = arrays.begin();
  const auto take = [&](std::size_t count) {
    return Leaves(std::exchange(next, next + static_cast<std::ptrdiff_t>(count)), next);
  };
  impl->map.residuals = take(impl_->map.residuals.size());
  impl->arguments = take(impl_->arguments.size());
  impl->results = take(impl_->results.size());
  return LinearMap(std::move(impl));
}

LinearMap LinearMap::with_strong_zeros() const {
  auto impl = std::make_shared<Impl>();
  impl->name = impl_->name;
  impl->map = impl_->map;
  impl->map.strong_zeros = true;
  impl->results = impl_->results;
  impl->arguments = impl_->arguments;
  impl->flags = impl_->flags;
  return LinearMap(std::move(impl));
}

bool LinearMap::is_same_function(const LinearMap& other) const {
  if (impl_ == other.impl_) return true;
  const TangentMap& a = impl_->map;
  const TangentMap& b = other.impl_->map;
  const auto mine = kept_digest(*a.graph);
  const auto its = kept_digest(*b.graph);
  return a.cuts.empty() && b.cuts.empty() && mine->digest == its->digest && mine->callbacks == its->callbacks &&
         a.residuals.size() == b.residuals.size() && a.has_tangent == b.has_tangent && a.unchecked == b.unchecked &&
         a.strong_zeros == b.strong_zeros && impl_->name == other.impl_->name && impl_->flags == other.impl_->flags;
}

std::size_t LinearMap::hash() const { return static_cast<std::size_t>(kept_digest(*impl_->map.graph)->digest[0]); }

std::pair<Differentiated, LinearMap> call_linearize(std::string_view name, const CallArguments& arguments,
                                                    const TracedFunction& function, SourceLocation where) {
  const Caller caller(name, where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  auto impl = std::make_shared<LinearMap::Impl>();
  impl->name = name;
  impl->arguments = arguments.leaves;
  impl->flags = differentiable(arguments.leaves);
  Recorded made = record(name, arguments.leaves, impl->flags, function, Tape::Direction::kReverse);
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
  const auto tape = std::make_shared<Tape>(impl->name, Tape::Direction::kReverse);
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
                        SourceLocation where, bool strong_zeros) {
  const Caller caller("jvp", where);
  check_values(primals.leaves, primals.tree, "primal ");
  check_values(tangents.leaves, tangents.tree, "tangent ");
  const std::vector<bool> flags = differentiable(primals.leaves);
  Leaves operands = checked(tangents.leaves, types_of(primals.leaves), flags, "tangent");
  Recorded made = record("jvp", primals.leaves, flags, function, Tape::Direction::kForward);
  check_has_forward(made.map, operands);
  made.map.strong_zeros = strong_zeros;
  operands.insert(operands.begin(), made.map.residuals.begin(), made.map.residuals.end());
  const Leaves changes =
      with_zeros(pushed_forward(made.map, operands), made.map.has_tangent, made.result.leaves, zeros_like);
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
  const std::vector<bool> flags = differentiated_by(options, arguments, wanted);
  Recorded made = record(name, arguments.leaves, flags, function, Tape::Direction::kReverse, 1);
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
  made.map.strong_zeros = options.strong_zeros;
  Leaves gradients(made.arguments.size());
  if (made.map.has_tangent[0] && !made.map.cuts.empty()) {
    gradients = pull_back_in_parts(made.map, made.arguments, {one_of(value)});
  } else if (made.map.has_tangent[0]) {
    Graph graph = gradient_graph(made.map);
    Leaves operands = made.map.residuals;
    for (std::size_t i = 0; i < made.arguments.size(); ++i) {
      lie_as_argument(graph, i, made.arguments[i], operands);
    }
    gradients = run_graph(std::make_shared<const Graph>(std::move(graph)), operands);
  }
  Differentiated all{.results = std::move(made.result.leaves),
                     .exemplar = std::move(made.result.exemplar),
                     .result_tree = std::move(made.result.tree),
                     .gradients = {}};
  Leaves by;  // What is wanted.
  std::vector<bool> has_gradient;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!wanted[i]) continue;
    by.push_back(arguments.leaves[i]);
    has_gradient.push_back(flags[i]);
  }
  all.gradients = with_zeros(gradients, has_gradient, by, zero_cotangent_of);
  return all;
}

namespace {

// The unit vectors of the space of some arrays, stacked: for each array its part of all of them.
Leaves unit_vectors(const Leaves& arrays) {
  std::int64_t total = 0;
  for (const Array& array : arrays) total += array.size();
  Leaves units;
  std::int64_t start = 0;
  for (const Array& array : arrays) {
    Shape shape = array.shape();
    shape.insert(shape.begin(), total);
    units.push_back(reshape(eye(total, {.m = array.size(), .k = -start, .dtype = array.dtype()}), shape));
    start += array.size();
  }
  return units;
}

// The part of what is mapped along unit vectors, along `dim`, that belongs to each array, with its dimensions there.
Leaves parts_of(const Array& mapped, const Leaves& arrays, std::int64_t dim) {
  Leaves parts;
  std::int64_t start = 0;
  for (const Array& array : arrays) {
    const Array part = lax::slice_in_dim(mapped, start, start + array.size(), 1, dim);
    Shape shape = part.shape();
    const auto at = shape.erase(shape.begin() + dim);
    shape.insert(at, array.shape().begin(), array.shape().end());
    parts.push_back(reshape(part, shape));
    start += array.size();
  }
  return parts;
}

void check_result_of_jacobian(const Differentiated& made, Direction direction, bool holomorphic) {
  for (std::size_t i = 0; i < made.results.size(); ++i) {
    const Type& type = impl_of(made.results[i]).type;
    const bool may_be_complex = holomorphic || direction == Direction::kForward;
    if (is_complex(type.dtype) ? may_be_complex : is_floating(type.dtype) && !holomorphic) continue;
    throw misuse<TypeMismatch>("result{} is {}, and should be {}{}", made.result_tree.leaf_paths()[i],
                               user_string(type), holomorphic ? "complex" : "real",
                               is_complex(type.dtype) ? "; set holomorphic if it has a complex derivative" : "");
  }
}

}  // namespace

Jacobian call_jacobian(std::string_view name, Direction direction, const GradOptions& options,
                       const CallArguments& arguments, const std::vector<bool>& wanted, const TracedFunction& function,
                       SourceLocation where) {
  const Caller caller(name, where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const std::vector<bool> flags = differentiated_by(options, arguments, wanted);
  const bool is_forward = direction == Direction::kForward;
  Leaves chosen;  // By which is differentiated.
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) chosen.push_back(arguments.leaves[i]);
    if (!flags[i] || !is_forward || options.holomorphic || !is_complex(arguments.leaves[i].dtype())) continue;
    throw misuse<TypeMismatch>(
        "argument {} is {}, and should be real; set holomorphic if the function has a complex derivative",
        arguments.tree.leaf_paths()[i], user_string(impl_of(arguments.leaves[i]).type));
  }
  const TracedFunction of_chosen = [&](const Leaves& leaves) {
    Leaves all = arguments.leaves;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (flags[i]) all[i] = leaves[next++];
    }
    return function(all);
  };
  auto [made, map] = call_linearize(name, flatten_arguments(std::tuple<Leaves>(chosen)), of_chosen, where);
  check_result_of_jacobian(made, direction, options.holomorphic);
  const LinearMap linear = options.strong_zeros ? map.with_strong_zeros() : map;
  // For each result what belongs to each of the chosen.
  std::vector<Leaves> rows(made.results.size());
  if (chosen.empty()) {
    // All blocks are zeros.
  } else if (is_forward) {
    const auto columns = [&](const Leaves& tangents) { return linear.push_forward(tangents, where); };
    const Leaves mapped = vmap(columns, {.out_axes = -1}, where)(unit_vectors(chosen));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = parts_of(mapped[i], chosen, static_cast<std::int64_t>(mapped[i].ndim()) - 1);
    }
  } else {
    const auto pull = [&](const Leaves& cotangents) { return linear.pull_back(cotangents, where); };
    for (const Array& mapped : vmap(pull, {}, where)(unit_vectors(made.results))) {
      const Leaves parts = parts_of(mapped, made.results, 0);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(parts[i]);
    }
  }
  Jacobian jacobian{.made = std::move(made), .blocks = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < flags.size(); ++k) {
      if (!wanted[k]) continue;
      if (flags[k]) {
        jacobian.blocks.push_back(rows[i][next++]);
        continue;
      }
      Shape shape = jacobian.made.results[i].shape();
      const Array& argument = arguments.leaves[k];
      shape.insert(shape.end(), argument.shape().begin(), argument.shape().end());
      jacobian.blocks.push_back(zeros(shape, {.dtype = argument.dtype()}));
    }
  }
  return jacobian;
}

Array without_ended_tangents(const Array& array) { return shoal::without_ended_tangents(array); }

}  // namespace detail

}  // namespace shoal
