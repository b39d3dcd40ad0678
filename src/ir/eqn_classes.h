// What equations have in common: where a model repeats a layer, what was worked out for an equation of the first one
// holds for its like in the others.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// Numbers for values and equations: equal ones for values of which all is equal, and for equations of equal ops and
/// attributes whose operands and results have equal numbers. Counted from 1, in the order in which they are asked for.
class EqnClasses {
 public:
  /// The graph must outlive this, and stay as it is.
  explicit EqnClasses(const Graph& graph) : graph_(graph) {}

  std::uint32_t of(ValueId id);
  /// Of an equation of the graph.
  std::uint32_t of(const Eqn& eqn);

 private:
  struct HashValue {
    std::size_t operator()(const Value* value) const;
  };
  struct EqualValues {
    bool operator()(const Value* a, const Value* b) const { return *a == *b; }
  };
  struct EqnKey {
    const Eqn* eqn;
    boost::container::small_vector<std::uint32_t, 8> values;  // The classes of operands and results.
    bool operator==(const EqnKey& other) const;
  };
  struct HashEqn {
    std::size_t operator()(const EqnKey& key) const;
  };

  const Graph& graph_;
  std::unordered_map<const Value*, std::uint32_t, HashValue, EqualValues> values_;
  std::unordered_map<EqnKey, std::uint32_t, HashEqn> eqns_;
  std::vector<std::uint32_t> class_of_value_;  // 0 where it was not asked for.
  std::vector<std::uint32_t> class_of_eqn_;
};

}  // namespace shoal
