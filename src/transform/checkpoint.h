// Derivatives of checkpoints: calls of which the derivative keeps what rules say of the values inside, and computes
// others again.
//
// What is computed again stands in a region, with the linear part, which no pass opens: what was computed before is not
// found there again. Rules go for the bodies of calls, loops, branches and manual regions, too. Of a loop stacks are
// kept; where some of what a body needs is kept, a loop computes the rest again from these stacks.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "transform/linearize.h"
#include "transform/save_rules.h"

namespace shoal {

/// A graph cut in what is computed once and what is computed again.
struct Recomputed {
  Graph kept;                       ///< The graph, whose outputs are followed by what is kept.
  Graph again;                      ///< Of some of its inputs, then of what is kept: the values that are wanted.
  std::vector<std::size_t> inputs;  ///< Those inputs.
};

/// The same for an equation that holds graphs, where what is kept inside of it leaves it.
struct CutEqn {
  Attrs kept;                         ///< Of the equation that computes the results, and then what is kept.
  Attrs again;                        ///< Of the one that computes some results again,
  std::vector<std::size_t> operands;  ///< of these operands; what is kept counts on from the number of operands,
  std::vector<bool> results;          ///< and these results.
  /// Results that are what is kept: each with its number among that.
  std::vector<std::pair<std::size_t, std::size_t>> kept_results = {};
};

/// `wanted` are values of the graph. Results of effects are always kept.
Recomputed recompute(const Graph& graph, std::span<const ValueId> wanted, const SaveRules& rules);

/// As of linearize_eqn, for a call that `saves` what rules say.
LinearizedEqn linearize_checkpoint(const Attrs& attrs, const std::vector<bool>& with_tangent);

}  // namespace shoal
