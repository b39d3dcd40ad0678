// The digest of a graph: what it computes, and where, as 128 bits that are equal in all processes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/digest.h"
#include "ir/graph.h"

namespace shoal {

struct GraphDigest {
  /// Equal for graphs of equal structure: ops, attributes, types, placements, devices and literals, by bits; of
  /// sub-graphs, too. Neither the numbers of values count nor names, labels and lines. Callbacks are numbered by their
  /// first use.
  Digest digest;
  /// The numbers of the callbacks themselves, in that order.
  std::vector<std::int64_t> callbacks;
};

/// Made anew, but for sub-graphs, with which theirs are kept.
GraphDigest make_digest(const Graph& graph);

/// Made when it is first asked for, and kept with the graph, which must not change any more: sub-graphs do not. From
/// any thread.
std::shared_ptr<const GraphDigest> kept_digest(const Graph& graph);

}  // namespace shoal
