// Helpers of this folder's tests.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table.h"
#include "spmd/open_regions.h"
#include "spmd/propagate.h"

namespace shoal::test_support {

/// The graph of a text, propagated. Inputs whose placements the text gives are fixed.
inline Graph propagated(std::string_view text) {
  Graph graph = parse_graph(text, find_op);
  std::vector<std::optional<Placement>> inputs;
  for (ValueId id : graph.inputs) inputs.push_back(std::exchange(graph.value(id).placement, std::nullopt));
  verify(graph, "traced");
  Graph result = propagate(open_regions(graph), inputs);
  verify(result, "propagated");
  return result;
}

/// Every placement of a value of `rank` dimensions: each atom splits nothing, or stands anywhere in the list of a
/// dimension, or, if wanted, is one over which the value is partial.
inline std::vector<Placement> all_placements(const Grid& grid, std::size_t rank, bool with_partial) {
  std::vector<Placement> found = {Placement::replicated(rank)};
  for (int number = 0; number < grid.num_atoms(); ++number) {
    const auto atom = static_cast<Atom>(number);
    std::vector<Placement> more;
    for (const Placement& placement : found) {
      more.push_back(placement);
      if (with_partial) {
        more.push_back(placement);
        more.back().partial.push_back(atom);
      }
      for (std::size_t d = 0; d < rank; ++d) {
        for (std::size_t i = 0; i <= placement.dims[d].size(); ++i) {
          more.push_back(placement);
          Atoms& atoms = more.back().dims[d];
          atoms.insert(atoms.begin() + static_cast<std::ptrdiff_t>(i), atom);
        }
      }
    }
    found = std::move(more);
  }
  return found;
}

/// Whether a reshard may lead from one placement to the other without making it a sum of what there is and zeros.
inline bool can_reshard(const Placement& from, const Placement& to) {
  return (AtomSet(to.partial) - AtomSet(from.partial)).empty();
}

}  // namespace shoal::test_support
