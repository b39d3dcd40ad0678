#include "shoal/control_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/out_sharding.h"
#include "frontend/array/promotion.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/body.h"
#include "frontend/transforms/checkpointed_loop.h"
#include "ir/bodies.h"
#include "ir/dim_attrs.h"
#include "ir/explicit_axes.h"
#include "ops/builder.h"
#include "ops/collective.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/ops.h"
#include "shoal/vmap.h"

namespace shoal::detail {
namespace {

// "the carry", or "carry .w[0]".
std::string called(std::string_view what, const std::string& path) {
  return path.empty() ? fmt::format("the {}", what) : fmt::format("{} {}", what, path);
}

// What a function returns.
std::string returned_text(const TreeDef& tree) { return tree.is_leaf() ? "an array" : to_string(tree); }

bool same_but_weak(const Type& a, const Type& b) {
  Type copy = a;
  copy.weak = b.weak;
  return copy == b;
}

// What the user may do about types that differ.
std::string remedy(const Type& came, const Type& went) {
  if (came.dtype != went.dtype) return "; convert one of them with astype";
  const AxisNames more = difference_of(went.varying, came.varying);
  if (came.shape == went.shape && !more.empty()) {
    return fmt::format("; make it vary over '{}' before the loop, by pcast to \"varying\"", more.front());
  }
  return "";
}

// Of these axes those of vmap: users do not see that a value differs along them.
AxisNames of_vmap(AxisNames axes) {
  const AxisEnv manual = Trace::current() == nullptr ? AxisEnv() : Trace::current()->manual_axes();
  std::erase_if(axes, [&](const std::string& axis) { return manual.size_of(axis).has_value(); });
  return axes;
}

// Carries differ between the places of vmap after a trip where they do before, and it is not their types' affair
// whether that no Explicit axis splits them is said or left to the compiler.
auto as_they_came(const std::vector<Type>& types, std::size_t carries) {
  return [&types, carries](std::vector<Array>& leaves) {
    for (std::size_t i = 0; i < std::min(carries, leaves.size()); ++i) {
      leaves[i] = varying_over(leaves[i], of_vmap(types[i].varying));
      const Type& went = impl_of(leaves[i]).type;
      if (went.explicit_axes == types[i].explicit_axes || !is_unsplit(went) || !is_unsplit(types[i])) continue;
      if (const Shared<ExplicitAxes>& axes = types[i].explicit_axes) {
        const NamedSharding whole(axes->mesh, P(), {}, Caller::line());
        leaves[i] = bind_one("sharding_constraint", {{"sharding", whole}}, {leaves[i]});
      } else {
        leaves[i] = relaxed(leaves[i]);
      }
    }
  };
}

// Whether carries that are yielded are of the types they came as. Where one came weakly typed and goes as a dtype that
// it is promoted to, or goes differing between the places of vmap, it has to come as that: `types` is changed, and the
// body is to be traced again.
bool settle_carries(const TreeDef& tree, const TreeDef& returned, std::vector<Type>& types,
                    const std::vector<Array>& leaves) {
  if (tree != returned) {
    const std::string_view structure = returned.is_leaf() ? "" : "of the structure ";
    throw misuse<TypeMismatch>("the body returns a carry {}{}, but it came as {}", structure,
                               returned.is_leaf() ? "that is an array" : to_string(returned), returned_text(tree));
  }
  const std::vector<std::string> paths = tree.leaf_paths();
  bool settled = true;
  std::optional<std::size_t> differs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Type& went = impl_of(leaves[i]).type;
    if (same_but_weak(went, types[i])) continue;
    if (const AxisNames more = of_vmap(difference_of(went.varying, types[i].varying)); !more.empty()) {
      types[i].varying = union_of(types[i].varying, more);
      settled = false;
      continue;
    }
    Type typed = types[i];
    typed.dtype = went.dtype;
    const auto promoted = promote_types({types[i].dtype, types[i].weak}, {went.dtype, went.weak});
    if (types[i].weak && types[i].dtype != went.dtype && promoted.dtype == went.dtype && same_but_weak(typed, went)) {
      types[i] = went;
      types[i].weak = false;
      settled = false;
      continue;
    }
    if (!differs) differs = i;
  }
  // One that is made of another may fit once that comes as another type.
  if (differs && settled) {
    const Type& went = impl_of(leaves[*differs]).type;
    throw misuse<TypeMismatch>("the body returns {} as {}, but it came as {}: a carry keeps its type{}",
                               called("carry", paths[*differs]), user_string(went), user_string(types[*differs]),
                               remedy(types[*differs], went));
  }
  return settled;
}

// ---- Loops over slices

Type slice_of(const Type& stack, const std::string& path) {
  const auto& axes = stack.explicit_axes;
  if (axes && !axes->dims[0].empty()) {
    throw misuse<ShardingTypeError>(
        "{} {} is split over the Explicit axis '{}' along its first dimension, of which each trip gets a slice; "
        "reshard "
        "it first",
        called("xs", path), user_string(stack), axes->dims[0].front());
  }
  return without_dim(stack, 0);
}

std::int64_t trips_of(std::span<const Array> xs, const TreeDef& tree, std::optional<std::int64_t> length) {
  const std::vector<std::string> paths = tree.leaf_paths();
  std::optional<std::int64_t> trips = length;
  std::string what = "length";
  if (length && *length < 0) throw misuse<InvalidArgument>("length is {}; it must be at least 0", *length);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Type& type = impl_of(xs[i]).type;
    if (type.rank() == 0) {
      throw misuse<InvalidArgument>("{} is the scalar {}; each trip gets a slice along the first dimension",
                                    called("xs", paths[i]), user_string(type));
    }
    if (trips && *trips != type.shape[0]) {
      throw misuse<InvalidArgument>("{} {} has {} slices along its first dimension, but {} is for {}",
                                    called("xs", paths[i]), user_string(type), type.shape[0], what, *trips);
    }
    if (!trips) what = called("xs", paths[i]);
    trips = type.shape[0];
  }
  if (!trips) {
    throw misuse<InvalidArgument>("there are no xs, and no length: say how many trips there are by length");
  }
  return *trips;
}

// So many trips of a body as one, on blocks of slices.
Graph repeated(const Graph& body, std::size_t carries, std::size_t slices, std::int64_t times, bool reverse) {
  Graph result;
  result.name = body.name;
  result.axes = body.axes;
  std::vector<ValueId> arguments;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    Type type = body.type(body.inputs[i]);
    if (i >= carries && i < carries + slices) type = with_dim(std::move(type), 0, times);
    arguments.push_back(result.add_input(std::move(type)));
  }
  const std::vector<ValueId> blocks = arguments;
  Builder build(result, Caller::line());
  std::vector<std::vector<ValueId>> stacks(body.outputs.size() - carries,
                                           std::vector<ValueId>(static_cast<std::size_t>(times)));
  for (std::int64_t trip = 0; trip < times; ++trip) {
    const std::int64_t at = reverse ? times - 1 - trip : trip;
    for (std::size_t i = carries; i < carries + slices; ++i) {
      const Shape shape = result.type(blocks[i]).shape;
      Dims starts(shape.size(), 0);
      Dims limits = shape;
      starts[0] = at;
      limits[0] = at + 1;
      const ValueId slice = build.slice(blocks[i], starts, limits, Dims(shape.size(), 1));
      arguments[i] = build.reshape(slice, Shape(shape.begin() + 1, shape.end()));
    }
    const std::vector<ValueId> yields = inline_graph(result, body, arguments);
    std::copy_n(yields.begin(), carries, arguments.begin());
    for (std::size_t k = 0; k < stacks.size(); ++k) {
      const ValueId y = yields[carries + k];
      Shape one = result.type(y).shape;
      one.insert(one.begin(), 1);
      stacks[k][static_cast<std::size_t>(at)] = build.reshape(y, one);
    }
  }
  result.outputs.assign(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(carries));
  for (std::vector<ValueId>& stack : stacks) result.outputs.push_back(build.concatenate(std::move(stack), 0));
  return result;
}

struct Loop {
  std::size_t carries;
  std::size_t slices;
  std::int64_t trips;
  bool reverse = false;
};

std::vector<Array> bind_scan(Graph body, const Loop& loop, const std::vector<Array>& operands) {
  return bind("scan",
              {{"bodies", std::vector<GraphAttr>{{std::make_shared<const Graph>(std::move(body))}}},
               {"carries", static_cast<std::int64_t>(loop.carries)},
               {"slices", static_cast<std::int64_t>(loop.slices)},
               {"length", loop.trips},
               {"reverse", loop.reverse}},
              operands);
}

// The trips that fill blocks of `unroll` in one loop, and those that are left in another one before or after it.
std::vector<Array> bind_unrolled(const Graph& body, const Loop& loop, std::int64_t unroll,
                                 const std::vector<Array>& operands) {
  const std::int64_t blocks = loop.trips / unroll;
  const std::int64_t in_blocks = blocks * unroll;
  const auto part = [&](std::int64_t first, std::int64_t count, bool blocked) {
    std::vector<Array> taken = operands;
    for (std::size_t i = loop.carries; i < loop.carries + loop.slices; ++i) {
      Array x = lax::slice_in_dim(operands[i], first, first + count, 1, 0);
      Shape shape = x.shape();
      if (blocked) {
        shape[0] = unroll;
        shape.insert(shape.begin(), blocks);
        x = reshape(x, shape);
      }
      taken[i] = x;
    }
    return taken;
  };
  // In reverse order what is left over comes at the end all the same: its slices are the first ones then.
  const std::int64_t first = loop.reverse ? loop.trips - in_blocks : 0;
  Loop blocked = loop;
  blocked.trips = blocks;
  std::vector<Array> results =
      bind_scan(repeated(body, loop.carries, loop.slices, unroll, loop.reverse), blocked, part(first, in_blocks, true));
  for (std::size_t k = loop.carries; k < results.size(); ++k) {
    Shape shape = results[k].shape();
    shape.erase(shape.begin());
    shape[0] = in_blocks;
    results[k] = reshape(results[k], shape);
  }
  // Joining the results of trips loses that they are weakly typed.
  const auto as_yielded = [&](std::vector<Array> all) {
    for (std::size_t k = loop.carries; k < all.size(); ++k) {
      const Type& type = body.type(body.outputs[k]);
      if (type.weak) all[k] = convert(all[k], type.dtype, true);
    }
    return all;
  };
  if (in_blocks == loop.trips) return as_yielded(std::move(results));
  std::vector<Array> left = part(loop.reverse ? 0 : in_blocks, loop.trips - in_blocks, false);
  std::copy_n(results.begin(), loop.carries, left.begin());
  Loop rest = loop;
  rest.trips = loop.trips - in_blocks;
  std::vector<Array> others = bind_scan(body, rest, left);
  for (std::size_t k = loop.carries; k < results.size(); ++k) {
    others[k] = loop.reverse ? concatenate({others[k], results[k]}) : concatenate({results[k], others[k]});
  }
  return as_yielded(std::move(others));
}

// Whether a body makes the devices that a predicate tells apart wait for each other.
void check_predicate(const Type& predicate, std::span<Body* const> bodies) {
  const AxisNames apart = difference_of(predicate.varying, of_vmap(predicate.varying));
  for (const Body* body : bodies) {
    for_each_eqn(body->graph, [&](const Eqn& eqn) {
      if (eqn.op->op_class != OpClass::kCollective || eqn.op->collective->stays) return;
      for (const std::string& axis : eqn.attrs.get<std::vector<std::string>>("axes")) {
        if (!std::ranges::binary_search(apart, axis)) continue;
        throw misuse<InvalidArgument>(
            "the predicate {} differs between the devices along '{}', and {} in the body is between them: some would "
            "wait for others that never come. Make the predicate equal on all, with lax::pmax or lax::psum",
            user_string(predicate), axis, user_name(eqn));
      }
    });
  }
}

}  // namespace

std::vector<Array> call_scan(const lax::ScanOptions& options, const CallArguments& arguments,
                             const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const Caller caller("scan", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const TreeDef& carry = arguments.tree.children[0].tree;
  const TreeDef& xs = arguments.tree.children[1].tree;
  const std::size_t carries = carry.num_leaves();
  const std::span<const Array> stacks = std::span(arguments.leaves).subspan(carries);
  Loop loop{.carries = carries,
            .slices = stacks.size(),
            .trips = trips_of(stacks, xs, options.length),
            .reverse = options.reverse};
  if (options.unroll < 1) throw misuse<InvalidArgument>("unroll is {}; it must be at least 1", options.unroll);
  std::vector<Type> types = types_of(std::span(arguments.leaves).first(carries));
  const std::vector<std::string> paths = xs.leaf_paths();
  for (std::size_t i = 0; i < stacks.size(); ++i) types.push_back(slice_of(impl_of(stacks[i]).type, paths[i]));
  Body body;
  for (bool settled = false; !settled;) {
    body = trace_body("scan", types, function, as_they_came(types, carries));
    if (body.result.tree.children.size() != 2) {
      throw misuse<TypeMismatch>("the body returns {}, and should return a pair of carry and y",
                                 returned_text(body.result.tree));
    }
    settled = settle_carries(carry, body.result.tree.children[0].tree, types, body.result.leaves);
  }
  exemplar = std::move(body.result.exemplar);
  std::vector<Array> operands = as_types(arguments.leaves, [&] {
    std::vector<Type> wanted = types;
    for (std::size_t i = carries; i < wanted.size(); ++i) wanted[i] = impl_of(arguments.leaves[i]).type;
    return wanted;
  }());
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  const std::int64_t unroll = std::min(options.unroll, std::max<std::int64_t>(1, loop.trips));
  if (unroll > 1) return bind_unrolled(body.graph, loop, unroll, operands);
  return bind_scan(std::move(body.graph), loop, operands);
}

namespace {

// Blocks of slices one after the other, each as a whole, and what is left over.
std::vector<Array> map_blocks(std::int64_t size, std::int64_t trips, const CallArguments& arguments,
                              const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const TracedFunction on_block = [&](const std::vector<Array>& leaves) {
    TracedResult made;
    const TracedFunction noted = [&](const std::vector<Array>& inner) {
      TracedResult result = function(inner);
      made.tree = result.tree;
      return result;
    };
    made.leaves = call_vmap({}, {leaves, arguments.tree, arguments.statics}, noted, made.exemplar, where);
    return made;
  };
  const std::int64_t blocks = trips / size;
  CallArguments first{{}, arguments.tree, arguments.statics};
  std::vector<Array> rest;
  for (const Array& leaf : arguments.leaves) {
    Shape shape = leaf.shape();
    shape[0] = size;
    shape.insert(shape.begin(), blocks);
    first.leaves.push_back(reshape(lax::slice_in_dim(leaf, 0, blocks * size, 1, 0), shape));
    rest.push_back(lax::slice_in_dim(leaf, blocks * size, trips, 1, 0));
  }
  std::vector<Array> results = call_map({}, first, on_block, exemplar, where);
  const std::vector<Array> last = blocks * size < trips ? on_block(rest).leaves : std::vector<Array>();
  for (std::size_t i = 0; i < results.size(); ++i) {
    Shape shape = results[i].shape();
    shape.erase(shape.begin());
    shape[0] = blocks * size;
    results[i] = reshape(results[i], shape);
    if (!last.empty()) results[i] = concatenate({results[i], last[i]});
  }
  return results;
}

}  // namespace

std::vector<Array> call_map(std::optional<std::int64_t> batch_size, const CallArguments& arguments,
                            const TracedFunction& function, std::any& exemplar, SourceLocation where) {
  const Caller caller("map", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const TreeDef& xs = arguments.tree.children[0].tree;
  const std::vector<std::string> paths = xs.leaf_paths();
  const std::int64_t trips = trips_of(arguments.leaves, xs, std::nullopt);
  if (batch_size) {
    if (*batch_size < 1) throw misuse<InvalidArgument>("batch_size is {}; it must be at least 1", *batch_size);
    const std::int64_t size = std::min(*batch_size, std::max<std::int64_t>(1, trips));
    return map_blocks(size, trips, arguments, function, exemplar, where);
  }
  std::vector<Type> types;
  for (std::size_t i = 0; i < paths.size(); ++i) types.push_back(slice_of(impl_of(arguments.leaves[i]).type, paths[i]));
  Body body = trace_body("map", types, function);
  exemplar = std::move(body.result.exemplar);
  std::vector<Array> operands = arguments.leaves;
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  return bind_scan(std::move(body.graph), {.carries = 0, .slices = types.size(), .trips = trips}, operands);
}

std::vector<Array> call_barrier(const std::vector<Array>& operands, SourceLocation where) {
  const Caller caller("optimization_barrier", where);
  Graph body;
  body.name = "optimization_barrier";
  for (const Array& operand : operands) body.add_input(impl_of(operand).type);
  body.outputs = body.inputs;
  if (operands.empty()) return {};
  return bind("region", {{"bodies", std::vector<GraphAttr>{{std::make_shared<const Graph>(std::move(body))}}}},
              operands);
}

// ---- Loops that ask

namespace {

std::vector<Array> bind_while(Body& question, Body& body, std::vector<Array> carries,
                              std::optional<std::int64_t> max_checkpoints) {
  const Type predicate = question.graph.type(question.graph.outputs[0]);
  Body* const bodies[] = {&question, &body};
  check_predicate(predicate, bodies);
  const std::size_t count = carries.size();
  std::vector<Array> operands = std::move(carries);
  const std::vector<Array> captures = share_captures(bodies);
  operands.insert(operands.end(), captures.begin(), captures.end());
  const CheckpointedLoop loop(graphs_of(bodies), count);
  return max_checkpoints ? loop.differentiable(operands, *max_checkpoints) : loop.run(operands);
}

}  // namespace

std::vector<Array> call_while(const lax::WhileOptions& options, const CallArguments& arguments,
                              const TracedFunction& condition, const TracedFunction& function, std::any& exemplar,
                              SourceLocation where) {
  const Caller caller("while_loop", where);
  check_values(arguments.leaves, arguments.tree, "argument ");
  const TreeDef& carry = arguments.tree.children[0].tree;
  std::vector<Type> types = types_of(arguments.leaves);
  Body body;
  do {
    body = trace_body("while_loop", types, function, as_they_came(types, types.size()));
  } while (!settle_carries(carry, body.result.tree, types, body.result.leaves));
  exemplar = std::move(body.result.exemplar);
  Body question = trace_body("condition", types, condition);
  const std::vector<ValueId>& answers = question.graph.outputs;
  if (!question.result.tree.is_leaf() || question.graph.type(answers[0]).rank() != 0 ||
      question.graph.type(answers[0]).dtype != bool_) {
    throw misuse<TypeMismatch>("the condition returns {}, and should return a bool scalar",
                               question.result.tree.is_leaf() ? user_string(question.graph.type(answers[0]))
                                                              : to_string(question.result.tree));
  }
  return bind_while(question, body, as_types(arguments.leaves, types), options.max_checkpoints);
}

std::vector<Array> call_fori(const lax::ForiOptions& options, const Operand& lower, const Operand& upper,
                             const CallArguments& init, const TracedFunction& function, std::any& exemplar,
                             SourceLocation where) {
  const Caller caller("fori_loop", where);
  check_values(init.leaves, init.tree, "init ");
  if (options.unroll < 1) throw misuse<InvalidArgument>("unroll is {}; it must be at least 1", options.unroll);
  const std::vector<Array> bounds = promote(kIntegers, {&lower, &upper});
  for (const Array& bound : bounds) {
    if (bound.ndim() != 0) {
      throw misuse<TypeMismatch>("a bound is {}, and should be an integer scalar", user_string(impl_of(bound).type));
    }
  }
  CallArguments arguments;
  arguments.leaves = {bounds[0]};
  arguments.leaves.insert(arguments.leaves.end(), init.leaves.begin(), init.leaves.end());
  const TreeDef& carry = init.tree.children[0].tree;
  std::vector<Type> types = types_of(arguments.leaves);
  Body body;
  for (bool settled = false; !settled;) {
    Array next;
    body = trace_body(
        "fori_loop", types,
        [&](const std::vector<Array>& leaves) {
          {
            const Caller counting("fori_loop", where);  // The user's functions are called in no function of ours.
            next = leaves[0] + 1;
          }
          return function(leaves);
        },
        [&](std::vector<Array>& leaves) {
          leaves.insert(leaves.begin(), next);
          as_they_came(types, types.size())(leaves);
        });
    std::vector<Type> own(types.begin() + 1, types.end());
    settled = settle_carries(carry, body.result.tree, own,
                             std::vector<Array>(body.result.leaves.begin() + 1, body.result.leaves.end()));
    std::ranges::copy(own, types.begin() + 1);
  }
  exemplar = std::move(body.result.exemplar);
  std::vector<Array> operands = as_types(arguments.leaves, types);
  std::vector<Array> results;
  const auto number_of = [](const Operand& bound) -> std::optional<std::int64_t> {
    if (bound.number() == nullptr) return std::nullopt;
    return to_scalar(*bound.number(), int64).as<std::int64_t>();
  };
  if (const auto first = number_of(lower), last = number_of(upper); first && last && !options.max_checkpoints) {
    operands.insert(operands.end(), body.captures.begin(), body.captures.end());
    const std::int64_t trips = *last <= *first ? 0 : *last - *first;
    const Loop loop{.carries = types.size(), .slices = 0, .trips = trips};
    const std::int64_t unroll = std::min(options.unroll, std::max<std::int64_t>(1, trips));
    results = unroll > 1 ? bind_unrolled(body.graph, loop, unroll, operands)
                         : bind_scan(std::move(body.graph), loop, operands);
  } else {
    // The bound is a capture of the condition.
    Body question = trace_body("condition", types, [&](const std::vector<Array>& leaves) {
      const Caller asking("fori_loop", where);
      return TracedResult{
          .leaves = {less(leaves[0], bounds[1])}, .tree = {.kind = "leaf", .children = {}}, .exemplar = {}};
    });
    results = bind_while(question, body, std::move(operands), options.max_checkpoints);
  }
  results.erase(results.begin());
  return results;
}

// ---- Branches

namespace {

// By an index, or by a predicate, for which the second branch is.
std::vector<Array> branch(std::string_view name, bool is_predicate, const Operand& index,
                          const CallArguments& arguments, const std::vector<TracedFunction>& branches,
                          std::any& exemplar) {
  const Caller caller(name, index.where());
  check_values(arguments.leaves, arguments.tree, "operand ");
  Array chosen = to_array(index);
  if (chosen.ndim() != 0) {
    throw misuse<TypeMismatch>("{} is {}, and should be a scalar", is_predicate ? "the predicate" : "the index",
                               user_string(impl_of(chosen).type));
  }
  if (!is_predicate && !is_integer(chosen.dtype())) {
    throw misuse<TypeMismatch>("the index is {}, and should be an integer", user_string(impl_of(chosen).type));
  }
  if (branches.empty()) throw misuse<InvalidArgument>("there are no branches; give one or more");
  const Type asked = impl_of(chosen).type;
  if (is_predicate) {
    chosen = convert(truth(chosen), int32);
  } else {
    const auto last = static_cast<std::int64_t>(branches.size()) - 1;
    chosen = convert(clip(chosen, 0, last), int32);
  }
  const std::vector<Type> types = types_of(arguments.leaves);
  std::vector<Body> bodies;
  for (const TracedFunction& branch : branches) bodies.push_back(trace_body(std::string(name), types, branch));
  // Branches may give a weakly typed result where others do not.
  const Body& first = bodies.back();
  const std::vector<std::string> paths = first.result.tree.leaf_paths();
  const auto branch_name = [&](std::size_t b) -> std::string {
    if (is_predicate) return b == 1 ? "the function for true" : "the function for false";
    return fmt::format("branch {}", b);
  };
  for (std::size_t b = 0; b < bodies.size(); ++b) {
    if (bodies[b].result.tree != first.result.tree) {
      throw misuse<TypeMismatch>("{} returns {}, but {} returns {}: both must have one structure", branch_name(b),
                                 returned_text(bodies[b].result.tree), branch_name(bodies.size() - 1),
                                 returned_text(first.result.tree));
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      Type is = bodies[b].graph.type(bodies[b].graph.outputs[i]);
      const Type& other = first.graph.type(first.graph.outputs[i]);
      is.varying = other.varying;  // The result differs as any of them does.
      if (same_but_weak(is, other)) continue;
      throw misuse<TypeMismatch>("{} returns {} as {}, but {} as {}: the types must be the same{}", branch_name(b),
                                 called("result", paths[i]),
                                 user_string(bodies[b].graph.type(bodies[b].graph.outputs[i])),
                                 branch_name(bodies.size() - 1), user_string(other), remedy(is, other));
    }
  }
  exemplar = bodies.back().result.exemplar;
  std::vector<Body*> pointers;
  for (Body& body : bodies) pointers.push_back(&body);
  check_predicate(asked, pointers);
  std::vector<Array> operands = {chosen};
  operands.insert(operands.end(), arguments.leaves.begin(), arguments.leaves.end());
  const std::vector<Array> captures = share_captures(pointers);
  operands.insert(operands.end(), captures.begin(), captures.end());
  return bind("switch", {{"bodies", graphs_of(pointers)}}, operands);
}

}  // namespace

std::vector<Array> call_cond(const Operand& predicate, const CallArguments& arguments, const TracedFunction& on_true,
                             const TracedFunction& on_false, std::any& exemplar) {
  return branch("cond", true, predicate, arguments, {on_false, on_true}, exemplar);
}

std::vector<Array> call_switch(const Operand& index, const CallArguments& arguments,
                               const std::vector<TracedFunction>& branches, std::any& exemplar) {
  return branch("switch_", false, index, arguments, branches, exemplar);
}

// ---- Associative scans

namespace {

using Leaves = std::vector<Array>;

// a[0], b[0], a[1], b[1], …; there may be one more of a.
Array interleaved(const Array& a, const Array& b, std::int64_t axis) {
  const std::int64_t pairs = extent_of(b, axis);
  Shape shape = b.shape();
  shape[static_cast<std::size_t>(axis)] *= 2;
  const Array even = lax::slice_in_dim(a, 0, pairs, 1, axis);
  const Array both = reshape(stack({even, b}, axis + 1), shape);
  if (extent_of(a, axis) == pairs) return both;
  return concatenate({both, lax::slice_in_dim(a, pairs, pairs + 1, 1, axis)}, axis);
}

Leaves scanned(const Leaves& elements, std::int64_t axis, const Combine& combine) {
  const std::int64_t n = extent_of(elements[0], axis);
  if (n < 2) return elements;
  // Pairs combined; the scan of these are the odd positions.
  const std::int64_t pairs = n / 2;
  const Leaves reduced = combine(sliced(elements, axis, 0, 2 * pairs, 2), sliced(elements, axis, 1, n, 2));
  const Leaves odd = scanned(reduced, axis, combine);
  Leaves even = sliced(elements, axis, 0, 1, 1);
  if (n > 2) {
    const std::int64_t more = (n - 1) / 2;
    const Leaves rest = combine(sliced(odd, axis, 0, more, 1), sliced(elements, axis, 2, n, 2));
    for (std::size_t i = 0; i < even.size(); ++i) even[i] = concatenate({even[i], rest[i]}, axis);
  }
  Leaves result;
  for (std::size_t i = 0; i < even.size(); ++i) result.push_back(interleaved(even[i], odd[i], axis));
  return result;
}

}  // namespace

std::vector<Array> call_associative_scan(const lax::AssociativeScanOptions& options, const CallArguments& elements,
                                         const Combine& combine, SourceLocation where) {
  const Caller caller("associative_scan", where);
  check_values(elements.leaves, elements.tree, "elements ");
  const std::vector<std::string> paths = elements.tree.children[0].tree.leaf_paths();
  if (elements.leaves.empty()) return {};
  std::int64_t axis = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Array& leaf = elements.leaves[i];
    const std::int64_t own = canonical_axis(options.axis, leaf.ndim());
    if (i == 0) axis = own;
    if (own != axis || extent_of(leaf, axis) != extent_of(elements.leaves[0], axis)) {
      throw misuse<InvalidArgument>("{} is {}, but {} is {}: all must have one extent along axis {}",
                                    called("element", paths[i]), user_string(impl_of(leaf).type),
                                    called("element", paths[0]), user_string(impl_of(elements.leaves[0]).type),
                                    options.axis);
    }
  }
  const Combine checked = [&](const Leaves& a, const Leaves& b) {
    Leaves made;
    {
      const Caller::Pause pause;
      made = combine(a, b);
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Type& is = impl_of(made[i]).type;
      const Type& wanted = impl_of(a[i]).type;
      if (is.shape == wanted.shape && is.dtype == wanted.dtype) continue;
      throw misuse<TypeMismatch>("the function returns {} as {}, and should return {}", called("element", paths[i]),
                                 user_string(is), user_string(wanted));
    }
    return made;
  };
  const auto flipped = [&](Leaves leaves) {
    for (Array& leaf : leaves) leaf = flip(leaf, static_cast<int>(axis));
    return leaves;
  };
  if (!options.reverse) return scanned(elements.leaves, axis, checked);
  return flipped(scanned(flipped(elements.leaves), axis, checked));
}

}  // namespace shoal::detail
