// Writes the phases of loops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "backend/cpu/loops/loop.h"

namespace shoal::cpu {

/// Collects the nodes of one phase; equal ones are shared, but for what iterations carry.
class PhaseBuilder {
 public:
  explicit PhaseBuilder(bool once) { phase_.once = once; }

  int add(const scalar::Node& node) {
    for (std::size_t i = 0; i < phase_.nodes.size() && node.core != scalar::Core::kCarried; ++i) {
      if (phase_.nodes[i] == node) return static_cast<int>(i);
    }
    phase_.nodes.push_back(node);
    return static_cast<int>(phase_.nodes.size()) - 1;
  }
  int input(LoopInput input, Dtype dtype) {
    auto found = std::ranges::find(phase_.inputs, input);
    if (found == phase_.inputs.end()) found = phase_.inputs.insert(found, input);
    return add({.core = scalar::Core::kInput,
                .dtype = dtype,
                .bits = static_cast<std::uint64_t>(found - phase_.inputs.begin())});
  }
  int apply(const scalar::Body& body, const std::vector<int>& operands) {
    std::vector<int> ids;
    for (scalar::Node node : body.nodes) {
      if (node.core == scalar::Core::kInput) {
        ids.push_back(operands[static_cast<std::size_t>(node.bits)]);
        continue;
      }
      for (int& operand : node.operands) {
        if (operand >= 0) operand = ids[static_cast<std::size_t>(operand)];
      }
      ids.push_back(add(node));
    }
    return ids[static_cast<std::size_t>(body.result)];
  }
  int apply(scalar::Core core, Dtype dtype, int a, int b = -1) {
    return add({.core = core, .dtype = dtype, .operands = {a, b, -1}, .bits = 0});
  }
  void result(LoopResult result) { phase_.results.push_back(result); }
  Dtype dtype_of(int node) const { return phase_.nodes[static_cast<std::size_t>(node)].dtype; }
  bool has_results() const { return !phase_.results.empty(); }
  Phase take() { return std::move(phase_); }

 private:
  Phase phase_;
};

}  // namespace shoal::cpu
