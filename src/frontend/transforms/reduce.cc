#include "shoal/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <memory>
#include <string>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "frontend/functions/windows.h"
#include "frontend/transforms/body.h"
#include "ir/bodies.h"
#include "ops/builder.h"
#include "ops/collective.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/inline_calls.h"
#include "passes/simplify.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"

namespace shoal::detail {
namespace {

using Arrays = std::vector<Array>;

// A function of scalars, which does to arrays of one shape what it does to their elements.
class ElementFunction {
 public:
  explicit ElementFunction(Body body)
      : graph_(dce(cse(simplify(inline_calls(body.graph))))), captures_(std::move(body.captures)) {
    std::vector<bool> depends(graph_.values.size(), false);
    for (std::size_t i = 0; i < num_arguments(); ++i) depends[slot(graph_.inputs[i])] = true;
    check(graph_, depends);
  }

  // The results for x and y, which are the first and the second half of the arguments.
  Arrays operator()(const Arrays& x, const Arrays& y) const {
    Arrays arguments = x;
    arguments.insert(arguments.end(), y.begin(), y.end());
    arguments.insert(arguments.end(), captures_.begin(), captures_.end());
    Arrays results = run(graph_, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = broadcast(results[i], x[i].shape());
    }
    return results;
  }

  // What a function of two elements reduces by, if the library knows it.
  std::optional<ReduceKind> kind() const {
    if (num_arguments() != 2 || graph_.eqns.size() != 1 || graph_.outputs != graph_.eqns[0].outputs) return {};
    const Eqn& eqn = graph_.eqns[0];
    const bool takes_both = eqn.inputs == std::vector{graph_.inputs[0], graph_.inputs[1]} ||
                            eqn.inputs == std::vector{graph_.inputs[1], graph_.inputs[0]};
    for (const ReduceKind kind :
         {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kAnd, ReduceKind::kOr}) {
      if (takes_both && eqn.op == &combining_op(kind)) return kind;
    }
    return {};
  }

 private:
  std::size_t num_arguments() const { return graph_.inputs.size() - captures_.size(); }

  static bool is_branch(const Eqn& eqn) {
    return eqn.op->op_class == OpClass::kControl && !eqn.op->control(eqn.attrs).loops;
  }

  // Whether each element of what depends on arguments depends on theirs in the same place.
  static void check(const Graph& graph, std::vector<bool>& depends) {
    for (const Eqn& eqn : graph.eqns) {
      const bool given = std::ranges::any_of(eqn.inputs, [&](ValueId in) { return depends[slot(in)]; });
      for (const ValueId out : eqn.outputs) depends[slot(out)] = given;
      const bool is_scalar = std::ranges::all_of(eqn.outputs, [&](ValueId out) { return graph.type(out).rank() == 0; });
      if (!given && !has_effect(eqn)) continue;
      if (given && is_scalar && eqn.op->elementwise != nullptr) continue;
      if (given && is_scalar && is_branch(eqn)) {
        const std::size_t first = eqn.op->control(eqn.attrs).first_argument;
        for (const Graph* body : bodies_of(eqn)) {
          std::vector<bool> inside(body->values.size(), false);
          for (std::size_t i = 0; i < body->inputs.size(); ++i) {
            inside[slot(body->inputs[i])] = depends[slot(eqn.inputs[first + i])];
          }
          check(*body, inside);
        }
        continue;
      }
      throw misuse<Unsupported>(
          "computation has {}, but is done to many elements at once: it can have elementwise operations on its "
          "arguments, and branches of them",
          user_name(eqn));
    }
  }

  static Arrays run(const Graph& graph, const Arrays& arguments) {
    std::vector<Array> values(graph.values.size());
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) values[slot(graph.inputs[i])] = arguments[i];
    for (const Eqn& eqn : graph.eqns) {
      Arrays operands;
      for (const ValueId in : eqn.inputs) operands.push_back(values[slot(in)]);
      const Arrays results = is_branch(eqn) && !is_scalar(operands) ? run_branches(eqn, operands)
                                                                    : shoal::bind(*eqn.op, eqn.attrs, operands);
      for (std::size_t i = 0; i < results.size(); ++i) values[slot(eqn.outputs[i])] = results[i];
    }
    Arrays outputs;
    for (const ValueId out : graph.outputs) outputs.push_back(values[slot(out)]);
    return outputs;
  }

  static bool is_scalar(const Arrays& arrays) {
    return std::ranges::all_of(arrays, [](const Array& x) { return x.ndim() == 0; });
  }

  // The results of all branches, of which each element takes its own.
  static Arrays run_branches(const Eqn& eqn, const Arrays& operands) {
    const std::size_t first = eqn.op->control(eqn.attrs).first_argument;
    const Arrays arguments(operands.begin() + static_cast<std::ptrdiff_t>(first), operands.end());
    Arrays chosen;
    int number = 0;
    for (const Graph* body : bodies_of(eqn)) {
      const Arrays results = run(*body, arguments);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (number == 0) {
          chosen.push_back(results[i]);
        } else {
          chosen[i] = where(operands[0] == number, results[i], chosen[i]);
        }
      }
      ++number;
    }
    return chosen;
  }

  Graph graph_;
  Arrays captures_;
};

using Combine = std::function<Arrays(const Arrays& x, const Arrays& y)>;

// The elements along a dimension, which are not none, combined in their order: neighbours, and then neighbours of
// these. What has no neighbour is kept for the end.
Arrays folded(Arrays arrays, std::int64_t dim, const Combine& combine) {
  std::vector<Arrays> left;
  for (std::int64_t n = extent_of(arrays[0], dim); n > 1; n /= 2) {
    if (n % 2 != 0) left.push_back(sliced(arrays, dim, n - 1, n, 1));
    arrays = combine(sliced(arrays, dim, 0, n - n % 2, 2), sliced(arrays, dim, 1, n, 2));
  }
  for (; !left.empty(); left.pop_back()) arrays = combine(arrays, left.back());
  for (Array& x : arrays) x = squeeze(x, Axes(Dims{dim}));
  return arrays;
}

// ---- What is reduced

// Arrays of one shape and as many scalars of their dtypes.
struct Reduced {
  Arrays arrays;
  Arrays inits;

  const Shape& shape() const { return arrays[0].shape(); }
  std::size_t count() const { return arrays.size(); }
};

Array initial_of(const Array& init, const Array& x) {
  if (init.ndim() != 0) {
    throw misuse<ShapeMismatch>("initial values must be scalars, got {}", user_string(impl_of(init).type));
  }
  if (promote_types({x.dtype(), x.weak_type()}, {init.dtype(), init.weak_type()}).dtype != x.dtype()) {
    throw misuse<TypeMismatch>("initial values must have the dtypes of the operands, got {} for {}",
                               user_string(impl_of(init).type), user_string(impl_of(x).type));
  }
  return convert(init, x.dtype(), x.weak_type() && init.weak_type());
}

Reduced checked(const CallArguments& operands, const CallArguments& init_values) {
  check_values(operands.leaves, operands.tree, "operand ");
  check_values(init_values.leaves, init_values.tree, "init_values ");
  const TreeDef& tree = operands.tree.children[0].tree;
  const TreeDef& inits = init_values.tree.children[0].tree;
  if (operands.leaves.empty()) throw misuse<InvalidArgument>("there must be an operand");
  if (tree != inits) {
    throw misuse<ShapeMismatch>("operands must have the same tree structure as init_values, got {} vs. {}",
                                to_string(tree), to_string(inits));
  }
  Reduced reduced{.arrays = operands.leaves, .inits = {}};
  for (std::size_t i = 0; i < reduced.count(); ++i) {
    const Array& x = reduced.arrays[i];
    if (x.shape() != reduced.shape()) {
      throw misuse<InvalidArgument>("operands must have one shape, got {} and {}",
                                    user_string(impl_of(reduced.arrays[0]).type), user_string(impl_of(x).type));
    }
    reduced.inits.push_back(initial_of(init_values.leaves[i], x));
  }
  return reduced;
}

// The computation on two elements each of the operands.
Body computation_of(const std::string& name, const Reduced& reduced, const TracedFunction& computation) {
  std::vector<Type> types;
  for (int half = 0; half < 2; ++half) {
    for (const Array& x : reduced.arrays) {
      Type type = impl_of(x).type;
      type.shape.clear();
      type.weak = false;
      if (type.explicit_axes) type.explicit_axes.edit([](ExplicitAxes& axes) { axes.dims.clear(); });
      types.push_back(std::move(type));
    }
  }
  Body body = trace_body(name + " computation", types, computation);
  if (body.graph.outputs.size() != reduced.count()) {
    throw misuse<ShapeMismatch>("computation gives {} arrays for {}", body.graph.outputs.size(), reduced.count());
  }
  for (std::size_t i = 0; i < reduced.count(); ++i) {
    const Type& is = body.graph.type(body.graph.outputs[i]);
    if (is.rank() == 0 && is.dtype == types[i].dtype) continue;
    throw misuse<TypeMismatch>("computation gives {} for elements of {}; it must keep the type of its arguments",
                               user_string(is), user_string(types[i]));
  }
  return body;
}

// reduce(arrays and initial values) as one program, inside jit and outside.
template <class F>
Arrays as_one(const std::string& name, const Reduced& reduced, F&& reduce) {
  const auto trace = Trace::begin(Trace::Kind::kJit, name);
  Arrays operands = reduced.arrays;
  operands.insert(operands.end(), reduced.inits.begin(), reduced.inits.end());
  Graph graph = trace_graph(trace, [&] {
    Reduced inside;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Array input = trace->add_input(impl_of(operands[i]).type);
      (i < reduced.count() ? inside.arrays : inside.inits).push_back(std::move(input));
    }
    Arrays results = reduce(inside);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool weak = inside.arrays[i].weak_type() && inside.inits[i].weak_type();
      results[i] = convert(results[i], inside.arrays[i].dtype(), weak);
    }
    return results;
  });
  operands.insert(operands.end(), trace->captures().begin(), trace->captures().end());
  return shoal::bind("jit", {{"body", GraphAttr{std::make_shared<const Graph>(std::move(graph))}}, {"name", name}},
                     operands);
}

Arrays strong(Arrays arrays) {
  for (Array& x : arrays) x = convert(x, x.dtype());
  return arrays;
}

Arrays spread(const Arrays& scalars, const Shape& shape) {
  Arrays arrays;
  for (const Array& x : scalars) arrays.push_back(broadcast(x, shape));
  return arrays;
}

// What reduces bool by a kind.
ReduceKind kind_for(ReduceKind kind, Dtype dtype) {
  if (dtype != bool_) return kind;
  const bool any = kind == ReduceKind::kSum || kind == ReduceKind::kMax || kind == ReduceKind::kOr;
  return any ? ReduceKind::kOr : ReduceKind::kAnd;
}

}  // namespace

std::vector<Array> call_reduce(const CallArguments& operands, const CallArguments& init_values,
                               const TracedFunction& computation, const Dims& dimensions, std::any& exemplar,
                               SourceLocation where) {
  const Caller caller("reduce", where);
  const Reduced given = checked(operands, init_values);
  const Dims dims = canonical_axes(Axes(dimensions), given.shape().size());
  Body body = computation_of("reduce", given, computation);
  exemplar = std::move(body.result.exemplar);
  const ElementFunction combine(std::move(body));
  return as_one("reduce", given, [&](const Reduced& reduced) {
    Arrays arrays = strong(reduced.arrays);
    const bool nothing = std::ranges::any_of(dims, [&](std::int64_t dim) { return extent_of(arrays[0], dim) == 0; });
    const std::optional<ReduceKind> kind = combine.kind();
    if (nothing) {
      Shape left;
      for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(arrays[0].ndim()); ++dim) {
        if (!std::ranges::binary_search(dims, dim)) left.push_back(extent_of(arrays[0], dim));
      }
      return spread(strong(reduced.inits), left);
    }
    if (kind) {
      arrays = shoal::bind(reducing_op(kind_for(*kind, arrays[0].dtype())), {{"axes", dims}}, arrays);
    } else {
      // From the last dimension to the first: in row-major order.
      for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim)
        arrays = folded(std::move(arrays), *dim, std::cref(combine));
    }
    return combine(spread(strong(reduced.inits), arrays[0].shape()), arrays);
  });
}

// ---- Windows

namespace {

// How a window moves along one dimension.
struct Move {
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t gap = 1;     // From one element of the window to the next.
  std::int64_t places = 0;  // Of the window.
};

// The elements of each place of a window combined, where a shorter window gives those of a longer one: log2(n) times.
Arrays by_doubling(const Arrays& arrays, std::int64_t dim, const Move& move, const Combine& combine) {
  const std::int64_t span = (move.places - 1) * move.stride + 1;
  Arrays powers = arrays;  // Windows of 1, 2, 4, … elements.
  Arrays result;
  std::int64_t begin = move.window;  // Where those begin that are in the result; the last ones come first.
  for (std::int64_t size = 1;; size *= 2) {
    if ((move.window & size) != 0) {
      begin -= size;
      const Arrays part = sliced(powers, dim, begin * move.gap, begin * move.gap + span, 1);
      result = result.empty() ? part : combine(part, result);
    }
    if (begin == 0) break;
    const std::int64_t extent = extent_of(powers[0], dim);
    powers =
        combine(sliced(powers, dim, 0, extent - size * move.gap, 1), sliced(powers, dim, size * move.gap, extent, 1));
  }
  return sliced(result, dim, 0, span, move.stride);
}

// The same, each of its elements taken from where the places are.
Arrays by_places(const Arrays& arrays, std::int64_t dim, const Move& move, const Combine& combine) {
  std::vector<Arrays> parts;
  for (std::int64_t k = 0; k < move.window; ++k) {
    const std::int64_t first = k * move.gap;
    parts.push_back(sliced(arrays, dim, first, first + (move.places - 1) * move.stride + 1, move.stride));
  }
  while (parts.size() > 1) {
    std::vector<Arrays> pairs;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) pairs.push_back(combine(parts[i], parts[i + 1]));
    if (parts.size() % 2 != 0) pairs.push_back(std::move(parts.back()));
    parts = std::move(pairs);
  }
  return std::move(parts[0]);
}

Arrays along(const Arrays& arrays, std::int64_t dim, const Move& move, const Combine& combine) {
  const auto window = static_cast<std::uint64_t>(move.window);
  const int doublings = static_cast<int>(std::bit_width(window)) + std::popcount(window) - 2;
  const bool doubles = static_cast<double>(doublings) * static_cast<double>(extent_of(arrays[0], dim)) <
                       static_cast<double>(move.window - 1) * static_cast<double>(move.places);
  return doubles ? by_doubling(arrays, dim, move, combine) : by_places(arrays, dim, move, combine);
}

// combine, where the last array says which elements there are: what is not there counts nothing.
Combine of_those_there(const Combine& combine) {
  return [&combine](const Arrays& x, const Arrays& y) {
    const Array& x_is = x.back();
    const Array& y_is = y.back();
    const Array both = logical_and(x_is, y_is);
    const Arrays combined = combine(Arrays(x.begin(), x.end() - 1), Arrays(y.begin(), y.end() - 1));
    Arrays result;
    for (std::size_t i = 0; i < combined.size(); ++i) {
      result.push_back(where(both, combined[i], where(y_is, y[i], x[i])));
    }
    result.push_back(logical_or(x_is, y_is));
    return result;
  };
}

struct Moves {
  Dims window;
  Dims strides;
  Dims base;
  Dims gaps;
  lax::PadPairs padding;
  std::vector<Move> along;

  Moves(const Reduced& reduced, const Dims& given, const lax::ReduceWindowOptions& options) {
    const std::size_t rank = reduced.shape().size();
    if (given.size() != rank) {
      throw misuse<InvalidArgument>("window_dimensions {} must have an entry for each dimension of {}",
                                    to_string(given), user_string(impl_of(reduced.arrays[0]).type));
    }
    window = lax::one_for_each("window_dimensions", given, rank);
    strides = lax::one_for_each("window_strides", options.window_strides, rank);
    base = lax::one_for_each("base_dilation", options.base_dilation, rank);
    gaps = lax::one_for_each("window_dilation", options.window_dilation, rank);
    Dims extents;
    Dims windows;
    for (std::size_t d = 0; d < rank; ++d) {
      extents.push_back(lax::dilated(reduced.shape()[d], base[d]));
      windows.push_back(lax::dilated(window[d], gaps[d]));
    }
    // As JAX does: the gaps between elements do not count there.
    padding = lax::pads_around(options.padding, reduced.shape(), windows, strides);
    for (std::size_t d = 0; d < rank; ++d) {
      const auto [low, high] = padding[d];
      const double padded = static_cast<double>(extents[d]) + static_cast<double>(low) + static_cast<double>(high);
      if (padded > static_cast<double>(lax::kEndless / 4)) {
        throw misuse<InvalidArgument>("dimension {} of {} is too long to count with its padding and dilation", d,
                                      user_string(impl_of(reduced.arrays[0]).type));
      }
      const std::int64_t room = padded < static_cast<double>(windows[d]) ? -1 : extents[d] + low + high - windows[d];
      along.push_back(
          {.window = window[d], .stride = strides[d], .gap = gaps[d], .places = room < 0 ? 0 : room / strides[d] + 1});
    }
  }

  bool pads() const {
    return std::ranges::any_of(padding, [](const auto& pair) { return pair.first > 0 || pair.second > 0; }) ||
           std::ranges::any_of(base, [](std::int64_t dilation) { return dilation > 1; });
  }

  Array padded(const Array& x, const Operand& value) const {
    std::vector<lax::PaddingConfig> around;
    for (std::size_t d = 0; d < padding.size(); ++d) {
      around.push_back({.low = padding[d].first, .high = padding[d].second, .interior = base[d] - 1});
    }
    return lax::pad(x, value, around);
  }
};

}  // namespace

std::vector<Array> call_reduce_window(const CallArguments& operands, const CallArguments& init_values,
                                      const TracedFunction& computation, const Dims& window_dimensions,
                                      const lax::ReduceWindowOptions& options, std::any& exemplar,
                                      SourceLocation where) {
  const Caller caller("reduce_window", where);
  const Reduced given = checked(operands, init_values);
  const Moves moves(given, window_dimensions, options);
  Body body = computation_of("reduce_window", given, computation);
  if (body.result.tree != operands.tree.children[0].tree) {
    throw misuse<ShapeMismatch>("computation gives {}, and must keep the structure of the operands, {}",
                                to_string(body.result.tree), to_string(operands.tree.children[0].tree));
  }
  exemplar = std::move(body.result.exemplar);
  const ElementFunction combine(std::move(body));
  Shape shape;
  for (const Move& move : moves.along) shape.push_back(move.places);
  return as_one("reduce_window", given, [&](const Reduced& reduced) {
    Arrays arrays = strong(reduced.arrays);
    const Arrays inits = spread(strong(reduced.inits), shape);
    if (num_elements(shape) == 0) return inits;
    const std::optional<ReduceKind> kind = combine.kind();
    if (kind && *kind <= ReduceKind::kMin && arrays[0].dtype() != bool_) {
      Attrs attrs = lax::moves(moves.strides, moves.padding, moves.base, moves.gaps);
      attrs.set("window", moves.window);
      attrs.set("kind", std::string(name_of(*kind)));
      return combine(inits, shoal::bind("reduce_window", std::move(attrs), arrays));
    }
    Combine one = std::cref(combine);
    const Combine all = moves.pads() ? of_those_there(one) : one;
    const Shape before = arrays[0].shape();
    for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = moves.padded(arrays[i], strong(reduced.inits)[i]);
    if (moves.pads()) arrays.push_back(moves.padded(ones(before, {.dtype = bool_}), false));
    for (std::size_t d = moves.along.size(); d-- > 0;) {
      arrays = along(arrays, static_cast<std::int64_t>(d), moves.along[d], all);
    }
    if (!moves.pads()) return combine(inits, arrays);
    Arrays with_init = inits;
    with_init.push_back(ones(shape, {.dtype = bool_}));
    Arrays results = all(with_init, arrays);
    results.pop_back();
    return results;
  });
}

}  // namespace shoal::detail
