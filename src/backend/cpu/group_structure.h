// What groups of equations have in common: where a model repeats a layer, what was found out about a group of the first
// one holds for those of the others.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

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
        class_of_value_(graph.values.size()),
        class_of_eqn_(graph.eqns.size()),
        number_(graph.values.size()),
        visit_of_(graph.values.size()) {}

  /// Of equations, in their order, with the views and constants that they read through.
  Structure of(const std::vector<std::size_t>& group);

 private:
  struct HashValue {
    std::size_t operator()(const Value* value) const;
  };
  struct EqualValues {
    bool operator()(const Value* a, const Value* b) const;
  };
  struct EqnKey {
    const Eqn* eqn;
    std::vector<std::uint32_t> values;  // The classes of operands and results.
    bool operator==(const EqnKey& other) const;
  };
  struct HashEqn {
    std::size_t operator()(const EqnKey& key) const;
  };

  std::uint32_t class_of(ValueId id);
  std::uint32_t class_of(const Eqn& eqn);
  void add(const Eqn& eqn, Structure& structure);
  void use(ValueId id, Structure& structure);

  const Graph& graph_;
  const std::vector<const Eqn*>& producers_;
  std::unordered_map<const Value*, std::uint32_t, HashValue, EqualValues> values_;
  std::unordered_map<EqnKey, std::uint32_t, HashEqn> eqns_;
  std::vector<std::uint32_t> class_of_value_;  // 0 where it was not asked for.
  std::vector<std::uint32_t> class_of_eqn_;
  // The values of the group that is looked at, by their first appearance.
  std::vector<std::uint32_t> number_;
  std::vector<std::uint32_t> visit_of_;
  std::uint32_t visit_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace shoal::cpu
