// Differentiation of graphs: what a graph computes, and how its results change with its inputs, which is linear.
//
// The rules stand in the records of the ops (ops/derivatives.h); this is the walk over equations. What the linear part
// needs of the values of the other one are its residuals.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ops/derivatives.h"

namespace shoal {

/// A graph cut in two.
struct Linearized {
  Graph primal;   ///< The graph, whose outputs are followed by residuals.
  Graph tangent;  ///< Of the residuals, then the tangents of those inputs that have one: those of the outputs that do.
  std::size_t num_residuals = 0;
  std::vector<bool> has_tangent;  ///< For each output of the graph.
};

/// `with_tangent` says which inputs have tangents; these are floats or complex numbers. Outputs of `wanted` get one
/// also if it is zero. Throws Unsupported, at the line of the equation, for an op without a derivative.
Linearized linearize(const Graph& graph, const std::vector<bool>& with_tangent, const std::vector<bool>& wanted = {});

/// An equation cut in two.
struct LinearizedEqn {
  Attrs attrs;                  ///< Of the equation that computes the results, and then residuals,
  std::vector<Type> residuals;  ///< of these types.
  /// Writes the linear part to the graph of `build`; `primals` are those of the new equation.
  std::function<std::vector<MaybeValue>(std::span<const MaybeValue> tangents, std::span<const Type> results,
                                        Primals& primals, Builder& build)>
      tangents;
};

/// An equation that calls a graph, where it calls the two parts.
LinearizedEqn linearized_call(const Attrs& attrs, Linearized parts);

/// The same for any equation. Ops that hold graphs are cut inside.
LinearizedEqn linearize_eqn(const OpDef& op, const Attrs& attrs, std::vector<Type> operands,
                            const std::vector<bool>& with_tangent);

}  // namespace shoal
