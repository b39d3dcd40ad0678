// What groups of equations have in common: where a model repeats a layer, what was found out about a group of the first
// one holds for those of the others.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/eqn_classes.h"
#include "ir/graph.h"

namespace shoal::cpu {

/// The structure of groups of equations, as numbers: equal ones for equal ops, attributes and types, put together in
/// the same way.
class GroupStructures {
 public:
  using Structure = std::vector<std::uint32_t>;
  struct Hash {
    std::size_t operator()(const Structure& structure) const;
  };
  template <class T>
  using Map = std::unordered_map<Structure, T, Hash>;

  /// The graph must outlive this, and stay as it is.
  GroupStructures(const Graph& graph, const std::vector<const Eqn*>& producers)
      : graph_(graph),
        producers_(producers),
        classes_(graph),
        number_(graph.values.size()),
        visit_of_(graph.values.size()) {}

  /// Of equations, in their order, with the views and constants that they read through.
  Structure of(const std::vector<std::size_t>& group);
  /// Of these equations alone, in their order, of which `results` are needed.
  Structure of(std::span<const Eqn* const> eqns, std::span<const ValueId> results);

 private:
  void add(const Eqn& eqn, Structure& structure);
  void use(ValueId id, Structure& structure);

  const Graph& graph_;
  const std::vector<const Eqn*>& producers_;
  EqnClasses classes_;
  // The values of the group that is looked at, by their first appearance.
  std::vector<std::uint32_t> number_;
  std::vector<std::uint32_t> visit_of_;
  std::uint32_t visit_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace shoal::cpu
