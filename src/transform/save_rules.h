// What a derivative keeps of the values inside a checkpoint, as texts that an equation holds. Each is a rule, or says
// more of the rule before it:
//
//   "dot_general"            what this op gives
//   "unbatched dot_general"  the same, without batch dimensions
//   "any value", "any name"  all, and all that have a name
//   "name a"                 what has the name a
//   "but a"                  of the rule: not what has the name a
//   "to pinned_host"         of the rule: is kept in this memory
//   "at most 4096"           of what no rule keeps: what is cheapest to keep in so many bytes (transform/budget.h)
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace shoal {

/// What becomes of a value that a derivative needs.
struct Keeping {
  bool kept = false;                      ///< Or it is computed again.
  std::optional<MemoryKind> memory = {};  ///< In which it is kept, if that is another than it lies in.
};

/// The name that an equation gives its operand, or nullptr.
const std::string* given_name(const Eqn& eqn);
/// Whether an equation is a product with batch dimensions.
bool is_batched(const Eqn& eqn);

using Names = std::vector<std::string_view>;

/// The names of each value; they live as long as the graph. What has a name is the value that it was given to, so that
/// it is there for all who use it.
std::vector<Names> names_of_values(const Graph& graph);

/// What rules ask of a value.
struct Computed {
  std::string_view op;  ///< That gives it.
  bool is_batched = false;
  Names names = {};
};

/// Values of graphs, each by the graph that holds it.
using ChosenValues = std::map<const Graph*, std::set<ValueId>>;

class SaveRules {
 public:
  /// Throws InvalidArgument for a memory that there is not.
  explicit SaveRules(const std::vector<std::string>& texts);

  /// The bytes that values which no rule keeps may take; nothing if there is no such rule.
  const std::optional<double>& budget() const { return budget_; }
  void keep_also(ChosenValues chosen) { chosen_ = std::move(chosen); }

  /// The first rule that the value falls under says it.
  Keeping keeping(const Computed& value) const;
  /// Whether a value is among those chosen.
  bool is_chosen(const Graph& graph, ValueId id) const;
  /// Whether it says of anything inside the graphs that an equation holds that it is kept.
  bool keep_any_inside(const Eqn& eqn) const;

 private:
  struct Rule {
    std::string what;
    std::vector<std::string> but = {};
    std::optional<MemoryKind> memory = {};
  };
  std::vector<Rule> rules_;
  std::optional<double> budget_;
  ChosenValues chosen_;
};

}  // namespace shoal
