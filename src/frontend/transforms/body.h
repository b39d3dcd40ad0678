// Functions of the user that become graphs inside equations: the bodies of loops and branches, and what reductions
// combine elements by.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/caller.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/trace.h"
#include "shoal/callable.h"
#include "shoal/lax.h"

namespace shoal::detail {

inline std::vector<Type> types_of(std::span<const Array> arrays) {
  std::vector<Type> types;
  for (const Array& array : arrays) types.push_back(impl_of(array).type);
  return types;
}

/// The same part of each along a dimension.
inline std::vector<Array> sliced(std::span<const Array> arrays, std::int64_t dim, std::int64_t first,
                                 std::int64_t limit, std::int64_t step) {
  std::vector<Array> slices;
  for (const Array& x : arrays) slices.push_back(lax::slice_in_dim(x, first, limit, step, dim));
  return slices;
}

/// A traced function.
struct Body {
  Graph graph;
  std::vector<Array> captures;  ///< The inputs after the arguments.
  TracedResult result;          ///< Its leaves are used up.
};

/// `change` gets the leaves before the trace ends.
template <class F>
Body trace_body(const std::string& name, const std::vector<Type>& types, const TracedFunction& function, F&& change) {
  Body body;
  const auto trace = Trace::begin(Trace::Kind::kJit, name);
  body.graph = trace_graph(trace, [&] {
    std::vector<Array> tracers;
    for (const Type& type : types) tracers.push_back(trace->add_input(type));
    {
      const Caller::Pause pause;
      body.result = function(tracers);
    }
    check_values(body.result.leaves, body.result.tree, "result");
    change(body.result.leaves);
    return body.result.leaves;
  });
  body.captures = trace->captures();
  return body;
}

/// Operands as the types that a body takes: converted, weakly typed or not, and differing where those do.
std::vector<Array> as_types(std::vector<Array> arrays, const std::vector<Type>& types);
/// Makes all bodies take the captures of all, in one order, after their arguments; returns these.
std::vector<Array> share_captures(std::span<Body* const> bodies);
/// The graphs of bodies, which are used up.
std::vector<GraphAttr> graphs_of(std::span<Body* const> bodies);

inline Body trace_body(const std::string& name, const std::vector<Type>& types, const TracedFunction& function) {
  return trace_body(name, types, function, [](const std::vector<Array>&) {});
}

}  // namespace shoal::detail
