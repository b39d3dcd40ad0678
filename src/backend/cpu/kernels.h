// Which kernel the cpu back end has for an op: a table.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace shoal::cpu {

struct KernelRow {
  std::string_view op;
  /// The kernel of an equation of the op; nullptr for one that it does not take.
  std::unique_ptr<Kernel> (*make)(const Graph& graph, const Eqn& eqn);
  /// Which equations those are. Empty: it takes all.
  std::string_view all_but = {};
  /// Whether results differ from those of the reference by rounding, and in what the op leaves open, as signs of
  /// vectors.
  bool rounds_differently = false;
};

/// The row of an op; nullptr if there is none, so that its reference runs. Elementwise ops
/// and reductions, of which the record says enough, and ops that only move elements share a row each.
const KernelRow* kernel_row(const OpDef& op);

bool is_gather(const Eqn& eqn);

/// By the op's row, or else its reference. Throws Unsupported for an op that has neither.
std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Eqn& eqn);

}  // namespace shoal::cpu
